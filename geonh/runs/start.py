"""Start of a run: conversion of user input to float64, and its validation before the first step, for all runs."""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import numpy as np
from jax import Array

from geonh.arguments.precision import float64, is_traced
from geonh.arguments.validators import as_count, as_float64
from geonh.engine import Partition, computed
from geonh.groups.base import Point
from geonh.integrators.base import Integrator, Problem, refuse, refuse_start
from geonh.integrators.clock import Clock
from geonh.integrators.node import State
from geonh.integrators.wiener import Wiener
from geonh.mechanics.redundancy import with_known_rank
from geonh.mechanics.soundness import Facts, digits_lost, facts
from geonh.mechanics.system import System
from geonh.runs.controls import as_controls, inspect_forces, refuse_noise, refuse_off_grid, warn_of_unread

FIRST = 0.01
"""First step of variable length, relative to the run."""
TINY = np.finfo(float).tiny
"""Least length of a step: smaller numbers have fewer digits."""
MOST = 2**50
"""Number of steps of a run that ends at a time, if they differ in length."""


class InitialData(NamedTuple):
    """Start of a run, in float64: clock, group element, velocity of shape=[n]."""

    clock: Clock
    g: Point
    xi: Array


class Span(NamedTuple):
    """Time step and number of steps of a run, and why the step is not the one that was given; "" if it is. With steps
    of variable length the first step, the largest number, and the time at which the run ends, or None.
    """

    dt: Any
    n_steps: int
    reason: str = ""
    end: Any = None


def as_span(dt: Any, n_steps: Any, t_end: Any, t0: Any) -> Span:
    """Return the span of a run from ``n_steps``, or from ``t_end``: the last node is there.

    Where the interval is not a whole number of steps, dt is lowered to divide it: all steps are of the same length, as
    the methods' symmetry, their guesses and controls at the nodes need; TypeError or ValueError for invalid input, for
    both or neither of ``n_steps`` and ``t_end``, or a dt that leads away from ``t_end``.
    """
    _refuse_both(n_steps, t_end)
    if dt is None:
        raise ValueError("dt, the time step, is missing: pass it, or tolerance, by which steps are chosen")
    if t_end is None:
        return Span(dt, as_count(n_steps, "n_steps"))
    if is_traced(dt=dt, t0=t0, t_end=t_end):
        raise TypeError(
            "t_end gives the number of steps, which must not depend on traced values: pass n_steps, and "
            "dt = (t_end - t0) / n_steps"
        )
    step, begin, end = as_float64(dt, "dt", ()), as_float64(t0, "t0", ()), as_float64(t_end, "t_end", ())
    _refuse_zero(step)
    length = _length(begin, end, step)
    with np.errstate(over="ignore"):
        number = length / step
    if not number < 2.0**53:
        raise ValueError(f"dt = {step:g} is too small for a run from t0 = {begin:g} to t_end = {end:g}")
    whole = max(round(float(number)), 1)
    rounding = 4 * np.finfo(float).eps * (number + (abs(begin) + abs(end)) / abs(step))
    if abs(number - whole) <= rounding:
        return Span(step, whole)
    whole = math.ceil(number)
    return Span(np.float64(length / whole), whole, f"lowered from {step:g}, to end at t = {end:g}")


def as_variable_span(dt: Any, n_steps: Any, t_end: Any, t0: Any) -> Span:
    """Return the span of a run with steps of variable length: dt bounds the first one, and is chosen where it is None;
    TypeError or ValueError as of ``as_span``.
    """
    _refuse_both(n_steps, t_end)
    if dt is not None:
        dt = as_float64(dt, "dt", ())
        _refuse_zero(dt)
    elif t_end is None:
        raise ValueError("n_steps of variable length need dt, the first of them; or pass t_end")
    if t_end is None:
        return Span(dt, as_count(n_steps, "n_steps"))
    begin, end = as_float64(t0, "t0", ()), as_float64(t_end, "t_end", ())
    length = _length(begin, end, dt)
    return Span(FIRST * length if dt is None else dt, MOST, end=end)


def as_traced_span(dt: Any, n_steps: Any, t_end: Any, t0: Any) -> Span:
    """Return the span of a traced run with steps of variable length, at most ``n_steps``, of any traced times. Raises
    TypeError or ValueError as of ``as_span``; and without ``n_steps``.
    """
    if n_steps is None:
        raise ValueError(
            "n_steps is missing: a traced run has a known number of steps; where a tolerance chooses them pass the "
            "largest number, and t_end"
        )
    if t_end is None or not is_traced(dt=dt, t0=t0, t_end=t_end):
        known = as_variable_span(dt, n_steps if t_end is None else None, t_end, t0)
        return known._replace(n_steps=as_count(n_steps, "n_steps"))
    begin, end = as_float64(t0, "t0", ()), as_float64(t_end, "t_end", ())
    return Span(FIRST * (end - begin) if dt is None else dt, as_count(n_steps, "n_steps"), end=end)


def _refuse_both(n_steps: Any, t_end: Any) -> None:
    if (n_steps is None) == (t_end is None):
        what = "are both given: leave one of them out" if t_end is not None else "are both missing: pass one of them"
        raise ValueError(f"n_steps, the number of steps, and t_end, the time of the last node, {what}")


