"""Rows of the constraints of a tree: heights of contacts, loops and prescribed joints, and velocities at contacts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
from jax import Array

from geonh.arguments.purity import Pure
from geonh.bodies.contacts import Blade, Seated, Wheel, at_contacts, heights
from geonh.bodies.kinematic_tree import Tree
from geonh.bodies.loops import Loop, residuals, row_names
from geonh.bodies.motion import poses, states
from geonh.bodies.touching import Touching
from geonh.geometry.field import evaluated


@dataclass(frozen=True)
class Velocities(Pure):
    """Velocities at contacts that vanish, as ``VelocityForms`` takes them: those of wheels and blades first."""

    tree: Tree
    contacts: tuple[Seated, ...]
    reduced: bool

    def __call__(self, x: Any, xi: Array, parameters: Any) -> list[Array]:
        on_plane, touching = parted(self.contacts)
        rows: list[Array] = []
        if on_plane:
            rows += [
                w for contact in at_contacts(self.tree, on_plane, x, xi, parameters, self.reduced) for w in contact
            ]
        if touching:
            at = states(self.tree, [c.link for c in touching], x, xi, parameters, self.reduced)
            rows += [w for c in touching for w in c.velocities(self.tree, at[c.link], parameters)]
        return rows

    @property
    def names(self) -> list[str]:
        """Names of the rows."""
        on_plane, touching = parted(self.contacts)
        return [name for contact in (*on_plane, *touching) for name in contact.row_names]


def parted(contacts: tuple[Seated, ...]) -> tuple[list[Wheel | Blade], list[Touching]]:
    """Contacts of wheels and blades, and those of support functions."""
    on_plane = [contact for contact in contacts if not isinstance(contact, Touching)]
    return on_plane, [contact for contact in contacts if isinstance(contact, Touching)]


@dataclass(frozen=True)
class Held(Pure):
    """Positions that vanish, as ``System(holonomic=)`` takes them, or some of them alone: heights of contacts, loops,
    and joints whose coordinate is prescribed.
    """

    tree: Tree
    contacts: tuple[Seated, ...]
    loops: tuple[Loop, ...]
    prescribed: tuple[tuple[str, Callable], ...]
    reduced: bool
    kept: tuple[int, ...] | None = None

    def __call__(self, x: Any, parameters: Any) -> Array:
        return self.in_time(0.0, x, parameters)

    def in_time(self, t: Any, x: Any, parameters: Any) -> Array:
        """Positions at a time, shape=[k]."""
        on_plane, touching = parted(self.contacts)
        rows: list[Any] = heights(self.tree, on_plane, x, parameters, self.reduced) if on_plane else []
        if touching:
            at = poses(self.tree, x, parameters, self.reduced, [c.link for c in touching])
            rows += [c.height(self.tree, at[c.link], parameters) for c in touching]
        if self.loops:
            rows += residuals(self.tree, self.loops, x, parameters, self.reduced)
        if self.prescribed:
            q = self.tree.coordinates(x, self.reduced)
            rows += [q[name] - evaluated(f"prescribed[{name!r}]", course, t) for name, course in self.prescribed]
        return jnp.stack(rows if self.kept is None else [rows[i] for i in self.kept])

    @property
    def names(self) -> list[str]:
        """Names of the rows in use."""
        on_plane, touching = parted(self.contacts)
        every = [f"height of contact {contact.name!r}" for contact in (*on_plane, *touching)]
        every += [name for loop in self.loops for name in row_names(loop)]
        every += [f"prescribed joint {name!r}" for name, _ in self.prescribed]
        return every if self.kept is None else [every[i] for i in self.kept]

    def only(self, kept: list[int]) -> Held | None:
        """Some of the rows; None if there are none."""
        return replace(self, kept=tuple(kept)) if kept else None
