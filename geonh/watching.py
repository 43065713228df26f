r"""The stepping loop of a run, which leaves a trail of what alternates, looks for events, and locates them.

An event is located by partial steps of the method itself: from the node (t_k, g_k, ξ̃_k) it begins anew with the step
sh, s ∈ [0, 1]: its node at t_k + sh is of the method's order, and keeps at the event what the method keeps at its
nodes. For methods whose node is a velocity that is the step itself, cut short; those that hold an impulse or the next
increment begin with their own start, which is of their order. The root in s is found in machine code, one call for
each event.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.alternation import Trail, followed
from geonh.events import Crossings, Event, crossed, root
from geonh.integrators.node import Clock, Result, State
from geonh.mechanics.equations import multipliers
from geonh.numerics.compiled import computed, mapped, stepping


class EventWarning(UserWarning):
    """An event is not a number somewhere on the way."""


class Watched(NamedTuple):
    """A node, the trail up to it, and the events' values there; ``armed`` is 0 for one step after which no event is
    told.
    """

    state: State
    trail: Trail | None
    values: Any
    armed: Any


class Watching:
    """A ``Stepping`` that leaves a trail, records events, and stops at those that stop a run."""

    def __init__(
        self, tree: tuple, events: tuple[Event, ...], state: State, trail: Trail | None, crossings: Crossings | None
    ) -> None:
        self._tree, self._events = (*tree, events), events
        self.begin = Watched(state, trail, self._values(state), np.float64(1.0))
        unknown = [event.name for event, value in zip(events, self.begin.values, strict=True) if np.isnan(value)]
        if unknown:
            raise ValueError(f"events {unknown} are not a number where the run begins")
        self._warned = np.zeros(len(events), bool)
        self._loop = stepping(next_watched, _row, self._tree, self.begin)
        self.engine, self.width = self._loop.engine, self._loop.width
        self.crossings = crossings

    def pieces(
        self, watched: Watched, n_nodes: int, stride: int, buffer: np.ndarray
    ) -> Iterator[tuple[Watched, int, int]]:
        """As of ``Stepping``; ends early after a step with events, with status 0 unless one stops the run."""
        for after, status, saved in self._loop.pieces(watched, n_nodes, stride, buffer):
            if status == Result.EVENT:
                status = int(Result.EVENT) if self._record(after) else 0
                after = after._replace(armed=np.float64(0.0))
            yield after, status, saved

    def _values(self, state: State) -> np.ndarray:
        if not self._events:
            return np.zeros(0)
        return computed(_at_node, self._tree, (state.k, state.g, state.p_plus, state.p_minus))

    def _warn(self, state: State, values: np.ndarray) -> None:
        """Warn once of an event that is not a number at a node."""
        clock = self._tree[2]
        for i in np.flatnonzero(np.isnan(values) & ~self._warned):
            self._warned[i] = True
            warn_of_none(self._events[i], f"at t = {float(clock.t0 + state.k * clock.dt):g}")

    def _record(self, here: Watched) -> bool:
        """Locate the events of the step from here; whether one of them stops the run."""
        row = np.empty((1, self.width))
        pieces = self._loop.pieces(here._replace(armed=np.float64(0.0)), 1, 1, row)
        after = next(iter(pieces))[0]
        self._warn(after.state, after.values)
        directions = np.array([event.direction for event in self._events])
        which = np.flatnonzero(crossed(here.values, after.values, directions))
        if not len(which):
            return False
        assert self.crossings is not None
        state = here.state
        nodes = jax.tree.map(
            lambda a: np.repeat(np.asarray(a)[None], len(which), axis=0),
            (state.k, state.g, state.p_plus, state.p_minus),
        )
        t, g, xi, lam = mapped(located, self._tree, (*nodes, which))
        order = np.argsort(np.sign(self._tree[2].dt) * t, kind="stable")
        stops = [i for i, j in enumerate(order) if self._events[which[j]].stop]
        order = order[: stops[0] + 1] if stops else order
        names = self.crossings.names
        places = np.array([names.index(self._events[i].name) for i in which])
        found = Crossings(names, places, nodes[0].astype(np.int64), t, g, xi, lam)
        self.crossings = self.crossings.joined(found.taken(order))
        return bool(stops)


def warn_of_none(event: Event, where: str) -> None:
    """Warn of an event that is not a number somewhere."""
    warnings.warn(
        f"event {event.name!r} is not a number {where}: where it is none, its changes of sign are not seen",
        EventWarning,
        stacklevel=3,
    )


def next_watched(tree: tuple, watched: Watched) -> tuple[Watched, Array]:
    """The node after, and its status: EVENT if a sign changes on the way, or is none any more."""
    system, method, clock, events = tree
    new = method.next_node(system, clock, watched.state)
    trail = watched.trail and followed(system, clock, watched.state, new, watched.trail)
    if not events:
        return watched._replace(state=new, trail=trail), new.status
    values = _at_node(tree, (new.k, new.g, new.p_plus, new.p_minus))
    directions = jnp.array([event.direction for event in events])
    lost = jnp.isnan(values) & ~jnp.isnan(watched.values)
    seen = jnp.any(crossed(watched.values, values, directions) | lost) & (watched.armed > 0)
    status = jnp.where((new.status == 0) & seen, np.int32(Result.EVENT), new.status)
    return Watched(new, trail, values, jnp.ones_like(watched.armed)), status


def _row(tree: tuple, watched: Watched) -> Array:
    return node_row(tree, watched.state)


def node_row(tree: tuple, state: State) -> Array:
    """What is saved of a node: (k, g, p⁺, p⁻) in one vector."""
    position = tree[0].group.to_vector(state.g)
    return jnp.concatenate([jnp.asarray(state.k, float)[None], position, state.p_plus, state.p_minus])


def _at_node(tree: tuple, node: tuple) -> Array:
    """The events' values at a node (k, g, p⁺, p⁻), shape=[number of events]."""
    system, _, clock, events = tree
    k, g, p_plus, p_minus = node
    t, u = clock.time(k), clock.control(k)
    xi = system.velocity(system.at(g, t), (p_plus + p_minus) / 2)
    return jnp.stack([event.value(system, t, g, xi, u) for event in events])


def located(tree: tuple, node: tuple) -> tuple[Array, Array, Array, Array]:
    """Time, group element as a vector, velocity and multipliers at an event of the step from a node."""
    system, method, clock, events = tree
    *begin, which = node
    k, g, p_plus, p_minus = begin
    t = clock.time(k)
    xi = system.velocity(system.at(g, t), (p_plus + p_minus) / 2)

    def at(s: Array) -> tuple[Array, tuple]:
        part = Clock(t, s * clock.dt, _controls(clock, k, s))
        state = method.next_node(system, part, method.first_node(system, part, g, xi))
        time, u = part.time(1), part.control(1)
        velocity = system.velocity(system.at(state.g, time), (state.p_plus + state.p_minus) / 2)
        value = jnp.stack([event.value(system, time, state.g, velocity, u) for event in events])[which]
        place = system.group.to_vector(state.g)
        lam = multipliers(system, time, state.g, velocity, u)
        return jnp.where(state.status == 0, value, jnp.nan), (time, place, velocity, lam)

    return root(at, _at_node(tree, tuple(begin))[which], 4e-16 * jnp.abs(t / clock.dt))


def _controls(clock: Clock, k: Array, s: Array) -> Any:
    """Controls of a partial step: of values at the nodes, those on the line between two of them."""
    if clock.controls is None or callable(clock.controls):
        return clock.controls
    here, there = clock.control(k), clock.control(k + 1)
    return jnp.stack([here, (1 - s) * here + s * there])
