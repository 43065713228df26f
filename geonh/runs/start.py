"""Start of a run: conversion of user input to float64, and its validation before the first step, for all runs."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from jax import Array

from geonh.arguments.precision import float64, is_traced
from geonh.arguments.validators import as_count, as_float64
from geonh.engine import computed
from geonh.groups.base import Point
from geonh.integrators.base import Integrator, Problem, refuse, refuse_start
from geonh.integrators.node import Clock, State
from geonh.mechanics.redundancy import with_known_rank
from geonh.mechanics.soundness import Facts, digits_lost, facts
from geonh.mechanics.system import System
from geonh.runs.controls import inspect_forces, made_controls


class InitialData(NamedTuple):
    """Start of a run, in float64: clock, group element, velocity of shape=[n]."""

    clock: Clock
    g: Point
    xi: Array


def made_start(
    system: System, method: Integrator, xi0: Any, g0: Any, dt: Any, t0: Any, n_steps: int, controls: Any
) -> InitialData:
    """Return the start of a run from user input; traced values are validated by shape only.

    Raises
    ------
    TypeError, ValueError
        For invalid input, naming the argument.
    """
    refuse(method, system)
    n_steps = as_count(n_steps, "n_steps")
    controls = made_controls(system, controls, n_steps + 1)
    step, begin = as_float64(dt, "dt", ()), as_float64(t0, "t0", ())
    xi = as_float64(xi0, "xi0", (system.group.dim,))
    if not is_traced(step) and not abs(step) >= np.finfo(float).tiny:
        raise ValueError(f"dt must not be zero, got {step:g} s")
    if not is_traced(step, begin):
        with np.errstate(over="ignore"):
            end = begin + float(n_steps) * step
        span = f"with t0 = {begin:g}, dt = {step:g}, n_steps = {n_steps}"
        if not np.isfinite(end):
            raise ValueError(f"time overflows: t0 + n_steps·dt is not a number of float64 {span}")
        if begin + step == begin or end - step == end:
            raise ValueError(f"the time does not advance: t + dt = t in float64 {span}")
    with float64():
        return InitialData(Clock(begin, step, controls), system.point(g0, on_group=False), xi)


class FirstNode(NamedTuple):
    """Node 0, the diagnostics of the start, and the system, with the number of its independent rows."""

    system: System
    state: State
    facts: Facts


def first_node(system: System, method: Integrator, start: InitialData) -> FirstNode:
    """Node 0 of a consistent start, and its diagnostics; warns if it is not accurate to most digits, or if constraints
    are redundant.

    Raises
    ------
    ValueError, TypeError
        For an inconsistent start, with an explanation.
    """
    problem = Problem(system, method, start.clock)
    state, found = computed(node_and_facts, problem, (start.g, start.xi))
    known = with_known_rank(system, start.clock.t0, start.g, found.forms)
    if known is not system:
        problem = problem._replace(system=known)
        state, found = computed(node_and_facts, problem, (start.g, start.xi))
    refuse_start(problem, start.g, start.xi, found)
    doubt = digits_lost(known, found.rows)
    if doubt:
        warnings.warn(doubt, stacklevel=4)
    return FirstNode(known, state, found)


def sound(system: System, method: Integrator, start: InitialData) -> System:
    """System with the number of its independent rows; raises as ``first_node``, as far as the start is not traced."""
    inspect_forces(system, start.clock, start.g, start.xi)
    if not is_traced(start.g):
        system.point(start.g)
    if not is_traced(system, start.clock, start.g, start.xi):
        found = computed(_facts, Problem(system, None, start.clock), (start.g, start.xi))
        known = with_known_rank(system, start.clock.t0, start.g, found.forms)
        if known is not system:
            system = known
            found = computed(_facts, Problem(system, None, start.clock), (start.g, start.xi))
        refuse_start(Problem(system, method, start.clock), start.g, start.xi, found)
    return system


def node_and_facts(problem: Problem, start: tuple[Point, Array]) -> tuple[State, Facts]:
    """Node 0, and the diagnostics of the start (g, ξ)."""
    system, clock = problem.system, problem.clock
    inspect_forces(system, clock, *start)  # here, because it is traced once for many starts
    return problem.method.first_node(system, clock, *start), _facts(problem, start)


def _facts(problem: Problem, start: tuple[Point, Array]) -> Facts:
    clock = problem.clock
    return facts(problem.system, clock.time(0), *start, clock.dt)
