r"""KKT systems of a transcription, factorised from interval to interval with their inertia.

With w_k the unknowns of node k, λ_k the multipliers of the equations E_k⁻w_k + E_k⁺w_{k+1} of an interval, and ν those
of R w_K at the end, the matrix is block tridiagonal in the blocks (w_0), (w_1, λ_0), …, (w_K, λ_{K−1}, ν), bordered by
T. Each block is eliminated by a symmetric indefinite factorisation (Bunch, Kaufman), S_k = D_k − B_k S_{k−1}⁻¹ B_kᵀ;
the inertia of the whole is the sum of those of the S_k (Haynsworth), and says whether the Hessian is positive definite
on the kernel of the equations.

Source: Nocedal, Wright, *Numerical Optimization* (2006), §16.2, §19.3; Bunch, Kaufman, *Math. Comp.* 31 (1977) 163.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.lapack import dsytrf, dsytrs

from geonh.control.transcription import Parts


class Factors:
    """Factors of [[H + δ, Eᵀ], [E, −γ]]; of what is given, the rows and columns of H and E are zero.

    Of equations that do not depend on the unknowns, rows of zeros in E, γ is 1: they change no step.

    Attributes
    ----------
    n_negative : int
        Number of negative eigenvalues.
    is_singular : bool
        True if a pivot is zero or not finite.
    shift : float
        δ.
    """

    def __init__(
        self, hessian: Parts, equations: Parts, given: np.ndarray, *, shift: float = 0.0, corner: Any = 0.0
    ) -> None:
        (H, (H_end,)), (E, (R,)) = hessian, equations
        self._K, self._rows = E.shape[:2]
        self._width = m = H_end.shape[0] - 1
        self._n_end, self._free_span = len(R), not given[-1]
        self.n_negative, self.is_singular, self.shift = 0, False, shift
        self._coupling = np.concatenate([H[:, m:-1, :m], E[:, :, :m]], axis=1)
        blocks = self._diagonal(hessian, equations, given, corner)
        padded = np.zeros((self._K, m + self._rows, m + self._rows))
        padded[:, :, :m] = self._coupling
        self._factors: list[tuple[np.ndarray, np.ndarray]] = []
        self._solved: list[np.ndarray] = []
        size, work = m + self._rows, 64 * len(blocks[-1])
        for k, S in enumerate(blocks):
            if k:
                X = dsytrs(*self._factors[-1], padded[k - 1, :, : len(blocks[k - 1])].T, lower=1)[0]
                self._solved.append(X)
                S[:size, :size] -= self._coupling[k - 1] @ X[:m]
            factors, pivots, info = dsytrf(S.T, lower=1, lwork=work, overwrite_a=1)
            if info:
                self.is_singular = True
                return
            self._factors.append((factors, pivots))
        diagonal = np.concatenate([factors.diagonal() for factors, _ in self._factors])
        if not np.isfinite(diagonal).all():
            self.is_singular = True
            return
        pivots = np.concatenate([pivots for _, pivots in self._factors])
        self.n_negative = int((diagonal[pivots > 0] < 0).sum()) + int((pivots < 0).sum()) // 2
        if self._free_span:
            of_nodes = np.zeros((self._K + 1, m))
            of_nodes[:-1] += H[:, :m, -1]
            of_nodes[1:] += H[:, m:-1, -1]
            of_nodes[-1] += H_end[:m, -1]
            self._border = np.concatenate([of_nodes.ravel(), [0.0], E[:, :, -1].ravel(), R[:, -1]])
            self._of_border = self._without_span(self._border)
            self._pivot = float(H[:, -1, -1].sum() + H_end[-1, -1] + shift - self._border @ self._of_border)
            self.n_negative += self._pivot < 0
            self.is_singular = self.is_singular or not np.isfinite(self._pivot) or self._pivot == 0

    def _diagonal(self, hessian: Parts, equations: Parts, given: np.ndarray, corner: Any) -> list[np.ndarray]:
        """Diagonal blocks of (w_0), (w_1, λ_0), …, (w_K, λ_{K−1}, ν), symmetric."""
        (H, (H_end,)), (E, (R,)) = hessian, equations
        K, rows, m, size = self._K, self._rows, self._width, self._width + self._rows
        empty = np.concatenate([~E.any(axis=2).ravel(), ~R.any(axis=1)])
        corners = np.where(empty, 1.0, corner)
        first, inner, last = np.zeros((m, m)), np.zeros((K - 1, size, size)), np.zeros((size + len(R),) * 2)
        first += H[0, :m, :m]
        inner[:, :m, :m] = H[:-1, m:-1, m:-1] + H[1:, :m, :m]
        last[:m, :m] = H[-1, m:-1, m:-1] + H_end[:m, :m]
        fixed = np.flatnonzero(given[:-1])
        for S in (first, inner, last):
            S[..., range(m), range(m)] += self.shift
        first[fixed, fixed] = 1.0
        to_end = E[:, :, m:-1]
        for S, rows_of, corner_of in (
            (inner, to_end[:-1], corners[: (K - 1) * rows].reshape(K - 1, rows)),
            (last, to_end[-1], corners[(K - 1) * rows : K * rows]),
        ):
            S[..., m:size, :m], S[..., :m, m:size] = rows_of, np.swapaxes(rows_of, -1, -2)
            S[..., range(m, size), range(m, size)] = -corner_of
        last[size:, :m], last[:m, size:] = R[:, :m], R[:, :m].T
        last[range(size, len(last)), range(size, len(last))] = -corners[K * rows :]
        return [first, *inner, last]

    def solve(self, right: np.ndarray) -> np.ndarray:
        """Solution for a right side, (unknowns, multipliers)."""
        x = self._without_span(right)
        if self._free_span:
            place = (self._K + 1) * self._width
            span = (right[place] - self._border @ x) / self._pivot
            x -= span * self._of_border
            x[place] = span
        return x

    def _without_span(self, right: np.ndarray) -> np.ndarray:
        """Solution without the row and the column of T."""
        K, m, rows = self._K, self._width, self._rows
        size, n_w = m + rows, (K + 1) * m
        nodes = right[:n_w].reshape(K + 1, m)
        inner, end = right[n_w + 1 : n_w + 1 + K * rows].reshape(K, rows), right[n_w + 1 + K * rows :]
        rights = np.concatenate([nodes[1:], inner], axis=1)
        done = [dsytrs(*self._factors[0], nodes[0], lower=1)[0]]
        for k in range(1, K + 1):
            r = rights[k - 1] - self._coupling[k - 1] @ done[-1][:m]
            done.append(dsytrs(*self._factors[k], r if k < K else np.concatenate([r, end]), lower=1)[0])
        for k in range(K - 1, -1, -1):
            done[k] -= self._solved[k] @ done[k + 1][:size]
        found = [x[:m] for x in done] + [np.zeros(1)] + [x[m:size] for x in done[1:]] + [done[K][size:]]
        return np.concatenate(found)
