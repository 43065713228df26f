r"""Wheels and blades on the plane z = 0, on any link: rows of the Jacobian of the link, and heights.

With γ the vertical in the axes of the link, a thin wheel of radius r, centre c and axle a touches at

    ρ = c − r (γ − (γ·a)a)/n,   n = √(1 − (γ·a)²),

where its velocity w = v + ω × ρ vanishes along (a × γ)/n and across, (a − (γ·a)γ)/n; its centre is r n above the plane.
The edge d of a blade at the point c does not move across, along (γ × d)/|γ × d|.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jax import Array

from geonh.arguments.validators import as_constant, as_flag, as_text, shortly
from geonh.bodies.kinematic_tree import Tree
from geonh.bodies.links import Joint
from geonh.bodies.motion import Bodies, ahead_of, bodies, frames, hat, library, motion, number, rate_of
from geonh.bodies.touching import Rolling, Touching
from geonh.bodies.values import Vector, as_unit, set_fields

UP = np.array([[0.0], [0.0], [1.0]])
"""The vertical, as a column."""
ALIGNED = 1e-12
"""Largest distance, m, and difference of directions at which an axle counts as the axis of a joint."""


@dataclass(frozen=True)
class Wheel:
    """Thin wheel that rolls on the plane z = 0 without slipping.

    Parameters
    ----------
    link : str
        Link that turns with it.
    radius : float
        Radius, m; the parameter "name.radius" if it is among ``varied``.
    axis : array_like, shape=[3]
        Axle in the link's axes, a unit vector; that of the link's joint when left out.
    centre : array_like, shape=[3]
        Its centre in the link's frame, m.
    grips : bool
        True if it does not slide sideways. Of several wheels on one axle one is enough; the rows of the others are
        redundant.
    name : str
        Its name; that of the link when left out.

    Raises
    ------
    TypeError, ValueError
        For invalid numbers.
    """

    link: str
    radius: float
    axis: Vector | None = None
    centre: Any = (0.0, 0.0, 0.0)
    grips: bool = True
    name: str = ""

    sizes: ClassVar[tuple[str, ...]] = ("radius", "centre")

    @property
    def row_names(self) -> list[str]:
        """Names of the rows of velocities."""
        return [f"wheel {self.name!r} {way}" for way in ("along", *(["across"] if self.grips else []))]

    def __post_init__(self) -> None:
        set_fields(
            self,
            link=(link := as_text(self.link, "link of a wheel")),
            name=as_text(self.name, "name of a wheel") or link,
            radius=as_constant(self.radius, f"radius of wheel {self.link!r}", positive=True),
            centre=as_constant(self.centre, f"centre of wheel {self.link!r}", (3,)),
            grips=as_flag(self.grips, f"grips of wheel {self.link!r}"),
        )
        if self.axis is not None:
            set_fields(self, axis=as_unit(self.axis, f"axis of wheel {self.link!r}"))


@dataclass(frozen=True)
class Blade:
    """Knife edge or skate on the plane z = 0, which does not slide sideways.

    Parameters
    ----------
    link : str
        Link that carries it.
    centre : array_like, shape=[3]
        Point of contact in the link's frame, m.
    direction : array_like, shape=[3]
        Its edge in the link's axes, a unit vector.
    name : str
        Its name; that of the link when left out.

    Raises
    ------
    TypeError, ValueError
        For invalid numbers.
    """

    link: str
    centre: Any = (0.0, 0.0, 0.0)
    direction: Any = (1.0, 0.0, 0.0)
    name: str = ""

    sizes: ClassVar[tuple[str, ...]] = ("centre",)

    @property
    def row_names(self) -> list[str]:
        """Names of the rows of velocities."""
        return [f"blade {self.name!r} across"]

    def __post_init__(self) -> None:
        set_fields(
            self,
            link=(link := as_text(self.link, "link of a blade")),
            name=as_text(self.name, "name of a blade") or link,
            centre=as_constant(self.centre, f"centre of blade {self.link!r}", (3,)),
            direction=as_unit(self.direction, f"direction of blade {self.link!r}"),
        )


Contact = Wheel | Blade
Seated = Wheel | Blade | Touching
"""Contacts as a tree has them."""


def with_axles(contacts: Sequence[Any], tree: Tree) -> tuple[Seated, ...]:
    """Contacts with the axles of their joints; those of support functions without their shapes. Raises ValueError for
    an unknown link, and a wheel without an axle on a link whose joint has no axis.
    """
    seated: list[Seated] = []
    for contact in contacts:
        link = tree.by_name.get(contact.link)
        if link is None:
            raise ValueError(f"contacts: there is no link {shortly(contact.link)}; there are {list(tree.by_name)}")
        if isinstance(contact, Wheel) and contact.axis is None:
            if link.joint.kind not in ("revolute", "continuous"):
                raise ValueError(f"wheel {contact.link!r} needs axis=: the joint of its link is {link.joint.kind}")
            contact = Wheel(contact.link, contact.radius, link.joint.axis, contact.centre, contact.grips, contact.name)
        seated.append(contact.bare if isinstance(contact, Rolling) else contact)
    names = [contact.name for contact in seated]
    if len(set(names)) < len(names):
        raise ValueError(f"contacts need names of their own, name=, got {names}")
    return tuple(seated)


class Seat(NamedTuple):
    """Place of a contact: a body (−1: space), the point and the direction there, and the joint about which it turns.

    A wheel about the axis of its joint is seated in the body that carries it, where its angle does not matter.
    """

    body: int
    centre: Any
    direction: Any
    turning: Joint | None


def _seat(tree: Tree, contact: Contact, laid: Bodies, parameters: Any) -> Seat:
    place, direction = laid.places[contact.link], contact.axis if isinstance(contact, Wheel) else contact.direction
    along, centre = place.R @ np.asarray(direction), place.p + place.R @ number(tree, contact, "centre", parameters)
    if isinstance(contact, Blade) or place.body < 0:
        return Seat(place.body, centre, along, None)
    body = laid.bodies[place.body]
    axis, joint = np.asarray(body.joint.axis), body.joint
    turns = joint.kind in ("revolute", "continuous") and np.abs(along - axis).max() < ALIGNED
    if not turns or not isinstance(centre, np.ndarray) or np.abs(np.cross(centre, axis)).max() > ALIGNED:
        return Seat(place.body, centre, along, None)
    return Seat(body.parent, body.p + body.R @ centre, body.R @ axis, joint)


def _seated(
    tree: Tree, contacts: Sequence[Contact], laid: Bodies, parameters: Any
) -> tuple[list[Seat], frozenset[int]]:
    """Seats of contacts, and the bodies on which they depend."""
    seats = [_seat(tree, contact, laid, parameters) for contact in contacts]
    return seats, ahead_of(laid, [seat.body for seat in seats])


def at_contacts(
    tree: Tree, contacts: Sequence[Contact], x: Any, xi: Array, parameters: Any, reduced: bool
) -> list[list[Array]]:
    """Velocities, m/s, that vanish at each contact: along and across a wheel, across a blade."""
    laid = bodies(tree, parameters)
    seats, needed = _seated(tree, contacts, laid, parameters)
    moving = motion(tree, laid, frames(tree, laid, x, parameters, reduced, needed), xi, UP)
    still: Any = np.zeros((3, *np.shape(xi)[1:]))
    velocities = []
    for contact, seat in zip(contacts, seats, strict=True):
        omega = moving.omega[seat.body] if seat.body >= 0 else still
        v = moving.v[seat.body] if seat.body >= 0 else still
        up, a = (moving.directions[seat.body] if seat.body >= 0 else UP)[:, 0], seat.direction
        w = v - hat(seat.centre) @ omega
        if isinstance(contact, Wheel):
            lean = up @ a
            n = library(lean).sqrt(1 - lean * lean)
            arm = -number(tree, contact, "radius", parameters) * (up - lean * a) / n
            if seat.turning is not None:
                omega = omega + a[:, None] @ rate_of(tree, seat.turning, xi)
            w = w - hat(arm) @ omega
            along = [hat(a) @ up / n, *([(a - lean * up) / n] if contact.grips else [])]
        else:
            aside = -hat(a) @ up
            along = [aside / library(aside).sqrt(aside @ aside)]
        velocities.append([direction @ w for direction in along])
    return velocities


def heights(tree: Tree, contacts: Sequence[Contact], x: Any, parameters: Any, reduced: bool = False) -> list[Any]:
    """Height of each contact above the plane, m."""
    laid = bodies(tree, parameters)
    seats, needed = _seated(tree, contacts, laid, parameters)
    moving = motion(tree, laid, frames(tree, laid, x, parameters, reduced, needed), np.zeros(tree.dim), UP)
    above_plane = []
    for contact, seat in zip(contacts, seats, strict=True):
        up = (moving.directions[seat.body] if seat.body >= 0 else UP)[:, 0]
        height = (moving.heights[seat.body][0] if seat.body >= 0 else 0.0) + up @ seat.centre
        if isinstance(contact, Wheel):
            lean = up @ seat.direction
            height = height - number(tree, contact, "radius", parameters) * library(lean).sqrt(1 - lean * lean)
        above_plane.append(height)
    return above_plane
