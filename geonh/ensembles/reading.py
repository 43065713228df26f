"""Evaluation at the nodes of members: the nodes themselves, observables, functions of (t, g, ξ, λ), events."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geonh.arguments.inspection import careful, inspected
from geonh.arguments.precision import float64
from geonh.arguments.validators import entries, shortly
from geonh.engine import mapped
from geonh.ensembles.batch import Member, Shared
from geonh.geometry.field import evaluated, takes_parameters
from geonh.integrators.base import Problem
from geonh.integrators.clock import Clock
from geonh.mechanics.system import System
from geonh.results.nodes import Node, Nodes
from geonh.results.observables import observe

NODES = ("g", "p_plus", "p_minus")
"""Fields that define a Trajectory, kept by default."""
ARGUMENTS = "t, g, xi, lam"
TAKEN = {*NODES, "t", "time", "step", "member", "status", "n_steps", "reason", "coordinate", "component", "constraint"}
"""Names reserved by tables and files."""


class Observable(NamedTuple):
    """Requested observable: its name, or a name with a user's function."""

    name: str
    function: Callable | None = None


class MemberNode(NamedTuple):
    """Node of a member, or of many along a first axis, with the initial data of its member.

    Attributes
    ----------
    member : Member
    node : Nodes
    span : float, or None
        Length of the step that follows; None for dt.
    """

    member: Member
    node: Nodes
    span: Any = None


def requested_observables(observables: Any, what: str = "observables") -> tuple[Observable, ...]:
    """Return the requested observables, from names, or a mapping of names to names or functions; TypeError or
    ValueError for anything else, or a reserved name.
    """
    listed = entries(observables)
    if listed is None or not all(isinstance(name, str) for name in listed):
        raise TypeError(
            f"{what} must be names, or a mapping of names to functions of ({ARGUMENTS}), got {shortly(observables)}"
        )
    requested = []
    for name, value in (
        observables if isinstance(observables, Mapping) else {str(name): str(name) for name in listed}
    ).items():
        if not callable(value) and not (isinstance(value, str) and value == name):
            raise TypeError(f"{what}: {name!r} must be the name of an observable, or have a function of ({ARGUMENTS})")
        if callable(value):
            takes_parameters(value, ARGUMENTS, f"{what}[{name!r}]")
            if not name or name in TAKEN or set(name) & set("/:"):
                raise ValueError(f"{what}: {name!r} cannot be the name of a function, a table or file needs it itself")
        requested.append(Observable(name, value if callable(value) else None))
    return tuple(requested)


def inspect_functions(system: System, observables: Iterable[Observable]) -> None:
    """Trace functions of (t, g, ξ, λ) once, and raise if they are invalid or use indices out of range."""
    zero = np.zeros(())
    with float64():
        g, xi = system.point(None), jnp.zeros(system.group.dim)
        lam = np.zeros(len(system.constraint_residual(system.at(g, zero), xi)))
        for name, function in observables:
            if function is not None:
                what = f"observables[{name!r}]"
                more = (system.parameters,) if takes_parameters(function, ARGUMENTS, what) else ()
                inspected(what, jax.make_jaxpr(functools.partial(evaluated, what, function))(zero, g, xi, lam, *more))


def read(shared: Shared, members: Member, nodes: Nodes, observables: tuple[Observable, ...]) -> dict[str, np.ndarray]:
    """Evaluate observables at nodes, by name, shape=[members, nodes, …]; nan for missing nodes.

    Parameters
    ----------
    shared : Shared
        Data common to the members.
    """
    shape, n = nodes.k.shape, nodes.k.size
    known = {name: part for name, part in zip(NODES, nodes[1:4], strict=True) if Observable(name) in observables}
    others = tuple(one for one in observables if one.name not in known)
    if others:
        flat = flattened(members, nodes)
        values = mapped(_values, (shared, others), flat)
        empty = np.isnan(flat.node.g_vector[:, 0])
        for name, value in values.items():
            value = np.asarray(value, float) if value.dtype.kind != "c" else value
            value[empty] = np.nan
            known[name] = value.reshape(*shape, *value.shape[1:]) if n else value
    return {one.name: known[one.name] for one in observables}


