"""Evaluation at the nodes of members: the nodes themselves, observables, functions of (t, g, ξ, λ), events."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.inspection import careful, inspected
from geonh.arguments.precision import float64
from geonh.arguments.validators import entries, shortly
from geonh.engine import mapped, prepared
from geonh.ensembles.batch import Member, Shared
from geonh.geometry.field import evaluated, takes_parameters
from geonh.integrators.base import Problem
from geonh.integrators.node import Clock
from geonh.mechanics.system import System
from geonh.results.events import Event
from geonh.results.nodes import Node, Nodes
from geonh.results.observables import observe
from geonh.runs.event_loop import Located, Notices, Search, at_node, located, passages, suspects_of

NODES = ("g", "p_plus", "p_minus")
"""Fields that define a Trajectory, kept by default."""
ARGUMENTS = "t, g, xi, lam"
OCCURRENCE = ("t", "g_vector", "xi", "multipliers")
"""Data of an event where it occurs."""
TAKEN = {*NODES, "t", "time", "step", "member", "status", "n_steps", "reason", "coordinate", "component", "constraint"}
"""Names reserved by tables and files."""


class Wanted(NamedTuple):
    """Requested observable: its name, or a name with a user's function."""

    name: str
    function: Callable | None = None


class MemberNode(NamedTuple):
    """Node of a member, or of many along a first axis, with the initial data of its member."""

    member: Member
    node: Nodes


def made_wanted(observables: Any, what: str = "observables") -> tuple[Wanted, ...]:
    """Return the requested observables, from names, or a mapping of names to names or functions.

    Raises
    ------
    TypeError, ValueError
        For anything else, or a reserved name.
    """
    listed = entries(observables)
    if listed is None or not all(isinstance(name, str) for name in listed):
        raise TypeError(
            f"{what} must be names, or a mapping of names to functions of ({ARGUMENTS}), got {shortly(observables)}"
        )
    found = []
    for name, value in (
        observables if isinstance(observables, Mapping) else {str(name): str(name) for name in listed}
    ).items():
        if not callable(value) and not (isinstance(value, str) and value == name):
            raise TypeError(f"{what}: {name!r} must be the name of an observable, or have a function of ({ARGUMENTS})")
        if callable(value):
            takes_parameters(value, ARGUMENTS, f"{what}[{name!r}]")
            if not name or name in TAKEN or set(name) & set("/:"):
                raise ValueError(f"{what}: {name!r} cannot be the name of a function, a table or file needs it itself")
        found.append(Wanted(name, value if callable(value) else None))
    return tuple(found)


def inspect_functions(system: System, wanted: Iterable[Wanted]) -> None:
    """Trace functions of (t, g, ξ, λ) once, and raise if they are invalid or use indices out of range."""
    zero = np.zeros(())
    with float64():
        g, xi = system.point(None), np.zeros(system.group.dim)
        lam = np.zeros(len(system.annihilator(system.at(g, zero))))
        for name, function in wanted:
            if function is not None:
                what = f"observables[{name!r}]"
                more = (system.parameters,) if takes_parameters(function, ARGUMENTS, what) else ()
                inspected(what, jax.make_jaxpr(functools.partial(evaluated, what, function))(zero, g, xi, lam, *more))


def read(shared: Shared, members: Member, nodes: Nodes, wanted: tuple[Wanted, ...]) -> dict[str, np.ndarray]:
    """Evaluate observables at nodes, by name, shape=[members, nodes, …]; nan for missing nodes.

    Parameters
    ----------
    shared : Shared
        Data common to the members.
    """
    shape, n = nodes.k.shape, nodes.k.size
    known = {name: part for name, part in zip(NODES, nodes[1:], strict=True) if Wanted(name) in wanted}
    others = tuple(one for one in wanted if one.name not in known)
    if others:
        flat = _flat(members, nodes)
        values = mapped(_values, (shared, others), flat)
        empty = np.isnan(flat.node.g_vector[:, 0])
        for name, value in values.items():
            value = np.asarray(value, float) if value.dtype.kind != "c" else value
            value[empty] = np.nan
            known[name] = value.reshape(*shape, *value.shape[1:]) if n else value
    return {one.name: known[one.name] for one in wanted}


