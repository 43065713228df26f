r"""Velocities of planar bodies on knife edges and wheels, with steering, rolling angles and trailers.

Each body of the chain has a frame in which its velocity is (ω, u, v), linear in ξ. At a point (x, y) of it

    along = cos α (u − ωy) + sin α (v + ωx),      across = −sin α (u − ωy) + cos α (v + ωx)

in the direction α of an edge or wheel, to which a steering angle adds. A knife edge imposes across = 0, a wheel of
radius r with the rolling angle χ also along = rχ̇. A trailer is attached by a hinge to the body ahead, at the angle
θ, with its own frame a length L behind the hinge:

    ω' = ω + θ̇,   u' = along(θ),   v' = across(θ) − Lω'.

The energy is that of the bodies, ½Iχ̇² of wheels and ½I(ω + δ̇)² of steered parts.

Of many trailers with the same wheels, one behind another, the velocities are those of a loop.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from geonh.engine import traced_once
from geonh.rolling.wheels import PlanarBody, Wheel, row_of_trailers

MANY = 16
"""Least number of velocities for which the bodies of a row are computed in a loop."""


class Velocities(NamedTuple):
    """Velocities with their masses and moments of inertia, and velocities that vanish; of a row of trailers, arrays."""

    energies: list[tuple[Any, Array]]
    constraints: Any


class _Twist(NamedTuple):
    """Velocity of a body in its frame."""

    omega: Array
    u: Array
    v: Array


class _Direction(NamedTuple):
    """Cosine and sine of an angle."""

    c: Any
    s: Any


def kinetic_energy(x: Any, xi: Array, body: PlanarBody) -> Array:
    """Kinetic energy, a scalar, of a body and all that it draws, at the angles x with the velocity ξ, shape=[n]."""
    terms = [0.5 * weight * velocity * velocity for weight, velocity in velocities_of_parts(x, xi, body).energies]
    return functools.reduce(operator.add, [jnp.sum(term) if term.ndim else term for term in terms])


@traced_once
def velocities_of_parts(x: Any, xi: Array, body: PlanarBody) -> Velocities:
    """Velocities of the parts of a chain; x are the angles, xi the velocity, shape=[n], or one in each row."""
    behind = row_of_trailers(body) if len(xi) >= MANY else None
    if behind is not None:
        return _of_row(x, xi, body, behind)
    rates, angles, terms = iter(xi[3:]), iter(x), Velocities([], [])

    def visit(body: PlanarBody, twist: _Twist) -> None:
        own = _of_body(body, twist, _directions(body.wheels, angles), rates)
        terms.energies.extend(own.energies)
        terms.constraints.extend(own.constraints)
        for drawn in body.trailers:
            rate, angle = next(rates), next(angles)
            visit(drawn, _drawn(drawn, twist, rate, _direction(angle)))

    visit(body, _Twist(*xi[:3]))
    return terms


def _of_row(x: Array, xi: Array, first: PlanarBody, behind: PlanarBody) -> Velocities:
    """``velocities_of_parts`` of a body and a row of trailers, whose numbers are along the first axis of ``behind``."""
    count, ahead = len(behind.mass), sum(len(wheel.names) for wheel in first.wheels)
    twist = _Twist(*xi[:3])
    own = _of_body(first, twist, _directions(first.wheels, iter(x[:ahead])), iter(xi[3:]))
    angles = jnp.reshape(x[ahead:], (count, -1))
    rates = jnp.reshape(xi[3 + ahead :], (*angles.shape, *xi.shape[1:]))
    hinges, wheels = _direction(angles[:, 0]), list(_directions(behind.wheels, iter(angles[:, 1:].T)))

    def following(twist: _Twist, here: tuple) -> tuple[_Twist, Velocities]:
        body, hinge, directions, rates = here
        twist = _drawn(body, twist, rates[0], hinge)
        return twist, _of_body(body, twist, iter(directions), iter(rates[1:]))

    others = lax.scan(following, twist, (behind, hinges, wheels, rates))[1]
    rows = [jnp.stack(own.constraints)] if own.constraints else []
    if others.constraints:
        rows.append(jnp.reshape(jnp.stack(others.constraints, axis=1), (-1, *xi.shape[1:])))
    return Velocities([*own.energies, *others.energies], jnp.concatenate(rows) if rows else [])


def _directions(wheels: tuple[Wheel, ...], angles: Iterator[Array]) -> Iterator[_Direction]:
    """Directions of wheels, of whose own angles ``angles`` has those that come next."""
    for wheel in wheels:
        steered = len(wheel.names) > (wheel.radius is not None)
        yield _direction(wheel.angle + next(angles) if steered else wheel.angle)
        if wheel.radius is not None:
            next(angles)


def _direction(angle: Any) -> _Direction:
    return _Direction(jnp.cos(angle), jnp.sin(angle))


def _of_body(body: PlanarBody, twist: _Twist, directions: Iterator[_Direction], rates: Iterator[Array]) -> Velocities:
    """Velocities of a body itself and of its wheels, in these directions and with the next rates."""
    own = Velocities([], [])
    own.energies.extend((body.mass, velocity) for velocity in _directed(twist, body.centre, _Direction(1.0, 0.0)))
    own.energies.append((body.inertia, twist.omega))
    for wheel, direction in zip(body.wheels, directions, strict=True):
        if len(wheel.names) > (wheel.radius is not None):
            own.energies.append((wheel.steering, twist.omega + next(rates)))
        along, across = _directed(twist, wheel.at, direction)
        if wheel.grips:
            own.constraints.append(across)
        if wheel.radius is not None:
            rolling = next(rates)
            own.energies.append((wheel.inertia, rolling))
            own.constraints.append(along - wheel.radius * rolling)
    return own


def _drawn(drawn: PlanarBody, ahead: _Twist, rate: Array, hinge: _Direction) -> _Twist:
    """Velocity of a trailer from that of the body ahead, by the rate and the direction of its hinge."""
    turned = ahead.omega + rate
    along, across = _directed(ahead, drawn.hitch, hinge)
    return _Twist(turned, along, across - drawn.length * turned)


def _directed(twist: _Twist, at: Any, direction: _Direction) -> tuple[Array, Array]:
    """Velocity of a point, along and across a direction."""
    u, v = twist.u - at[1] * twist.omega, twist.v + at[0] * twist.omega
    c, s = direction
    return c * u + s * v, c * v - s * u
