"""Tiny dense linear systems, eliminated at trace time.

A LAPACK call on a 3×3 matrix costs about a microsecond and breaks the fusion of a compiled loop; Gaussian elimination
unrolled into scalar operations costs nanoseconds. There is no pivoting, which is right for the symmetric positive
definite matrices of mechanics and for Newton's Jacobians near them; Newton's convergence test notices where it is not.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

UNROLLED = 10
"""Largest dimension that is eliminated at trace time; above it LAPACK is called."""


def solve(A: Array, b: Array) -> Array:
    """Solution of A x = b without pivoting.

    Parameters
    ----------
    A : array, shape=[n, n]
    b : array, shape=[n] or [n, k]

    Returns
    -------
    array, shape of b
    """
    n = A.shape[0]
    if n > UNROLLED:
        return jnp.linalg.solve(A, b)
    rows, _ = _eliminate(A, [b[i] for i in range(n)])
    solution: list[Array] = []
    for i in reversed(range(n)):
        upper, value = rows[i]
        for j, x in zip(range(n - 1, i, -1), solution, strict=True):
            value = value - upper[j] * x
        solution.append(value / upper[i])
    return jnp.stack(solution[::-1])


def det(A: Array) -> Array:
    """Determinant, shape=[n, n] to scalar, by the same elimination; 1 for n = 0."""
    n = A.shape[0]
    if n > UNROLLED:
        return jnp.linalg.det(A)
    _, pivots = _eliminate(A, [jnp.zeros(())] * n)
    value = jnp.ones(())
    for pivot in pivots:
        value = value * pivot
    return value


def _eliminate(A: Array, b: list[Array]) -> tuple[list[tuple[list[Array], Array]], list[Array]]:
    """Rows (entries, right-hand side) of the upper triangular system, and its pivots."""
    n = A.shape[0]
    rows = [([A[i, j] for j in range(n)], b[i]) for i in range(n)]
    for k in range(n):
        pivot_row, pivot_value = rows[k]
        for i in range(k + 1, n):
            row, value = rows[i]
            factor = row[k] / pivot_row[k]
            entries = [row[j] - factor * pivot_row[j] if j > k else row[j] for j in range(n)]
            rows[i] = (entries, value - factor * pivot_value)
    return rows, [row[k] for k, (row, _) in enumerate(rows)]
