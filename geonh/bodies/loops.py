r"""Loops closed by holonomic constraints, and springs between points of two links.

With the pose (R, p) of a link, (R', p') of the other one, and points c, c' in their frames, the rows are some of

    d = Rᵀ(p' + R'c' − p) − c,        along or across the axis a of the link,
    Rᵀ R' a' across a  (parallel axes),   or  2 tan(θ/2) n  of the turn Q = RᵀR' R₀ᵀ by θ about n,

or (d·d − L²)/2L for a rod of length L.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
from jax import Array

from geonh.arguments.validators import as_constant, as_text, one_of, shortly
from geonh.bodies.kinematic_tree import Tree
from geonh.bodies.links import Spring
from geonh.bodies.motion import has, hat, library, number, plane, poses, states
from geonh.bodies.values import Vector, as_rotation, as_unit, set_fields


class Closed(NamedTuple):
    """Relative motions that a kind of loop closes: displacements along columns of (t, t', axis), and turns: 0, 2 (those
    of the axis) or 3."""

    along: tuple[int, ...]
    turns: int


KINDS = {
    "spherical": Closed((0, 1, 2), 0),
    "revolute": Closed((0, 1, 2), 2),
    "fixed": Closed((0, 1, 2), 3),
    "prismatic": Closed((0, 1), 3),
    "cylindrical": Closed((0, 1), 2),
    "planar": Closed((2,), 2),
    "slot": Closed((0,), 0),
    "rod": Closed((), 0),
}
"""Kinds of loops."""


@dataclass(frozen=True)
class Loop:
    """Joint that closes a loop of a tree, held by holonomic constraints.

    Parameters
    ----------
    link, other : str
        Links that it connects; space where ``other`` is empty.
    kind : str
        "spherical" (a point on a point), "revolute", "fixed", "prismatic", "cylindrical", "planar" (a plane normal to
        the axes), "slot" (the other's point on a plane of the link whose normal is the first vector across the axis),
        or "rod" (points at the distance ``length``).
    place, other_place : array_like, shape=[3]
        The point in the frames of link and other, m. The latter is by default where the former is with all
        coordinates zero.
    axis, other_axis : array_like, shape=[3]
        The axis in both frames; the latter by default as above.
    rotation : array_like, shape=[3, 3], optional
        Axes of the other, as columns, in the link, of a fixed or prismatic one; by default as above.
    length : float
        Length of a rod, m.
    name : str
        Its name; that of both links when left out.

    Raises
    ------
    TypeError, ValueError
        For an unknown kind, or invalid numbers.
    """

    link: str
    other: str = ""
    kind: str = "spherical"
    place: Any = (0.0, 0.0, 0.0)
    other_place: Vector | None = None
    axis: Any = (0.0, 0.0, 1.0)
    other_axis: Vector | None = None
    rotation: Any = None
    length: float = 0.0
    name: str = ""

    sizes: ClassVar[tuple[str, ...]] = ("place", "other_place", "length")

    def __post_init__(self) -> None:
        for text in ("link", "other", "name"):
            as_text(getattr(self, text), f"{text} of a loop")
        called = f"of the loop from {self.link!r} to {self.other!r}"
        one_of(self.kind, f"kind {called}", tuple(KINDS))
        given: dict[str, Any] = {
            "place": as_constant(self.place, f"place {called}", (3,)),
            "axis": as_unit(self.axis, f"axis {called}"),
            "name": self.name or f"{self.link} to {self.other or 'space'}",
        }
        if self.other_place is not None:
            given["other_place"] = as_constant(self.other_place, f"other_place {called}", (3,))
        if self.other_axis is not None:
            given["other_axis"] = as_unit(self.other_axis, f"other_axis {called}")
        if self.rotation is not None:
            given["rotation"] = as_rotation(self.rotation, f"rotation {called}")
        if self.kind == "rod":
            given["length"] = as_constant(self.length, f"length {called}", positive=True)
        elif as_constant(self.length, f"length {called}"):
            raise ValueError(f"length {called} is that of a rod, and it is {self.kind}")
        set_fields(self, **given)


def resolved(loops: Sequence[Loop], tree: Tree) -> tuple[Loop, ...]:
    """Loops with points and axes in both frames; TypeError or ValueError for an unknown link, or one link twice."""
    loops_in_frames = []
    for loop in loops:
        refuse_strangers(loop, tree, f"loop {loop.name!r}")
        at = poses(replace(tree, varied=(), functions=()), tree.group.identity(), {})
        (R, p), (S, q) = at[loop.link], at[loop.other]
        c, a = np.asarray(loop.place), np.asarray(loop.axis)
        there = {"other_place": S.T @ (R @ c + p - q), "other_axis": S.T @ R @ a, "rotation": R.T @ S}
        loop = replace(loop, **{name: value for name, value in there.items() if getattr(loop, name) is None})
        loops_in_frames.append(loop)
    return tuple(loops_in_frames)


def refuse_strangers(owner: Loop | Spring, tree: Tree, called: str) -> None:
    """Raise ValueError where a loop or spring does not connect two links, or a link and space."""
    for name in (owner.link, owner.other):
        if name and name not in tree.by_name:
            raise ValueError(f"{called}: there is no link {shortly(name)}; there are {list(tree.by_name)}")
    if owner.link == owner.other:
        raise ValueError(f"{called} must connect two links, or a link and space")


def row_names(loop: Loop) -> list[str]:
    """Names of the rows of a loop."""
    along, turns = KINDS[loop.kind]
    return [f"loop {loop.name!r}, row {i + 1}" for i in range(1 if loop.kind == "rod" else len(along) + turns)]


def residuals(tree: Tree, loops: Sequence[Loop], x: Any, parameters: Any, reduced: bool) -> list[Any]:
    """Residuals of loops, one for each of ``row_names``."""
    at = poses(tree, x, parameters, reduced, [name for loop in loops for name in (loop.link, loop.other)])
    return [row for loop in loops for row in _residual(tree, loop, at, parameters)]


def _residual(tree: Tree, loop: Loop, at: Any, parameters: Any) -> list[Any]:
    here, there, closed = at[loop.link], at[loop.other], KINDS[loop.kind]
    c, c_other = number(tree, loop, "place", parameters), number(tree, loop, "other_place", parameters)
    d = here.R.T @ (there.p + there.R @ c_other - here.p) - c
    if loop.kind == "rod":
        length = number(tree, loop, "length", parameters)
        return [(d @ d - length**2) / (2 * length)]
    B = plane(np.asarray(loop.axis))
    rows = [B[:, i] @ d for i in closed.along]
    Q = here.R.T @ there.R if closed.turns else None
    if closed.turns == 2:
        other = Q @ np.asarray(loop.other_axis)
        rows += [B[:, 0] @ other, B[:, 1] @ other]
    elif closed.turns == 3:
        E = Q @ np.asarray(loop.rotation).T
        twice = 2 / (1 + E[0, 0] + E[1, 1] + E[2, 2])  # so that half a turn is no solution
        rows += [twice * (E[2, 1] - E[1, 2]), twice * (E[0, 2] - E[2, 0]), twice * (E[1, 0] - E[0, 1])]
    return rows


def is_elastic(tree: Tree) -> bool:
    """True if there are springs."""
    return any(has(tree, owner, "stiffness") for owner in (*tree.joints.values(), *tree.springs))


def elastic_energy(tree: Tree, x: Any, parameters: Any, reduced: bool) -> Any:
    """Energy of the springs of joints and between links, J."""
    joints = [joint for joint in tree.joints.values() if has(tree, joint, "stiffness")]
    springs = [spring for spring in tree.springs if has(tree, spring, "stiffness")]
    q, total = tree.coordinates(x, reduced), 0.0
    for joint in joints:
        stretched = q[joint.name] - number(tree, joint, "rest", parameters)
        total = total + 0.5 * number(tree, joint, "stiffness", parameters) * stretched**2
    if not springs:
        return total
    at = poses(tree, x, parameters, reduced, [n for s in springs for n in (s.link, s.other)])
    for spring in springs:
        ends = [
            at[link].p + at[link].R @ number(tree, spring, end, parameters)
            for link, end in ((spring.link, "place"), (spring.other, "other_place"))
        ]
        d, k = ends[1] - ends[0], number(tree, spring, "stiffness", parameters)
        stretched = d @ d
        if has(tree, spring, "rest"):
            stretched = (library(stretched).sqrt(stretched) - number(tree, spring, "rest", parameters)) ** 2
        total = total + 0.5 * k * stretched
    return total


def damping_force(tree: Tree, x: Any, xi: Array, parameters: Any, reduced: bool) -> Any:
    """Covector, shape=[n], of the dampers of springs between links: that of Rayleigh's function Σ ½ c (dL/dt)²."""
    springs = [spring for spring in tree.springs if has(tree, spring, "damping")]

    def dissipation(xi: Array) -> Any:
        at, total = states(tree, [n for s in springs for n in (s.link, s.other)], x, xi, parameters, reduced), 0.0
        for spring in springs:
            ends, rates = [], []
            for link, end in ((spring.link, "place"), (spring.other, "other_place")):
                place, (R, p, omega, v) = number(tree, spring, end, parameters), at[link]
                ends.append(p + R @ place)
                rates.append(R @ (v - hat(place) @ omega))
            d = ends[1] - ends[0]
            rate = d @ (rates[1] - rates[0])
            total = total + 0.5 * number(tree, spring, "damping", parameters) * rate * rate / (d @ d)
        return total

    return -jax.grad(dissipation)(xi)
