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

from geonh.numerics.scalarize import scalar_form

UNROLLED = 10
"""Largest dimension that is eliminated at trace time; above it LAPACK is called."""

UNROLLED_ON_SCALARS = 24
"""The same within ``scalarize``."""


def solve(A: Array, b: Array) -> Array:
    """Solution of A x = b, without pivoting up to dimension 10 (24 in a compiled loop).

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


def gram_schmidt(rows: Array, M: Array) -> Array:
    """Rows, shape=[r, n], made orthonormal for M, shape=[n, n], in their order."""
    found: list[Array] = []
    for row in rows:
        for vector in found:
            row = row - (vector @ M @ row) * vector
        found.append(row / jnp.sqrt(row @ M @ row))
    return jnp.stack(found) if found else rows


def _solve(A: Array, b: Array, symmetric: bool) -> Array:
    n = _dimension(A)
    if b.ndim not in (1, 2) or b.shape[0] != n:
        raise ValueError(f"right-hand side must have shape [{n}] or [{n}, k], got {b.shape}")
    if n == 0:
        return b
    if n > UNROLLED:
        return _lapack_solve(jnp.triu(A) + jnp.triu(A, 1).T if symmetric else A, b)
    return _eliminate(A, b, symmetric)


def _eliminate(A: Array, b: Array, symmetric: bool = False) -> Array:
    n = A.shape[0]
    rows = [[A[min(i, j), max(i, j)] if symmetric else A[i, j] for j in range(n)] for i in range(n)]
    x, inverses = [b[i] for i in range(n)], []
    for k in range(n):
        inverses.append(1 / rows[k][k])  # one division for a pivot: they are the slowest operations here
        for i in range(k + 1, n):
            factor = (rows[k][i] if symmetric else rows[i][k]) * inverses[k]
            for j in range(i if symmetric else k + 1, n):
                rows[i][j] = rows[i][j] - factor * rows[k][j]
            x[i] = x[i] - factor * x[k]
    for i in reversed(range(n)):
        for j in range(i + 1, n):
            x[i] = x[i] - rows[i][j] * x[j]
        x[i] = x[i] * inverses[i]
    return jnp.stack(x)


@scalar_form(lambda A, b: _eliminate(A, b) if A.ndim == 2 and A.shape[0] <= UNROLLED_ON_SCALARS else None)
def _lapack_solve(A: Array, b: Array) -> Array:
    return jnp.linalg.solve(A, b)


def _dimension(A: Array) -> int:
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ValueError(f"matrix must be square, got shape {A.shape}")
    return A.shape[0]
