"""Small dense linear systems, by unrolled elimination.

A LAPACK call on a 3×3 matrix costs about a microsecond; Gaussian elimination unrolled into scalar operations costs
nanoseconds, and zeros known at trace time are folded. There is no pivoting, which is right for the symmetric positive
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
import numpy as np
from jax import Array, lax

from geonh.algebra.constrained import constrained, has_small_null_space, multipliers
from geonh.algebra.elimination import BY_ROWS, conjugated, eliminated, orthogonalized, pivots_by_rows


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
    """Solution of A x = b for symmetric positive definite A, of which only the upper triangle is read.

    The same elimination with about half of the operations; parameters, shapes and errors as in ``solve``.
    """
    return _solve(A, b, symmetric=True)


@jax.jit
def pivots(A: Array) -> Array:
    """Pivots of a symmetric matrix, shape=[n]: all are positive if and only if it is positive definite."""
    n = _dimension(A)
    if n >= BY_ROWS:
        return pivots_by_rows(A)
    rows = [[A[min(i, j), max(i, j)] for j in range(n)] for i in range(n)]
    for k in range(n):
        inverse = 1 / rows[k][k]
        for i in range(k + 1, n):
            factor = rows[k][i] * inverse
            for j in range(i, n):
                rows[i][j] = rows[i][j] - factor * rows[k][j]
    return jnp.stack([rows[k][k] for k in range(n)])


@jax.jit
def det(A: Array) -> Array:
    """Determinant, shape=[n, n] to scalar, by expansion along rows (no division) up to dimension 6, else by LU."""
    n = _dimension(A)
    if n > 6:
        return _product_of_pivots(A)
    minors: dict[tuple[int, ...], Array] = {(): jnp.ones((), A.dtype)}  # minors of the last rows, by columns
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


@jax.custom_jvp
def _product_of_pivots(A: Array) -> Array:
    """Determinant by the LU decomposition, without the logarithms of ``jnp.linalg.det``, which are library calls."""
    lu, exchanged, _ = lax.linalg.lu(A)
    odd = jnp.sum(exchanged != np.arange(len(A))) % 2
    return jnp.prod(jnp.diagonal(lu)) * (1.0 - 2.0 * odd)


_product_of_pivots.defjvp(lambda primals, tangents: jax.jvp(jnp.linalg.det, primals, tangents))


@jax.jit
def gram_schmidt(rows: Array, M: Array) -> Array:
    """Orthonormalize the rows, shape=[r, n], in order, in the inner product of M, shape=[n, n]."""
    return _orthonormal(rows, rows @ M)[0]


# --- nearly parallel rows ---------------------------------------------------------------------------------
@jax.jit
def apart(rows: Array, beside: Array) -> tuple[Array, Array]:
    """Orthogonalize rows, shape=[m, n], scaled to the length of the first, with the same row operations on ``beside``,
    shape=[m, k]: [rows | beside] becomes T[rows | beside], T lower triangular with a positive diagonal.

    Rows at an angle ε lose the digits of 1/ε, their squares those of 1/ε²: so this is done before they are squared.
    """
    parted = _orthogonal_rows(rows, beside)
    scales = jnp.sqrt(parted.squares[:1] / parted.squares)
    scales = jnp.where(np.arange(len(rows)) == 0, 1.0, scales)[:, None]
    return parted.rows * scales, parted.beside * scales


@jax.jit
def orthogonal(rows: Array, beside: Array) -> tuple[Array, Array]:
    """``apart`` without the scaling, and thus without roots, for what does not depend on the lengths of the rows."""
    parted = _orthogonal_rows(rows, beside)
    return parted.rows, parted.beside


class Orthogonal(NamedTuple):
    """Orthogonal rows, shape=[m, n], what is beside them, shape=[m, k], and squared lengths, shape=[m].

    And ``original``: multipliers, shape=[m], of the given rows from those of the orthogonal ones.
    """

    rows: Array
    beside: Array
    squares: Array
    original: Callable[[Array], Array]


def _orthogonal_rows(rows: Array, beside: Array, held: Callable[[Array], Array] = lambda rows: rows) -> Orthogonal:
    """Orthogonalize rows, each against those before it, with the same operations on ``beside``; ``held`` is applied to
    what coefficients and lengths are computed from (stop_gradient), where rows are few.
    """
    m, n = rows.shape
    if m >= BY_ROWS:
        result = orthogonalized(rows)
        combined = result[:, n:-1]
        return Orthogonal(result[:, :n], combined @ beside, result[:, -1], lambda lam: combined.T @ lam)
    extended = jnp.concatenate([rows, beside], axis=1)
    found, coefficients, squares = [], [], []
    while len(extended):
        row, extended = extended[0], extended[1:]
        along = held(row[:n])
        squares.append(along @ along)
        if len(extended):
            coefficients.append((held(extended[:, :n]) @ along) * (1 / squares[-1]))
            extended = extended - coefficients[-1][:, None] * row
        found.append(row)

    def original(lam: Array) -> Array:
        for k in reversed(range(m - 1)):
            lam = lam.at[k].add(-coefficients[k] @ lam[k + 1 :])
        return lam

    extended = jnp.stack(found) if found else extended
    return Orthogonal(extended[:, :n], extended[:, n:], jnp.stack(squares) if found else jnp.zeros(0), original)


# --- saddle-point system of a mass matrix and constraints --------------------------------------------------
def saddle(M: Array, mu: Array, force: Array, right: Array, columns: Array | None = None) -> tuple[Array, Array]:
    """v and λ, shapes [n] and [m], with Mv − (μᵀ + C)λ = force, μv = right; M symmetric and positive definite.

    The system of constrained mechanics: for accelerations, momentum projections, impacts, multipliers. m = 0 is
    M⁻¹force. C, ``columns`` of shape=[n, m], are forces that depend on the multipliers; without them one symmetric
    elimination, of M and then of −μM⁻¹μᵀ, whose pivots are negative: no pivots other than these are needed; or, where
    forms are many, a solution in their null space.
    """
    if columns is None and has_small_null_space(*mu.shape):
        return saddle_directly(M, mu, force, right)
    return _saddle(M, mu, force, right, columns)


@jax.jit
def _saddle(M: Array, mu: Array, force: Array, right: Array, columns: Array | None) -> tuple[Array, Array]:
    """``saddle`` by elimination, of orthogonalized forms."""
    beside = right[:, None] if columns is None else jnp.concatenate([right[:, None], columns.T], axis=1)
    parted = _orthogonal_rows(mu, beside, lax.stop_gradient)  # the solution does not depend on the coefficients
    oblique = None if columns is None else parted.beside[:, 1:].T
    solution, lam = _eliminated(M, parted.rows, force, parted.beside[:, 0], oblique)
    return solution, parted.original(lam)


def saddle_directly(
    M: Array, mu: Array, force: Array, right: Array, columns: Array | None = None
) -> tuple[Array, Array]:
    """``saddle`` without orthogonalization, which loses the digits of 1/ε² where forms are few and at an angle ε."""
    if columns is None and has_small_null_space(*mu.shape):
        v = constrained(M, mu, force, right)
        return v, multipliers(mu, M @ v - force)
    return _eliminated(M, mu, force, right, columns)


def _eliminated(M: Array, mu: Array, force: Array, right: Array, columns: Array | None) -> tuple[Array, Array]:
    m, n = mu.shape
    if columns is not None:
        raised = solve_spd(M, jnp.concatenate([mu.T + columns, force[:, None]], axis=1))
        lam = solve(mu @ raised[:, :m], right - mu @ raised[:, m])
        return raised[:, m] + raised[:, :m] @ lam, lam
    matrix = jnp.concatenate([jnp.concatenate([M, mu.T], axis=1), jnp.concatenate([mu, jnp.zeros((m, m))], axis=1)])
    solution = solve_spd(matrix, jnp.concatenate([force, right]))
    return solution[:n], -solution[n:]


def saddle_determinant(M: Array, mu: Array, columns: Array) -> Array:
    """det μM⁻¹(μᵀ + C) relative to det μM⁻¹μᵀ, scalar: 1 for C = 0, and 0 where ``saddle`` has no unique solution."""
    m = len(mu)
    raised = mu @ solve_spd(M, jnp.concatenate([mu.T, columns], axis=1))
    return det(jnp.eye(m) + solve_spd(raised[:, :m], raised[:, m:]))


class Saddle(NamedTuple):
    """Factors of the system, for many right-hand sides: M⁻¹, M⁻¹μᵀ, (μM⁻¹μᵀ)⁻¹, shapes [n, n], [n, m], [m, m]."""

    inverse: Array
    raised: Array
    schur: Array


@jax.jit
def saddle_inverses(M: Array, mu: Array) -> Saddle:
    """Factors from which any solution of the saddle-point system of M and μ follows by matrix products."""
    inverse, raised = jnp.split(solve_spd(M, jnp.concatenate([jnp.eye(len(M)), mu]).T), [len(M)], axis=1)
    return Saddle(inverse, raised, solve_spd(mu @ raised, jnp.eye(len(mu))))


class OrthonormalForms(NamedTuple):
    """Constraints Nξ = c ⇔ μξ = b with rows orthonormal in M⁻¹, in order: N and NM⁻¹, shape=[m, n], c, shape=[m]."""

    rows: Array
    lifts: Array
    right: Array


@jax.jit
def orthonormal_forms(M: Array, mu: Array, b: Array) -> OrthonormalForms:
    """Orthonormal form of the constraint μξ = b (by the Cholesky factor of μM⁻¹μᵀ)."""
    m, n = mu.shape
    lifts = jnp.concatenate([solve_spd(M, mu.T).T, jnp.zeros((m, 1))], axis=1)
    rows, lifts = _orthonormal(jnp.concatenate([mu, b[:, None]], axis=1), lifts)
    return OrthonormalForms(rows[:, :n], lifts[:, :n], rows[:, n])


@jax.jit
def polar_adjoint(A: Array, v: Array) -> Array:
    """Uᵀv, shape=[m], of v and the orthogonal matrix U nearest to a nonsingular A, shape=[m, m]: the polar factor of
    A = U(AᵀA)^½.

    In closed form up to m = 2; else by the binomial series of (AᵀA)^(−½) Aᵀv, of products with a vector only: eight
    terms reach rounding for bases of one subspace turned by up to some 6°, 32 for 30°, and 256 for 65°; nan beyond.
    """
    m = _dimension(A)
    if m == 0:
        return v
    if m == 1:
        return jnp.where(A[0] < 0, -v, v)
    if m == 2:
        cofactors = jnp.stack([jnp.stack([A[1, 1], -A[1, 0]]), jnp.stack([-A[0, 1], A[0, 0]])])
        sides = A + jnp.where(det(A) < 0, -1.0, 1.0) * cofactors
        return v @ sides * (1 / jnp.sqrt(sides[0] @ sides[0]))

    def add(j: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        total, term = state
        term = (term - A.T @ (A @ term)) * ((2 * j + 1) / (2 * j + 2))
        return total + term, term

    def is_summed(state: tuple[Array, Array]) -> Array:
        total, term = (jnp.max(jnp.abs(part)) for part in state)
        return term <= 1e-16 * total

    def longer(first: int, to: int, then: Callable, state: tuple[Array, Array]) -> tuple[Array, Array]:
        state = lax.fori_loop(first, to, add, state)
        return lax.cond(is_summed(state), lambda state: state, then, state)

    def ended(state: tuple[Array, Array]) -> tuple[Array, Array]:
        return state[0] * jnp.nan, state[1]

    most = functools.partial(longer, 32, 256, ended)
    return longer(0, 8, functools.partial(longer, 8, 32, most), (A.T @ v,) * 2)[0]


def _orthonormal(rows: Array, duals: Array) -> tuple[Array, Array]:
    """Gram-Schmidt process, on the rows and on their images under the metric at once.

    Normalization comes last, so that no row waits for the square root of the one before.
    """
    if len(rows) >= BY_ROWS:
        rows, duals = jnp.split(conjugated(rows, duals), 2, axis=1)
        scales = 1 / jnp.sqrt(jnp.sum(rows * duals, axis=1))[:, None]
        return rows * scales, duals * scales
    basis: list[tuple[Array, Array, Array]] = []
    for row, dual in zip(rows, duals, strict=True):
        for other, image, inverse in basis:
            along = (image @ row) * inverse
            row, dual = row - along * other, dual - along * image
        basis.append((row, dual, 1 / (row @ dual)))
    if not basis:
        return rows, duals
    rows, duals, inverses = (jnp.stack(part) for part in zip(*basis, strict=True))
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
