"""Tiny dense linear systems, by elimination written out.

A LAPACK call on a 3×3 matrix costs about a microsecond; Gaussian elimination unrolled into scalar operations costs
nanoseconds, and zeros known at trace time fold. There is no pivoting, which is right for the symmetric positive
definite matrices of mechanics and for Newton's Jacobians near them. A vanishing pivot gives inf or nan, a small one
loses digits: the caller checks the residual, as Newton's iteration does by its convergence test.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import combinations
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from geonh.algebra.elimination import eliminated

LARGEST = 24
"""Largest matrix whose pivots are computed by elimination written out; above it in a loop."""


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


@jax.jit
def pivots(A: Array) -> Array:
    """Pivots of a symmetric matrix, shape=[n]: all positive if and only if it is positive definite."""
    n = _dimension(A)
    if n > LARGEST:
        return _pivots_in_a_loop(A)
    rows = [[A[min(i, j), max(i, j)] for j in range(n)] for i in range(n)]
    for k in range(n):
        inverse = 1 / rows[k][k]
        for i in range(k + 1, n):
            factor = rows[k][i] * inverse
            for j in range(i, n):
                rows[i][j] = rows[i][j] - factor * rows[k][j]
    return jnp.stack([rows[k][k] for k in range(n)])


def _pivots_in_a_loop(A: Array) -> Array:
    A = 1.0 * A

    def eliminate(k: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        left, found = carry
        row = left[k]
        return left - jnp.outer(row / row[k], row), found.at[k].set(row[k])

    return lax.fori_loop(0, len(A), eliminate, (A, jnp.zeros_like(A[0])))[1]


@jax.jit
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


@jax.jit
def gram_schmidt(rows: Array, M: Array) -> Array:
    """Rows, shape=[r, n], made orthonormal for M, shape=[n, n], in their order."""
    return _orthonormal(rows, rows @ M)[0]


# --- rows that are nearly parallel ------------------------------------------------------------------------
@jax.jit
def apart(rows: Array, beside: Array) -> tuple[Array, Array]:
    """Rows, shape=[m, n], made orthogonal and as long as the first, and what stands beside them, shape=[m, k], combined
    in the same way: [rows | beside] becomes T[rows | beside], T lower triangular with a positive diagonal.

    At an angle ε rows have lost the digits of 1/ε, their squares those of 1/ε²: so it is done before they are squared.
    """
    whole, _, squares = _separated(jnp.concatenate([rows, beside], axis=1), rows.shape[1])
    scales = jnp.stack([jnp.ones(()), *(jnp.sqrt(squares[0] / square) for square in squares[1:])])[: len(rows)]
    whole = whole * scales[:, None]
    return whole[:, : rows.shape[1]], whole[:, rows.shape[1] :]


def _separated(
    whole: Array, n: int, held: Callable[[Array], Array] = lambda rows: rows
) -> tuple[Array, list[Array], list[Array]]:
    """Rows orthogonal in their first n entries: each without its part along those before; for each the coefficients of
    those after it; and their squared lengths. ``held`` makes constants of what the coefficients are computed from.
    """
    found, coefficients, squares = [], [], []
    while len(whole):
        row, whole = whole[0], whole[1:]
        along = held(row[:n])
        squares.append(along @ along)
        if len(whole):
            coefficients.append((held(whole[:, :n]) @ along) * (1 / squares[-1]))
            whole = whole - coefficients[-1][:, None] * row
        found.append(row)
    return jnp.stack(found) if found else whole, coefficients, squares


# --- the saddle system of a mass matrix and constraints ----------------------------------------------------
@jax.jit
def saddle(M: Array, mu: Array, force: Array, right: Array) -> tuple[Array, Array]:
    """v and λ, shapes [n] and [m], with Mv − μᵀλ = force, μv = right; M symmetric and positive definite.

    The system of constrained mechanics: of accelerations, projections of momenta, multipliers. m = 0 is M⁻¹force. One
    symmetric elimination, of M and then of −μM⁻¹μᵀ, whose pivots are negative: none is needed besides those of the two.
    """
    m, n = mu.shape
    whole = jnp.concatenate([mu, right[:, None]], axis=1)
    rows, coefficients, _ = _separated(whole, n, lax.stop_gradient)  # on which the solution does not depend
    mu, right = rows[:, :n], rows[:, n]
    whole = jnp.concatenate([jnp.concatenate([M, mu.T], axis=1), jnp.concatenate([mu, jnp.zeros((m, m))], axis=1)])
    found = solve_spd(whole, jnp.concatenate([force, right]))
    found, lam = found[:n], -found[n:]
    for k in reversed(range(len(coefficients))):  # to those of the rows as they were
        lam = lam.at[k].add(-coefficients[k] @ lam[k + 1 :])
    return found, lam


class Saddle(NamedTuple):
    """The same system for many right-hand sides: M⁻¹, M⁻¹μᵀ and (μM⁻¹μᵀ)⁻¹, shapes [n, n], [n, m], [m, m]."""

    inverse: Array
    raised: Array
    schur: Array


@jax.jit
def saddle_inverses(M: Array, mu: Array) -> Saddle:
    """The parts from which any solution of the saddle system of M and μ is made by products."""
    inverse, raised = jnp.split(solve_spd(M, jnp.concatenate([jnp.eye(len(M)), mu]).T), [len(M)], axis=1)
    return Saddle(inverse, raised, solve_spd(mu @ raised, jnp.eye(len(mu))))


class OrthonormalForms(NamedTuple):
    """Rows of μ in Nξ = c ⇔ μξ = b made orthonormal for M⁻¹ in their order: N and NM⁻¹, shape=[m, n], c, shape=[m]."""

    rows: Array
    lifts: Array
    right: Array


@jax.jit
def orthonormal_forms(M: Array, mu: Array, b: Array) -> OrthonormalForms:
    """The orthonormal form of the constraint μξ = b (by Cholesky's factor of μM⁻¹μᵀ)."""
    m, n = mu.shape
    lifts = jnp.concatenate([solve_spd(M, mu.T).T, jnp.zeros((m, 1))], axis=1)
    rows, lifts = _orthonormal(jnp.concatenate([mu, b[:, None]], axis=1), lifts)
    return OrthonormalForms(rows[:, :n], lifts[:, :n], rows[:, n])


@jax.jit
def polar(A: Array) -> Array:
    """The orthogonal matrix nearest to a nonsingular A, shape=[m, m]: the factor U of A = U(AᵀA)^½.

    In closed form up to m = 2; else by Newton and Schulz's iteration, which reaches rounding in five steps where the
    singular values are within a fifth of 1, as they are for bases of one subspace turned by up to some 40°, and in
    eleven up to some 80°; nan beyond.
    """
    m = _dimension(A)
    if m == 0:
        return A
    if m == 1:
        return jnp.where(A < 0, -1.0, 1.0)
    if m == 2:
        cofactors = jnp.stack([jnp.stack([A[1, 1], -A[1, 0]]), jnp.stack([-A[0, 1], A[0, 0]])])
        sides = A + jnp.where(det(A) < 0, -1.0, 1.0) * cofactors
        return sides * (1 / jnp.sqrt(sides[0] @ sides[0]))

    def steps(n: int, A: Array) -> Array:
        return lax.fori_loop(0, n, lambda _, A: 1.5 * A - 0.5 * A @ (A.T @ A), A)

    def off(A: Array) -> Array:
        return jnp.max(jnp.abs(A.T @ A - jnp.eye(m)))

    U = steps(5, A)
    U = lax.cond(off(U) > 3e-15, functools.partial(steps, 6), lambda U: U, U)
    return U + jnp.where(off(U) > 1e-13, jnp.nan, 0.0)


def _orthonormal(rows: Array, duals: Array) -> tuple[Array, Array]:
    """Gram and Schmidt's process, on the rows and on their images under the metric at once.

    Lengths are divided out last, so that no row waits for the root of the one before.
    """
    found: list[tuple[Array, Array, Array]] = []
    for row, dual in zip(rows, duals, strict=True):
        for other, image, inverse in found:
            along = (image @ row) * inverse
            row, dual = row - along * other, dual - along * image
        found.append((row, dual, 1 / (row @ dual)))
    if not found:
        return rows, duals
    rows, duals, inverses = (jnp.stack(part) for part in zip(*found, strict=True))
    scales = jnp.sqrt(inverses)[:, None]
    return rows * scales, duals * scales


def _solve(A: Array, b: Array, symmetric: bool) -> Array:
    n = _dimension(A)
    if b.ndim not in (1, 2) or b.shape[0] != n:
        raise ValueError(f"right-hand side must have shape [{n}] or [{n}, k], got {b.shape}")
    if n == 0:
        return b
    x = eliminated(A, b if b.ndim == 2 else b[:, None], symmetric=symmetric)
    return x if b.ndim == 2 else x[:, 0]


def _dimension(A: Array) -> int:
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ValueError(f"matrix must be square, got shape {A.shape}")
    return A.shape[0]
