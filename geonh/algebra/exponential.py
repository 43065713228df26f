"""The exponential of small matrices, and φ₁."""

from __future__ import annotations

import math

import jax.numpy as jnp
from jax import Array

_DOUBLINGS = 7
_TAYLOR_TERMS = 15


def exp_and_phi1(matrix: Array) -> tuple[Array, Array]:
    """e^X and φ₁(X) = Σ Xᵏ/(k + 1)! over leading axes, shape=[..., N, N].

    Taylor series of X/2⁷ and doubling, φ₁(2X) = ½(e^X + 1) φ₁(X), on e^X − 1 to avoid cancellation. There are no
    branches, so it can be differentiated in both modes; it is accurate for norms up to about 100.
    """
    one = jnp.eye(matrix.shape[-1])
    X = matrix * 0.5**_DOUBLINGS
    phi = one / math.factorial(_TAYLOR_TERMS)
    for k in range(_TAYLOR_TERMS - 1, 0, -1):
        phi = one / math.factorial(k) + X @ phi
    small = X @ phi
    for _ in range(_DOUBLINGS):
        phi = phi + 0.5 * (small @ phi)
        small = 2.0 * small + small @ small
    return one + small, phi
