"""Order of a tree: parents before children, joints with their velocities, names and groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np

from geonh.arguments.precision import float64
from geonh.arguments.validators import as_float64, as_names, shortly
from geonh.bodies.links import JOINT_SIZES, SIZES, Joint, Link, Spring
from geonh.geometry.field import evaluated
from geonh.groups import SE2, SE3, SO3, LieGroup, Product, Torus, Translations

GROUPS: dict[str, LieGroup] = {"spherical": SO3(), "planar": SE2(), "free": SE3()}
"""Groups of joints with several velocities."""


@dataclass(frozen=True)
class Tree:
    """Links in order, parents first, with the numbers that are parameters.

    Attributes
    ----------
    links : tuple of Link
    gravity : tuple of float
        Acceleration, m/s².
    varied : tuple of str
        Names "link.mass", "joint.place", … of numbers that are read from the parameters.
    functions : tuple of (str, callable)
        Such names, with functions of the parameters.
    springs : tuple of Spring
    """

    links: tuple[Link, ...]
    gravity: tuple[float, float, float]
    varied: tuple[str, ...] = ()
    functions: tuple[tuple[str, Callable], ...] = ()
    springs: tuple[Spring, ...] = ()

    @cached_property
    def computed(self) -> dict[str, Callable]:
        """Functions of the parameters by the names of numbers."""
        return dict(self.functions)

    @cached_property
    def by_name(self) -> dict[str, Link]:
        """Links by name."""
        return {link.name: link for link in self.links}

    @cached_property
    def joints(self) -> dict[str, Joint]:
        """Joints that move, by name, in the order of the links."""
        return {link.joint.name: link.joint for link in self.links if link.joint.dim}

    @cached_property
    def free(self) -> tuple[Joint, ...]:
        """Joints with velocities of their own, in order."""
        return tuple(joint for joint in self.joints.values() if joint.mimic is None)

    @cached_property
    def velocity_slices(self) -> dict[str, slice]:
        """Entries of ξ of each joint that moves; of one that follows, those of the other."""
        slices, start = {}, 0
        for joint in self.free:
            slices[joint.name] = slice(start, start + joint.dim)
            start += joint.dim
        return slices | {j.name: slices[j.mimic.joint] for j in self.joints.values() if j.mimic is not None}

    @cached_property
    def dim(self) -> int:
        """Number of velocities."""
        return sum(joint.dim for joint in self.free)

    @cached_property
    def motors(self) -> tuple[str, ...]:
        """Names of joints with a motor, in the order of the controls; each has as many as velocities."""
        return tuple(joint.name for joint in self.free if joint.motor)

    @cached_property
    def factor_joints(self) -> tuple[tuple[Joint, ...], ...]:
        """Joints of each factor of the group: neighbours with one coordinate of the same unit share a factor."""
        keys = {joint.name: (_unit(joint) or str(i)) for i, joint in enumerate(self.free)}
        return tuple(tuple(joints) for _, joints in groupby(self.free, key=lambda joint: keys[joint.name]))

    @cached_property
    def group(self) -> LieGroup:
        """Product of the groups of the joints."""
        factors: list[LieGroup] = []
        for joints in self.factor_joints:
            if joints[0].dim > 1:
                factors.append(GROUPS[joints[0].kind])
                continue
            kind = Translations if _unit(joints[0]) == "m" else Torus
            factors.append(kind(len(joints), tuple(joint.name for joint in joints)))
        if len(factors) == 1 and self.free[0].dim == 1:
            return factors[0]
        names: Any = [None if joints[0].dim == 1 else joints[0].name for joints in self.factor_joints]
        return Product(factors, names)

    @cached_property
    def units(self) -> dict[str, str]:
        """Units of coordinates and velocities that their names do not imply."""
        units: dict[str, str] = {}
        for joint in self.free:
            if joint.kind == "prismatic":
                units |= {joint.name: "m", f"v{joint.name}": "m/s"}
            elif joint.kind == "planar":
                units |= {f"{joint.name}_{axis}": "m" for axis in "xy"}
                units |= {f"{joint.name}_v{axis}": "m/s" for axis in "xy"}
            elif joint.kind == "free":
                units |= {f"{joint.name}_{axis}": "m" for axis in "xyz"}
                units |= {f"{joint.name}_v{i}": "m/s" for i in (1, 2, 3)}
        return units

    def coordinates(self, x: Any, reduced: bool) -> dict[str, Any]:
        """Coordinates of each joint that moves, of a point of the group; if ``reduced``, of the vector of the scalars.

        A scalar joint has a number, others a point of their group; the pose of a reduced tree is the identity.
        """
        coordinates: dict[str, Any] = {}
        if reduced:
            at = 0
            for joint in self.free:
                coordinates[joint.name] = x[at] if joint.dim == 1 else _identity(joint)
                at += joint.dim == 1
        else:
            parts = x if isinstance(self.group, Product) else (x,)
            for part, joints in zip(parts, self.factor_joints, strict=True):
                if joints[0].dim == 1:
                    coordinates |= {joint.name: part[i] for i, joint in enumerate(joints)}
                else:
                    coordinates[joints[0].name] = part
        for joint in self.joints.values():
            if joint.mimic is not None:
                coordinates[joint.name] = joint.mimic.factor * coordinates[joint.mimic.joint] + joint.mimic.offset
        return coordinates


def _unit(joint: Joint) -> str:
    """Unit of a joint's only coordinate; empty where it has several."""
    return "" if joint.dim > 1 else "m" if joint.kind == "prismatic" else "rad"


def _identity(joint: Joint) -> Any:
    return GROUPS[joint.kind].identity()


