r"""Candidates for first integrals, and the linear algebra of their search: for ``integrals.py``, with its notation."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array

from geonh.algebra.echelon import echelon
from geonh.analysis.states import IDENTITY, States
from geonh.analysis.subspaces import span
from geonh.engine import mapped
from geonh.geometry.field import Field
from geonh.groups.base import LieGroup, Point
from geonh.mechanics.equations import accelerations
from geonh.mechanics.system import System

ZERO = 1e-12
"""Rates of combinations below this part of the largest one are zero."""
ROUNDING = 1e-13
"""Rates of combinations below which they are zero whatever the others are, 1/s."""
DEPENDENT = 1e-8
"""Part of a candidate's values independent of the candidates before it, below which it is left out."""
SPARE = 40
"""Number of states beyond that of candidates, and number of states of the test."""


Term = tuple[int, int, int]
"""Factors (i, j, k) of a candidate b_i v_j v_k, j ≤ k; 0 for 1."""


class Polynomial(eqx.Module):
    """Σ c b_i(g) v_j v_k over rows (i, j, k) of ``terms``, with b₀ = v₀ = 1 and v = (p, π, ξ): first integral."""

    group: LieGroup
    basis: tuple[Field, ...]
    coefficients: Array
    terms: tuple[Term, ...] = eqx.field(static=True)

    def __call__(self, g: Point, xi: Array, p: Array, parameters: Any) -> Array:
        i, j, k = np.array(self.terms).T
        b, v = _factors(self.group, self.basis, g, xi, p, parameters)
        return jnp.sum(self.coefficients * b[i] * v[j] * v[k])


class Names(NamedTuple):
    """Names of the basis functions and of the components of v, "" for 1 first."""

    basis: tuple[str, ...]
    variables: tuple[str, ...]

    def formula(self, coefficients: np.ndarray, terms: list[Term]) -> str:
        """Formula of a combination whose first coefficient is positive."""
        words = []
        for c, (i, j, k) in zip(coefficients, terms, strict=True):
            powers = [f"{self.variables[k]}²"] if j == k > 0 else [self.variables[j], self.variables[k]]
            factors = [word for word in (self.basis[i], *powers) if word]
            size = f"{abs(c):.10g}"
            words.append(" ".join(["-" if c < 0 else "+", *([] if size == "1" and factors else [size]), *factors]))
        return " ".join(words).removeprefix("+ ")


class Samples(NamedTuple):
    """Factors b, shape=[N, B], v, shape=[N, V], and energies at random states, and their derivatives in time; where
    accelerations are large these are divided by them, so that no state outweighs the others.
    """

    b: np.ndarray
    v: np.ndarray
    energy: np.ndarray
    b_rate: np.ndarray
    v_rate: np.ndarray
    energy_rate: np.ndarray

    def values(self, terms: list[Term]) -> np.ndarray:
        """Values of the candidates, shape=[N, K]."""
        i, j, k = np.array(terms).T
        return self.b[:, i] * self.v[:, j] * self.v[:, k]

    def rates(self, terms: list[Term]) -> np.ndarray:
        """Derivatives in time of the candidates, shape=[N, K]."""
        i, j, k = np.array(terms).T
        b, v, b_rate, v_rate = self.b, self.v, self.b_rate, self.v_rate
        return b_rate[:, i] * v[:, j] * v[:, k] + b[:, i] * (v_rate[:, j] * v[:, k] + v[:, j] * v_rate[:, k])


def sampled(system: System, basis: tuple[Field, ...], states: States, u: Any) -> Samples:
    """Evaluate factors and their rates at the states where they are finite."""
    same = jax.tree.map(lambda a: np.broadcast_to(a, (len(states.t), *np.shape(a))), u)
    rows = mapped(_factors_and_rates, (system, basis), (states, same))
    finite = np.all([np.isfinite(part.reshape(len(part), -1)).all(axis=1) for part in rows], axis=0)
    if finite.sum() < len(finite) / 2:
        raise ValueError(f"the equations of {system.name} or the basis are not finite at most of the states about g")
    samples = Samples(*(part[finite] for part in rows))
    speeds = np.linalg.norm(samples.v_rate, axis=1)
    slowed = 1 / (1 + speeds / np.median(speeds)) if np.any(speeds) else np.ones(len(speeds))
    rates = (part * slowed.reshape(-1, *[1] * (part.ndim - 1)) for part in samples[3:])
    return Samples(*samples[:3], *rates)


def _factors(group: LieGroup, basis: tuple[Field, ...], g: Point, xi: Array, p: Array, parameters: Any) -> tuple:
    b = jnp.stack([jnp.ones(()), *(jnp.reshape(field(g, parameters), ()) for field in basis)])
    return b, jnp.concatenate([jnp.ones(1), p, group.Ad_star(group.inverse(g), p), xi])


