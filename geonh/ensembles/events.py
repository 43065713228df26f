"""Events of the members of ensembles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from geonh.engine import mapped, prepared
from geonh.ensembles.batch import Member, Shared
from geonh.ensembles.reading import MemberNode, Placed, flattened
from geonh.groups.base import LieGroup
from geonh.integrators.variable_steps import VariableSteps
from geonh.results.events import Event, Labelled
from geonh.results.nodes import Nodes
from geonh.runs.locating import (
    Located,
    Notices,
    Search,
    at_node,
    located,
    located_zeros,
    possible_events,
    within_step,
)

OCCURRENCE = ("t", "g_vector", "xi", "multipliers")
"""Data of an event where it occurs."""


@dataclass(frozen=True, eq=False, repr=False)
class Passed(Labelled):
    """First occurrences of an event in each member, in the order of time, nan where there were fewer.

    Attributes
    ----------
    group : LieGroup
        Group of the system.
    number : ndarray of int, shape=[members]
        Number of occurrences.
    t : ndarray, shape=[members, most]
        Times, seconds; ``most`` is ``most_events``.
    g : point of the group, with leading axes [members, most]
        Group elements.
    g_vector : ndarray, shape=[members, most, size]
        The same, flattened.
    xi : ndarray, shape=[members, most, n]
        Velocities.
    multipliers : ndarray, shape=[members, most, m]
        λ of the constraint force at the events.
    point_names, velocity_names : tuple of str
        Names of the entries of ``g_vector``, and of ξ.
    """

    group: LieGroup
    number: np.ndarray
    t: np.ndarray
    g_vector: np.ndarray
    xi: np.ndarray
    multipliers: np.ndarray

    def __len__(self) -> int:
        return len(self.number)

    @property
    def point_names(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.group.point_names

    @property
    def velocity_names(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.group.velocity_names

    @property
    def g(self) -> Any:
        return points(self.group, self.g_vector)

    @property
    def data(self) -> dict[str, np.ndarray]:
        """Arrays by name, as in stores, shape=[members] and [members, events, …]."""
        return {name: getattr(self, name) for name in ("number", *OCCURRENCE)}

    def __repr__(self) -> str:
        there = self.number > 0
        if not there.any():
            return f"Passed: an event in none of {len(self)} members"
        first = self.t[there, 0]
        return (
            f"Passed: an event in {there.sum()} of {len(self)} members, {self.number.sum()} times, up to "
            f"{self.t.shape[1]} kept of each, first at t = {first.min():.6g} to {first.max():.6g}"
        )


def points(group: LieGroup, vectors: np.ndarray) -> Any:
    """Points of a group from vectors, with the leading axes of these."""
    flat = mapped(_from_vector, group, vectors.reshape(-1, vectors.shape[-1]))
    return jax.tree.map(lambda a: a.reshape(*vectors.shape[:-1], *a.shape[1:]), flat)


def _from_vector(group: Any, vector: Any) -> Any:
    return group.from_vector(vector)


class MemberEvents:
    """The first occurrences of each event in each member, up to a maximum number, by event in ``results``.

    The interpolation between nodes indicates whether a step may contain an event, which is located by partial steps of
    the method, as in a single run.
    """

    def __init__(self, shared: Shared, events: tuple[Event, ...], members: Member, most: int) -> None:
        self._shared, self._events, self._members, self._most = shared._replace(events=events), events, members, most
        self._directions = np.array([event.direction for event in events])
        self._notices = Notices(events, " of some member")
        first = jax.tree.map(lambda a: a[:1], members)
        vector = np.concatenate([np.reshape(a, (1, -1)) for a in jax.tree.leaves(first.g)], axis=1)
        nodes = Nodes(np.zeros((1, 1)), vector[:, None], first.xi[:, None], first.xi[:, None])
        spans = None
        if isinstance(shared.method, VariableSteps):
            nodes, spans = nodes._replace(t=first.t0[:, None]), first.dt[:, None]
        search = Search(flattened(first, nodes, spans), np.zeros(1, np.int64), *np.zeros((3, 1)))
        one = mapped(_located, self._shared, search)
        size = len(members.dt)
        self.results = {
            event.name: Passed(
                shared.system.group,
                np.zeros(size, np.int64),
                *(np.full((size, most, *getattr(one, name).shape[1:]), np.nan) for name in OCCURRENCE),
            )
            for event in events
        }

    def locate(self, indices: np.ndarray, last: Nodes, after: Nodes, *, record: bool = True) -> np.ndarray:
        """Locate events of some members between consecutive nodes, from the ``last`` ones of the previous call on.

        Returns the number of steps of each member up to a terminal event, or of all. Without ``record`` that is all.
        """
        data = jax.tree.map(lambda a: a[indices], self._members)
        before = jax.tree.map(lambda a, b: np.concatenate([a, b[:, :-1]], axis=1), last, after)
        n_steps = np.full(len(after.k), after.k.shape[1])
        spans = None if after.t is None else after.t - before.t
        pairs = flattened(data, before, spans), flattened(data, after, spans)
        values = _EventValues(*(a.reshape(*before.k.shape, -1) for a in mapped(_event_values, self._shared, pairs)))
        for at, nodes in ((values.before, before), (values.after, after)):
            unknown = np.isnan(at) & ~np.isnan(nodes.k)[..., None]
            for i in np.flatnonzero(unknown.any((0, 1))).tolist():
                self._notices.unknown(i, "at nodes of some members")
        members, steps, which = np.nonzero(values.suspects)
        if not len(members):
            return n_steps
        owner = jax.tree.map(lambda a: a[members], data)
        span = None if spans is None else spans[members, steps, None]
        here, there = (flattened(owner, nodes.taken((members, steps, None)), span) for nodes in (before, after))
        one = jax.tree.map(lambda a: np.asarray(a)[0], here)
        locate = prepared(_located, self._shared, Search(one, which[0], *np.zeros(3)))
        at_ends = np.stack([a[members, steps, which] for a in (values.before, values.after)], axis=1)
        zeros = located_zeros(locate, here, there, which, at_ends, self._directions[which])
        owners = members[zeros.row]
        for i in self._notices.occurrences(zeros, data.dt[owners], owners):
            event = self._events[zeros.which[i]]
            passed, member = self.results[event.name], indices[owners[i]]
            place = passed.number[member]
            passed.number[member] += record
            if record and place < self._most:
                for name in OCCURRENCE:
                    getattr(passed, name)[member, place] = getattr(zeros, name)[i]
            if event.stop:
                n_steps[owners[i]] = steps[zeros.row[i]]
        return n_steps


class _EventValues(NamedTuple):
    """Values of the events at two nodes, and flags of those that may lie between them."""

    before: Array
    after: Array
    suspects: Array


def _event_values(shared: Shared, nodes: tuple[MemberNode, MemberNode]) -> _EventValues:
    before, after = (Placed.of(shared, node) for node in nodes)
    held = within_step(before.problem, before.node)
    after_held = after.problem._replace(system=held.system)
    (xi, at_before), (xi_after, at_after) = at_node(*before), at_node(after_held, after.node)
    ends = (before.node.g, xi), (after.node.g, xi_after)
    suspects = possible_events(held, before.node, *ends, at_before, at_after)
    return _EventValues(at_before, at_after, suspects)


def _located(shared: Shared, search: Search) -> Located:
    problem, node = Placed.of(shared, search.node)
    return located(problem, search._replace(node=node))
