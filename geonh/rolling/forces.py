r"""Velocity and force of a contact, in space.

With the arm ρ from the centre of mass to the point of contact, the surface's normal ν and two tangents T there, and the
velocity u of the surface's material,

    w = R(v + ω×ρ) − u = Jξ − u,    F = λ₀|∇ψ| ν + Tᵀ(λ₁, λ₂).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.precision import is_traced
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_float64
from geonh.engine import computed, in_float64
from geonh.geometry.field import Moment
from geonh.rolling.contacts import as_placement, surface_velocity, touch
from geonh.rolling.rows import tangents


class ContactForce(NamedTuple):
    """Force of a surface on a body in contact with it.

    Attributes
    ----------
    force : array, shape=[3]
        In space, at the point of contact, N; its part along ``normal`` is positive where the surface pushes.
    moment : array, shape=[3]
        In space, about the normal, N m, on a body that may not spin; else zero.
    place : array, shape=[3]
        The point of contact in space, m.
    normal : array, shape=[3]
        The surface's unit normal in space, towards the body.
    """

    force: Array
    moment: Array
    place: Array
    normal: Array


class ContactVelocity(NamedTuple):
    """Velocity of the body at a contact: ν and T as rows, shapes [3] and [2, 3], J, shape=[3, 6], and w, shape=[3]."""

    normal: Array
    tangents: Array
    jacobian: Array
    relative: Array


@validated
@in_float64
def contact_force(system: Any, g: Any, multipliers: Any, t: float = 0.0) -> ContactForce:
    """Force of the surface on a body of ``rolling``, of the multipliers that a trajectory or an event has.

    Parameters
    ----------
    system : System or mapping
        System of ``rolling``, in whatever mode; or its parameters.
    g : array_like, shape=[4, 4]
        Configuration of the body.
    multipliers : array_like, shape=[m]
        λ there: of the contact alone (a body that slides), of it and the two tangential rows, or these and the spin;
        the nan that a run has at the end, where a mode has fewer than another, are left out.
    t : float
        Time, s.

    Returns
    -------
    ContactForce
        ``force``, ``moment``, ``place`` and ``normal``, arrays of shape=[3]. Of a body that slides it is the normal
        force; its friction is −μ times that along the slip.

    Raises
    ------
    TypeError, ValueError
        If the system is not one of ``rolling``, the others are not numbers of that shape, or the body is in the air.
    """
    parameters, node = as_placement(system, g, t)
    lam = as_float64(multipliers, "multipliers", finite=False)
    if lam.ndim == 1 and not is_traced(lam):
        lam = as_float64(lam[: np.max(np.flatnonzero(~np.isnan(lam)), initial=-1) + 1], "multipliers")
    if not lam.size:
        raise ValueError("multipliers has no numbers: there is no contact there")
    if lam.ndim != 1 or len(lam) not in (1, 3, 4):
        raise ValueError(f"multipliers must be those of one node, of shape [1], [3] or [4], got {list(lam.shape)}")
    at = (*node, lam)
    return _force(parameters, at) if is_traced((parameters, at)) else computed(_force, parameters, at)


def contact_velocity(t: Any, x: Any, xi: Array, parameters: Any) -> ContactVelocity:
    """Velocity of the body's point of contact relative to the surface, at an actual or prospective contact."""
    touching = touch(t, x, parameters)
    a, b, c = touching.arm
    turning = jnp.array([[0.0, c, -b], [-c, 0.0, a], [b, -a, 0.0]])  # ω ↦ ω × ρ
    J = x[:3, :3] @ jnp.concatenate([turning, jnp.eye(3)], axis=1)
    relative = J @ xi - surface_velocity(Moment(t, touching.place), parameters)
    return ContactVelocity(touching.normal, tangents(touching.normal), J, relative)


def slip(t: Any, x: Any, xi: Array, parameters: Any) -> Array:
    """Slip velocity w_t in space, shape=[3]."""
    at = contact_velocity(t, x, xi, parameters)
    return at.relative - (at.normal @ at.relative) * at.normal


def normal_force(t: Any, x: Any, lam: Array, parameters: Any) -> Array:
    """Normal force λ₀|∇ψ|, N, a scalar, of multipliers of shape=[m]."""
    place = touch(t, x, parameters).place
    slope = jax.grad(lambda y: parameters["on"].value(Moment(t, y), parameters))(place)
    return lam[0] * jnp.sqrt(slope @ slope)


def _force(parameters: Any, node: tuple) -> ContactForce:
    t, x, lam = node
    touching = touch(t, x, parameters)
    force = normal_force(t, x, lam, parameters) * touching.normal
    if len(lam) > 1:
        force = force + lam[1:3] @ tangents(touching.normal)
    moment = lam[3] * touching.normal if len(lam) > 3 else jnp.zeros(3)
    return ContactForce(force, moment, touching.place, touching.normal)