def _length(begin: np.ndarray, end: np.ndarray, step: Any) -> np.ndarray:
    """Length of a run, not zero, and of the sign of its step, if that is given."""
    with np.errstate(over="ignore"):
        length = end - begin
    if length == 0:
        raise ValueError(f"t_end must differ from t0, got {end:g} for both")
    if step is not None and np.sign(step) != np.sign(length):
        raise ValueError(
            f"dt = {step:g} leads away from t_end = {end:g}, which is {'before' if length < 0 else 'after'} "
            f"t0 = {begin:g}: pass dt = {-step:g}"
        )
    return length


def as_start(
    system: System, method: Integrator, xi0: Any, g0: Any, dt: Any, t0: Any, n_steps: int, controls: Any
) -> InitialData:
    """Return the start of a run from user input; traced values are validated by shape only. Raises TypeError or
    ValueError for invalid input, naming the argument.
    """
    with float64():
        refuse(method, system)
        g = system.point(g0, on_group=False)
    n_steps = as_count(n_steps, "n_steps")
    controls = as_controls(system, controls, n_steps + 1)
    step, begin = as_float64(dt, "dt", ()), as_float64(t0, "t0", ())
    xi = as_float64(xi0, "xi0", (system.group.dim,))
    _refuse_zero(step)
    if isinstance(controls, Wiener):
        refuse_noise(system, method)
        refuse_off_grid(controls, begin, step)
    if not is_traced(step, begin):
        _refuse_times(float(begin), float(step), n_steps)
    return InitialData(Clock(begin, step, controls), g, xi)


def _refuse_times(begin: float, step: float, n_steps: int) -> None:
    """Raise ValueError for times that are not numbers, or do not advance."""
    end = begin + n_steps * step
    if math.isfinite(end) and begin + step != begin and end - step != end:
        return
    span = f"with t0 = {begin:g}, dt = {step:g}, n_steps = {n_steps}"
    if not math.isfinite(end):
        raise ValueError(f"time overflows: t0 + n_steps·dt is not a number of float64 {span}")
    raise ValueError(f"the time does not advance: t + dt = t in float64 {span}")


def _refuse_zero(step: Any) -> None:
    if not is_traced(step) and not abs(step) >= TINY:
        raise ValueError(f"dt must not be zero, got {step:g} s")


class FirstNode(NamedTuple):
    """Node 0, the diagnostics of the start, and the problem, whose system has the number of its independent rows."""

    problem: Problem
    start: InitialData
    state: State
    facts: Facts
    parts: Partition
    """The problem for programs."""


def first_node(system: System, method: Integrator, start: InitialData) -> FirstNode:
    """Node 0 of a consistent start, and its diagnostics; warns if it is not accurate to most digits, or if constraints
    are redundant. Raises ValueError or TypeError for an inconsistent start, with an explanation.
    """
    problem = Problem(system, method, start.clock)
    parts = Partition.of(problem)
    state, facts = computed(node_and_facts, parts, (start.g, start.xi))
    known = with_known_rank(system, start.clock.t0, start.g, facts.forms)
    if known is not system:
        problem = problem._replace(system=known)
        parts = Partition.of(problem)
        state, facts = computed(node_and_facts, parts, (start.g, start.xi))
    refuse_start(problem, start.g, start.xi, facts)
    doubt = digits_lost(known, facts.rows)
    if doubt:
        warnings.warn(doubt, stacklevel=4)
    warn_of_unread(known, start.clock.controls, start.g, start.xi, 5)
    return FirstNode(problem, start, state, facts, parts)


def known_sound(system: System, method: Integrator, start: InitialData) -> System:
    """System with the number of its independent rows; raises as ``first_node``, as far as the start is not traced."""
    inspect_forces(system, start.clock, start.g, start.xi)
    if not is_traced(start.g):
        system.point(start.g)
    if not is_traced(system, start.clock, start.g, start.xi):
        with float64():
            first = start.clock._replace(dt=np.float64(method.first_length(start.clock, start.xi)))
        facts = computed(_facts, Problem(system, None, first), (start.g, start.xi))
        known = with_known_rank(system, start.clock.t0, start.g, facts.forms)
        if known is not system:
            system = known
            facts = computed(_facts, Problem(system, None, first), (start.g, start.xi))
        refuse_start(Problem(system, method, start.clock), start.g, start.xi, facts)
        warn_of_unread(system, start.clock.controls, start.g, start.xi, 5)
    return system


def node_and_facts(problem: Problem, start: tuple[Point, Array]) -> tuple[State, Facts]:
    """Node 0, and the diagnostics of the start (g, ξ)."""
    system, clock = problem.system, problem.clock
    inspect_forces(system, clock, *start)  # here, because it is traced once for many starts
    first = clock._replace(dt=problem.method.first_length(clock, start[1]))
    return problem.method.first_node(system, clock, *start), _facts(problem._replace(clock=first), start)


def _facts(problem: Problem, start: tuple[Point, Array]) -> Facts:
    clock = problem.clock
    return facts(problem.system, clock.time(0), *start, clock.dt)