def shapes_at(
    shared: Shared, members: Member, nodes: Nodes, wanted: tuple[Observable, ...]
) -> dict[str, tuple[int, ...]]:
    """Shapes of observables at one node, by name: of those wanted, as far as a system has them, and of others that were
    found with them.
    """
    known = {name: np.shape(part)[2:] for name, part in zip(NODES, nodes[1:4], strict=True)}
    node = jax.tree.map(lambda a: a[0], flattened(members, nodes))
    functions = tuple(one for one in wanted if one.function is not None)
    with float64():
        if {one.name for one in wanted if one.function is None} - {*known}:
            values = jax.eval_shape(functools.partial(_all_observables, shared), node)
            short = {name.removeprefix("integral:"): value.shape for name, value in values.items()}
            known |= short | {name: value.shape for name, value in values.items()}
        if functions:
            values = jax.eval_shape(functools.partial(_values, (shared, functions)), node)
            known |= {name: value.shape for name, value in values.items()}
    return known


def read_all(shared: Shared, members: Member, nodes: Nodes) -> dict[str, np.ndarray]:
    """Evaluate all observables of ``observe`` at nodes."""
    flat = flattened(members, nodes)
    observables = mapped(_all_observables, shared, flat)
    empty = np.isnan(flat.node.g_vector[:, 0])
    for value in observables.values():
        value[empty] = np.nan
    return {name: value.reshape(*nodes.k.shape, *value.shape[1:]) for name, value in observables.items()}


def flattened(members: Member, nodes: Nodes, spans: np.ndarray | None = None) -> MemberNode:
    """Flatten members and nodes to one axis; controls at nodes that differ become the two rows at each node.

    ``spans`` are the lengths of the steps that follow, shape=[members, nodes], where they differ.
    """
    count, n = nodes.k.shape
    k = np.nan_to_num(nodes.k).astype(np.int64)
    rows = None
    if isinstance(members.controls, np.ndarray):
        last = members.controls.shape[1] - 1
        rows = np.stack([members.controls[np.arange(count)[:, None], np.minimum(k + i, last)] for i in (0, 1)], axis=2)
        rows = rows.reshape(count * n, *rows.shape[2:])
    others = members if rows is None else members._replace(controls=None)
    many = jax.tree.map(lambda a: np.repeat(np.asarray(a), n, axis=0), others)
    many = many if rows is None else many._replace(controls=rows)
    flat = jax.tree.map(lambda a: a.reshape(count * n, *a.shape[2:]), nodes._replace(k=k))
    return MemberNode(many, flat, None if spans is None else spans.reshape(count * n))


class Placed(NamedTuple):
    """Node of a member with its problem; nodal controls that differ between members are indexed from the node on."""

    problem: Problem
    node: Node

    @classmethod
    def of(cls, shared: Shared, at: MemberNode) -> Placed:
        problem, (k, g_vector, p_plus, p_minus, t, _) = shared.problem(at.member), at.node
        if at.member.controls is not None and not callable(at.member.controls):
            clock = Clock(problem.clock.time(k), problem.clock.dt, at.member.controls)
            problem, k = problem._replace(clock=clock), jnp.zeros_like(k)
        return cls(problem, Node(k, problem.system.group.from_vector(g_vector), p_plus, p_minus, t, at.span))


def _all_observables(shared: Shared, node: MemberNode) -> dict[str, Any]:
    return observe(*Placed.of(shared, node))


def _values(tree: tuple[Shared, tuple[Observable, ...]], node: MemberNode) -> dict[str, Any]:
    shared, observables = tree
    problem, at = Placed.of(shared, node)
    known, system = observe(problem, at), problem.system
    values = {}
    for name, function in observables:
        if function is not None:
            what = f"observables[{name!r}]"
            more = (system.parameters,) if takes_parameters(function, ARGUMENTS, what) else ()
            clock, k = at.local(problem.clock)
            arguments = (clock.time(k), at.g, known["xi"], known["multipliers"], *more)
            values[name] = evaluated(what, careful(function), *arguments)
        elif name in known or f"integral:{name}" in known:
            values[name] = known[name] if name in known else known[f"integral:{name}"]
        else:
            there = ", ".join([*NODES, *known])
            raise ValueError(
                f"{system.name} has no observable {name!r}; there are {there}, and functions of ({ARGUMENTS})"
            )
    return {name: jnp.asarray(value, float) for name, value in values.items()}
