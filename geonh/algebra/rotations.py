r"""Volume-preserving flow of a gyroscopic force, by rotations.

In an orthonormal frame of r dimensions the force of ṗ_a = −S^c_ab p_c p_b, S skew in a and b, keeps |p|; where the
trace S^a_ab vanishes it keeps the volume dp. Such tensors are sums of w l ⊗ (u ∧ v) with l, u, v orthonormal, of which
r(r − 2)(r + 1)/2 are a basis: e_c ⊗ (e_a ∧ e_b), and l = (e_a + e_d)/√2, u = (e_a − e_d)/√2, v = e_b. In the flow of
one l·p is constant, so this is a rotation in the plane of u and v by the angle w(l·p)h, which keeps both exactly; a
palindromic product of rotations is a symmetric step of order 2.

Source: McLachlan, Quispel, *Splitting methods*, Acta Numerica 11 (2002).
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax


class Rotations(NamedTuple):
    """Basis of the tensors: l, u and v, shape=[K, 3, r], and the map from S to the weights, shape=[K, r³]."""

    vectors: np.ndarray
    weights: np.ndarray


@functools.cache
def _basis(r: int) -> Rotations:
    e = np.eye(r)
    vectors = [(e[c], e[a], e[b]) for a in range(r) for b in range(a) for c in range(r) if c not in (a, b)]
    for b in range(r):
        d = (b + 1) % r
        vectors += [((e[a] + e[d]) / 2**0.5, (e[a] - e[d]) / 2**0.5, e[b]) for a in range(r) if a not in (b, d)]
    rows = np.reshape(vectors, (-1, 3, r))
    half = np.einsum("kc,ka,kb->kcab", *np.moveaxis(rows, 1, 0))
    tensors = (half - np.swapaxes(half, 2, 3)).reshape(len(rows), r**3)
    return Rotations(rows, np.linalg.pinv(tensors).T)


def turned(S: Array, p: Array, steps: Array) -> Array:
    """p, shape=[r], after steps of given lengths, shape=[s], of ṗ_a = −S^c_ab p_c p_b, for S[c, a, b] without trace.

    Each step is symmetric and of order 2; rotations are by Cayley's map, by the angle of twice the arctangent.
    """
    vectors, weights = _basis(len(p))
    rates = weights @ jnp.ravel(S)
    palindrome = np.concatenate([np.arange(len(vectors)), np.arange(len(vectors))[::-1]])

    def turn(p: Array, one: Any) -> tuple[Array, None]:
        (axis, u, v), rate = one
        tangent, a, b = rate * (axis @ p), u @ p, v @ p  # of half the angle
        sine = 2 * tangent / (1 + tangent * tangent)
        return p + sine * (u * (-b - tangent * a) + v * (a - tangent * b)), None

    each = (np.tile(vectors[palindrome], (len(steps), 1, 1)), jnp.outer(steps / 4, rates[palindrome]).ravel())
    return lax.scan(turn, p, each)[0]
