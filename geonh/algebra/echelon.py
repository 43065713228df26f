"""Row spaces of matrices outside of traces: reduced echelon forms and left null spaces."""

from __future__ import annotations

import numpy as np

NEGLIGIBLE = 1e-9
"""Size, relative to 1, below which an entry or a singular value counts as zero."""


def echelon(rows: np.ndarray) -> np.ndarray:
    """Reduced row echelon form of independent rows, a canonical basis."""
    rows, done = rows.copy(), 0
    for column in range(rows.shape[1]):
        if done == len(rows):
            break
        pivot = done + int(np.argmax(np.abs(rows[done:, column])))
        if abs(rows[pivot, column]) < 1e-8:
            continue
        rows[[done, pivot]] = rows[[pivot, done]]
        rows[done] /= rows[done, column]
        others = np.arange(len(rows)) != done
        rows[others] -= rows[others, column][:, None] * rows[done]
        done += 1
    return np.where(np.abs(rows) < 1e-12, 0.0, rows)


def rank_of(rows: np.ndarray) -> int:
    """Number of singular values that are not negligible."""
    return int(np.sum(np.linalg.svd(rows, compute_uv=False) > NEGLIGIBLE)) if rows.size else 0


def null_rows(rows: np.ndarray) -> np.ndarray:
    """Rows c that span cA = 0, of a matrix A of shape=[k, n]: shape=[k − rank, k]."""
    if not rows.size:
        return np.eye(len(rows))
    return np.linalg.svd(rows)[0].T[rank_of(rows) :]