def _factors_and_rates(tree: tuple, node: tuple) -> Samples:
    system, basis = tree
    (t, g, xi), u = node

    def factors(t: Array, g: Point, xi: Array) -> tuple:
        x = system.at(g, t)
        p = system.momentum(x, xi)
        return *_factors(system.group, basis, g, xi, p, system.parameters), system.energy(x, p)

    moving = jnp.ones(()), system.group.left_tangent(g, xi), accelerations(system, t, g, xi, u)[0]
    (b, v, energy), (b_rate, v_rate, energy_rate) = jax.jvp(factors, (t, g, xi), moving)
    return Samples(b, v, energy, b_rate, v_rate, energy_rate)


def candidates(samples: Samples, degree: int) -> list[Term]:
    """Terms up to a degree, by degree, of independent factors."""
    of_v = np.linalg.norm(samples.v, axis=0)
    largest = of_v[1:].reshape(3, -1).max(axis=1)  # of p, π and ξ
    b = independent(samples.b, np.linalg.norm(samples.b, axis=0))
    v = independent(samples.v, np.concatenate([of_v[:1], np.repeat(largest, len(of_v) // 3)]))
    pairs = [(j, k) for k in v for j in v if j <= k]
    pairs.sort(key=lambda pair: sum(i > 0 for i in pair))
    return [(i, j, k) for j, k in pairs if (j > 0) + (k > 0) <= degree for i in b]


def independent(values: np.ndarray, sizes: np.ndarray) -> list[int]:
    """Indices of columns that are independent of those before them and, against ``sizes``, not zero."""
    R = np.linalg.qr(values / np.where(sizes > 0, sizes, 1.0), mode="r")
    return np.flatnonzero(np.abs(np.diag(R)) > DEPENDENT).tolist()


def variables(system: System) -> list[str]:
    """Names of the components of v = (p, π, ξ)."""
    names = system.group.velocity_names
    return [*(f"p_{name}" for name in names), *(f"π_{name}" for name in names), *names]


class Search:
    """First integrals in the span of independent candidates, found degree by degree."""

    def __init__(self, samples: Samples, terms: list[Term]):
        values = samples.values(terms)
        self.terms = [terms[i] for i in independent(values, np.linalg.norm(values, axis=0))]
        self.values, self.rates = samples.values(self.terms), samples.rates(self.terms)
        self.degrees = np.array([(j > 0) + (k > 0) for _, j, k in self.terms])
        self.energy = samples.energy if _is_constant(samples) else None
        self.found: list[tuple[int, np.ndarray]] = []
        self.zero, self.nonzero = 0.0, np.inf

    def extend(self, degree: int) -> None:
        """Find the integrals of a degree, modulo constants, the energy and products of those found before."""
        some = self.degrees <= degree
        Q, R = np.linalg.qr(self.values[:, some])
        _, rates, directions = np.linalg.svd(scipy.linalg.solve_triangular(R, self.rates[:, some].T, trans="T").T)
        rank = int(np.sum(rates > max(ZERO * rates[0], ROUNDING)))
        self.zero = max(self.zero, rates[rank:].max(initial=0.0))
        self.nonzero = min(self.nonzero, rates[:rank].min(initial=np.inf))
        known = self._known(degree)
        inside = Q.T @ known
        inside = inside[:, np.linalg.norm(known - Q @ inside, axis=0) < DEPENDENT * np.linalg.norm(known, axis=0)]
        scale = np.linalg.norm(R, axis=0)
        kernel, lower = (
            (scipy.linalg.solve_triangular(R, part) * scale[:, None]).T for part in (directions[rank:].T, span(inside))
        )
        for row in _modulo(kernel, lower):
            c = np.zeros(len(some))
            c[some] = row / scale
            self.found.append((degree, c))

    def _known(self, degree: int) -> np.ndarray:
        """Values of constants, of the energy, and of products of integrals found, shape=[N, k]."""
        known = [np.ones(len(self.values))]
        values = [(order, self.values @ c) for order, c in self.found]
        known += [value for _, value in values]
        known += [u * v for i, (a, u) in enumerate(values) for b, v in values[: i + 1] if a + b <= degree]
        if self.energy is not None and degree == 2:
            known.append(self.energy)
        return np.stack(known, axis=1)


def _is_constant(samples: Samples) -> bool:
    return bool(np.abs(samples.energy_rate).max() < IDENTITY * np.abs(samples.energy).max())


def _modulo(rows: np.ndarray, lower: np.ndarray) -> np.ndarray:
    """Echelon basis of the span of rows modulo that of ``lower``, which they contain."""
    lower = echelon(lower)
    pivots = [int(np.argmax(np.abs(row) > 0.5)) for row in lower]
    rest = rows - rows[:, pivots] @ lower
    directions = np.linalg.svd(rest, full_matrices=False)[2]
    return echelon(directions[: len(rows) - len(lower)])
