"""A contact that gives way: its rows among those of a system, the limits of its force, and its states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from geonh.geometry.field import Moment
from geonh.mechanics.friction import Friction
from geonh.mechanics.system import System

HOLDS, SLIPS, FREE = 0, 2, 3
"""States of a contact: it holds, slips in any direction, is open; ±1 is a slip along one row."""


class Grip(NamedTuple):
    """One row among the forms or two, names of the parameters that are F_s and F, or μ_s and μ of a normal force.

    ``frame(t, x, parameters)``, shape=[rows, k], has the directions of the rows, where these jump, in axes in which the
    slip does not. One that lifts and lands has a restitution, a parameter of that name, and a height, ``normal``.
    """

    rows: tuple[int, ...]
    static: str
    kinetic: str
    normal: Any = None
    frame: Callable | None = None
    restitution: str | None = None

    @property
    def lifts(self) -> bool:
        """True if it may be free."""
        return self.restitution is not None

    @property
    def states(self) -> tuple[int, ...]:
        """States that it may have."""
        slips = (1, -1) if len(self.rows) == 1 and self.normal is None else (SLIPS,)
        return (HOLDS, *slips, *[FREE] * self.lifts)

    def friction(self, system: System) -> Friction:
        """Friction of the slip along its rows in a system."""
        # of a known force the parameter is the force itself, the coefficient of a load of 1
        pressed = {"load": 1.0} if self.normal is None else {"normal": self.normal}
        return Friction(SlipOf(system, self.rows, self.frame), self.kinetic, **pressed)


class SlipOf(eqx.Module):
    """Velocity along rows, of the system in which they are, in the axes of their frame."""

    system: System
    rows: tuple[int, ...] = eqx.field(static=True)
    frame: Callable | None

    def __call__(self, t: Any, x: Any, xi: Array, parameters: Any) -> Array:
        D = self.system.distribution
        assert D is not None
        along = D.residual(xi, Moment(jnp.asarray(t, float), x), parameters)[jnp.array(self.rows)]
        return along if self.frame is None else along @ self.frame(t, x, parameters)
