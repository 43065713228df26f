"""Motions by equations of their own, in NumPy, without geonh and JAX: what the hunt compares with.

The equations of Hamel and d'Alembert on a Lie group, d/dt ∂l/∂ξ = ad*_ξ ∂l/∂ξ + X·l + F + (μᵀ + C)λ, with μξ = b. The
structure constants are those of commutators of matrices, and derivatives along the group are complex steps.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

STEP = 1e-30
"""Complex step: its square is lost, so that derivatives have no error but rounding."""


class Factor(NamedTuple):
    """A group: matrices of its basis, the entries of a point, and the velocity of these, that of g ξ."""

    basis: np.ndarray
    identity: np.ndarray
    rate: Callable


def unit(n: int, i: int, j: int) -> np.ndarray:
    """Matrix of zeros with a one."""
    E = np.zeros((n, n))
    E[i, j] = 1.0
    return E


def turned(n: int) -> list[np.ndarray]:
    """Basis of so(3) in the first rows of matrices of n rows."""
    return [unit(n, (i + 2) % 3, (i + 1) % 3) - unit(n, (i + 1) % 3, (i + 2) % 3) for i in range(3)]


def vectors(n: int) -> Factor:
    """Rⁿ and tori: translations, as matrices with a last column."""
    return Factor(np.array([unit(n + 1, i, n) for i in range(n)]), np.zeros(n), lambda v, xi: xi)


def matrices(basis: np.ndarray, left: bool = True) -> Factor:
    """A group of matrices, ġ = g ξ, or ξ g where it is not ``left``."""
    n = len(basis[0])

    def rate(v: np.ndarray, xi: np.ndarray) -> np.ndarray:
        g, a = v.reshape(n, n), np.tensordot(xi, basis, 1)
        return (g @ a if left else a @ g).ravel()

    return Factor(np.asarray(basis) if left else -np.asarray(basis), np.eye(n).ravel(), rate)


def plane(left: bool = True) -> Factor:
    """SE(2) by (θ, x, y)."""
    basis = np.array([unit(3, 1, 0) - unit(3, 0, 1), unit(3, 0, 2), unit(3, 1, 2)])

    def rate(v: np.ndarray, xi: np.ndarray) -> np.ndarray:
        c, s = np.cos(v[0]), np.sin(v[0])
        if left:
            return np.array([xi[0], c * xi[1] - s * xi[2], s * xi[1] + c * xi[2]])
        return np.array([xi[0], xi[1] - xi[0] * v[2], xi[2] + xi[0] * v[1]])

    return Factor(basis if left else -basis, np.zeros(3), rate)


def heisenberg() -> Factor:
    """Heis(3) by exponential coordinates."""
    basis = np.array([unit(3, 0, 1), unit(3, 1, 2), unit(3, 0, 2)])

    def rate(v: np.ndarray, xi: np.ndarray) -> np.ndarray:
        return np.array([xi[0], xi[1], xi[2] + 0.5 * (v[0] * xi[1] - v[1] * xi[0])])

    return Factor(basis, np.zeros(3), rate)


ROTATIONS = np.array(turned(3))
MOTIONS = np.array([*turned(4), *(unit(4, i, 3) for i in range(3))])
SL2 = np.array([[[0.0, 1], [0, 0]], [[0, 0], [2, 0]], [[1, 1], [0, -1]]])


def constants(basis: np.ndarray) -> np.ndarray:
    """Structure constants c[k, i, j], [e_i, e_j] = Σ_k c[k, i, j] e_k, from commutators."""
    n = len(basis)
    A = basis.reshape(n, -1).T
    brackets = np.array([[(a @ b - b @ a).ravel() for b in basis] for a in basis])
    c = np.linalg.lstsq(A, brackets.reshape(n * n, -1).T, rcond=None)[0].reshape(n, n, n)
    return np.round(c, 12)


class Space:
    """A product of groups, its points as one vector of entries."""

    def __init__(self, factors: list[Factor]):
        self.factors = factors
        self.dims = [len(f.basis) for f in factors]
        self.sizes = [len(f.identity) for f in factors]
        self.dim, self.size = sum(self.dims), sum(self.sizes)
        self.identity = np.concatenate([f.identity for f in factors])
        self.c = np.zeros((self.dim,) * 3)
        at = 0
        for f, d in zip(factors, self.dims, strict=True):
            # of the opposite group [a, b] = ba − ab: the commutators of −e are those of the basis with that sign
            s = slice(at, at + d)
            self.c[s, s, s] = constants(f.basis)
            at += d

    def rate(self, v: np.ndarray, xi: np.ndarray) -> np.ndarray:
        """Velocity of the entries of a point."""
        out, i, j = [], 0, 0
        for f, d, s in zip(self.factors, self.dims, self.sizes, strict=True):
            out.append(f.rate(v[i : i + s], xi[j : j + d]))
            i, j = i + s, j + d
        return np.concatenate(out)

    def ad_star(self, xi: np.ndarray, p: np.ndarray) -> np.ndarray:
        """⟨ad*_ξ p, η⟩ = ⟨p, [ξ, η]⟩."""
        return np.einsum("kij,k,i->j", self.c, p, xi)

    def along(self, f: Callable, t: float, v: np.ndarray, xi: np.ndarray, time: float = 0.0) -> np.ndarray:
        """Derivative of f(t, v) along a motion with velocity ξ, and rate ``time`` of the time."""
        moved = v + 1j * STEP * self.rate(v, xi)
        return np.imag(f(t + 1j * STEP * time, moved)) / STEP

    def gradient(self, f: Callable, t: float, v: np.ndarray) -> np.ndarray:
        """Derivatives of f(t, v) along the fields of the basis, along the last axis."""
        return np.stack([self.along(f, t, v, e) for e in np.eye(self.dim)], -1)


class Motion(NamedTuple):
    """Functions of (t, v, …) that make a system; those that it has not are None.

    ``c(t, v, ξ)`` are constraints, ``rows(t, v, ξ)`` their derivative by ξ; ``phi(t, v)`` constraints on positions.
    """

    space: Space
    metric: Callable
    linear: Callable | None
    quartic: float
    potential: Callable
    forces: Callable | None
    phi: Callable | None
    c: Callable | None
    rows: Callable | None
    across: Callable | None

    def momentum(self, t: float, v: np.ndarray, xi: np.ndarray) -> np.ndarray:
        """p = ∂l/∂ξ of l = ½ξᵀMξ + a·ξ + ¼κ|ξ|⁴ − V."""
        p = self.metric(t, v) @ xi + self.quartic * (xi @ xi) * xi
        return p if self.linear is None else p + self.linear(t, v)

    def lagrangian(self, t: float, v: np.ndarray, xi: np.ndarray) -> np.ndarray:
        """l(t, v, ξ)."""
        value = 0.5 * xi @ self.metric(t, v) @ xi + 0.25 * self.quartic * (xi @ xi) ** 2 - self.potential(t, v)
        return value if self.linear is None else value + self.linear(t, v) @ xi

    def hessian(self, t: float, v: np.ndarray, xi: np.ndarray) -> np.ndarray:
        """∂²l/∂ξ²."""
        return self.metric(t, v) + self.quartic * ((xi @ xi) * np.eye(len(xi)) + 2 * np.outer(xi, xi))

    def constraints(self, t: float, v: np.ndarray, xi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows μ of all constraints, and the right side of μξ̇, those of positions first."""
        s, rows, right = self.space, [np.zeros((0, len(xi)))], [np.zeros(0)]
        if self.phi is not None:
            rows.append(s.gradient(self.phi, t, v))

            def later(e: float) -> np.ndarray:  # d/dt φ at ξ fixed, a little later
                there = v + e * self.space.rate(v, xi)
                return s.along(self.phi, t + e, there, xi, 1.0)

            h = 2e-3  # eighth-order differences of a first derivative that is exact
            weights = np.array([4 / 5, -1 / 5, 4 / 105, -1 / 280]) / h
            right.append(-sum(w * (later(k * h) - later(-k * h)) for k, w in enumerate(weights, 1)))
        if self.c is not None:
            rows.append(self.rows(t, v, xi))
            right.append(-s.along(lambda t, v: self.c(t, v, xi), t, v, xi, 1.0))
        return np.concatenate(rows), np.concatenate(right)

    def accelerations(self, t: float, v: np.ndarray, xi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """ξ̇ and λ."""
        s = self.space
        p = self.momentum(t, v, xi)
        force = s.ad_star(xi, p) + s.gradient(lambda t, v: self.lagrangian(t, v, xi), t, v)
        force = force - s.along(lambda t, v: self.momentum(t, v, xi), t, v, xi, 1.0)
        if self.forces is not None:
            force = force + self.forces(t, v, xi)
        H = self.hessian(t, v, xi)
        mu, right = self.constraints(t, v, xi)
        m = len(mu)
        if m == 0:
            return np.linalg.solve(H, force), np.zeros(0)
        C = 0.0 if self.across is None else self.across(t, v, xi)
        K = np.block([[H, -(mu.T + C)], [mu, np.zeros((m, m))]])
        x = np.linalg.solve(K, np.concatenate([force, right]))
        return x[: s.dim], x[s.dim :]

    def run(self, t0: float, v0: np.ndarray, xi0: np.ndarray, t1: float) -> tuple[np.ndarray, np.ndarray]:
        """Entries of the point and velocity at t1."""
        n = self.space.size

        def rate(t: float, y: np.ndarray) -> np.ndarray:
            v, xi = y[:n], y[n:]
            return np.concatenate([self.space.rate(v, xi), self.accelerations(t, v, xi)[0]])

        made = solve_ivp(rate, (t0, t1), np.concatenate([v0, xi0]), method="DOP853", rtol=1e-12, atol=1e-12)
        if not made.success:
            raise FloatingPointError(made.message)
        return made.y[:n, -1], made.y[n:, -1]
