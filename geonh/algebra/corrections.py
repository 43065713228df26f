"""Newton corrections A⁻¹b for few unknowns, and inverse Jacobians that are kept, applied and updated."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax

from geonh.algebra.linear import solve
from geonh.engine import Named

FEW = 6
"""Maximum number of unknowns for which a cheap residual has fresh Jacobians, and a kept inverse has Broyden updates."""
MANY = 40
"""Number of unknowns above which the identity is the first inverse Jacobian of equations whose Jacobian is near 1."""
TINY = 1e-300
"""Lower bound on a denominator, in place of zero."""


@Named
def correction(A: Array, b: Array) -> Array:
    """A⁻¹b, shape=[n]: up to n = 3 by cofactors, with one division instead of the chain of divisions of elimination.

    Digits lost by cancellation in the cofactors are recovered by the next correction.
    """
    n = A.shape[0]
    if n == 2:
        (a, c), (d, e) = A
        return jnp.stack([e * b[0] - c * b[1], a * b[1] - d * b[0]]) * (1 / (a * e - c * d))
    if n == 3:
        u, v, w = A.T
        rows = [jnp.cross(v, w), jnp.cross(w, u), jnp.cross(u, v)]
        return jnp.stack([row @ b for row in rows]) * (1 / (rows[0] @ u))
    return solve(A, b)


@Named
def with_secant(inverse: Array, change: Array, step: Array) -> Array:
    """Broyden update of the inverse Jacobian: a residual change of ``change`` corresponds to the step ``step``."""
    return inverse - (change / jnp.maximum(jnp.sum(change * change), TINY))[:, None] * step


@Named
def inverted(A: Array) -> Array:
    """A⁻¹, shape=[n, n], by in-place Gauss-Jordan elimination without pivoting."""

    def eliminate(k: Array, A: Array) -> Array:
        pivot = 1 / A[k, k]
        row, column = A[k] * pivot, A[:, k]
        A = (A - jnp.outer(column, row)).at[:, k].set(-column * pivot)
        return A.at[k].set(row).at[k, k].set(pivot)

    return lax.fori_loop(0, A.shape[0], eliminate, A)


@Named
def applied(inverse: Array, b: Array) -> Array:
    """Product of the inverse, given transposed, with a vector."""
    return b @ inverse
