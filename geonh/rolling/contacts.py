r"""Contact of a body with its surface: its point, starts in contact, and penetration elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.precision import is_traced
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_float64, shortly
from geonh.engine import computed, in_float64, traced_once
from geonh.geometry.field import Moment
from geonh.mechanics.system import System
from geonh.results.modes import Modes
from geonh.rolling.supports import Support
from geonh.rolling.surfaces import Surface

DEEP = 1e-9
"""Largest accepted penetration of a body into its surface, relative to its size."""
_TURN, _UP = np.pi * (1 + 5**0.5) * np.arange(1000), 1 - (2 * np.arange(1000) + 1) / 1000
DIRECTIONS = np.stack([np.sqrt(1 - _UP**2) * np.cos(_TURN), np.sqrt(1 - _UP**2) * np.sin(_TURN), _UP], axis=1)
"""Unit vectors, evenly distributed on a Fibonacci spiral."""


class Contact(NamedTuple):
    """Contact of a body with its surface.

    Attributes
    ----------
    place : array, shape=[3]
        The point X in space, m.
    normal : array, shape=[3]
        The surface's unit normal ν in space, towards the body.
    arm : array, shape=[3]
        ρ, from the centre of mass to X, in body axes, m.
    """

    place: Array
    normal: Array
    arm: Array


@validated
@in_float64
def contact(system: Any, g: Any, t: float = 0.0) -> Contact:
    """Contact point of a body of ``rolling``, actual or prospective; traceable, for forces and drawings.

    Parameters
    ----------
    system : System, Modes or mapping
        System of ``rolling``; or its parameters, as passed to ``forces``.
    g : array_like, shape=[4, 4]
        Configuration of the body.
    t : float
        Time, s.

    Returns
    -------
    Contact
        ``place``, ``normal`` and ``arm``, arrays of shape=[3].

    Raises
    ------
    TypeError, ValueError
        If the system is not one of ``rolling``, or ``g`` or ``t`` are not numbers of that shape.
    """
    parameters, node = as_placement(system, g, t)
    return touch(*node, parameters) if is_traced((parameters, node)) else computed(_contact_at, parameters, node)


@validated
def start(
    system: Any,
    rotation: Any = None,
    omega: Any = (0.0, 0.0, 0.0),
    *,
    place: Any = (0.0, 0.0, 0.0),
    slip: Any = (0.0, 0.0, 0.0),
    t0: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Consistent initial conditions of a body with given attitude and angular velocity, in contact at a given point.

    Parameters
    ----------
    system : System or Modes
        System of ``rolling``.
    rotation : array_like, shape=[3, 3], optional
        R, from body to space; the identity when left out.
    omega : array_like, shape=[3]
        Angular velocity in body axes, rad/s.
    place : array_like, shape=[3]
        Contact point, on the surface, metres.
    slip : array_like, shape=[3]
        Velocity in space of the body's point of contact relative to the surface, along it, m/s, of a body with friction
        that slides.
    t0 : float
        Time, s.

    Returns
    -------
    g0 : ndarray, shape=[4, 4]
        Configuration of the body.
    xi0 : ndarray, shape=[6]
        Its velocity (ω, v) in body axes.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If the place is not on the surface, the body would spin though ``spin`` is False, or it would not fit: it is not
        more curved than the surface there, or penetrates it elsewhere, as ``overlap`` measures.
    """
    system = system.systems[0] if isinstance(system, Modes) else system
    if not isinstance(system, System):
        raise TypeError(f"system must be a rolling body, a System or Modes, got {shortly(system)}")
    refuse_another(system.parameters, system)
    slip = as_float64(slip, "slip", (3,))
    R = np.eye(3) if rotation is None else as_float64(rotation, "rotation", (3, 3))
    turning, X = as_float64(omega, "omega", (3,)), as_float64(place, "place", (3,))
    t0 = as_float64(t0, "t0", ())
    level, arm, g, xi, off, clears, deep = computed(_started, system, (np.float64(t0), X, R, turning))
    if abs(level) > 1e-9:
        raise ValueError(f"place {X} does not lie on the surface of {system.name}: ψ = {level:.3g} there")
    if not np.all(np.isfinite(arm)):
        raise ValueError(f"{system.name} does not touch in a single point with that attitude")
    if not clears:
        raise ValueError(
            f"{system.name} is not more curved than its surface at {X} with that attitude, so it cannot touch there: "
            "it would sink in about the contact; a smaller or rounder body, or another attitude, fits into the hollow"
        )
    system.point(g, name="rotation")
    if deep > DEEP * (1 + np.abs(g[:3, 3] - X).max()):
        raise ValueError(
            f"{system.name} touches at {X} with that attitude, but elsewhere it reaches {deep:.3g} m through its "
            "surface; overlap tells it of any place"
        )
    if np.abs(off).max() > 1e-9 * (1 + np.abs(xi).max()):
        raise ValueError(f"omega = {turning} is not allowed to {system.name}: residual {off}")
    if np.any(slip) and "friction" not in system.parameters:
        raise ValueError(f"{system.name} rolls without sliding: slip= is for bodies with friction=")
    along = np.asarray(system.parameters["on"].normal(Moment(t0, X), system.parameters)) @ slip
    if abs(along) > 1e-9 * (1 + np.abs(slip).max()):
        raise ValueError(f"slip must be along the surface, got {slip} with a normal part of {along:.3g}")
    return g, xi + np.concatenate([np.zeros(3), R.T @ slip])


