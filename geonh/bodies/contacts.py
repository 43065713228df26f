r"""Wheels and blades on the plane z = 0, on any link: rows of the Jacobian of the link, and heights.

With γ the vertical in the axes of the link, a thin wheel of radius r, centre c and axle a touches at

    ρ = c − r (γ − (γ·a)a)/n,   n = √(1 − (γ·a)²),

where its velocity w = v + ω × ρ vanishes along (a × γ)/n and across, (a − (γ·a)γ)/n; its centre is r n above the plane.
The edge d of a blade at the point c does not move across, along (γ × d)/|γ × d|.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jax import Array

from geonh.arguments.signatures import argument_type
from geonh.arguments.validators import as_flag, as_float64, as_positive
from geonh.bodies.links import Vector, _set
from geonh.bodies.motion import Frame, bodies, frames, hat, library, motion, number
from geonh.bodies.plan import Tree

UP = np.array([[0.0], [0.0], [1.0]])
"""The vertical, as a column."""


@argument_type
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
        True if it does not slide sideways; of several wheels on one axle only one may, else the rows are redundant.
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
            name=self.name or self.link,
            radius=as_positive(self.radius, f"radius of wheel {self.link!r}", ()),
            centre=as_float64(self.centre, f"centre of wheel {self.link!r}", (3,)),
            grips=as_flag(self.grips, f"grips of wheel {self.link!r}"),
        )
        if self.axis is not None:
            _set(self, axis=_unit(self.axis, f"axis of wheel {self.link!r}"))


@argument_type
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
            name=self.name or self.link,
            centre=as_float64(self.centre, f"centre of blade {self.link!r}", (3,)),
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
        laid = bodies(self.tree, parameters)
        at = frames(self.tree, laid, x, parameters, False)
        found = [_height(self.tree, contact, laid, at, parameters) for contact in self.contacts]
        return library(*found).stack(found)


def at_contacts(
    tree: Tree, contacts: Sequence[Contact], x: Any, xi: Array, parameters: Any, reduced: bool
) -> list[list[Array]]:
    """Velocities, m/s, that vanish at each contact: along and across a wheel, across a blade."""
    laid = bodies(tree, parameters)
    at = frames(tree, laid, x, parameters, reduced)
    moving = motion(tree, laid, at, xi, UP)
    found = []
    for contact in contacts:
        place = laid.places[contact.link]
        up = moving.directions[place.body][:, 0]
        centre = place.p + place.R @ number(tree, contact, "centre", parameters)
        if isinstance(contact, Wheel):
            a = place.R @ np.asarray(contact.axis)
            lean = up @ a
            n = library(lean).sqrt(1 - lean * lean)
            point = centre - number(tree, contact, "radius", parameters) * (up - lean * a) / n
            along = [hat(a) @ up / n, *([(a - lean * up) / n] if contact.grips else [])]
        else:
            aside = -hat(place.R @ np.asarray(contact.direction)) @ up
            point, along = centre, [aside / library(aside).sqrt(aside @ aside)]
        w = moving.v[place.body] - hat(point) @ moving.omega[place.body]
        found.append([direction @ w for direction in along])
    return found


def _height(tree: Tree, contact: Contact, laid: Any, at: list[Frame], parameters: Any) -> Array:
    moving = motion(tree, laid, at, np.zeros(tree.dim), UP)
    place = laid.places[contact.link]
    up = moving.directions[place.body][:, 0]
    height = moving.heights[place.body][0] + up @ (place.p + place.R @ number(tree, contact, "centre", parameters))
    if isinstance(contact, Blade):
        return height
    lean = up @ (place.R @ np.asarray(contact.axis))
    return height - number(tree, contact, "radius", parameters) * library(lean).sqrt(1 - lean * lean)


def _unit(value: Any, name: str) -> np.ndarray:
    vector = as_float64(value, name, (3,))
    length = np.linalg.norm(vector)
    if abs(length - 1) > 1e-4:
        raise ValueError(f"{name} must have length one, got {value}")
    return vector / length
