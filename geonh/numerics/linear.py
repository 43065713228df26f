"""Tiny dense linear systems, eliminated at trace time.

A LAPACK call on a 3×3 matrix costs about a microsecond and breaks the fusion of a compiled loop; Gaussian
elimination unrolled into scalar operations costs nanoseconds, and zeros known at trace time fold in
``scalarize``. There is no pivoting, which is right for the symmetric positive definite matrices of mechanics
and for Newton's Jacobians near them. A vanishing pivot gives inf or nan, a small one loses digits: the caller
checks the residual, as Newton's iteration does by its convergence test.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import lu_factor, lu_solve

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


def factor(A: Array) -> Any:
    """What ``substitute`` needs to solve A x = b for many b: the elimination of A, shape=[n, n], without pivoting."""
    n = _dimension(A)
    return _eliminate(A) if n <= UNROLLED else _lapack_factor(A)


def substitute(factors: Any, b: Array) -> Array:
    """x with A x = b, shape=[n], from ``factor(A)``."""
    return _back(factors, b) if isinstance(factors, _Elimination) else _lapack_substitute(*factors, b)


class _Elimination(NamedTuple):
    """A = LU: multipliers of L below the diagonal of ``rows``, U on and above it, and its inverse pivots."""

    rows: list[list[Array]]
    inverses: list[Array]


def gram_schmidt(rows: Array, M: Array) -> Array:
    """Rows, shape=[r, n], made orthonormal for M, shape=[n, n], in their order."""
    found: list[Array] = []
    for row in rows:
        for vector in found:
            row = row - (vector @ M @ row) * vector
        found.append(row / jnp.sqrt(row @ M @ row))
    return jnp.stack(found)


def _solve(A: Array, b: Array, symmetric: bool) -> Array:
    n = _dimension(A)
    if b.ndim not in (1, 2) or b.shape[0] != n:
        raise ValueError(f"right-hand side must have shape [{n}] or [{n}, k], got {b.shape}")
    if n == 0:
        return b
    if n > UNROLLED:
        return _lapack_solve(jnp.triu(A) + jnp.triu(A, 1).T if symmetric else A, b)
    return _back(_eliminate(A, symmetric), b)


def _eliminate(A: Array, symmetric: bool = False) -> _Elimination:
    n = A.shape[0]
    rows = [[A[min(i, j), max(i, j)] if symmetric else A[i, j] for j in range(n)] for i in range(n)]
    inverses = []
    for k in range(n):
        inverses.append(1 / rows[k][k])  # one division for a pivot: they are the slowest operations here
        for i in range(k + 1, n):
            rows[i][k] = (rows[k][i] if symmetric else rows[i][k]) * inverses[k]
            for j in range(i if symmetric else k + 1, n):
                rows[i][j] = rows[i][j] - rows[i][k] * rows[k][j]
    return _Elimination(rows, inverses)


def _back(factors: _Elimination, b: Array) -> Array:
    rows, inverses = factors
    n = len(rows)
    x = [b[i] for i in range(n)]
    for i in range(n):
        for k in range(i):
            x[i] = x[i] - rows[i][k] * x[k]
    for i in reversed(range(n)):
        for j in range(i + 1, n):
            x[i] = x[i] - rows[i][j] * x[j]
        x[i] = x[i] * inverses[i]
    return jnp.stack(x)


# What LAPACK does on arrays, and elimination on scalars.


def _is_small(A: Array) -> bool:
    return A.ndim == 2 and A.shape[0] <= UNROLLED_ON_SCALARS


@scalar_form(lambda A, b: _back(_eliminate(A), b) if _is_small(A) else None)
def _lapack_solve(A: Array, b: Array) -> Array:
    return jnp.linalg.solve(A, b)


def _eliminated(A: Array) -> tuple[Array, Array] | None:
    if not _is_small(A):
        return None
    rows, inverses = _eliminate(A)
    packed = [[inverses[i] if i == j else rows[i][j] for j in range(len(rows))] for i in range(len(rows))]
    return jnp.stack([jnp.stack(row) for row in packed]), jnp.arange(len(rows), dtype=jnp.int32)


def _substituted(lu: Array, pivots: Array, b: Array) -> Array | None:
    if not _is_small(lu):
        return None
    n = lu.shape[0]
    return _back(_Elimination([[lu[i, j] for j in range(n)] for i in range(n)], [lu[i, i] for i in range(n)]), b)


@scalar_form(_eliminated)
def _lapack_factor(A: Array) -> tuple[Array, Array]:
    return lu_factor(A)


@scalar_form(_substituted)
def _lapack_substitute(lu: Array, pivots: Array, b: Array) -> Array:
    return lu_solve((lu, pivots), b)


def _dimension(A: Array) -> int:
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ValueError(f"matrix must be square, got shape {A.shape}")
    return A.shape[0]
