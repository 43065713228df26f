"""Linear systems by elimination without pivoting, as one primitive with its own derivative rules.

With x = A⁻¹b, dx = A⁻¹(db − dA x), and the transpose is A⁻ᵀ: the rules reuse the solve, where differentiating through
the elimination would eliminate again.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.engine import Named
from geonh.engine.internals import ShapedArray, ad, batching

UNROLLED = 10
"""Largest dimension for which the elimination is unrolled when traced; above it LAPACK is called (not natively)."""
BY_ROWS = 16
"""Least dimension of matrices that the engine eliminates in memory, by rows; smaller ones entry by entry."""


@Named
def pivots_by_rows(A: Array) -> Array:
    """Pivots of a symmetric matrix, shape=[n], in a loop."""

    def eliminate(k: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        left, pivots = carry
        row = left[k]
        return left - jnp.outer(row / row[k], row), pivots.at[k].set(row[k])

    return lax.fori_loop(0, len(A), eliminate, (1.0 * A, jnp.zeros_like(A[0])))[1]


@Named
def orthogonalized(rows: Array) -> Array:
    """Orthogonalize rows, each against those before it, shape=[m, n] to [m, n + m + 1].

    Row i of the result is the new row, its combination of the given rows, and its squared length.
    """
    m, n = rows.shape

    def subtract(k: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        left, squares = carry
        along = left[k, :n]
        square = along @ along
        new = jnp.where(jnp.arange(m) > k, (left[:, :n] @ along) * (1 / square), 0.0)
        return left - jnp.outer(new, left[k]), squares.at[k].set(square)

    begin = jnp.concatenate([rows, jnp.eye(m)], axis=1), jnp.zeros(m)
    left, squares = lax.fori_loop(0, m, subtract, begin)
    return jnp.concatenate([left, squares[:, None]], axis=1)


@Named
def conjugated(rows: Array, images: Array) -> Array:
    """Orthogonalize rows, each against those before it, in a metric under which they have these images, shape=[m, n].

    Row i of the result, shape=[m, 2n], is the new row and its image.
    """
    m, n = rows.shape

    def subtract(k: Array, left: Array) -> Array:
        row, image = left[k, :n], left[k, n:]
        along = jnp.where(jnp.arange(m) > k, (left[:, :n] @ image) * (1 / (row @ image)), 0.0)
        return left - jnp.outer(along, left[k])

    return lax.fori_loop(0, m, subtract, jnp.concatenate([rows, images], axis=1))


@Named
def eliminated(A: Array, b: Array, *, symmetric: bool) -> Array:
    """A⁻¹b, shapes [..., n, n] and [..., n, k]; only the upper triangle of a symmetric A is read."""
    n = A.shape[-1]
    if n > UNROLLED:
        return jnp.linalg.solve(_mirrored(A) if symmetric else A, b)
    rows = [[A[..., min(i, j), max(i, j)] if symmetric else A[..., i, j] for j in range(n)] for i in range(n)]
    x, inverses = [b[..., i, :] for i in range(n)], []
    for k in range(n):
        inverses.append(1 / rows[k][k])  # one division per pivot: divisions are the slowest operations here
        for i in range(k + 1, n):
            factor = (rows[k][i] if symmetric else rows[i][k]) * inverses[k]
            for j in range(i if symmetric else k + 1, n):
                rows[i][j] = rows[i][j] - factor * rows[k][j]
            x[i] = x[i] - factor[..., None] * x[k]
    for i in reversed(range(n)):
        for j in range(i + 1, n):
            x[i] = x[i] - rows[i][j][..., None] * x[j]
        x[i] = x[i] * inverses[i][..., None]
    return jnp.stack(x, axis=-2)


def _mirrored(A: Array) -> Array:
    """Symmetric matrix with the upper triangle of A."""
    return jnp.where(np.tri(A.shape[-1], dtype=bool).T, A, jnp.swapaxes(A, -1, -2))


def _jvp(primals: tuple, tangents: tuple, *, symmetric: bool) -> tuple:
    (A, b), (dA, db) = primals, tangents
    x = eliminated(A, b, symmetric=symmetric)
    if isinstance(dA, ad.Zero):
        return x, eliminated(A, ad.instantiate_zeros(db), symmetric=symmetric)
    right = -((_mirrored(dA) if symmetric else dA) @ x)
    return x, eliminated(A, right if isinstance(db, ad.Zero) else db + right, symmetric=symmetric)


def _transposed(cotangent: Any, A: Array, b: Any, *, symmetric: bool) -> tuple:
    if isinstance(cotangent, ad.Zero):
        return None, ad.Zero(b.aval)
    return None, eliminated(A if symmetric else jnp.swapaxes(A, -1, -2), cotangent, symmetric=symmetric)


def _batched(args: tuple, axes: tuple, *, symmetric: bool) -> tuple:
    """Batching rule: batched right-hand sides become further columns, batched matrices a leading axis."""
    (A, b), (axis, right) = args, axes
    if axis is None:
        b = jnp.moveaxis(b, right, -1)
        x = eliminated(A, b.reshape(*b.shape[:-2], -1), symmetric=symmetric)
        return x.reshape(b.shape), b.ndim - 1
    A = jnp.moveaxis(A, axis, 0)
    b = jnp.broadcast_to(b, (len(A), *b.shape)) if right is None else jnp.moveaxis(b, right, 0)
    return eliminated(A, b, symmetric=symmetric), 0


eliminated.primitive.def_abstract_eval(lambda A, b, *, symmetric: ShapedArray(b.shape, b.dtype))
ad.primitive_jvps[eliminated.primitive] = _jvp
ad.primitive_transposes[eliminated.primitive] = _transposed
batching.primitive_batchers[eliminated.primitive] = _batched
