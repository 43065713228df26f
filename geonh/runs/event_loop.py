r"""Stepping loop of a run that monitors the alternating mode and locates events.

In the loop, the interpolation between its nodes indicates whether a step may contain an event. The event is located by
partial steps of the method itself (``results/dense.py``). Samples and roots in s are evaluated in machine code, by one
program.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.engine import Partition, computed, prepared, stepping
from geonh.groups.base import ArrayLike, Point
from geonh.integrators.base import Problem
from geonh.integrators.clock import Clock
from geonh.integrators.node import State
from geonh.integrators.validity import Result, forces_held
from geonh.integrators.variable_steps import is_at
from geonh.mechanics.equations import multipliers
from geonh.mechanics.system import System
from geonh.results.dense import controls_of_part, partial_step
from geonh.results.events import Crossings, Event, SlipEnds
from geonh.results.interpolation import curve
from geonh.results.nodes import Node, node_row
from geonh.results.parasitic import followed
from geonh.results.record import Trail
from geonh.results.zeros import LEAST, NEAREST, PLACES, SMALL, brackets, crossed, root, suspected

SAME_INSTANT = 1e-12
"""Part of a step within which zeros of events are at one instant."""


class EventWarning(UserWarning):
    """An event function is nan somewhere along the motion, or jumps over zero."""


class Watched(NamedTuple):
    """Loop state: a node, the monitor up to it, and data for events.

    Attributes
    ----------
    xi : array, shape=[n], or [0] without events
        ξ̃ at the node.
    values : array, shape=[events]
    suspects : array, shape=[events]
        1 for events that may lie in the step before.
    armed : float
        0 to suppress the events of one step.
    reached : array, shape=[events]
        Values at the end of the step before, of forces that may know where it began; ``values`` begin the next step.
    """

    state: State
    trail: Trail | None
    xi: Any
    values: Any
    suspects: Any
    armed: Any
    reached: Any


class Watching:
    """``Stepping`` with a monitor of the alternating mode, that records events and stops at terminal ones."""

    def __init__(
        self,
        problem: Problem,
        state: State,
        trail: Trail | None,
        crossings: Crossings | None,
        parts: Partition | None = None,
    ) -> None:
        self._problem, events = problem, problem.events
        self.begin = self.watched_at(state, trail)
        unknown = [event.name for event, value in zip(events, self.begin.values, strict=True) if np.isnan(value)]
        if unknown:
            raise ValueError(f"events {unknown} are not a number where the run begins")
        self._notices = Notices(events)
        self._loop = stepping(next_watched, _row, parts or problem, self.begin)
        self.engine, self.width = self._loop.engine, self._loop.width
        self.is_new = self._loop.is_new
        self.crossings = crossings

    def watched_at(self, state: State, trail: Trail | None = None) -> Watched:
        """Loop state at a node from which the run goes on."""
        events = self._problem.events
        xi, values = computed(at_node, self._problem, Node.of(state)) if events else (np.zeros(0), np.zeros(0))
        return Watched(state, trail, xi, values, np.zeros(len(events)), np.float64(1.0), values)

    def pieces(
        self, watched: Watched, n_nodes: int, stride: int, buffer: np.ndarray
    ) -> Iterator[tuple[Watched, int, int]]:
        """Version of ``Stepping.pieces`` that ends early after a step with events: status 0 unless one is terminal."""
        for after, status, saved in self._loop.pieces(watched, n_nodes, stride, buffer):
            if status == Result.EVENT:
                status = int(self._record(after))
                after = after._replace(armed=np.float64(0.0))
            yield after, status, saved

    def step_by(self, clock: Clock) -> Callable[[State], State | None]:
        """Return a function that makes one step with another clock, without events; None if the step fails."""
        loop = stepping(next_watched, _row, self._problem._replace(clock=clock), self.begin)
        row = np.empty((1, self.width))

        def step(state: State) -> State | None:
            begin = self.begin._replace(state=state, armed=np.float64(0.0))
            after, status, _ = next(iter(loop.pieces(begin, 1, 1, row)))
            return None if status else after.state

        return step

    @cached_property
    def _locate(self) -> Callable[[Any], Any]:
        node = self._ends(self.begin.state, self.begin.state)[0]
        return prepared(located, self._problem, Search(node, np.int64(0), *np.zeros(3)))

    def _record(self, here: Watched) -> Result:
        """Locate the events of the step that starts here; return EVENT if one of them stops the run, and SLIP if a slip
        turns around in the step without vanishing.
        """
        row = np.empty((1, self.width))
        after = next(iter(self._loop.pieces(here._replace(armed=np.float64(0.0)), 1, 1, row)))[0]
        clock, events = self._problem.clock, self._problem.events
        for i in np.flatnonzero(np.isnan(after.values)).tolist():
            t = clock.t0 + after.state.k * clock.dt if after.state.t is None else after.state.t
            self._notices.unknown(i, f"at t = {float(t):g}")
        which = np.flatnonzero(after.suspects)
        if not len(which):
            return Result.SUCCESS
        assert self.crossings is not None
        nodes = (_repeated(node, len(which)) for node in self._ends(here.state, after.state))
        directions = np.array([events[i].direction for i in which])
        zeros = located_zeros(
            self._locate, *nodes, which, np.stack([here.values, after.reached], axis=1)[which], directions
        )
        if self._turns(here, after, zeros):
            return Result.SLIP
        recorded = list(self._notices.occurrences(zeros, clock.dt, np.zeros(len(zeros.t), np.int64)))
        names = self.crossings.names
        places = np.array([names.index(events[i].name) for i in zeros.which], np.int64)
        k = np.full(len(places), int(here.state.k), np.int64)
        crossings = Crossings(names, places, k, zeros.t, zeros.g_vector, zeros.xi, zeros.multipliers)
        self.crossings = self.crossings.joined(crossings.taken(np.array(recorded))) if recorded else self.crossings
        stops = bool(recorded) and events[zeros.which[recorded[-1]]].stop
        return Result.EVENT if stops else Result.SUCCESS

    def _turns(self, here: Watched, after: Watched, zeros: Zeros) -> bool:
        """True if a slip turns around in a step without a zero, and no event stops the run before."""
        events = self._problem.events
        for i, event in enumerate(events):
            if isinstance(event, SlipEnds) and here.values[i] > 0 > after.reached[i]:
                clean = zeros.t[(zeros.which == i) & ~zeros.jumped]
                stopping = [zeros.t[j] for j in np.flatnonzero(~zeros.jumped) if events[zeros.which[j]].stop]
                return not len(clean) and not stopping
        return False

    @staticmethod
    def _ends(here: State, after: State) -> tuple[Node, Node]:
        """Nodes at both ends of a step, with its length where steps differ."""
        ends = Node.of(here), Node.of(after)
        if here.t is None:
            return ends
        return ends[0]._replace(span=after.t - here.t), ends[1]._replace(span=after.t - here.t)

    def shortened(self, watched: Watched, end: float) -> tuple[Watched, int]:
        """Last step of a run with steps of variable length, which leads to its end, and its status."""
        row = np.empty((1, self.width))
        while not is_at(watched.state.t, end):  # once; more where an event is there
            memory = watched.state.memory._replace(h=np.float64(end - watched.state.t))
            begin = watched._replace(state=watched.state._replace(memory=memory))
            watched, status, _ = list(self.pieces(begin, 1, 1, row))[-1]
            if status:
                return watched, status
        return watched, int(Result.SUCCESS)


class Zeros(NamedTuple):
    """Sign changes of events in steps, unordered.

    Attributes
    ----------
    row : ndarray of int, shape=[K]
        Index of the step.
    which : ndarray of int, shape=[K]
        Index of the event.
    jumped : ndarray of bool, shape=[K]
        True if the event function jumps over zero there.
    t : ndarray, shape=[K]
    g_vector, xi, multipliers : ndarray, shape=[K, …]
    """

    row: np.ndarray
    which: np.ndarray
    jumped: np.ndarray
    t: np.ndarray
    g_vector: np.ndarray
    xi: np.ndarray
    multipliers: np.ndarray


def located_zeros(
    locate: Callable[[Any], Any],
    before: Any,
    after: Any,
    which: np.ndarray,
    ends: np.ndarray,
    directions: np.ndarray,
) -> Zeros:
    """Locate all sign changes of events, in the wanted directions, in steps flagged by the interpolation.

    Parameters
    ----------
    locate : callable
        ``located`` for a batch: ``Search`` → ``Located``.
    before, after : pytrees of arrays, with a first axis of N steps
        Nodes at both ends of the steps, as in ``Search``.
    which, directions : ndarray, shape=[N]
        One event of each step.
    ends : ndarray, shape=[N, 2]
        Values of the event at the nodes. A zero takes the sign just after it, obtained by a partial step.
    """
    n, nodes = len(which), jax.tree.map(lambda a, b: np.concatenate([a, b]), before, after)

    def at(row: np.ndarray, a: np.ndarray, b: np.ndarray, at_a: np.ndarray) -> Located:
        return locate(Search(jax.tree.map(lambda x: x[row], nodes), which[row % n], a, b, at_a))

    def sample(row: np.ndarray, s: np.ndarray) -> np.ndarray:
        return at(row, s, s, np.ones(len(s))).value

    row, side = np.nonzero(ends == 0)
    if len(row):
        ends = ends.copy()
        ends[row, side] = LEAST * np.sign(np.nan_to_num(sample(row + n * side, np.full(len(row), NEAREST))))
    intervals = brackets(sample, ends)
    intervals = intervals.taken(crossed(intervals.at_a, intervals.at_b, directions[intervals.row]))
    zero = at(intervals.row, intervals.a, intervals.b, intervals.at_a)
    # partial steps of a method that restarts may end before a zero that its nodes have passed
    short, change = (
        (zero.s == 1.0) & (zero.value * np.sign(intervals.at_a) > 0),
        np.abs(intervals.at_b - intervals.at_a),
    )
    jumped = ~(np.abs(zero.value) <= np.where(short, 0.25, SMALL) * change) | ~np.isfinite(change)
    return Zeros(intervals.row, which[intervals.row], jumped, zero.t, zero.g_vector, zero.xi, zero.multipliers)


class Notices:
    """Warnings of events, once for each event and cause."""

    def __init__(self, events: tuple[Event, ...], whose: str = "") -> None:
        self._events, self._whose = events, whose
        self._given = set[tuple[int, str]]()

    def unknown(self, event: int, where: str) -> None:
        """Warn of an event function that is nan at ``where``."""
        self._warn(event, "is not a number", where, "there its changes of sign are not detected")

    def occurrences(self, zeros: Zeros, dt: Any, owners: np.ndarray) -> Iterator[int]:
        """Indices of the zeros that count, by owner, shape=[zeros], in the order of time, terminal events after others
        at one instant: no jumps, of which it warns, and none after a terminal event. dt is a number, or of each zero.
        """
        later = SAME_INSTANT * np.array([event.stop for event in self._events], float)[zeros.which]
        stopped = set()
        for i in np.lexsort((np.sign(dt) * zeros.t + np.abs(dt) * later, owners)).tolist():
            event = int(zeros.which[i])
            if owners[i] in stopped:
                continue
            if zeros.jumped[i]:
                where = f"at t = {zeros.t[i]:.6g}{self._whose}"
                self._warn(event, "jumps over zero", where, "poles and jumps are not reported as events")
                continue
            yield i
            if self._events[event].stop:
                stopped.add(owners[i])

    def _warn(self, event: int, does: str, where: str, so: str) -> None:
        if (event, does) not in self._given:
            self._given.add((event, does))
            name = self._events[event].name
            warnings.warn(f"event {name!r} {does} {where}: {so}", EventWarning, stacklevel=4)


def next_watched(problem: Problem, watched: Watched) -> tuple[Watched, Array]:
    """Advance by one step; the status is EVENT if a sign changes in the step, or a value becomes nan."""
    system, method, clock, events = problem.system, problem.method, problem.clock, problem.events
    new = method.next_node(system, clock, watched.state)
    trail = watched.trail and followed(system, clock, watched.state, new, watched.trail)
    if not events:
        return watched._replace(state=new, trail=trail), new.status
    xi, values = at_node(problem, Node.of(new))
    before, after = (watched.state.g, watched.xi), (new.g, xi)
    step = Node.of(watched.state)
    if new.t is not None:
        step = step._replace(span=new.t - watched.state.t)
    held, at_end = within_step(problem, step), values
    if held is not problem:  # forces that know where the step begins
        at_end = at_node(held, Node.of(new))[1]
    suspects = possible_events(held, step, before, after, watched.values, at_end)
    lost = jnp.isnan(values) & ~jnp.isnan(watched.values)
    possible = jnp.any(suspects | lost) & (watched.armed > 0)
    status = jnp.where((new.status == 0) & possible, np.int32(Result.EVENT), new.status)
    found = jnp.asarray(suspects, float)
    return Watched(new, trail, xi, values, found, jnp.ones_like(watched.armed), at_end), status


def within_step(problem: Problem, node: Node) -> Problem:
    """Problem in the step from a node, whose forces that depend on multipliers know where it begins."""
    if problem.system.multiplier_forces is None:
        return problem
    clock, k = node.local(problem.clock)
    return problem._replace(system=forces_held(problem.system, node, clock.time(k)))


def possible_events(
    problem: Problem, step: Node, before: tuple, after: tuple, at_before: Array, at_after: Array
) -> Array:
    """Events that may lie in the step from a node, by the interpolation from (g, ξ) before to (g, ξ) after,
    shape=[events].
    """
    system, events, (clock, k) = problem.system, problem.events, step.local(problem.clock)
    place = curve(system.group, before, after, jnp.asarray(clock.dt))

    def at(s: Array) -> Array:
        part = Clock(clock.time(k), s * clock.dt, controls_of_part(clock, k, s))
        return _values(system, events, part.time(1), *place(s), part.control(1))

    inner = lax.map(at, jnp.asarray(PLACES[1:-1]))
    directions = jnp.array([event.direction for event in events])
    return suspected(jnp.concatenate([at_before[None], inner, at_after[None]]), directions)


def _row(problem: Problem, watched: Watched) -> Array:
    return node_row(problem, watched.state)


def _repeated(tree: Any, n: int) -> Any:
    return jax.tree.map(lambda a: np.repeat(np.asarray(a)[None], n, axis=0), tree)


def at_node(problem: Problem, node: Node) -> tuple[Array, Array]:
    """ξ̃ at a node, and the values of the events there, shape=[number of events]."""
    system, events, g, p_plus, p_minus = problem.system, problem.events, node.g, node.p_plus, node.p_minus
    clock, k = node.local(problem.clock)
    t, u = clock.time(k), clock.control(k)
    xi = system.velocity(system.at(g, t), (p_plus + p_minus) / 2)
    return xi, _values(system, events, t, g, xi, u)


def _values(system: System, events: tuple[Event, ...], t: Array, g: Point, xi: Array, u: Any) -> Array:
    return jnp.stack([event.value(system, t, g, xi, u) for event in events])


class Search(NamedTuple):
    """Search for an event in the interval (a, b] of a step; evaluated at a if a = b.

    Attributes
    ----------
    node : Node
        Node at which the step begins.
    event : int
        Index of the event.
    a, b : float
        Ends of the interval, as fractions of the step.
    at_a : float
        Value of the event at a.
    """

    node: Any
    event: ArrayLike
    a: ArrayLike
    b: ArrayLike
    at_a: ArrayLike


class Located(NamedTuple):
    """Point of a step: value of an event there, fraction of the step, time, group element, velocity and multipliers."""

    value: ArrayLike
    s: ArrayLike
    t: ArrayLike
    g_vector: ArrayLike
    xi: ArrayLike
    multipliers: ArrayLike


def located(problem: Problem, search: Search) -> Located:
    """Locate an event in an interval of a step, by partial steps of the method; at b if there is none."""
    system, events = problem.system, problem.events
    g, p_plus, p_minus = search.node.g, search.node.p_plus, search.node.p_minus
    clock, k = search.node.local(problem.clock)
    held, problem = within_step(problem, search.node).system, problem._replace(clock=clock)
    t = clock.time(k)
    xi = system.velocity(system.at(g, t), (p_plus + p_minus) / 2)

    def at(s: Array) -> tuple[Array, Located]:
        state, part = partial_step(problem, k, g, xi, s)
        time, u = part.time(1), part.control(1)
        velocity = system.velocity(system.at(state.g, time), (state.p_plus + state.p_minus) / 2)
        value = _values(held, events, time, state.g, velocity, u)[search.event]
        value = jnp.where(state.status == 0, value, jnp.nan)
        lam = multipliers(held, time, state.g, velocity, u)
        return value, Located(value, s, time, system.group.to_vector(state.g), velocity, lam)

    return root(at, search.at_a, 4e-16 * jnp.abs(t / clock.dt), (search.a, search.b))
