r"""Planar bodies on knife edges and wheels, with steering, rolling angles and trailers, on SE(2) × Tᵏ.

Each body of the chain has a frame in which its velocity is (ω, u, v), linear in ξ. At a point (x, y) of it

    along = cos α (u − ωy) + sin α (v + ωx),      across = −sin α (u − ωy) + cos α (v + ωx)

in the direction α of an edge or wheel, to which a steering angle adds. A knife edge imposes across = 0, a wheel of
radius r with the rolling angle χ also along = rχ̇. A trailer is attached by a hinge to the body ahead, at the angle
θ, with its own frame a length L behind the hinge:

    ω' = ω + θ̇,   u' = along(θ),   v' = across(θ) − Lω'.

The energy is that of the bodies, ½Iχ̇² of wheels and ½I(ω + δ̇)² of steered parts.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from geonh.arguments.signatures import validated
from geonh.engine import traced_once
from geonh.geometry.distribution import Distribution, VelocityForms
from geonh.geometry.field import Field
from geonh.groups import SE2, Product, Torus
from geonh.mechanics.first_integral import FirstIntegral
from geonh.mechanics.system import System
from geonh.rolling.composite import mass_matrix
from geonh.rolling.planar_drawing import drawing
from geonh.rolling.wheels import PlanarBody, chain, coordinate_names


@validated
def planar(
    body: PlanarBody,
    *,
    potential: Callable | None = None,
    forces: Callable | None = None,
    parameters: Mapping[str, Any] | None = None,
    first_integrals: Mapping[str, FirstIntegral] | None = None,
    draw: Callable | None = None,
    name: str = "planar body",
    rank: int | None = None,
) -> System:
    """System of a planar body with its wheels and trailers.

    Parameters
    ----------
    body : PlanarBody
        The first of the chain.
    potential : callable, optional
        V(x) or V(x, parameters), joules, x the vector of the k angles, shape=[k].
    forces : callable, optional
        f(t, x, ξ, u) as of ``System``.
    parameters : mapping, optional
        Further numbers; "body" is reserved.
    first_integrals : mapping of str to FirstIntegral, optional
        As for ``System``.
    draw : callable, optional
        As for ``System``; when left out, each body with its wheels, edges and centre of mass, best seen from above:
        steering turns them, rolling is not shown.
    name : str
        Name in tables and files.
    rank : int, optional
        Number of independent constraints, if some are redundant; as for ``System``.

    Returns
    -------
    System
        On SE(2) × Tᵏ, ξ = (ω, u, v, rates of the angles) in the frame of the first body; reduced by SE(2).

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If two angles have the same name, ``parameters`` have "body", or ``body`` is a trailer; else as of ``System``.
    """
    if body.name:
        raise ValueError("body must be the first of a chain, made by planar_body, not a trailer")
    names = tuple(coordinate_names(body))
    if len(set(names)) < len(names):
        raise ValueError(f"angles need names of their own, got {list(names)}: name= of wheel and trailer, steered=")
    if "body" in (parameters or {}):
        raise ValueError("parameters: 'body' is the body's own; take another name")
    space = Product((SE2(), Torus(len(names), names))) if names else SE2()
    standing = any(part.wheels for part in chain(body))
    return System(
        space,
        lagrangian=_Lagrangian(None if potential is None else Field(potential, "potential")),
        metric=mass_matrix,
        distribution=Distribution(forms=VelocityForms(_constraints, 3 + len(names))) if standing else None,
        forces=forces,
        parameters={"body": body, **(parameters or {})},
        base="shape" if names else "point",
        first_integrals=first_integrals,
        draw=drawing if draw is None else draw,
        name=name,
        rank=rank,
    )


class _Lagrangian(eqx.Module):
    """Kinetic energy of a planar body, its wheels and trailers, less a potential: velocities body by body."""

    potential: Field | None

    def __call__(self, x: Any, xi: Array, parameters: Any) -> Array:
        terms = [
            0.5 * weight * velocity * velocity
            for weight, velocity in _velocities_of_parts(x, xi, parameters["body"]).energies
        ]
        kinetic = functools.reduce(operator.add, terms)
        return kinetic if self.potential is None else kinetic - self.potential(x, parameters)


def _constraints(x: Any, xi: Array, parameters: Any) -> list[Array]:
    return _velocities_of_parts(x, xi, parameters["body"]).constraints


class _Velocities(NamedTuple):
    """Velocities with their masses and moments of inertia, and velocities that vanish."""

    energies: list[tuple[Any, Array]]
    constraints: list[Array]


@traced_once
def _velocities_of_parts(x: Any, xi: Array, body: PlanarBody) -> _Velocities:
    """Velocities of the parts of a chain; x are the angles, xi the velocity, shape=[n], or one in each row."""
    rates, free, terms = iter(xi[3:]), iter(x), _Velocities([], [])

    def directed(omega: Array, u: Array, v: Array, at: Any, angle: Any) -> tuple[Array, Array]:
        """Velocity of a point, along and across a direction."""
        u, v = u - at[1] * omega, v + at[0] * omega
        c, s = jnp.cos(angle), jnp.sin(angle)
        return c * u + s * v, c * v - s * u

    def visit(body: PlanarBody, omega: Array, u: Array, v: Array) -> None:
        terms.energies.extend((body.mass, velocity) for velocity in directed(omega, u, v, body.centre, 0.0))
        terms.energies.append((body.inertia, omega))
        for wheel in body.wheels:
            angle, names = wheel.angle, list(wheel.names)
            if len(names) > (wheel.radius is not None):
                angle = angle + next(free)
                terms.energies.append((wheel.steering, omega + next(rates)))
            along, across = directed(omega, u, v, wheel.at, angle)
            if wheel.grips:
                terms.constraints.append(across)
            if wheel.radius is not None:
                next(free)
                rolling = next(rates)
                terms.energies.append((wheel.inertia, rolling))
                terms.constraints.append(along - wheel.radius * rolling)
        for drawn in body.trailers:
            turned = omega + next(rates)
            along, across = directed(omega, u, v, drawn.hitch, next(free))
            visit(drawn, turned, along, across - drawn.length * turned)

    visit(body, *xi[:3])
    return terms
