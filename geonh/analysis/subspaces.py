r"""Invariant subspaces of a linear system: deflation of symmetries and of families of steady motions.

Bases are orthonormal columns. A quotient by an invariant subspace is the matrix on an orthonormal complement. Zeros are
deflated by kernels, never counted among eigenvalues: a Jordan block of length j splits to ε^{1/j}.
"""

from __future__ import annotations

import numpy as np
import scipy

TOLERANCE = 1e-8
"""Singular values, relative to the norm of the matrix, below which they count as zero."""


def kernel(A: np.ndarray, size: float) -> np.ndarray:
    """Orthonormal basis of {z: Az = 0}, shape=[n, k], where A's entries are known to rounding relative to ``size``."""
    if not len(A):
        return np.eye(A.shape[1])
    _, values, rows = np.linalg.svd(A)
    return rows[int(np.sum(values > TOLERANCE * size)) :].T


def span(columns: np.ndarray) -> np.ndarray:
    """Orthonormal basis of the span of columns, shape=[n, k]."""
    if not columns.shape[1]:
        return columns
    left, values, _ = np.linalg.svd(columns, full_matrices=False)
    return left[:, values > TOLERANCE * max(1.0, values[0])]


def complement(space: np.ndarray, part: np.ndarray) -> np.ndarray:
    """Orthonormal basis of the orthogonal complement of ``part``, shape=[n, s], within ``space``, shape=[n, q]."""
    return space @ kernel(part.T @ space, 1.0)


def invariant_kernel(O: np.ndarray, F: np.ndarray, size: float) -> np.ndarray:  # noqa: E741
    """Largest subspace of {z: Oz = 0} that F maps into itself, shape=[n, k]: the unobservable subspace."""
    space = kernel(O, size)
    while space.shape[1]:
        moved = F @ space
        stays = kernel(moved - space @ (space.T @ moved), size)
        if stays.shape[1] == space.shape[1]:
            break
        space = space @ stays
    return space


def staircase(J: np.ndarray, dims: tuple[int, ...] | None = None) -> tuple[tuple[int, ...], np.ndarray]:
    """Staircase form at zero: dimensions of the kernels of J, shape=[q, q], of its quotient, …, and a basis of all.

    Of the dimensions (k₁, k₂, …), kᵢ is the number of Jordan blocks at 0 of a length ≥ i; the basis of the generalised
    kernel, shape=[q, k₁ + k₂ + …], is orthonormal. Given ``dims``, it has the directions nearest to the kernels.
    """
    q, size = len(J), float(np.linalg.norm(J))
    dimensions: list[int] = []
    basis, rest = np.zeros((q, 0)), np.eye(q)
    while rest.shape[1] and (dims is None or len(dimensions) < len(dims)):
        _, values, rows = np.linalg.svd(rest.T @ J @ rest)
        k = int(np.sum(values <= TOLERANCE * size)) if dims is None else dims[len(dimensions)]
        if not k:
            break
        dimensions.append(k)
        basis, rest = np.concatenate([basis, rest @ rows[-k:].T], axis=1), rest @ rows[:-k].T
    return tuple(dimensions), basis


def leading(columns: np.ndarray, *blocks: range) -> list[int]:
    """Row indices, one per column, on which the columns are independent; from the first blocks if possible.

    Rows are chosen by pivoted elimination, so that the columns are well conditioned on them.
    """
    chosen: list[int] = []
    rest = columns
    for block in blocks:
        if not rest.shape[1]:
            break
        _, R, order = scipy.linalg.qr(rest[block.start : block.stop].T, mode="economic", pivoting=True)
        new = [block.start + int(i) for i in order[: int(np.sum(np.abs(np.diag(R)) > 1e-6))]]
        if new:
            rest = rest @ kernel(rest[new], 1.0)
        chosen += new
    return sorted(chosen)
