r"""Dense output: nodes at any times, by steps of the method itself from the last node before each.

From the node (t_k, g_k, ξ̃_k) the method restarts with the step sh, s ∈ (0, 1]. Its node at t_k + sh has the order of
the method, and preserves what the method preserves at its nodes, the constraints among it. For methods whose node is a
velocity this is the step itself, shortened; those that hold an impulse or the next increment begin with their own
start, which has their order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.arguments.validators import as_constant
from geonh.engine import mapped
from geonh.groups.base import ArrayLike, Point
from geonh.integrators.base import Integrator, Problem
from geonh.integrators.clock import Clock, NodalControls
from geonh.integrators.node import State
from geonh.integrators.validity import Result
from geonh.integrators.variable_steps import VariableSteps
from geonh.results.nodes import Node, Nodes, node_row
from geonh.results.record import Record

TIME_TOLERANCE = 1e-12
"""Tolerance for times, relative to 1 and their size, below which two are the same."""


class Destination(NamedTuple):
    """Point of a motion: a saved node, and the numbers of whole steps and of a partial step from there.

    Attributes
    ----------
    node : Node
    whole : int
    part : float
        In [0, 1).
    """

    node: Any
    whole: ArrayLike
    part: ArrayLike


def partial_step(problem: Problem, k: Array, g: Point, xi: Array, s: Array) -> tuple[State, Clock]:
    """Node k = 1 of the method restarted at (g, ξ), node k of the run, after the fraction s of a step; its clock."""
    system, method, clock = problem.system, problem.method, problem.clock
    part = Clock(clock.time(k), s * clock.dt, controls_of_part(clock, k, s))
    method = step_method(method)
    return method.next_node(system, part, method.first_node(system, part, g, xi)), part


def step_method(method: Integrator) -> Integrator:
    """Method of the single steps: of a method with steps of variable length the one inside it, otherwise itself."""
    return method.method if isinstance(method, VariableSteps) else method


def controls_of_part(clock: Clock, k: Array, s: Array) -> Any:
    """Controls of a partial step: nodal values are interpolated linearly."""
    if clock.controls is None or callable(clock.controls):
        return clock.controls
    here, there = clock.control(k), clock.control(k + 1)
    return jnp.stack([here, (1 - s) * here + s * there])


def as_times(value: Any, name: str, begin: float, end: float) -> np.ndarray:
    """Convert user input to times in the order of a run from ``begin`` to ``end``, shape=[M]; TypeError or ValueError
    for other input, and for times out of order or outside the span.
    """
    times = as_one_axis(value, name)
    if np.any(np.sign(end - begin) * np.diff(times) < 0):
        raise ValueError(f"{name} must {'decrease' if end < begin else 'increase'}, as those of the run do")
    refuse_outside(times, name, begin, end)
    return times


def as_one_axis(value: Any, name: str) -> np.ndarray:
    """Convert user input to times, shape=[M], M > 0."""
    times = np.atleast_1d(as_constant(value, name, None))
    if times.ndim > 1 or not times.size:
        raise ValueError(f"{name} must have shape [M], M > 0, got {list(times.shape)}")
    return times


def refuse_outside(times: np.ndarray, name: str, begin: float, end: float) -> None:
    """Raise ValueError for times, shape=[M], that are not between ``begin`` and ``end``."""
    low, high = sorted((begin, end))
    if np.any((times < low - TIME_TOLERANCE * (1 + abs(low))) | (times > high + TIME_TOLERANCE * (1 + abs(high)))):
        raise ValueError(f"{name} must lie in [{low:g}, {high:g}], got {times.min():g} to {times.max():g}")


def end_of(record: Record) -> float:
    """Last time of a run: of the event at which it stopped, or of its last node."""
    if record.status is Result.EVENT and record.crossings is not None:
        return record.crossings.t[-1]
    return record.t[-1]


def step_times(record: Record) -> np.ndarray:
    """Times of all steps of a run, those of unsaved nodes too, shape=[steps + 1]; ValueError at ``t_eval``."""
    if record.nodes.t is not None and not isinstance(record.method, VariableSteps):
        raise ValueError("run must hold its own nodes, not those of t_eval=, between which its steps are unknown")
    steps = np.diff(record.k) if record.nodes.t is None else np.ones(len(record) - 1, int)
    lengths = np.repeat(np.diff(record.t) / steps, steps)
    places = np.concatenate([np.arange(0), *map(np.arange, steps)])
    return np.append(np.repeat(record.t[:-1], steps) + lengths * places, record.t[-1])


def evaluated(record: Record, times: np.ndarray) -> Nodes:
    """Nodes of a run at the given times, which lie in its span, shape=[M]; ValueError if a step from a node fails."""
    if record.run.modes is not None:
        return _in_modes(record, times)
    if isinstance(record.method, VariableSteps):
        return _by_one_step(record, times)
    dt, last = record.dt, len(record) - 1
    number = (times - record.t0) / dt  # of steps
    number = np.where(
        np.abs(number - np.round(number)) <= TIME_TOLERANCE * (1 + np.abs(number)), np.round(number), number
    )
    at = np.clip(np.searchsorted(record.k, number, side="right") - 1, 0, last)
    whole, part = np.divmod(number - record.k[at], 1.0)
    nodes = jax.tree.map(lambda a: a[at], record.points)
    rows, status = mapped(_node_at, record.problem, Destination(nodes, whole.astype(np.int64), part))
    _refuse_failed(times, status)
    return Nodes.of_rows(rows, record.p_plus.shape[1])._replace(k=record.k[at] + whole.astype(np.int64), t=times)


def _by_one_step(record: Record, times: np.ndarray) -> Nodes:
    """Nodes of a run with steps of variable length, by one step of the method that makes them."""
    assert record.method is not None
    if np.any(np.diff(record.k) > 1) or (record.run.modes is None and np.any(np.diff(record.k) != 1)):
        which = "steps of variable length" if record.run.modes is None else "nodes of a run with modes"
        raise ValueError(f"the solution between the {which} needs save_every=1")
    sign = np.sign(record.dt)
    at = np.clip(np.searchsorted(sign * record.t, sign * times, side="right") - 1, 0, len(record) - 1)
    nodes = jax.tree.map(lambda a: a[at], record.points)._replace(span=times - record.t[at])
    rows, status = mapped(after_span, record.problem._replace(method=step_method(record.method)), nodes)
    _refuse_failed(times, status)
    return Nodes.of_rows(rows, record.p_plus.shape[1])._replace(k=record.k[at], t=times)


def _in_modes(record: Record, times: np.ndarray) -> Nodes:
    """Nodes of a run with modes at the given times: of each mode by its system."""
    modes, which = record.run.modes, record.nodes.mode
    assert modes is not None
    at = np.clip(
        np.searchsorted(np.sign(record.dt) * record.t, np.sign(record.dt) * times, side="right") - 1, 0, len(record) - 1
    )
    found, mode = [], which[at]
    for one in np.unique(mode):
        part = replace(record, run=replace(record.run, system=modes.systems[one]))
        found.append((np.flatnonzero(mode == one), _by_one_step(part, times[mode == one])))
    order = np.argsort(np.concatenate([places for places, _ in found]))
    parts = (nodes[:5] for _, nodes in found)
    k, g_vector, p_plus, p_minus, t = (np.concatenate(columns)[order] for columns in zip(*parts, strict=True))
    return Nodes(k, g_vector, p_plus, p_minus, t, mode)


def _refuse_failed(times: np.ndarray, status: np.ndarray) -> None:
    if status.any():
        i = int(np.flatnonzero(status)[0])
        raise ValueError(f"no solution at t = {times[i]:g}: {Result(int(status[i])).message}")


def after_span(problem: Problem, node: Node) -> tuple[Array, Array]:
    """Row of the node at the end of one step of the length ``node.span``, and its status."""
    p, (clock, k) = (node.p_plus + node.p_minus) / 2, node.local(problem.clock)
    xi = problem.system.velocity(problem.system.at(node.g, clock.time(k)), p)
    problem = problem._replace(clock=clock)

    def further() -> tuple[Array, Array]:
        new, _ = partial_step(problem, jnp.asarray(k), node.g, xi, jnp.ones(()))
        return _row(problem, new), jnp.asarray(new.status)

    here = jnp.concatenate([jnp.asarray(node.k, float)[None], problem.system.group.to_vector(node.g), p, p])
    return lax.cond(node.span != 0, further, lambda: (here, jnp.zeros((), jnp.int32)))


def _node_at(problem: Problem, destination: Destination) -> tuple[Array, Array]:
    """Row of the node at a destination, and the status of the steps to it."""
    system, method, clock = problem.system, problem.method, problem.clock
    k, g, p_plus, p_minus, *_ = destination.node
    t, p = clock.time(k), (p_plus + p_minus) / 2
    controls = clock.controls
    if controls is not None and not callable(controls):
        controls = NodalControls(jnp.asarray(controls), -k)
    begin = Clock(t, clock.dt, controls)
    state = method.first_node(system, begin, g, system.velocity(system.at(g, t), p))._replace(p_plus=p, p_minus=p)

    def ahead(carry: tuple) -> tuple:
        return method.next_node(system, begin, carry[0]), carry[1] - 1

    state, _ = lax.while_loop(lambda carry: (carry[1] > 0) & (carry[0].status == 0), ahead, (state, destination.whole))

    def further() -> tuple[Array, Array]:
        xi = system.velocity(system.at(state.g, begin.time(state.k)), (state.p_plus + state.p_minus) / 2)
        new, _ = partial_step(problem._replace(clock=begin), state.k, state.g, xi, destination.part)
        return _row(problem, new), jnp.where(state.status == 0, new.status, state.status)

    return lax.cond(destination.part > 0, further, lambda: (_row(problem, state), state.status))


def _row(problem: Problem, state: State) -> Array:
    """Row of a node with the average momentum for both of its momenta: its impulse is that of a partial step."""
    p = (state.p_plus + state.p_minus) / 2
    return node_row(problem, state._replace(p_plus=p, p_minus=p))
