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

RESISTANCE = {"turn": "rolling resistance", "spin": "spinning friction"}
"""Names of the parameters of resistance, by the motions that they resist."""
HELD = {"slip": (1, 2), "turn": (4, 5), "spin": (3,)}
"""Places of the multipliers that hold a motion, among those of the contact, the slip, spin and rolling."""
MODES = {
    "slide": (),
    "slide without spin": ("spin",),
    "skid and spin": ("turn",),
    "skid": ("turn", "spin"),
    "roll": ("slip",),
    "roll without spin": ("slip", "spin"),
    "spin": ("slip", "turn"),
    "rest": ("slip", "turn", "spin"),
}
"""Motions held in the modes of a body whose surface resists rolling and spinning."""


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
def contact_force(system: Any, g: Any, multipliers: Any, t: float = 0.0, *, mode: str | None = None) -> ContactForce:
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
    mode : str, optional
        Mode of a body whose surface resists rolling or spinning, by which its multipliers are known.

    Returns
    -------
    ContactForce
        ``force``, ``moment``, ``place`` and ``normal``, arrays of shape=[3]. Of a body that slides it is the normal
        force; its friction is −μ times that along the slip. Moments are those that hold the body, as in "rest".

    Raises
    ------
    TypeError, ValueError
        If the system is not one of ``rolling``, the others are not numbers of that shape, or the body is in the air; if
        a mode is needed, and none of its own is given.
    """
    parameters, node = as_placement(system, g, t)
    held = _held(parameters, mode)
    lam = as_float64(multipliers, "multipliers", finite=False)
    if lam.ndim == 1 and not is_traced(lam):
        lam = as_float64(lam[: np.max(np.flatnonzero(~np.isnan(lam)), initial=-1) + 1], "multipliers")
    if not lam.size:
        raise ValueError("multipliers has no numbers: there is no contact there")
    sizes = (1, 3, 4) if held is None else (1 + sum(len(HELD[what]) for what in held),)
    if lam.ndim != 1 or len(lam) not in sizes:
        shapes = " or ".join(f"[{size}]" for size in sizes)
        raise ValueError(f"multipliers must be those of one node, of shape {shapes}, got {list(lam.shape)}")
    if held is not None:
        lam = _in_places(lam, held)
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


def _held(parameters: Any, mode: str | None) -> tuple[str, ...] | None:
    """Motions held in a mode with resistance; None of other bodies."""
    if not any(name in parameters for name in RESISTANCE.values()):
        if mode not in (None, "roll", "slide", "free"):
            raise ValueError(f"mode must be that of the node, roll, slide or free, got {mode!r}")
        return None
    if mode not in MODES:
        raise ValueError(
            f"mode must be that of the node, one of {', '.join(MODES)}, got {mode!r}: the body has resistance"
        )
    return tuple(what for what in MODES[mode] if RESISTANCE.get(what, "friction") in parameters)


def _in_places(lam: Array, held: tuple[str, ...]) -> Array:
    """Multipliers of the contact, the slip, spin and rolling, zero where they are not held, shape=[6]."""
    places = [0, *(place for what in held for place in HELD[what])]
    return jnp.zeros(6).at[jnp.array(places)].set(jnp.asarray(lam))


def _force(parameters: Any, node: tuple) -> ContactForce:
    t, x, lam = node
    touching = touch(t, x, parameters)
    force = normal_force(t, x, lam, parameters) * touching.normal
    if len(lam) > 1:
        force = force + lam[1:3] @ tangents(touching.normal)
    moment = lam[3] * touching.normal if len(lam) > 3 else jnp.zeros(3)
    if len(lam) > 4:
        moment = moment + lam[4:] @ tangents(touching.normal)
    return ContactForce(force, moment, touching.place, touching.normal)
