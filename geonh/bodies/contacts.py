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

from geonh.arguments.validators import as_constant, as_flag, as_text
from geonh.bodies.links import Joint, Vector, _set
from geonh.bodies.motion import Bodies, bodies, frames, hat, library, motion, number, rate_of
from geonh.bodies.plan import Tree

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

    def __post_init__(self) -> None:
        _set(
            self,
            name=as_text(self.name, "name of a wheel") or as_text(self.link, "link of a wheel"),
            radius=as_constant(self.radius, f"radius of wheel {self.link!r}", positive=True),
            centre=as_constant(self.centre, f"centre of wheel {self.link!r}", (3,)),
            grips=as_flag(self.grips, f"grips of wheel {self.link!r}"),
        )
        if self.axis is not None:
            _set(self, axis=_unit(self.axis, f"axis of wheel {self.link!r}"))


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

    def __post_init__(self) -> None:
        _set(
            self,
            name=as_text(self.name, "name of a blade") or as_text(self.link, "link of a blade"),
            centre=as_constant(self.centre, f"centre of blade {self.link!r}", (3,)),
            direction=_unit(self.direction, f"direction of blade {self.link!r}"),
        )


Contact = Wheel | Blade


def resolved(contacts: Sequence[Contact], tree: Tree) -> tuple[Contact, ...]:
    """Contacts with the axles of their joints.

    Raises
    ------
    TypeError, ValueError
        For another object, an unknown link, and a wheel without an axle on a link whose joint has no axis.
    """
    found: list[Contact] = []
    for contact in contacts:
        if not isinstance(contact, Wheel | Blade):
            raise TypeError(f"contacts must be Wheel or Blade, got {type(contact).__name__}")
        link = tree.by_name.get(contact.link)
        if link is None:
            raise ValueError(f"contacts: there is no link {contact.link!r}; there are {list(tree.by_name)}")
        if isinstance(contact, Wheel) and contact.axis is None:
            if link.joint.kind not in ("revolute", "continuous"):
                raise ValueError(f"wheel {contact.link!r} needs axis=: the joint of its link is {link.joint.kind}")
            contact = Wheel(contact.link, contact.radius, link.joint.axis, contact.centre, contact.grips, contact.name)
        found.append(contact)
    names = [contact.name for contact in found]
    if len(set(names)) < len(names):
        raise ValueError(f"contacts need names of their own, name=, got {names}")
    return tuple(found)


@dataclass(frozen=True)
class Rows:
    """Velocities at contacts that vanish, as ``VelocityForms`` takes them."""

    tree: Tree
    contacts: tuple[Contact, ...]
    reduced: bool

    def __call__(self, x: Any, xi: Array, parameters: Any) -> list[Array]:
        return [
            w for contact in at_contacts(self.tree, self.contacts, x, xi, parameters, self.reduced) for w in contact
        ]


@dataclass(frozen=True)
class Heights:
    """Heights of contacts above the plane, as ``System(holonomic=)`` takes them."""

    tree: Tree
    contacts: tuple[Contact, ...]

    def __call__(self, x: Any, parameters: Any) -> Array:
        found = heights(self.tree, self.contacts, x, parameters)
        return library(*found).stack(found)


class Seat(NamedTuple):
    """Where a contact is: a body (−1: space), the point and the direction there, and the joint about which it turns.

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
    seats, needed = [_seat(tree, contact, laid, parameters) for contact in contacts], set()
    for seat in seats:
        body = seat.body
        while body >= 0:
            needed.add(body)
            body = laid.bodies[body].parent
    return seats, frozenset(needed)


def at_contacts(
    tree: Tree, contacts: Sequence[Contact], x: Any, xi: Array, parameters: Any, reduced: bool
) -> list[list[Array]]:
    """Velocities, m/s, that vanish at each contact: along and across a wheel, across a blade."""
    laid = bodies(tree, parameters)
    seats, needed = _seated(tree, contacts, laid, parameters)
    moving = motion(tree, laid, frames(tree, laid, x, parameters, reduced, needed), xi, UP)
    still: Any = np.zeros((3, *np.shape(xi)[1:]))
    found = []
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
        found.append([direction @ w for direction in along])
    return found


def heights(tree: Tree, contacts: Sequence[Contact], x: Any, parameters: Any) -> list[Any]:
    """Height of each contact above the plane, m."""
    laid = bodies(tree, parameters)
    seats, needed = _seated(tree, contacts, laid, parameters)
    moving = motion(tree, laid, frames(tree, laid, x, parameters, False, needed), np.zeros(tree.dim), UP)
    found = []
    for contact, seat in zip(contacts, seats, strict=True):
        up = (moving.directions[seat.body] if seat.body >= 0 else UP)[:, 0]
        height = (moving.heights[seat.body][0] if seat.body >= 0 else 0.0) + up @ seat.centre
        if isinstance(contact, Wheel):
            lean = up @ seat.direction
            height = height - number(tree, contact, "radius", parameters) * library(lean).sqrt(1 - lean * lean)
        found.append(height)
    return found


def _unit(value: Any, name: str) -> np.ndarray:
    vector = as_constant(value, name, (3,))
    length = np.linalg.norm(vector)
    if abs(length - 1) > 1e-4:
        raise ValueError(f"{name} must have length one, got {value}")
    return vector / length