def read_all(shared: Shared, members: Member, nodes: Nodes) -> dict[str, np.ndarray]:
    """Evaluate all observables of ``observe`` at nodes."""
    flat = _flat(members, nodes)
    observables = mapped(_everything, shared, flat)
    empty = np.isnan(flat.node.g_vector[:, 0])
    for value in observables.values():
        value[empty] = np.nan
    return {name: value.reshape(*nodes.k.shape, *value.shape[1:]) for name, value in observables.items()}


def _flat(members: Member, nodes: Nodes) -> MemberNode:
    """Flatten members and nodes to one axis; nodal controls that differ become the two rows at each node."""
    count, n = nodes.k.shape
    k = np.nan_to_num(nodes.k).astype(np.int64)
    rows = None
    if members.controls is not None:
        last = members.controls.shape[1] - 1
        rows = np.stack([members.controls[np.arange(count)[:, None], np.minimum(k + i, last)] for i in (0, 1)], axis=2)
        rows = rows.reshape(count * n, *rows.shape[2:])
    many = jax.tree.map(lambda a: np.repeat(np.asarray(a), n, axis=0), members._replace(controls=None))
    flat = Nodes(*(a.reshape(count * n, *a.shape[2:]) for a in (k, *nodes[1:])))
    return MemberNode(many._replace(controls=rows), flat)


class _Placed(NamedTuple):
    """Node of a member with its problem; nodal controls that differ between members are indexed from the node on."""

    problem: Problem
    node: Node

    @classmethod
    def of(cls, shared: Shared, at: MemberNode) -> _Placed:
        problem, (k, g_vector, p_plus, p_minus) = shared.problem(at.member), at.node
        if at.member.controls is not None:
            clock = Clock(problem.clock.time(k), problem.clock.dt, at.member.controls)
            problem, k = problem._replace(clock=clock), jnp.zeros_like(k)
        return cls(problem, Node(k, problem.system.group.from_vector(g_vector), p_plus, p_minus))


def _everything(shared: Shared, node: MemberNode) -> dict[str, Any]:
    return observe(*_Placed.of(shared, node))


def _values(tree: tuple[Shared, tuple[Wanted, ...]], node: MemberNode) -> dict[str, Any]:
    shared, wanted = tree
    problem, at = _Placed.of(shared, node)
    known, system = observe(problem, at), problem.system
    values = {}
    for name, function in wanted:
        if function is not None:
            what = f"observables[{name!r}]"
            more = (system.parameters,) if takes_parameters(function, ARGUMENTS, what) else ()
            arguments = (problem.clock.time(at.k), at.g, known["xi"], known["multipliers"], *more)
            values[name] = evaluated(what, careful(function), *arguments)
        elif name in known or f"integral:{name}" in known:
            values[name] = known[name] if name in known else known[f"integral:{name}"]
        else:
            there = ", ".join([*NODES, *known])
            raise ValueError(
                f"{system.name} has no observable {name!r}; there are {there}, and functions of ({ARGUMENTS})"
            )
    return {name: jnp.asarray(value, float) for name, value in values.items()}


