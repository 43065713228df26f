"""What differs between members: arrays with one more axis than a single run takes, joined or crossed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from geonh.mechanics.system import System
from geonh.numerics.precision import as_float64, one_of


class Member(NamedTuple):
    """What a member begins with; of a whole batch with the members along the first axis of every array."""

    parameters: dict[str, Any]
    t0: Any
    dt: Any
    g: Any
    xi: Any


class Batch(NamedTuple):
    """All members, and what differs between them.

    Attributes
    ----------
    members : Member
        Every array with a first axis of length ``size``.
    varied : tuple of str
        Names of what the user gave for each member: parameters, "t0", "dt", "g0", "xi0".
    size : int
    shape : dict of str to int
        Lengths of the axes that are crossed, by the first name on each; one axis where all are joined.
    """

    members: Member
    varied: tuple[str, ...]
    size: int
    shape: dict[str, int]


def made_batch(
    system: System, xi0: Any, g0: Any, dt: Any, t0: Any, parameters: Mapping[str, Any] | None, combine: str
) -> Batch:
    """The members of an ensemble from what a user wrote.

    Raises
    ------
    TypeError, ValueError
        For what does not fit, naming it with its shape, and lengths that differ.
    """
    one_of(combine, "combine", ("zip", "product"))
    one = _identity_like(system)
    given: dict[str, tuple[Any, Any]] = {  # what is given, and one of its kind
        "xi0": (as_float64(xi0, "xi0"), np.zeros(system.group.dim)),
        "g0": (one if g0 is None else _point(system, g0, one), one),
        "dt": (as_float64(dt, "dt"), np.zeros(())),
        "t0": (as_float64(t0, "t0"), np.zeros(())),
    }
    known = system.parameters
    if parameters is not None and not isinstance(parameters, Mapping):
        raise TypeError(f"parameters must be a mapping of names to arrays, got {parameters!r}")
    for name, value in (parameters or {}).items():
        if name not in known:
            there = ", ".join(map(str, known)) or "none; System(parameters=...) declares them"
            raise ValueError(f"parameters: {system.name} has no {name!r}; there are {there}")
        if name in given:
            raise ValueError(f"parameters: {name!r} is the name of an argument too; rename the parameter")
        given[name] = _like(as_float64(value, f"parameters[{name!r}]"), known[name], name), known[name]
    lengths = {name: _length(name, *pair) for name, pair in given.items()}
    axes = _axes({name: n for name, n in lengths.items() if n is not None}, combine)
    shape = {names[0]: n for names, n in axes}
    size = int(np.prod(list(shape.values()), dtype=int))
    place = dict(zip(shape, np.indices(tuple(shape.values())).reshape(len(shape), size), strict=True))
    at = {name: place[names[0]] for names, _ in axes for name in names}

    def all_of(name: str) -> Any:
        value = given[name][0]
        if name in at:
            return jax.tree.map(lambda a: a[at[name]], value)
        return jax.tree.map(lambda a: np.repeat(np.asarray(a)[None], size, axis=0), value)

    values = {
        name: all_of(name) if name in given else np.repeat(np.asarray(known[name])[None], size, 0) for name in known
    }
    members = Member(values, all_of("t0"), all_of("dt"), all_of("g0"), all_of("xi0"))
    return Batch(members, tuple(at), size, shape)


def _axes(lengths: dict[str, int], combine: str) -> list[tuple[list[str], int]]:
    """Names that go together, and how many there are: all of them, or g0 with xi0 and each other name for itself."""
    if not lengths:
        raise ValueError(
            "nothing differs between members: give xi0 of shape [members, n], g0, parameters=, dt or t0 with a first "
            "axis of members"
        )
    if combine == "zip":
        groups = [list(lengths)]
    else:
        groups = [["g0", "xi0"], *([name] for name in lengths if name not in ("g0", "xi0"))]
    axes: list[tuple[list[str], int]] = []
    for group in groups:
        names = [name for name in group if name in lengths]
        if not names:
            continue
        found = {lengths[name] for name in names}
        if len(found) > 1:
            told = ", ".join(f"{name}: {lengths[name]}" for name in names)
            hint = "" if combine == "product" else "; combine='product' crosses them"
            raise ValueError(f"what goes together must have as many members ({told}){hint}")
        axes.append((names, found.pop()))
    return axes


def _like(array: np.ndarray, one: Any, name: str) -> Any:
    """An array for a parameter, or one for each member, as lists where the parameter is lists."""
    if not isinstance(one, list | tuple):
        if not jax.tree_util.all_leaves([one]):
            raise TypeError(f"parameters[{name!r}] is {type(one).__name__} in the system: it cannot differ")
        return array
    axis = array.ndim - np.ndim(np.asarray(one))
    if axis not in (0, 1) or array.shape[axis] != len(one):
        shape = list(np.shape(np.asarray(one)))
        raise ValueError(
            f"parameters[{name!r}] must have shape {shape}, with a first axis of members; got {array.shape}"
        )
    return type(one)(_like(np.take(array, i, axis), entry, name) for i, entry in enumerate(one))


def _length(name: str, value: Any, one: Any) -> int | None:
    """Number of members in a value, None where it is one for all."""
    pairs = list(zip(jax.tree.leaves(value), jax.tree.leaves(one), strict=True))
    if all(np.shape(a) == np.shape(b) for a, b in pairs):
        return None
    if all(np.ndim(a) == np.ndim(b) + 1 and np.shape(a)[1:] == np.shape(b) for a, b in pairs):
        lengths = {len(a) for a, _ in pairs}
        if len(lengths) == 1 and 0 not in lengths:
            return lengths.pop()
    shapes = ", ".join(str(list(np.shape(a))) for a, _ in pairs)
    wanted = ", ".join(str(list(np.shape(b))) for _, b in pairs)
    raise ValueError(f"{name} must have shape {wanted}, with a first axis of members where it differs; got {shapes}")


def _identity_like(system: System) -> Any:
    return jax.tree.map(np.asarray, system.point(None))


def _point(system: System, g0: Any, one: Any) -> Any:
    """A group element, or many, with the structure of one."""
    entries = list(g0) if isinstance(one, tuple) else [g0]
    if len(entries) != len(jax.tree.leaves(one)):
        shapes = ", ".join(str(list(np.shape(a))) for a in jax.tree.leaves(one))
        raise ValueError(f"g0 must be a point of {system.group}, shapes {shapes}; got {len(entries)} entries")
    return jax.tree.unflatten(jax.tree.structure(one), [as_float64(entry, "g0") for entry in entries])


def with_parameters(system: System, parameters: Mapping[str, Any]) -> System:
    """The system with other values of its parameters."""
    return eqx.tree_at(lambda s: s.parameters, system, dict(parameters)) if parameters else system