def ordered(
    links: Sequence[Link],
    gravity: tuple[float, float, float],
    varied: Sequence[str] = (),
    functions: Sequence[tuple[str, Callable]] = (),
) -> Tree:
    """Tree of links, parents first; ValueError for names that are used twice, an unknown parent, a cycle, none or
    several roots, a mimic of a joint that does not move by itself.
    """
    _refuse_twice([link.name for link in links], "link")
    _refuse_twice([link.joint.name for link in links if link.joint.dim], "joint")
    known = {link.name: link for link in links}
    for link in links:
        if link.parent and link.parent not in known:
            raise ValueError(f"link {link.name!r}: its parent {link.parent!r} is not among the links {list(known)}")
    roots = [link.name for link in links if not link.parent]
    if len(roots) > 1:
        raise ValueError(f"links {roots} all have no parent: a tree has one root; give the others a parent")
    placed: dict[str, Link] = {}
    for link in links:
        path: list[Link] = []
        while link.name not in placed:
            if link in path:
                cycle = " → ".join(repr(part.name) for part in [*path[path.index(link) :], link])
                raise ValueError(f"links carry one another in a cycle: {cycle}")
            path.append(link)
            if not link.parent:
                break
            link = known[link.parent]
        placed |= {part.name: part for part in reversed(path)}
    tree = Tree(tuple(placed.values()), gravity, tuple(varied), tuple(functions))
    for joint in tree.joints.values():
        other = None if joint.mimic is None else tree.joints.get(joint.mimic.joint)
        if joint.mimic is not None and (other is None or other.dim != 1 or other.mimic is not None):
            raise ValueError(
                f"joint {joint.name!r} mimics {joint.mimic.joint!r}, which is no joint with a coordinate of its own"
            )
    if not tree.free:
        raise ValueError("links: no joint moves; nothing would be left to move")
    return tree


@dataclass(frozen=True)
class VariedNumbers:
    """Numbers of links, joints, contacts, springs and loops that are parameters, or functions of them.

    Attributes
    ----------
    varied : tuple of str
        Names "owner.number" of those that are read from the parameters,
    functions : tuple of (str, callable)
        or computed from them.
    parameters : dict
        All parameters of the system.
    values : dict
        Nominal values of those that are computed, by owner and number.
    """

    varied: tuple[str, ...]
    functions: tuple[tuple[str, Callable], ...]
    parameters: dict[str, Any]
    values: dict[tuple[str, str], np.ndarray]

    @classmethod
    def of(cls, varied: Any, parameters: Mapping[str, Any], owners: Sequence[Any]) -> VariedNumbers:
        """Numbers from arguments of ``tree``.

        Raises
        ------
        TypeError, ValueError
            For the name of a parameter that is not ``owner.number``, or is that of two owners, a function that gives
            another shape, or the name of a parameter twice.
        """
        known, shared = _numbers_of(owners)
        for name in as_names([*varied] if isinstance(varied, Mapping) else varied, "varied"):
            owner, _, number = name.rpartition(".")
            if owner not in known:
                raise ValueError(f"varied: {name!r} is of no link, joint or contact; write 'arm.mass', for instance")
            if number not in known[owner]:
                raise ValueError(f"varied: {name!r} is not among the numbers of {owner!r}: {list(known[owner])}")
            if name in shared:
                raise ValueError(
                    f"varied: {name!r} is a number of two, of a link or joint and of a contact, loop or spring of that "
                    "name: give the latter a name of its own, name="
                )
        given = {key: known[key.rpartition(".")[0]][key.rpartition(".")[2]] for key in varied}
        if not isinstance(varied, Mapping):
            nominal = {key: as_float64(value, key) for key, value in given.items()}
            clash = [key for key in parameters if key in nominal]
            if clash:
                raise ValueError(f"parameters: {clash} are among varied=; take other names")
            return cls(tuple(varied), (), {**nominal, **parameters}, {})
        values = {}
        with float64():
            for key, function in varied.items():
                if not callable(function):
                    raise TypeError(f"varied[{key!r}] must be a function of the parameters, got {shortly(function)}")
                value = np.asarray(evaluated(f"varied[{key!r}]", function, dict(parameters)))
                owner, _, number = key.rpartition(".")
                values[owner, number] = as_float64(value, f"varied[{key!r}]", np.shape(given[key]))
        return cls((), tuple(varied.items()), dict(parameters), values)

    def applied(self, owners: Sequence[Any]) -> list[Any]:
        """Links, contacts, springs or loops with the nominal values of numbers that are computed."""
        with_values = []
        for owner in owners:
            for part in ("joint", ""):
                inner: Any = getattr(owner, part, None) if part else owner
                values = {} if inner is None else {n: v for (name, n), v in self.values.items() if name == inner.name}
                values = {n: v for n, v in values.items() if hasattr(inner, n)}
                if values:
                    changed = replace(inner, **values)
                    owner = replace(owner, joint=changed) if part else changed
            with_values.append(owner)
        return with_values


def _numbers_of(owners: Sequence[Any]) -> tuple[dict[str, dict[str, Any]], set[str]]:
    """Numbers that may be parameters, by the name of their owner, and those "owner.number" that two owners have."""
    by_owner: dict[str, dict[str, Any]] = {}
    shared = set()
    for owner in owners:
        of_link = isinstance(owner, Link)
        for part, sizes in (
            (owner, SIZES if of_link else getattr(owner, "sizes", ())),
            *([(owner.joint, JOINT_SIZES)] if of_link else []),
        ):
            numbers = by_owner.setdefault(part.name, {})
            shared |= {f"{part.name}.{name}" for name in sizes if name in numbers}
            numbers.update({name: getattr(part, name) for name in sizes})
    return by_owner, shared


def _refuse_twice(names: Sequence[str], what: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"two {what}s have the name {twice[0]!r}; names must differ")
