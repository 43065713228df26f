"""Start of a run: conversion of user input to float64, and its validation before the first step, for all runs."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.inspection import inspected
from geonh.arguments.precision import float64, is_traced
from geonh.arguments.validators import as_count, as_float64, shortly
from geonh.engine.compiled import computed
from geonh.engine.dependence import depends
from geonh.geometry.field import check_arguments, evaluated
from geonh.groups.base import Point
from geonh.integrators.base import Integrator, Problem, refuse
from geonh.integrators.node import Clock, State
from geonh.mechanics.soundness import Facts, digits_lost, facts, start_fault
from geonh.mechanics.system import System


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
    step, begin = as_float64(dt, "dt", ()), as_float64(t0, "t0", ())
    xi = as_float64(xi0, "xi0", (system.group.dim,))
    controls = made_controls(system, controls, n_steps + 1)
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


def made_controls(system: System, controls: Any, n_nodes: int) -> Any:
    """Return controls as a function of the time, or as at least ``n_nodes`` values at the nodes.

    Raises
    ------
    TypeError, ValueError
        If they are neither, too few, or not used by the system.
    """
    if controls is None:
        return None
    if callable(controls):
        check_arguments(controls, "t", "controls")
        return _used(system, controls)
    controls = as_float64(controls, "controls")
    if controls.ndim == 0:
        raise ValueError(f"controls must be a function of t, or its values at the nodes, got one number {controls}")
    if controls.shape[0] < n_nodes:
        raise ValueError(
            f"controls must have n_steps + 1 = {n_nodes} rows, one for each node, got {controls.shape[0]} "
            f"(shape {list(controls.shape)})"
        )
    return _used(system, controls)


def made_drive(system: Any, controls: Any, g: Point, xi: Any) -> Any:
    """Return controls as a function of the time, used by the forces of the system; or None."""
    if controls is not None and not callable(controls):
        raise TypeError(f"controls must be a function of t here, got {shortly(controls)}")
    inspect_forces(system, Clock(0.0, 1.0, made_controls(system, controls, 1)), g, xi)
    return controls


def _used(system: System, controls: Any) -> Any:
    if system.forces is None:
        raise ValueError(f"controls are given, but {system.name} has no forces that would use them")
    return controls


def first_node(system: System, method: Integrator, start: InitialData) -> tuple[State, Facts]:
    """Node 0 of a consistent start, and its diagnostics; warns if it is not accurate to most digits.

    Raises
    ------
    ValueError, TypeError
        For an inconsistent start, with an explanation.
    """
    state, found = computed(node_and_facts, Problem(system, method, start.clock), (start.g, start.xi))
    _refuse_fault(system, method, start, found)
    doubt = digits_lost(system, found.rows)
    if doubt:
        warnings.warn(doubt, stacklevel=4)
    return state, found


def refuse_unsound(system: System, method: Integrator, start: InitialData) -> None:
    """Raise as ``first_node`` does, as far as the start is not traced."""
    inspect_forces(system, start.clock, start.g, start.xi)
    if not is_traced(start.g):
        system.point(start.g)
    if not is_traced(system, start.clock, start.g, start.xi):
        found = computed(_facts, Problem(system, None, start.clock), (start.g, start.xi))
        _refuse_fault(system, method, start, found)


def inspect_forces(system: System, clock: Clock, g: Point, xi: Any) -> None:
    """Trace forces and controls once, and raise for invalid shapes, precision, indices, or missing controls."""
    if system.forces is None:
        return
    with float64():
        if callable(clock.controls):
            inspected("controls", jax.make_jaxpr(lambda t: evaluated("controls", clock.controls, t))(0.0))

        def force(t: Array, g: Point, xi: Array) -> Array:
            u = clock.between(t) if clock.controls is None or callable(clock.controls) else clock.control(0)
            return system.force(t, system.at(g, t), xi, u)

        shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(np.shape(a), np.float64), (g, xi))
        inspected("forces", jax.make_jaxpr(force)(0.0, *shapes))
        if clock.controls is None:
            return
        u = jax.eval_shape(clock.control, 0)
        if not depends(lambda u, g, xi: system.force(jnp.zeros(()), system.at(g, 0.0), xi, u), u, *shapes):
            raise ValueError(f"controls are given, but the forces of {system.name} do not use u: leave controls out")


def _refuse_fault(system: System, method: Integrator, start: InitialData, found: Facts) -> None:
    fault = start_fault(system, float(start.clock.t0), start.g, np.asarray(start.xi), float(start.clock.dt), found)
    if fault:
        raise ValueError(fault)
    with float64(), jax.ensure_compile_time_eval():
        method.refuse_start(system, float(start.clock.dt), start.g, start.xi)


def node_and_facts(problem: Problem, start: tuple[Point, Array]) -> tuple[State, Facts]:
    """Node 0, and the diagnostics of the start (g, ξ)."""
    system, clock = problem.system, problem.clock
    inspect_forces(system, clock, *start)  # here, because it is traced once for many starts
    return problem.method.first_node(system, clock, *start), _facts(problem, start)


def _facts(problem: Problem, start: tuple[Point, Array]) -> Facts:
    clock = problem.clock
    return facts(problem.system, clock.time(0), *start, clock.dt)
