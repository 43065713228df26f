r"""The slip with which a contact that held gives way.

The direction d in which a slip begins is that of its own acceleration under friction in that direction, found by
iteration. Where the force that held it just reaches the limit of sliding friction it has none, and d is against that
force.

Source: M. Antali, G. Stépán, *Nonsmooth analysis of three-dimensional slipping and rolling in the presence of dry
friction*, Nonlinear Dynamics 97 (2019).
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array, lax

from geonh.geometry.field import Moment
from geonh.mechanics.equations import accelerations_at
from geonh.mechanics.system import System

BEGINNING = 1e-10
"""Speed, relative to 1 m/s and the velocity, with which a slip begins, so that it has a direction."""
SMOOTH = 1e-7
"""The same for a slip that begins without acceleration, where the force that held reaches that of friction: its speed
grows with t² only, and the direction of a slower one is lost among the roundings of a step."""
STEPS = 60
"""Steps of the iteration for the direction in which a slip begins."""
LITTLE = 1e-8
"""Acceleration of a beginning slip, relative to that by the force of friction, at which its direction is that against
the force that held."""


def beginning(
    slides: System, which: int, t: Array, x: Any, xi: Array, force: Array, basis: Array, u: Any = None
) -> Array:
    """Slip that begins, in a basis, shape=[j], relative to 1 m/s and the velocity.

    Parameters
    ----------
    slides : System
        The system with the contact sliding.
    which : int
        Number of its friction there.
    t, x, xi, u : array, base point, array of shape=[n], controls
        Where it begins; the velocity has no slip.
    force : array, shape=[j]
        Force that held the contact, in the basis.
    basis : array, shape=[j, k]
        Directions of length one among those of the slip.
    """
    some = force @ force > 0  # where there is none, as in contacts that open at this instant, all directions are alike
    against = jnp.where(some, -force, jnp.eye(len(force))[0]) / jnp.sqrt(jnp.where(some, force @ force, 1.0))

    def accelerated(d: Array) -> Array:
        assert slides.multiplier_forces is not None
        friction = slides.multiplier_forces.function.parts[which]
        held = slides.multiplier_forces.changed(which, friction.at_slip(d @ basis, begins=True))
        rate = accelerations_at(eqx.tree_at(lambda s: s.multiplier_forces, slides, held), t, x, xi, u)[0]
        at = x if isinstance(x, Moment) else Moment(jnp.asarray(t, float), x)
        along = jax.jvp(
            lambda t, x, xi: friction.velocity(t, x, xi, slides.parameters),
            (at.t, at.x, xi),
            (jnp.ones(()), slides.action.anchor(at.x, xi), rate),
        )[1]
        return basis @ along

    def nearer(_: Any, d: Array) -> Array:
        change = accelerated(d)
        size = jnp.sqrt(change @ change)
        change = change / jnp.where(size > 0, size, 1.0)
        mean = jnp.where(size > 0, d + change, d)
        some = mean @ mean > 0
        return jnp.where(some, mean, d) / jnp.sqrt(jnp.where(some, mean @ mean, 1.0))

    first = accelerated(against)
    by_friction = (first - accelerated(-against)) / 2
    large = jnp.sqrt(first @ first) > LITTLE * jnp.sqrt(by_friction @ by_friction)
    return jnp.where(large, BEGINNING * lax.fori_loop(0, STEPS, nearer, against), SMOOTH * against)
