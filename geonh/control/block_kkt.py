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
        corners = np.broadcast_to(np.asarray(corner, float), (self._K * self._rows + len(R),))
        D = np.zeros((self._K + 1, m, m))
        D[:-1] += H[:, :m, :m]
        D[1:] += H[:, m:-1, m:-1]
        D[-1] += H_end[:m, :m]
        D[:, range(m), range(m)] += shift
        fixed = np.flatnonzero(given[:-1])
        D[0, fixed, fixed] = 1.0
        self._coupling = np.concatenate([H[:, m:-1, :m], E[:, :, :m]], axis=1)
        self._blocks: list = []
        size, border = m + self._rows, self._rows + m
        for k in range(self._K + 1):
            last = k == self._K
            S = np.zeros((border if k else m,) * 2) if not last else np.zeros((border + self._n_end,) * 2)
            S[:m, :m] = D[k]
            if k:
                S[m:size, :m], S[:m, m:size] = E[k - 1][:, m:-1], E[k - 1][:, m:-1].T
                S[range(m, size), range(m, size)] = -corners[(k - 1) * self._rows : k * self._rows]
                B = self._coupling[k - 1]
                X = self._solve(k - 1, B.T)
                self._blocks[k - 1].append(X)
                S[:size, :size] -= B @ X[:m]
            if last:
                S[size:, :m], S[:m, size:] = R[:, :m], R[:, :m].T
                S[range(size, len(S)), range(size, len(S))] = -corners[self._K * self._rows :]
            if not np.isfinite(S).all():
                self.is_singular = True
                return
            factors, pivots, info = dsytrf(S, lower=1, lwork=64 * len(S))
            if info:
                self.is_singular = True
                return
            self._blocks.append([factors, pivots])
            diagonal = factors.diagonal()[pivots > 0]
            self.n_negative += int((diagonal < 0).sum()) + int((pivots < 0).sum()) // 2
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

    def _solve(self, k: int, right: np.ndarray) -> np.ndarray:
        factors, pivots = self._blocks[k][:2]
        if len(right) < len(factors):
            right = np.concatenate([right, np.zeros((len(factors) - len(right), *right.shape[1:]))])
        return dsytrs(factors, pivots, right, lower=1)[0]

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
        done = [self._solve(0, nodes[0])]
        for k in range(1, K + 1):
            r = np.concatenate([nodes[k], inner[k - 1]]) - self._coupling[k - 1] @ done[-1][:m]
            done.append(self._solve(k, r if k < K else np.concatenate([r, end])))
        for k in range(K - 1, -1, -1):
            done[k] = done[k] - self._blocks[k][2] @ done[k + 1][:size]
        found = [x[:m] for x in done] + [np.zeros(1)] + [x[m:size] for x in done[1:]] + [done[K][size:]]
        return np.concatenate(found)
