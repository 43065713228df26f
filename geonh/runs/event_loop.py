r"""Stepping loop of a run that monitors the alternating mode and locates events.

In the loop, the interpolation between its nodes indicates whether a step may contain an event. The event is located by
partial steps of the method itself (``locating.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.engine import Partition, computed, prepared, stepping
from geonh.integrators.base import Problem
from geonh.integrators.clock import Clock
from geonh.integrators.node import State
from geonh.integrators.validity import Result
from geonh.integrators.variable_steps import is_at
from geonh.results.events import Crossings, SlipEnds
from geonh.results.nodes import Node, node_row
from geonh.results.parasitic import followed
from geonh.results.record import Trail
from geonh.runs.locating import (
    Notices,
    Search,
    Zeros,
    at_node,
    far_events,
    isolated,
    located,
    located_zeros,
    possible_events,
    slips_at_end,
    within_step,
    zeros_of,
)

PASSES = -1.0
"""Mark of a step that is made to be looked at."""


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
        0 to suppress the events of one step; ``PASSES`` to make it whatever it does, so that it is looked at.
    reached : array, shape=[events]
        Values at the end of the step before, of forces that may know where it began; ``values`` begin the next step.
    change : array, shape=[events]
        Absolute change of the values in the step before; infinite if there was none.
    """

    state: State
    trail: Trail | None
    xi: Any
    values: Any
    suspects: Any
    armed: Any
    reached: Any
    change: Any

    @classmethod
    def begun(cls, state: State, xi: Any, values: Any, trail: Trail | None = None) -> Watched:
        """Loop state at a node from which a run goes on, or at many with a first axis."""
        none = np.zeros(np.shape(values))
        return cls(state, trail, xi, values, none, np.ones(np.shape(state.k)), values, none + np.inf)


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
        self._problem, self.crossings, self.notices = problem, crossings, Notices(problem.events)
        self.begin = self.watched_at(state, trail)
        self.refuse_unknown()
        self._loop = stepping(next_watched, row_of_watched, parts or problem, self.begin)
        self.engine, self.width = self._loop.engine, self._loop.width
        self.is_new = self._loop.is_new

    def refuse_unknown(self) -> None:
        """Raise ValueError for events that are nan at the beginning."""
        if np.isnan(self.begin.values).any():
            pairs = zip(self._problem.events, self.begin.values, strict=True)
            unknown = [event.name for event, value in pairs if np.isnan(value)]
            raise ValueError(f"events {unknown} are not a number where the run begins")

    def watched_at(self, state: State, trail: Trail | None = None) -> Watched:
        """Loop state at a node from which the run goes on."""
        events = self._problem.events
        xi, values = computed(at_node, self._problem, Node.of(state)) if events else (np.zeros(0), np.zeros(0))
        return Watched.begun(state, xi, values, trail)

    def pieces(
        self, watched: Watched, n_nodes: int, stride: int, buffer: np.ndarray
    ) -> Iterator[tuple[Watched, int, int]]:
        """Version of ``Stepping.pieces`` that ends early after a step with events: status 0 unless one is terminal."""
        for after, status, saved in self._steps(watched, n_nodes, stride, buffer):
            if status == Result.EVENT:
                status = int(self._record(after))
                after = after._replace(armed=np.float64(0.0))
            yield after, status, saved

    def _steps(
        self, watched: Watched, n_nodes: int, stride: int, buffer: np.ndarray
    ) -> Iterator[tuple[Watched, int, int]]:
        """``pieces`` of the compiled loop, which ends where a step may have an event."""
        return self._loop.pieces(watched, n_nodes, stride, buffer)

    def step_by(self, clock: Clock) -> Callable[[State], State | None]:
        """Return a function that makes one step with another clock, without events; None if the step fails."""
        loop = stepping(next_watched, row_of_watched, self._problem._replace(clock=clock), self.begin)
        row = np.empty((1, self.width))

        def step(state: State) -> State | None:
            begin = self.begin._replace(state=state, armed=np.float64(0.0))
            after, status, _ = next(iter(loop.pieces(begin, 1, 1, row)))
            return None if status else after.state

        return step

    @cached_property
    def _locate(self) -> Callable[[Any], Any]:
        return self._prepared_search(located)

    @cached_property
    def _isolate(self) -> Callable[[Any], Any]:
        return self._prepared_search(isolated)

    def _prepared_search(self, function: Callable) -> Callable[[Any], Any]:
        """``located`` or ``isolated`` for many steps."""
        node = self._ends(self.begin.state, self.begin.state)[0]
        return prepared(function, self._problem, Search(node, np.int64(0), *np.zeros(3)))

    def _record(self, here: Watched) -> Result:
        """Locate the events of the step that starts here; return EVENT if one of them stops the run, and SLIP if a slip
        turns around in the step without vanishing.
        """
        row = np.empty((1, self.width))
        after = next(iter(self._steps(here._replace(armed=np.float64(PASSES)), 1, 1, row)))[0]
        clock, events = self._problem.clock, self._problem.events
        for i in np.flatnonzero(np.isnan(after.values)).tolist():
            t = clock.t0 + after.state.k * clock.dt if after.state.t is None else after.state.t
            self._unknown(i, float(t))
        which = np.flatnonzero(after.suspects)
        if not len(which):
            return Result.SUCCESS
        assert self.crossings is not None
        zeros = self._zeros(here, after, which)
        if failure := self._failure(here, after, zeros):
            return failure
        recorded = list(self.notices.occurrences(zeros, clock.dt, np.zeros(len(zeros.t), np.int64)))
        names = self.crossings.names
        places = np.array([names.index(events[i].name) for i in zeros.which], np.int64)
        k = np.full(len(places), int(here.state.k), np.int64)
        crossings = Crossings(names, places, k, zeros.t, zeros.g_vector, zeros.xi, zeros.multipliers)
        self.crossings = self.crossings.joined(crossings.taken(np.array(recorded))) if recorded else self.crossings
        stops = bool(recorded) and events[zeros.which[recorded[-1]]].stop
        return Result.EVENT if stops else Result.SUCCESS

    def _unknown(self, event: int, t: float) -> None:
        """Warn of an event that is nan at the end of a step."""
        self.notices.unknown(event, f"at t = {t:g}")

    def _zeros(self, here: Watched, after: Watched, which: np.ndarray) -> Zeros:
        """Sign changes of some events in a step."""
        before, at_end = (repeated(node, len(which)) for node in self._ends(here.state, after.state))
        begin, end = here.values[which], after.reached[which]
        own = np.array([self._problem.events[i].direction for i in which])
        directions = self._directions(begin, which, own)
        found = self._isolate(Search(before, which, np.zeros(len(which)), end, begin))
        if found.is_one.all() and np.array_equal(directions, own):
            there = np.flatnonzero(found.there)
            zero = jax.tree.map(lambda a: a[there], found.zero)
            return zeros_of(there, which[there], zero, begin[there], found.change[there])
        ends = np.stack([begin, end], axis=1)
        return located_zeros(self._locate, before, at_end, which, ends, directions)

    def _directions(self, begin: np.ndarray, which: np.ndarray, own: np.ndarray) -> np.ndarray:
        """Directions in which some events count that begin at these values, and have those of their own."""
        return own

    def _failure(self, here: Watched, after: Watched, zeros: Zeros) -> Result:
        """SLIP if a slip turns around in a step without a zero, and no event stops the run before; or SUCCESS."""
        events = self._problem.events
        for i, event in enumerate(events):
            if isinstance(event, SlipEnds) and here.values[i] > 0 > after.reached[i]:
                clean = zeros.t[(zeros.which == i) & ~zeros.jumped]
                stopping = [zeros.t[j] for j in np.flatnonzero(~zeros.jumped) if events[zeros.which[j]].stop]
                return Result.SUCCESS if len(clean) or stopping else Result.SLIP
        return Result.SUCCESS

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
    held = within_step(problem, step)
    at_end = values if held is problem else slips_at_end(held, Node.of(new), values)
    far = far_events(problem, step, (watched.xi, xi), (watched.values, at_end), watched.change)

    def looked_at() -> tuple[Array, Array]:
        held_at_end = values if held is problem else at_node(held, Node.of(new))[1]
        return possible_events(held, step, before, after, watched.values, held_at_end) & ~far, held_at_end

    suspects, at_end = lax.cond(jnp.all(far), lambda: (jnp.zeros(far.shape, bool), at_end), looked_at)
    lost = jnp.isnan(values) & ~jnp.isnan(watched.values)
    possible = jnp.any(suspects | lost) & (watched.armed > 0)
    status = jnp.where((new.status == 0) & possible, np.int32(Result.EVENT), new.status)
    found = jnp.asarray(suspects, float)
    change = jnp.abs(at_end - watched.values)
    return Watched(new, trail, xi, values, found, jnp.ones_like(watched.armed), at_end, change), status


def row_of_watched(problem: Problem, watched: Watched) -> Array:
    """Row of the node of a loop state."""
    return node_row(problem, watched.state)


def repeated(tree: Any, n: int) -> Any:
    """Tree with a first axis of n equal entries."""
    return jax.tree.map(lambda a: np.repeat(np.asarray(a)[None], n, axis=0), tree)
