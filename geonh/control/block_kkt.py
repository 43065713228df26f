r"""KKT systems of a transcription, factorised from interval to interval with their inertia.

With w_k the unknowns of node k, λ_k the multipliers of the equations E_k⁻w_k + E_k⁺w_{k+1} of an interval, and ν those
of R w_K at the end, the matrix is block tridiagonal in the blocks (w_0), (w_1, λ_0), …, (w_K, λ_{K−1}, ν), bordered by
the common unknowns: T, parameters, and a start that is unknown. Each block is eliminated by a symmetric indefinite
factorisation (Bunch, Kaufman), S_k = D_k − B_k S_{k−1}⁻¹ B_kᵀ; the inertia of the whole is the sum of those of the S_k
and of the Schur complement of the common unknowns (Haynsworth), and says whether the Hessian is positive definite on
the kernel of the equations.

Source: Nocedal, Wright, *Numerical Optimization* (2006), §16.2, §19.3; Bunch, Kaufman, *Math. Comp.* 31 (1977) 163.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.lapack import dsytrf, dsytrs

from geonh.control.linearisation import Parts

ROUNDING = 1e-15
"""Eigenvalues of the block of common unknowns, relative to the largest, that are zero."""


class Factors:
    """Factors of [[H + δ, Eᵀ], [E, −γ]]; of what is given, the rows and columns of H and E are zero.

    Of equations that do not depend on the unknowns, rows of zeros in E, γ is 1: they change no step.

    Parameters
    ----------
    hessian, equations : Parts
        Blocks by the unknowns of both nodes of an interval and s common ones, and by those of the last node and all
        common ones. Common ones beyond s are the state of the first node, which takes its place in the first interval.
    given : ndarray of bool
        Mask of the unknowns that are given: of all nodes, and common ones.
    shift : float
        δ.
    corner : float or array_like
        γ.

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
        self._width = m = (len(given) - len(H_end)) // self._K
        self._n_end, self._nodes = len(R), (self._K + 1) * m
        self.n_negative, self.is_singular, self.shift = 0, False, shift
        common = np.flatnonzero(~given[self._nodes :])
        border, corner_block = self._border_of(hessian, equations)
        if n_start := len(H_end) - H.shape[1] + m:  # the first state is among the common unknowns
            H, E = H.copy(), E.copy()
            H[0, :n_start], H[0, :, :n_start], E[0, :, :n_start] = 0.0, 0.0, 0.0
            hessian, equations = Parts(H, hessian.end), Parts(E, equations.end)
        self._coupling = np.concatenate([H[:, m : 2 * m, :m], E[:, :, :m]], axis=1)
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
        self._common = self._nodes + common
        self._border = border[:, common]
        if len(common):
            self._of_border = self._of_nodes(self._border)
            S = corner_block[np.ix_(common, common)] + shift * np.eye(len(common)) - self._border.T @ self._of_border
            if not np.isfinite(S).all():
                self.is_singular = True
                return
            self._eigenvalues, self._eigenvectors = np.linalg.eigh((S + S.T) / 2)
            sizes = np.abs(self._eigenvalues)
            self.n_negative += int((self._eigenvalues < 0).sum())
            self.is_singular = bool(sizes.min() <= ROUNDING * sizes.max())

    def _border_of(self, hessian: Parts, equations: Parts) -> tuple[np.ndarray, np.ndarray]:
        """Columns of the common unknowns, with zeros in their own rows, and the block of these rows."""
        (H, (H_end,)), (E, (R,)) = hessian, equations
        K, m = self._K, self._width
        n_common, n_shared = len(H_end) - m, H.shape[1] - 2 * m
        n_start = n_common - n_shared
        of_nodes, of_equations = np.zeros((K + 1, m, n_common)), np.zeros((K, self._rows, n_common))
        of_nodes[:-1, :, :n_shared] += H[:, :m, 2 * m :]
        of_nodes[1:, :, :n_shared] += H[:, m : 2 * m, 2 * m :]
        of_nodes[-1] += H_end[:m, m:]
        of_equations[:, :, :n_shared] = E[:, :, 2 * m :]
        block = H_end[m:, m:].copy()
        block[:n_shared, :n_shared] += H[:, 2 * m :, 2 * m :].sum(axis=0)
        first, start = H[0], slice(n_start)
        block[n_shared:, n_shared:] += first[start, start]
        block[n_shared:, :n_shared] += first[start, 2 * m :]
        block[:n_shared, n_shared:] += first[2 * m :, start]
        of_nodes[0, start] = 0.0
        of_nodes[0, n_start:, n_shared:] += first[n_start:m, start]
        of_nodes[1, :, n_shared:] += first[m : 2 * m, start]
        of_equations[0, :, n_shared:] += E[0, :, start]
        flat = (of_nodes.reshape(-1, n_common), np.zeros((n_common, n_common)), of_equations.reshape(-1, n_common))
        return np.concatenate([*flat, R[:, m:]]), block

    def _diagonal(self, hessian: Parts, equations: Parts, given: np.ndarray, corner: Any) -> list[np.ndarray]:
        """Diagonal blocks of (w_0), (w_1, λ_0), …, (w_K, λ_{K−1}, ν), symmetric."""
        (H, (H_end,)), (E, (R,)) = hessian, equations
        K, rows, m, size = self._K, self._rows, self._width, self._width + self._rows
        empty = np.concatenate([~E.any(axis=2).ravel(), ~R.any(axis=1)])
        corners = np.where(empty, 1.0, corner)
        first, inner, last = np.zeros((m, m)), np.zeros((K - 1, size, size)), np.zeros((size + len(R),) * 2)
        first += H[0, :m, :m]
        inner[:, :m, :m] = H[:-1, m : 2 * m, m : 2 * m] + H[1:, :m, :m]
        last[:m, :m] = H[-1, m : 2 * m, m : 2 * m] + H_end[:m, :m]
        fixed = np.flatnonzero(given[: self._nodes])
        for S in (first, inner, last):
            S[..., range(m), range(m)] += self.shift
        first[fixed, fixed] = 1.0
        to_end = E[:, :, m : 2 * m]
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
        x = self._of_nodes(right[:, None])[:, 0]
        if len(self._common):
            rest = self._eigenvectors.T @ (right[self._common] - self._border.T @ x)
            common = self._eigenvectors @ (rest / self._eigenvalues)
            x -= self._of_border @ common
            x[self._common] = common
        return x

    def _of_nodes(self, right: np.ndarray) -> np.ndarray:
        """Solution without the common unknowns, of right sides in columns."""
        K, m, rows = self._K, self._width, self._rows
        size, n_common = m + rows, len(right) - self._nodes - K * rows - self._n_end
        nodes, right = right[: self._nodes].reshape(K + 1, m, -1), right[self._nodes + n_common :]
        inner, end = right[: K * rows].reshape(K, rows, -1), right[K * rows :]
        rights = np.concatenate([nodes[1:], inner], axis=1)
        done = [dsytrs(*self._factors[0], nodes[0], lower=1)[0]]
        for k in range(1, K + 1):
            r = rights[k - 1] - self._coupling[k - 1] @ done[-1][:m]
            done.append(dsytrs(*self._factors[k], r if k < K else np.concatenate([r, end]), lower=1)[0])
        for k in range(K - 1, -1, -1):
            done[k] -= self._solved[k] @ done[k + 1][:size]
        zero = np.zeros((n_common, right.shape[1]))
        found = [x[:m] for x in done] + [zero] + [x[m:size] for x in done[1:]] + [done[K][size:]]
        return np.concatenate(found)
