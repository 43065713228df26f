"""Derivatives of a transcription, in blocks of its intervals and of the end."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy

from geonh.control.interval import Values


class Parts(NamedTuple):
    """The same quantity of all intervals, with an axis of length K, and of the end."""

    intervals: Any
    end: Any

    def flat(self) -> np.ndarray:
        """Entries of both."""
        return np.concatenate([self.intervals.ravel(), self.end.ravel()])


class Jacobian(NamedTuple):
    """Jacobian in blocks of all intervals and of the end, by the unknowns of these columns."""

    blocks: Parts
    columns: Parts
    size: int

    def along(self, step: np.ndarray) -> np.ndarray:
        """Product with a step, shape=[size]."""
        of = zip(self.blocks, self.columns, strict=True)
        return Parts(*(np.matmul(block, step[columns][:, :, None]) for block, columns in of)).flat()

    def weighted(self, weights: np.ndarray) -> np.ndarray:
        """Sum of the rows with weights, shape=[size]."""
        inner = self.blocks.intervals.shape
        count = inner[0] * inner[1]
        split = weights[:count].reshape(inner[0], 1, inner[1]), weights[count:].reshape(1, 1, -1)
        return gathered(Parts(*map(np.matmul, split, self.blocks)), self.columns, self.size)

    def sparse(self) -> Any:
        """Sparse matrix of the rows of all intervals and of the end."""
        of = zip(self.columns, self.blocks, strict=True)
        indices = [np.repeat(c[:, None], b.shape[1], axis=1).ravel() for c, b in of]
        lengths = [np.full(b.shape[0] * b.shape[1], b.shape[2]) for b in self.blocks]
        starts = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
        shape = (len(starts) - 1, self.size)
        return scipy.sparse.csr_matrix((self.blocks.flat(), np.concatenate(indices), starts), shape)


def gathered(parts: Parts, columns: Parts, size: int) -> np.ndarray:
    """Sums of the entries of each column, shape=[size]."""
    return np.bincount(columns.flat(), parts.flat(), size)


class Linearisation(NamedTuple):
    """Values and derivatives at a motion: the gradient of the cost, shape=[size], the Hessian of the Lagrangian in
    blocks, and the Jacobians of equations and inequalities."""

    values: Values
    gradient: np.ndarray
    hessian: Parts
    equations: Jacobian
    inequalities: Jacobian
