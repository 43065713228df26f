r"""Mass matrix of a planar body with wheels and trailers by composite bodies.

Of the chain behind a hinge, taken as one rigid body, the inertia C in the frame of its first body, shape=[3, 3], and
the momentum F of every joint's rate alone, one row of shape=[3] each, are carried to the body ahead by the change of
frame X of twists (ω, u, v):

    C' = C + XᵀC X,     F' = F X,     M_jk = S_k·F_j     for the joint k that is nearer to the first body,

with the twist S_k that the rate of joint k gives. Cost grows with the joints times the length of the chain, that of
the Hessian of the kinetic energy with the third power.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array


class _Composite(NamedTuple):
    """A body with all that it draws: C, shape=[3, 3]; F, shape=[k, 3], of its k joints in their order; for each joint
    the entries of M with itself and the joints behind it."""

    inertia: Array
    momenta: Array
    entries: list[Array]


def mass_matrix(x: Any, parameters: Any) -> Array:
    """M at the angles x, shape=[n, n], of the first body's twist and the rates of the k = n − 3 joints."""
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