@validated
@in_float64
def overlap(system: Any, g: Any, t: float = 0.0) -> Array:
    """Penetration depth of a body into its surface, m, negative if there is none; traceable, for events.

    It is sampled at the points with normals in 1000 directions: penetration between them, up to about a thousandth of
    the size of the body, is not detected, nor is a bump under a flat side.

    Parameters
    ----------
    system : System, Modes or mapping
        System of ``rolling``; or its parameters.
    g : array_like, shape=[4, 4]
        Configuration of the body.
    t : float
        Time, s.

    Returns
    -------
    array, shape=[]
        Maximum of −ψ/|∇ψ|.

    Raises
    ------
    TypeError, ValueError
        If the system is not one of ``rolling``, or ``g`` or ``t`` are not numbers of that shape.
    """
    parameters, node = as_placement(system, g, t)
    if is_traced(*node, parameters):
        return _overlap(*node, parameters)
    return computed(_overlapped, parameters, node)


def _overlapped(parameters: Any, node: tuple) -> Array:
    return _overlap(*node, parameters)


@traced_once
def _overlap(t: Any, g: Any, parameters: Any) -> Array:
    R, centre = g[:3, :3], g[:3, 3]

    def depth(n: Array) -> Array:
        X = centre + R @ parameters["support"].point(n)
        level, slope = jax.value_and_grad(lambda y: parameters["on"].value(Moment(t, y), parameters))(X)
        return -level / jnp.sqrt(slope @ slope)

    depths = jax.vmap(depth)(jnp.asarray(DIRECTIONS))
    return jnp.max(jnp.where(jnp.isnan(depths), -jnp.inf, depths))


def as_placement(system: Any, g: Any, t: Any) -> tuple[Mapping[str, Any], tuple[Any, Any]]:
    """Parameters of a system of ``rolling``, or those given in its place, and (t, g) as float64 arrays."""
    system = system.systems[0] if isinstance(system, Modes) else system
    parameters = system if isinstance(system, Mapping) else getattr(system, "parameters", {})
    refuse_another(parameters, system)
    return parameters, (as_float64(t, "t", ()), as_float64(g, "g", (4, 4)))


def refuse_another(parameters: Any, system: Any) -> None:
    kinds = {"on": Surface, "support": Support}
    if not isinstance(parameters, Mapping) or not all(isinstance(parameters.get(k), kinds[k]) for k in kinds):
        raise TypeError(f"system must be one that geonh.rolling made, or its parameters; got {shortly(system)}")


def _started(system: System, node: tuple) -> tuple[Array, ...]:
    """ψ at the contact point, the arm, the initial state, its constraint residual, True if the body is more
    curved than its surface, and the penetration depth.
    """
    (t, X, R, turning), parameters = node, system.parameters
    here = Moment(t, X)
    arm = parameters["support"].point(-(parameters["on"].normal(here, parameters) @ R))
    xi = jnp.concatenate([turning, R.T @ surface_velocity(here, parameters) - jnp.cross(turning, arm)])
    g = jnp.concatenate([jnp.concatenate([R, (X - R @ arm)[:, None]], axis=1), jnp.eye(4)[3:]])
    level, off = parameters["on"].value(here, parameters), system.constraint_residual(system.at(g, t), xi)
    clears = parameters["on"].clears(
        parameters["support"], -(parameters["on"].normal(here, parameters) @ R), R, Moment(t, X - R @ arm), parameters
    )
    return level, arm, g, xi, off, clears, _overlap(t, g, parameters)


@traced_once
def touch(t: Any, x: Any, parameters: Any) -> Contact:
    """Contact at time t of a body at x, shape=[4, 4]."""
    R, centre = x[:3, :3], x[:3, 3]
    n = parameters["on"].outward(parameters["support"], R, Moment(t, centre), parameters)
    arm = parameters["support"].point(n)
    place = centre + R @ arm
    return Contact(place, parameters["on"].normal(Moment(t, place), parameters), arm)


def _contact_at(parameters: Any, node: tuple) -> Contact:
    return touch(*node, parameters)


def material_velocity(X: Moment, parameters: Any) -> Array:
    """Velocity u(t, X), zero where the surface is at rest."""
    velocity = parameters["surface velocity"](X, parameters) if "surface velocity" in parameters else jnp.zeros(3)
    if velocity.shape != (3,):
        raise ValueError(f"surface_velocity must give shape [3], got {list(velocity.shape)}")
    return velocity


def surface_velocity(X: Moment, parameters: Any) -> Array:
    """Velocity, shape=[3], of a point in rolling contact at X: u along the surface, −∂_tψ/|∇ψ| across it."""
    nu, u = parameters["on"].normal(X, parameters), material_velocity(X, parameters)
    rising = jax.grad(lambda t: parameters["on"].value(Moment(t, X.x), parameters))(X.t)
    slope = jax.grad(lambda y: parameters["on"].value(Moment(X.t, y), parameters))(X.x)
    return u - (nu @ u + rising / jnp.sqrt(slope @ slope)) * nu
