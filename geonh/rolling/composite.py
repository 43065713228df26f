r"""Mass matrix of a planar body with wheels and trailers by composite bodies.

Of the chain behind a hinge, taken as one rigid body, the inertia C in the frame of its first body, shape=[3, 3], and
the momentum F of every joint's rate alone, one row of shape=[3] each, are carried to the body ahead by the change of
frame X of twists (ω, u, v):

    C' = C + XᵀC X,     F' = F X,     M_jk = S_k·F_j     for the joint k that is nearer to the first body,

with the twist S_k that the rate of joint k gives. Cost grows with the joints times the length of the chain, that of
the Hessian of the kinetic energy with the third power.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from geonh.engine import SIDE_BY_SIDE, jacobian

MANY = 16
"""Least number of velocities at which the columns are momenta, computed in a loop."""


class _Composite(NamedTuple):
    """A body with all that it draws: C, shape=[3, 3]; F, shape=[k, 3], of its k joints in their order; for each joint
    the entries of M with itself and the joints behind it."""

    inertia: Array
    momenta: Array
    entries: list[Array]


def mass_matrix(x: Any, parameters: Any) -> Array:
    """M at the angles x, shape=[n, n], of the first body's twist and the rates of the k = n − 3 joints."""
    if len(x) + 3 >= MANY:
        columns = functools.partial(_momentum, x, parameters["body"])
        return jacobian(columns, jnp.zeros(len(x) + 3), together=SIDE_BY_SIDE)
    body = _composite(parameters["body"], iter(x))
    k = len(body.momenta)
    if k == 0:
        return body.inertia
    upper = jnp.stack(
        [
            jnp.concatenate([momentum, jnp.zeros(i), entries, jnp.zeros(k - i - len(entries))])
            for i, (momentum, entries) in enumerate(zip(body.momenta, body.entries, strict=True))
        ]
    )
    among = upper[:, 3:]
    square = among + among.T - jnp.diag(jnp.diag(among))
    ahead = jnp.concatenate([body.inertia, body.momenta.T], axis=1)
    return jnp.concatenate([ahead, jnp.concatenate([body.momenta, square], axis=1)])


def _momentum(x: Any, body: Any, xi: Array) -> Array:
    """Mξ, shape=[n], by the velocities of the bodies and their momenta."""
    rates: list[Array] = []
    ahead = _momentum_of(body, iter(x), iter(xi[3:]), (xi[0], xi[1], xi[2]), rates)
    return jnp.stack([*ahead, *rates])


def _momentum_of(
    body: Any, angles: Iterator[Array], velocities: Iterator[Array], twist: tuple[Array, ...], rates: list[Array]
) -> tuple[Array, ...]:
    """Momentum of a body, of this twist, with all that it draws; those of its joints are appended to ``rates``."""
    omega, u, v = twist
    m, (x, y) = body.mass, body.centre
    along, across = m * (u - y * omega), m * (v + x * omega)  # of the centre
    turning = body.inertia * omega + x * across - y * along
    for wheel in body.wheels:
        if len(wheel.names) > (wheel.radius is not None):
            next(angles)
            rates.append(wheel.steering * (omega + next(velocities)))
            turning = turning + rates[-1]
        if wheel.radius is not None:
            next(angles)
            rates.append(wheel.inertia * next(velocities))
    for drawn in body.trailers:
        (x, y), angle, place = drawn.hitch, next(angles), len(rates)
        c, s, turned = jnp.cos(angle), jnp.sin(angle), omega + next(velocities)
        hitch_u, hitch_v = u - y * omega, v + x * omega
        behind = turned, c * hitch_u + s * hitch_v, c * hitch_v - s * hitch_u - drawn.length * turned
        spin, pull, push = _momentum_of(drawn, angles, velocities, behind, rates)
        spin = spin - drawn.length * push
        rates.insert(place, spin)
        pull, push = c * pull - s * push, s * pull + c * push
        along, across, turning = along + pull, across + push, turning + spin + x * push - y * pull
    return turning, along, across


def _composite(body: Any, angles: Iterator[Array]) -> _Composite:
    inertia, momenta, entries = _inertia(body), [jnp.zeros((0, 3))], []
    for wheel in body.wheels:
        if len(wheel.names) > (wheel.radius is not None):
            next(angles)
            turning = jnp.zeros((1, 3)).at[0, 0].set(wheel.steering)
            inertia = inertia.at[0, 0].add(wheel.steering)
            momenta.append(turning)
            entries.append(turning[0, :1])
        if wheel.radius is not None:
            next(angles)
            momenta.append(jnp.zeros((1, 3)))
            entries.append(jnp.reshape(jnp.asarray(wheel.inertia, float), (1,)))
    for drawn in body.trailers:
        X = _change_of_frame(drawn, next(angles))
        behind = _composite(drawn, angles)
        twist = jnp.zeros(3).at[0].set(1.0).at[2].set(-drawn.length)
        own = jnp.concatenate([(behind.inertia @ twist)[None], behind.momenta])
        inertia = inertia + X.T @ behind.inertia @ X
        momenta.append(own @ X)
        entries.extend([own @ twist, *behind.entries])
    return _Composite(inertia, jnp.concatenate(momenta), entries)


def _inertia(body: Any) -> Array:
    """Inertia of a body alone at the origin of its frame, shape=[3, 3]."""
    m, (x, y), none = body.mass, body.centre, 0.0 * body.mass
    rows = [[body.inertia + m * (x * x + y * y), -m * y, m * x], [-m * y, m, none], [m * x, none, m]]
    return jnp.stack([jnp.stack(jnp.broadcast_arrays(*row)) for row in rows])


def _change_of_frame(drawn: Any, angle: Array) -> Array:
    """X, shape=[3, 3]: the twist of a trailer, at rest on its hinge, of that of the body ahead."""
    (x, y), c, s = drawn.hitch, jnp.cos(angle), jnp.sin(angle)
    turning, along, across = jnp.eye(3)[0], jnp.stack([s * x - c * y, c, s]), jnp.stack([c * x + s * y, -s, c])
    return jnp.stack([turning, along, across - drawn.length * turning])
