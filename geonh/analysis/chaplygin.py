r"""Chaplygin systems: the gyroscopic tensor, and Hamiltonisation by a multiplier (Chaplygin's reducing multiplier).

A group of symmetries, of generators X(g) in the frame of the body, is transverse to D: g = D ⊕ span X. On the
shape space S = Q/G, of dimension r, the motion is a geodesic motion with potential and a gyroscopic force, of the
tensor (P onto D along D^⊥, h onto D along span X; [·, ·] the bracket of fields in D, tensorial in both, as P − h
vanishes on D)

    T(Y, Z) = (P − h)[Y, Z] = (Xᵀ(μXᵀ)⁻¹ − M⁻¹μᵀ(μM⁻¹μᵀ)⁻¹) μ[Y, Z],   Y, Z ∈ D.

If T(Y, Z) = Z(φ)Y − Y(φ)Z, the system is φ-simple: in the time τ, dτ = e^φ dt, with momenta e^φ p it is Hamiltonian on
T*S, of the metric e^{2φ}M on D and the same potential. The trace gives φ, if any: tr T(Y, ·) = (1 − r) dφ(Y). If this
form α is closed alone, e^{(r−1)φ} is the density of an invariant measure in (s, p), and there is such a density of the
position only if it is. α is extended to Q as a form that vanishes on X, so dα is computed there, without coordinates
of S.

The Hamiltonian system is written on Q, with the metric e^{2φ}hᵀMh + QᵀMQ, Q = 1 − P, in which span X and D are
orthogonal: the momentum of the symmetries is a first integral, and where it vanishes the velocity is in D.

Source: García-Naranjo, Marrero, *The geometry of nonholonomic Chaplygin systems revisited*, Nonlinearity 33 (2020).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.algebra.linear import orthogonal, saddle_inverses
from geonh.engine import computed
from geonh.groups.base import Point
from geonh.mechanics.momentum import generators_or_default
from geonh.mechanics.symmetry import across, derivative_along
from geonh.mechanics.system import System

PARALLEL = 1e-6
"""Least singular value of μXᵀ, of normalised rows, at which symmetries count as transverse to the constraints."""


class Chaplygin(eqx.Module):
    """System with the elements of its symmetry algebra that are transverse to D, shape=[m, k], and its generators."""

    system: System
    symmetry: Any
    generators: Any = None

    def horizontal(self, g: Point) -> Array:
        """Projector h onto D along the symmetries, shape=[n, n]."""
        X, mu = self._generators(g), self._rows(g)
        return jnp.eye(mu.shape[1]) - X.T @ _solved(mu @ X.T, mu)

    def gyroscopic(self, g: Point) -> Tensor:
        """T and its part h[Y, Z] by the curvature, of the horizontal parts of all pairs of the basis."""
        group, mu, X, h = self.system.group, self._rows(g), self._generators(g), self.horizontal(g)
        _, raised, schur = saddle_inverses(self.system.mass_matrix(self.system.at(g)), mu)
        slopes = jax.vmap(lambda Y: derivative_along(self.system, self._rows, g, Y))(h.T)  # [i, a, n]: D_{he_i}μ
        turning = jnp.einsum("ian,nj->aij", slopes, h)
        brackets = jax.vmap(lambda Y: jax.vmap(lambda Z: group.bracket(Y, Z))(h.T))(h.T)
        curvature = jnp.einsum("an,ijn->aij", mu, brackets) - turning + jnp.swapaxes(turning, 1, 2)
        lifts = _solved(X @ mu.T, X).T
        return Tensor(
            jnp.einsum("ka,aij->kij", lifts - raised @ schur, curvature), jnp.einsum("ka,aij->kij", lifts, curvature)
        )

    def form(self, g: Point) -> Array:
        """α, shape=[n], dφ if there is a φ; zero on a shape space of one dimension."""
        n, m = self.system.group.dim, len(self.symmetry)
        return jnp.einsum("jij->i", self.gyroscopic(g).T) / (1 - n + m) if n - m > 1 else jnp.zeros(n)

    def simple(self, g: Point) -> Array:
        """Tensor α(Z)Y − α(Y)Z of a φ-simple system with this α, of the shape of T."""
        h, alpha = self.horizontal(g), self.form(g)
        return jnp.einsum("ki,j->kij", h, alpha) - jnp.einsum("kj,i->kij", h, alpha)

    def complement(self, g: Point) -> np.ndarray:
        """Rows, shape=[r, n], orthogonal to the symmetries at g: the horizontal parts are a frame of D near g."""
        return np.linalg.svd(np.asarray(computed(Chaplygin._generators, self, g)))[2][len(self.symmetry) :]

    def crossing(self, g: Point) -> Array:
        """μXᵀ of rows of length 1, shape=[m, m]."""
        mu, X = (rows / jnp.linalg.norm(rows, axis=1, keepdims=True) for rows in (self._rows(g), self._generators(g)))
        return mu @ X.T

    def metric(self, g: Point, factor: Array) -> Array:
        """Metric with the given factor on D, and D and the symmetries orthogonal, shape=[n, n]."""
        x, h = self.system.at(g), self.horizontal(g)
        M = self.system.mass_matrix(x)
        Q = across(self.system, M, x)
        return factor * h.T @ M @ h + Q.T @ M @ Q

    def _rows(self, g: Point) -> Array:
        x = self.system.at(g)
        return self.system.holding(x).annihilator(x)

    def _generators(self, g: Point) -> Array:
        return self.symmetry @ generators_or_default(self.system, self.generators)(g)


def _solved(A: Array, B: Array) -> Array:
    """A⁻¹B, shapes [m, m] and [m, k], where pivots may vanish."""
    rows, beside = orthogonal(A, B)
    return rows.T @ (beside / jnp.sum(rows * rows, axis=1, keepdims=True))


class Tensor(NamedTuple):
    """Gyroscopic tensor, T[k, i, j], and the part of it that is the curvature of the constraints, of the same shape."""

    T: Array
    curvature: Array


class Conditions(NamedTuple):
    """At a point: α; the sizes of T − α(Z)Y + α(Y)Z and of dα, and of what they are differences of; and the size of
    right-hand sides and of terms of ℓ linear in ξ; and μXᵀ of normalised rows, singular where they are not transverse.
    """

    form: Array
    defect: Array
    size: Array
    turning: Array
    slope: Array
    affine: Array
    crossing: Array


def conditions(system: Chaplygin, g: Point) -> Conditions:
    """Evaluate the conditions for a multiplier."""
    own = system.system
    x, group = own.at(g), own.group
    of, alpha = system.gyroscopic(g), system.form(g)
    slope = jax.vmap(lambda Y: derivative_along(own, system.form, g, Y))(jnp.eye(group.dim))
    turned = jnp.einsum("k,kij->ij", alpha, group.structure_constants)
    return Conditions(
        form=alpha,
        defect=jnp.max(jnp.abs(of.T - system.simple(g))),
        size=jnp.max(jnp.abs(of.curvature)) + jnp.max(jnp.abs(of.T)),
        turning=jnp.max(jnp.abs(slope - slope.T - turned)),
        slope=jnp.max(jnp.abs(slope)) + jnp.max(jnp.abs(turned)),
        affine=jnp.max(jnp.abs(own.right_hand_side(x))) + jnp.max(jnp.abs(own.momentum_at_rest(x))),
        crossing=system.crossing(g),
    )
