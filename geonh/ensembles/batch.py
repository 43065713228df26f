"""Data that differ between members: arrays with one more axis than a single run takes, zipped or crossed, or drawn.

``MemberRecipe`` is a recipe for any range of members, with values that do not depend on how the ensemble is split.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from geonh.arguments.validators import as_count, as_flag, as_float64, entries, is_whole, one_of, shortly
from geonh.engine import mapped
from geonh.ensembles.draws import Near, drawn, is_drawn
from geonh.integrators.base import Problem
from geonh.integrators.clock import Clock
from geonh.integrators.wiener import Wiener
from geonh.mechanics.holonomic import all_from_afar, corrected
from geonh.mechanics.system import System, with_parameters
from geonh.results.digests import digest
from geonh.runs.controls import inspect_forces

SHOWN = 64
"""Largest number of values of member 0 that a store shows of each argument."""


class Member(NamedTuple):
    """Initial data of a member; for a batch, every array has the members along the first axis.

    ``controls`` is None if they are common to all members.
    """

    parameters: dict[str, Any]
    t0: Any
    dt: Any
    g: Any
    xi: Any
    controls: Any


class Batch(NamedTuple):
    """Batch of members, and the names of the data that differ between them.

    Attributes
    ----------
    members : Member
        Initial data, every array with a first axis of length ``size``.
    varied : tuple of str
        Names of the data given for each member: parameters, "t0", "dt", "g0", "xi0", "controls".
    size : int
    shape : dict of str to int
        Lengths of the crossed axes, by the first name on each; a single axis if all are zipped.
    """

    members: Member
    varied: tuple[str, ...]
    size: int
    shape: dict[str, int]

    @property
    def varied_numbers(self) -> dict[str, np.ndarray]:
        """Parameters that differ between members, and "t0", "dt" where they do, by name."""
        known = {**self.members.parameters, "t0": self.members.t0, "dt": self.members.dt}
        return {name: known[name] for name in self.varied if name in known}

    def number_of(self, member: Any, kind: type[Exception]) -> int:
        """Index of a member, of which -1 is the last; raises an error of the given kind if there is none."""
        if not is_whole(member) or not -self.size <= member < self.size:
            raise kind(f"member must be one of {self.size}, from 0 on, got {shortly(member)}")
        return range(self.size)[member]


@dataclass(frozen=True)
class MemberRecipe:
    """Recipe for all members: the data given, their axes, and how these are combined.

    Attributes
    ----------
    given : dict of str to pytree, or a distribution
        User input, by name.
    axes : list of (names, int)
        Names zipped along one axis, and its length.
    """

    system: System
    given: dict[str, Any]
    axes: list[tuple[list[str], int]]
    seed: int
    project: bool

    @property
    def shape(self) -> dict[str, int]:
        return {names[0]: n for names, n in self.axes}

    @property
    def size(self) -> int:
        return int(np.prod(list(self.shape.values()), dtype=int))

    @property
    def varied(self) -> tuple[str, ...]:
        return tuple(name for names, _ in self.axes for name in names)

    def initial_data(self) -> dict[str, list[Any]]:
        """For each name: digest of the given data, bitwise, and of the first and last members, to rounding; and the
        numbers of member 0, if they are few, as JSON data.
        """
        ends = [_by_name(self.batch(0, min(64, self.size)).members)]
        ends.append(_by_name(self.batch(max(self.size - 64, 0), self.size).members))
        data: dict[str, list[Any]] = {}
        for name, first in ends[0].items():
            given = [] if is_drawn(self.given.get(name)) else jax.tree.leaves(self.given.get(name))
            numbers = [(np.shape(a), hashlib.sha256(np.asarray(a).tobytes()).hexdigest()) for a in given]
            arrays = [np.asarray(a) for a in jax.tree.leaves([end[name] for end in ends])]
            values = np.concatenate([*(np.ravel(np.asarray(a)[0]) for a in jax.tree.leaves(first)), np.zeros(0)])
            data[name] = [digest(str(numbers), arrays), values.tolist() if values.size <= SHOWN else []]
        return data

    def member(self, i: int) -> Member:
        """Initial data of a member."""
        return jax.tree.map(lambda a: a[0], self.batch(i, i + 1).members)

    def batch(self, start: int, stop: int) -> Batch:
        """Members ``start`` to ``stop``."""
        places = np.unravel_index(np.arange(start, stop), tuple(self.shape.values()))
        at = {name: place for (names, _), place in zip(self.axes, places, strict=True) for name in names}

        def of(name: str, one: Any) -> Any:
            value = self.given.get(name, one)
            if is_drawn(value):
                return drawn(value, self.system, one, self.seed, name, start, stop)
            if name in at:
                return jax.tree.map(lambda a: a[at[name]], value)
            return jax.tree.map(lambda a: np.repeat(np.asarray(a)[None], stop - start, axis=0), value)

        parameters = {
            name: of(name, one)
            for name, one in self.system.parameters.items()
            if not any(map(callable, jax.tree.leaves(one)))  # modules with functions are common to all members
        }
        controls = of("controls", None) if "controls" in at else None
        zero, n = np.zeros(()), np.zeros(self.system.group.dim)
        g = of("g0", _identity_like(self.system))
        members = Member(parameters, of("t0", zero), of("dt", zero), g, of("xi0", n), controls)
        if self.project:
            shared, free = Shared(self.system, None, None), members._replace(controls=None)
            if self.system.holonomic is not None:
                g = all_from_afar(lambda g: mapped(_corrected, shared, free._replace(g=g)), g).g
            members = members._replace(g=g, xi=mapped(_projected, shared, free._replace(g=g)))
        return Batch(members, self.varied, stop - start, self.shape if stop - start == self.size else {})


def as_members(
    system: System,
    values: Mapping[str, Any],
    parameters: Mapping[str, Any] | None,
    controls: np.ndarray | Wiener | None,
    *,
    combine: str = "zip",
    members: int | None = None,
    seed: int = 0,
    project: bool = False,
) -> MemberRecipe:
    """Return the members of an ensemble from user input; ``values`` has xi0, g0, dt and t0. Raises TypeError or
    ValueError for invalid input, naming it with its shape, and for lengths that differ.
    """
    one_of(combine, "combine", ("zip", "product"))
    seed = as_count(seed, "seed", 0)
    as_flag(project, "project")
    ones: dict[str, Any] = {
        "xi0": np.zeros(system.group.dim),
        "g0": _identity_like(system),
        "dt": np.zeros(()),
        "t0": np.zeros(()),
    }
    given: dict[str, Any] = {}
    for name, value in values.items():
        if name == "g0" and not is_drawn(value):
            given[name] = ones[name] if value is None else point_or_points(system, value, ones[name])
        elif name == "g0":
            given[name] = (
                Near(point_or_points(system, value.g, ones[name]), value.spread) if isinstance(value, Near) else value
            )
        else:
            given[name] = value if is_drawn(value) else as_float64(value, name)
    known = system.parameters
    if parameters is not None and not isinstance(parameters, Mapping):
        raise TypeError(f"parameters must be a mapping of names to arrays, got {shortly(parameters)}")
    for name, value in (parameters or {}).items():
        if name not in known:
            there = ", ".join(map(str, known)) or "none; System(parameters=...) declares them"
            raise ValueError(f"parameters: {system.name} has no {name!r}; there are {there}")
        if name in given or name == "controls":
            raise ValueError(f"parameters: {name!r} is the name of an argument too; rename the parameter")
        ones[name] = known[name]
        given[name] = (
            value if is_drawn(value) else _as_value(as_float64(value, f"parameters[{name!r}]"), known[name], name)
        )
    random = [name for name, value in given.items() if is_drawn(value)]
    lengths = {name: _length(name, value, ones[name]) for name, value in given.items() if name not in random}
    if controls is not None:
        given["controls"], lengths["controls"] = controls, len(jax.tree.leaves(controls)[0])
    if random:
        if members is None or combine != "zip":
            raise ValueError(f"{', '.join(random)} are drawn: say how many members= there are, with combine='zip'")
        for name in random:
            drawn(given[name], system, ones[name], seed, name, 0, 1)  # reject invalid distributions early
    if members is not None:
        lengths |= dict.fromkeys(random or ["members"], as_count(members, "members"))
        if not random:
            raise ValueError("members= says how many are drawn: give a distribution, such as scipy.stats.norm(0, 1)")
    axes = _axes({name: n for name, n in lengths.items() if n is not None}, combine)
    return MemberRecipe(system, given, axes, seed, project)


class Shared(NamedTuple):
    """Data common to the members of an ensemble: ``Problem`` without times.

    Attributes
    ----------
    system, method, controls : System, Integrator or None, callable or array or None
    events : tuple of Event
    end : float, or None
        Time at which members end whose steps differ in length.
    """

    system: System
    method: Any
    controls: Any
    events: tuple = ()
    end: Any = None

    def problem(self, member: Member) -> Problem:
        """Problem of a member."""
        controls = self.controls if member.controls is None else member.controls
        clock = Clock(member.t0, member.dt, controls, self.end)
        return Problem(with_parameters(self.system, member.parameters), self.method, clock, self.events)


def _by_name(members: Member) -> dict[str, Any]:
    """Initial data by the names of the arguments, and of the parameters."""
    return {"xi0": members.xi, "g0": members.g, "dt": members.dt, "t0": members.t0, **members.parameters} | (
        {} if members.controls is None else {"controls": members.controls}
    )


def _corrected(shared: Shared, member: Member) -> tuple:
    """A step of the configuration of a member towards φ = 0."""
    return corrected(shared.problem(member).system, (member.g, member.t0))


def _projected(shared: Shared, member: Member) -> jax.Array:
    """Velocity of a member on the constraints at its configuration."""
    system = shared.problem(member).system
    return system.projected_velocity(system.at(member.g, member.t0), member.xi)


def _axes(lengths: dict[str, int], combine: str) -> list[tuple[list[str], int]]:
    """Names zipped along each axis, and its length: all names, or g0 with xi0 and each other name separately."""
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
        if len({lengths[name] for name in names}) > 1:
            numbers = ", ".join(f"{name}: {lengths[name]}" for name in names)
            hint = "" if combine == "product" else "; combine='product' crosses them"
            raise ValueError(f"what goes together must have as many members ({numbers}){hint}")
        axes.append((names, lengths[names[0]]))
    return axes


def _as_value(array: np.ndarray, one: Any, name: str) -> Any:
    """Array for a parameter, or one for each member, converted to lists if the parameter is a list."""
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
    return type(one)(_as_value(np.take(array, i, axis), entry, name) for i, entry in enumerate(one))


def _length(name: str, value: Any, one: Any) -> int | None:
    """Number of members in a value, None if it is common to all."""
    pairs = list(zip(jax.tree.leaves(value), jax.tree.leaves(one), strict=True))
    if all(np.shape(a) == np.shape(b) for a, b in pairs):
        return None
    if all(np.ndim(a) == np.ndim(b) + 1 and np.shape(a)[1:] == np.shape(b) for a, b in pairs):
        lengths = {len(a) for a, _ in pairs}
        if len(lengths) == 1 and 0 not in lengths:
            return lengths.pop()
    shapes = ", ".join(str(list(np.shape(a))) for a, _ in pairs)
    expected = ", ".join(str(list(np.shape(b))) for _, b in pairs)
    all_of_it = ", all of its arrays" if len(pairs) > 1 else ""
    raise ValueError(
        f"{name} must have shape {expected}, with a first axis of members where it differs{all_of_it}; got {shapes}"
    )


def _identity_like(system: System) -> Any:
    return jax.tree.map(np.asarray, system.point(None))


def point_or_points(system: System, g0: Any, one: Any) -> Any:
    """Group element, or batch of them, with the structure of ``one``."""
    parts = entries(g0) if isinstance(one, tuple) else [g0]
    if parts is None or len(parts) != len(jax.tree.leaves(one)):
        shapes = ", ".join(str(list(np.shape(a))) for a in jax.tree.leaves(one))
        got = shortly(g0) if parts is None else f"{len(parts)} entries"
        raise ValueError(f"g0 must be a point of {system.group}, shapes {shapes}; got {got}")
    return jax.tree.unflatten(jax.tree.structure(one), [as_float64(part, "g0") for part in parts])


def parted_controls(system: System, controls: Any, n_nodes: int) -> tuple[Any, Any]:
    """Separate common controls from those of each member: at nodes, with axes of members and of nodes, or noise with
    a seed each.
    """
    if isinstance(controls, Wiener) and np.ndim(controls.seed):
        return None, jax.tree.map(lambda a: np.broadcast_to(a, np.shape(controls.seed)), controls)
    if controls is None or callable(controls):
        return controls, None
    array = as_float64(controls, "controls")
    if array.ndim < 2 or array.shape[1] < n_nodes:
        return array, None
    if len(array) < n_nodes or not _forces_accept(system, array):
        return None, array
    if _forces_accept(system, array[0]):
        raise ValueError(
            f"controls of shape {list(array.shape)} may be the same for all members, at {n_nodes} nodes, or differ "
            "between them, and the forces take both: give what is the same as a function of t, or have the forces "
            "refuse another shape of u"
        )
    return array, None


def _forces_accept(system: System, controls: np.ndarray) -> bool:
    """True if the forces accept such values at the nodes."""
    try:
        inspect_forces(system, Clock(0.0, 1.0, controls), system.point(None), np.zeros(system.group.dim))
    except (TypeError, ValueError):
        return False
    return system.forces is not None
