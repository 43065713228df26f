"""Tiny dense linear systems, eliminated at trace time.

A LAPACK call on a 3×3 matrix costs about a microsecond and breaks the fusion of a compiled loop; Gaussian
elimination unrolled into scalar operations costs nanoseconds, and zeros known at trace time fold in
``scalarize``. There is no pivoting, which is right for the symmetric positive definite matrices of mechanics
and for Newton's Jacobians near them. A vanishing pivot gives inf or nan, a small one loses digits: the caller
checks the residual, as Newton's iteration does by its convergence test.
"""

from __future__ import annotations

from itertools import combinations

import jax.numpy as jnp
from jax import Array

UNROLLED = 10
"""Largest dimension that is eliminated at trace time; above it LAPACK is called."""


def solve(A: Array, b: Array) -> Array:
    """Solution of A x = b, without pivoting up to dimension 10.

    Parameters
    ----------
    A : array, shape=[n, n]
    b : array, shape=[n] or [n, k]

    Returns
    -------
    array, shape of b

    Raises
    ------
    ValueError
        If the shapes do not match. Nothing is raised on a zero pivot: check the residual.
    """
    return _solve(A, b, symmetric=False)


def solve_spd(A: Array, b: Array) -> Array:
    """Solution of A x = b for symmetric positive definite A, of which the upper triangle is read.

    The same elimination with about half of the operations; parameters, shapes and errors as in ``solve``.
    """
    return _solve(A, b, symmetric=True)


def det(A: Array) -> Array:
    """Determinant, shape=[n, n] to scalar, by expansion along rows (no division) up to dimension 6, else by LAPACK."""
    n = _dimension(A)
    if n > 6:
        return jnp.linalg.det(A)
    minors: dict[tuple[int, ...], Array] = {(): jnp.ones((), A.dtype)}  # of the last rows, by their columns
    for row in reversed(range(n)):
        minors = {
            columns: sum(
                (
                    (-1.0) ** i * A[row, column] * minors[columns[:i] + columns[i + 1 :]]
                    for i, column in enumerate(columns)
                ),
                start=jnp.zeros((), A.dtype),
            )
            for columns in combinations(range(n), n - row)
        }
    return minors[tuple(range(n))]


def _solve(A: Array, b: Array, symmetric: bool) -> Array:
    n = _dimension(A)
    if b.ndim not in (1, 2) or b.shape[0] != n:
        raise ValueError(f"right-hand side must have shape [{n}] or [{n}, k], got {b.shape}")
    if n == 0:
        return b
    if n > UNROLLED:
        return jnp.linalg.solve(jnp.triu(A) + jnp.triu(A, 1).T if symmetric else A, b)
    rows, x, inverses = _eliminate(A, [b[i] for i in range(n)], symmetric)
    for i in reversed(range(n)):
        for j in range(i + 1, n):
            x[i] = x[i] - rows[i][j] * x[j]
        x[i] = x[i] * inverses[i]
    return jnp.stack(x)


def _eliminate(A: Array, b: list[Array], symmetric: bool) -> tuple[list[list[Array]], list[Array], list[Array]]:
    """Upper triangular system, right-hand sides, inverse pivots; below the diagonal nothing has a meaning."""
    n = A.shape[0]
    rows = [[A[min(i, j), max(i, j)] if symmetric else A[i, j] for j in range(n)] for i in range(n)]
    inverses = []
    for k in range(n):
        inverses.append(1 / rows[k][k])  # one division for a pivot: they are the slowest operations here
        for i in range(k + 1, n):
            factor = (rows[k][i] if symmetric else rows[i][k]) * inverses[k]
            for j in range(i if symmetric else k + 1, n):
                rows[i][j] = rows[i][j] - factor * rows[k][j]
            if b:
                b[i] = b[i] - factor * b[k]
    return rows, b, inverses


def _dimension(A: Array) -> int:
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ValueError(f"matrix must be square, got shape {A.shape}")
    return A.shape[0]