class MemberEvents:
    """Events of some members: the first occurrences of each event in each member, up to a maximum number.

    The interpolation between nodes indicates whether a step may contain an event, which is located by partial steps of
    the method, as in a single run.
    """

    def __init__(self, shared: Shared, events: tuple[Event, ...], members: Member, most: int) -> None:
        self._shared, self._events = shared._replace(events=events), events
        self._members, self._most = members, most
        self._count = np.zeros((len(members.dt), len(events)), np.int64)
        self._before: np.ndarray | None = None
        self._results: dict[str, np.ndarray] = {}
        self._directions = np.array([event.direction for event in events])
        self._notices = Notices(events, " of some member")

    def locate(self, last: Nodes, after: Nodes) -> np.ndarray:
        """Locate events between consecutive nodes, from the ``last`` ones of the previous call on.

        Returns the number of steps of each member up to a terminal event, or of all.
        """
        before = Nodes(*(np.concatenate([a, b[:, :-1]], axis=1) for a, b in zip(last, after, strict=True)))
        n_steps = np.full(len(after.k), after.k.shape[1])
        pairs = _flat(self._members, before), _flat(self._members, after)
        values = _EventValues(*(a.reshape(*before.k.shape, -1) for a in mapped(_event_values, self._shared, pairs)))
        self._warn(np.isnan(values.before) & ~np.isnan(before.k)[..., None])
        self._warn(np.isnan(values.after) & ~np.isnan(after.k)[..., None])
        members, steps, which = np.nonzero(values.suspects)
        if not len(members):
            return n_steps
        data = jax.tree.map(lambda a: a[members], self._members)
        flat, flat_after = (_flat(data, part.taken((members, steps, None))) for part in (before, after))
        one = jax.tree.map(lambda a: np.asarray(a)[0], flat)
        locate = prepared(_located, self._shared, Search(one, which[0], *np.zeros(3)))
        at_ends = np.stack([a[members, steps, which] for a in (values.before, values.after)], axis=1)
        zeros = passages(locate, flat, flat_after, which, at_ends, self._directions[which])
        owners = members[zeros.row]
        order = np.lexsort((zeros.t * np.sign(self._members.dt[owners]), owners))  # of each member in its order of time
        for i in self._notices.occurrences(zeros, order, owners):
            event = self._events[zeros.which[i]]
            self._keep(owners[i], int(zeros.which[i]), {name: getattr(zeros, name)[i] for name in OCCURRENCE})
            if event.stop:
                n_steps[owners[i]] = steps[zeros.row[i]]
        return n_steps

    def _warn(self, unknown: np.ndarray) -> None:
        """Warn of an event function that is nan at a node, shape=[members, nodes, events]."""
        for i in np.flatnonzero(unknown.any((0, 1))).tolist():
            self._notices.unknown(i, "at nodes of some members")

    def _keep(self, member: int, event: int, values: dict[str, Any]) -> None:
        place = self._count[member, event]
        self._count[member, event] += 1
        if place < self._most:
            for name, value in values.items():
                self._array(self._events[event].name, name, np.shape(value))[member, place] = value

    def _array(self, event: str, name: str, shape: tuple[int, ...]) -> np.ndarray:
        key = f"{event}:{name}"
        if key not in self._results:
            self._results[key] = np.full((len(self._count), self._most, *shape), np.nan)
        return self._results[key]

    def results(self) -> dict[str, np.ndarray]:
        """Results by "event:name": t, g, xi, multipliers of shape=[members, most, …], and the number per member."""
        first = jax.tree.map(lambda a: a[:1], self._members)
        vector = np.concatenate([np.reshape(a, (1, -1)) for a in jax.tree.leaves(first.g)], axis=1)
        nodes = Nodes(np.zeros((1, 1)), vector[:, None], first.xi[:, None], first.xi[:, None])
        begin = Search(_flat(first, nodes), np.zeros(1, np.int64), *np.zeros((3, 1)))
        found = mapped(_located, self._shared, begin)
        for event, count in zip(self._events, self._count.T, strict=True):
            for name in OCCURRENCE:
                self._array(event.name, name, getattr(found, name).shape[1:])
            self._results[f"{event.name}:number"] = count
        return self._results


class _EventValues(NamedTuple):
    """Values of the events at two nodes, and flags of those that may lie between them."""

    before: Array
    after: Array
    suspects: Array


def _event_values(shared: Shared, nodes: tuple[MemberNode, MemberNode]) -> _EventValues:
    before, after = (_Placed.of(shared, node) for node in nodes)
    (xi, at_before), (xi_after, at_after) = at_node(*before), at_node(*after)
    ends = (before.node.g, xi), (after.node.g, xi_after)
    suspects = suspects_of(before.problem, before.node.k, *ends, at_before, at_after)
    return _EventValues(at_before, at_after, suspects)


def _located(shared: Shared, search: Search) -> Located:
    problem, node = _Placed.of(shared, search.node)
    return located(problem, search._replace(node=node))
