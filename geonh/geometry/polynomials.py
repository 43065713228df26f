"""Polynomials in n variables up to a degree, and vector fields with such components: exact brackets at a point.

A polynomial is the vector of its coefficients, shape=[..., N], monomials in order of their degree. Products are
truncated at the degree. The Taylor polynomial of a function is fitted to those along lines through the origin.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable

import numpy as np


class Polynomials:
    """Algebra of polynomials in ``n`` variables up to ``degree``.

    Attributes
    ----------
    exponents : array of int, shape=[N, n]
        Exponents of the monomials; the constant is the first.
    degrees : array of int, shape=[N]
        Degrees of the monomials.
    """

    def __init__(self, n: int, degree: int) -> None:
        chosen = [c for k in range(degree + 1) for c in itertools.combinations_with_replacement(range(n), k)]
        self.exponents = np.array([[c.count(i) for i in range(n)] for c in chosen], dtype=int).reshape(len(chosen), n)
        self.degrees = self.exponents.sum(axis=1)
        index = {tuple(e): i for i, e in enumerate(self.exponents.tolist())}
        ends = np.searchsorted(self.degrees, degree - self.degrees, side="right").tolist()
        pairs = [
            (i, j, index[tuple(map(sum, zip(chosen_i, chosen_j, strict=True)))])
            for i, chosen_i in enumerate(self.exponents.tolist())
            for j, chosen_j in enumerate(self.exponents.tolist()[: ends[i]])
        ]
        pairs.sort(key=lambda pair: pair[2])  # so that those of a lower degree come first
        self._left, self._right, self._product = np.array(pairs).T
        lowered = [[index.get(tuple((e - unit).tolist()), -1) for e in self.exponents] for unit in np.eye(n, dtype=int)]
        self._lowered = np.array(lowered).reshape(n, len(chosen))
        self._lines = np.random.default_rng(0).normal(size=(2 * int(np.sum(self.degrees == degree)) + 2, n))
        self._lines /= np.linalg.norm(self._lines, axis=1, keepdims=True)
        monomials = np.prod(self._lines[:, None, :] ** self.exponents, axis=-1)
        self._fits = [np.linalg.qr(monomials[:, self.degrees == k]) for k in range(degree + 1)]

    def product(self, a: np.ndarray, b: np.ndarray, degree: int | None = None) -> np.ndarray:
        """Product a·b up to a degree, the highest when left out; all of shape=[..., N]."""
        size = len(self.degrees) if degree is None else int(np.searchsorted(self.degrees, degree, side="right"))
        end = int(np.searchsorted(self._product, size))
        a, b = np.broadcast_arrays(a, b)
        terms = a[..., self._left[:end]] * b[..., self._right[:end]]
        result = np.zeros((terms[..., 0].size, len(self.degrees)))
        for row, values in zip(result, terms.reshape(len(result), -1), strict=True):
            row[:size] = np.bincount(self._product[:end], weights=values, minlength=size)
        return result.reshape(a.shape)

    def matrix_product(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """Product A B of matrices of polynomials, shapes [i, j, N] and [j, k, N]."""
        return np.asarray(sum(self.product(A[:, j, None], B[None, j]) for j in range(A.shape[1])))

    def derivative(self, a: np.ndarray, variable: int) -> np.ndarray:
        """Partial derivative ∂a, shape=[..., N]."""
        below = self._lowered[variable]
        result = np.zeros_like(a)
        result[..., below[below >= 0]] = a[..., below >= 0] * self.exponents[below >= 0, variable]
        return result

    def solve(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """Solve A Z = B, shapes [m, m, N] and [m, r, N], degree by degree; A is invertible at the origin."""
        inverse = np.linalg.inv(A[..., 0])
        rest, Z = A.copy(), np.zeros_like(B)
        rest[..., 0] = 0.0
        for k in range(self.degrees[-1] + 1):
            right = B - self.matrix_product(rest, Z)
            Z[..., self.degrees == k] = np.einsum("ij,jkn->ikn", inverse, right[..., self.degrees == k])
        return Z

    def bracket(self, F: np.ndarray, G: np.ndarray, degree: int) -> np.ndarray:
        """[F, G] = DG·F − DF·G of vector fields, shape=[n, N], up to a degree, which must be less than theirs."""
        terms = [
            self.product(F[i], self.derivative(G, i), degree) - self.product(G[i], self.derivative(F, i), degree)
            for i in range(len(F))
        ]
        return np.asarray(sum(terms))

    def fitted(self, along: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Taylor polynomial of a function from its restrictions to lines.

        Parameters
        ----------
        along : callable
            Of directions, shape=[L, n]: the derivatives of all orders at the origin, shape=[L, degree + 1, …].

        Returns
        -------
        array, shape=[…, N]
        """
        values = along(self._lines)
        result = [
            np.linalg.solve(upper, orthonormal.T @ values[:, k].reshape(len(values), -1) / math.factorial(k))
            for k, (orthonormal, upper) in enumerate(self._fits)
        ]
        return np.moveaxis(np.concatenate(result).reshape(-1, *values.shape[2:]), 0, -1)


@functools.lru_cache(maxsize=8)
def polynomials(n: int, degree: int) -> Polynomials:
    """Algebra of polynomials in ``n`` variables up to ``degree``, cached."""
    return Polynomials(n, degree)
