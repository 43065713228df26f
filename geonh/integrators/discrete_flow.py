r"""Methods composed of a discrete Legendre flow and a node map: common to GNI, RATTLE and the symmetric projection.

From the node (x_k, g_k) with the outgoing momentum p, W_k = τ(ζ_k),

    F⁻(x_k, ζ_k) = p                                       solved for ζ_k
    g_{k+1} = g_k W_k,   x_{k+1} = x_k·W_k,   p⁺_{k+1} = F⁺(x_k, ζ_k)
    p̃_{k+1} = p⁺_{k+1} + (h/2)f + μᵀλ,   μξ̃_{k+1} = b      half the node: the average momentum, on the constraint

and each method defines the outgoing momentum. GNI and RATTLE reflect, p⁻ = 2p̃ − p⁺.

Holonomic constraints φ = 0, with the rows G = ρ_x*dφ, have multipliers of position in the step and of velocity at the
node (RATTLE on groups):

    F⁻(x_k, ζ_k) = p + G(x_k)ᵀν,   φ(x_k·W_k) = 0,   p̃_{k+1} = p⁺_{k+1} + (h/2)f + μ(x_{k+1})ᵀλ + G(x_{k+1})ᵀν'

ν is eliminated: the first equation holds modulo multiples of Gᵀ. The nonholonomic rows are taken
orthogonal to G in M⁻¹, so the two kinds of multipliers decouple, and p^± have no part along G. Without
nonholonomic constraints the step is symplectic on T*{φ = 0} and keeps the momentum maps of symmetries of l_d and φ.
Sources: Hairer, Lubich, Wanner, *Geometric Numerical Integration* (2006), §VII.1.4; McLachlan, Perlmutter 2006.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.algebra.linear import saddle
from geonh.algebra.newton import Newton
from geonh.arguments.validators import shortly
from geonh.groups.base import Point
from geonh.integrators.base import (
    Clock,
    Equations,
    ImplicitIntegrator,
    Outcome,
    RetractingIntegrator,
    State,
    Warm,
    no_inverse,
)
from geonh.integrators.prediction import SMOOTH, Weights, continued, followed_by, repeated
from geonh.mechanics.equations import multipliers
from geonh.mechanics.holonomic import rounding_of_places
from geonh.mechanics.system import System

MANY = 10
"""Least number of velocities whose momenta may be rounded to fewer digits than Newton's method expects."""
EPSILON = float(np.finfo(float).eps)


class Average(NamedTuple):
    """Average at a node: p̃, the constraint's half impulse μᵀλ in it, convergence; and ξ̃, if it was needed."""

    momentum: Array
    reaction: Array
    converged: Array
    xi: Array | None = None


def average(system: System, clock: Clock, k: Array, x: Any, p_plus: Array, newton: Newton) -> Average:
    """Average momentum p̃ = p⁺ + (h/2)f(t, x, ξ̃, u) + μᵀλ with μξ̃ = b, at node k.

    Where f depends on ξ̃, or ℓ is not quadratic, by Newton's method for ξ̃ on v = 0, where

        Mv − μᵀλ = p⁺ + (h/2)f(ξ̃) − ∂ℓ/∂ξ(x, ξ̃),   μv = b − μξ̃.
    """
    M, mu = system.mass_matrix(x), system.annihilator(x)
    if system.is_quadratic and system.forces is None:
        normal = system.normal_momentum(x, p_plus - system.momentum_at_rest(x))
        return Average(p_plus - normal, -normal, jnp.asarray(True))
    t, u, half = clock.time(k), clock.control(k), clock.dt / 2

    def correction(xi: Array) -> tuple[Array, Array]:
        free = p_plus + half * system.force(t, x, xi, u) - system.momentum(x, xi)
        return saddle(M, mu, free, -system.constraint_residual(x, xi))

    left = lambda xi: correction(xi)[0]  # noqa: E731
    rest = jnp.zeros_like(p_plus)
    xi = left(rest)
    xi, converged = newton.solve(left, xi) if system.is_quadratic else newton.descend(left, xi, left(xi), rest)
    converged = converged | ~jnp.isfinite(jnp.sum(xi))  # a force that is not finite is reported as such
    return Average(system.momentum(x, xi), mu.T @ correction(xi)[1], converged, xi)


def arrived(system: System, clock: Clock, k: Array, x: Any, p_plus: Array, newton: Newton) -> tuple[Array, Average]:
    """Project p⁺ off the rows of φ, which a velocity multiplier absorbs; return it and the average at node k."""
    middle = average(system, clock, k, x, p_plus, newton)
    if system.holonomic is not None:
        p_plus = p_plus + middle.reaction - system.nonholonomic_part(x, middle.reaction)
    return p_plus, middle


def reflected(p: Array, average: Array) -> Array:
    """Reflection of the momentum about the average: p⁻ = 2p̃ − p⁺, and its inverse."""
    return 2 * average - p


class DiscreteFlow(ImplicitIntegrator, RetractingIntegrator):
    """One step of a discrete Legendre flow; subclasses define F^±, and the outgoing momentum of a node."""

    newton: eqx.AbstractVar[Newton]
    predictors: ClassVar[tuple[Weights, ...]] = SMOOTH
    """Weights of the last ζ, oldest first, in predictions of the next."""

    @abstractmethod
    def legendre_minus(self, system: System, h: Array, x: Any, zeta: Array) -> Array:
        """Discrete Legendre transform F⁻(x, ζ), shape=[n], the outgoing momentum; ``zeta`` of shape=[n]."""

    @abstractmethod
    def legendre_plus(self, system: System, h: Array, x: Any, zeta: Array, y: Any) -> Array:
        """Discrete Legendre transform F⁺(x, ζ), shape=[n], incoming at y = x·τ(ζ); ``zeta`` of shape=[n]."""

    def cold(self, system: System, clock: Clock, k: Array, g: Point, xi: Array) -> Warm:
        return Warm(repeated(clock.dt * xi, self.predictors), no_inverse(xi.size, cheap=True))

    def _expected(self, state: State) -> Array:
        """Prediction of ζ, shape=[n], from the last ones."""
        return continued(state.warm.guess, self.predictors)

    def equations(self, system: System, clock: Clock, state: State) -> Equations:
        x, h = system.at(state.g, clock.time(state.k)), clock.dt

        def mismatch(zeta: Array) -> Array:
            missing = self.legendre_minus(system, h, x, zeta) - state.p_minus
            return missing if system.holonomic is None else self._residual(system, h, x, zeta, missing)

        return self._with_rounding(system, x, state, Equations(mismatch, self._expected(state), 1e-14 * jnp.abs(h)))

    def _with_rounding(self, system: System, x: Any, state: State, equations: Equations) -> Equations:
        """Equations with the rounding of φ, and of momenta of many velocities: of Mζ, relative to ζ, it is that of the
        condition of M, for which the ratio of its diagonal entries stands here.
        """
        rounding, guess = rounding_of_places(system, state.g), equations.guess
        if system.group.dim >= MANY:
            masses = jnp.diag(system.mass_matrix(x))
            of_momenta = guess.size * EPSILON * jnp.max(masses) / jnp.min(masses) * jnp.sqrt(guess @ guess)
            rounding = of_momenta if rounding is None else jnp.maximum(rounding, of_momenta)
        return equations._replace(rounding=rounding)

    def _residual(self, system: System, h: Array, x: Any, zeta: Array, missing: Array) -> Array:
        """Residual of a step, shape=[n], as a change of ζ: a momentum modulo the rows G of φ at x, and φ(x·τ(ζ))."""
        phi = system.holonomic_residual(system.act(x, self.tau(system)(system.group, zeta), h))
        return h * saddle(system.mass_matrix(x), system.holonomic_rows(x), missing, phi / h)[0]

    def flow(self, system: System, clock: Clock, state: State, zeta: Array) -> tuple[Outcome, Average]:
        """For methods composed of it: the node after a step ζ, shape=[n], with p⁺ = F⁺ on both sides, and the average
        there.
        """
        tau, h, x = self.tau(system), clock.dt, system.at(state.g, clock.time(state.k))
        g = system.group.compose(state.g, tau(system.group, zeta))
        y = system.at(g, clock.time(state.k + 1))
        p_plus, middle = arrived(system, clock, state.k + 1, y, self.legendre_plus(system, h, x, zeta, y), self.newton)
        turn = tau.turn(system.group, zeta)
        warm = Warm(followed_by(state.warm.guess, zeta))
        return Outcome(g, p_plus, p_plus, warm=warm, converged=middle.converged, turn=turn, xi=middle.xi), middle


class ReflectingFlow(DiscreteFlow):
    """Flow that reflects the momentum about the constraint at each node, p⁻ = p⁺ + h(f + μᵀλ): GNI and RATTLE."""

    start: eqx.AbstractVar[str]
    predictors: ClassVar[tuple[Weights, ...]] = ((-1.0, 1.0, 1.0),)
    """Exact for a linear function of k plus a multiple of (−1)ᵏ, as 0 = (s − 1)²(s + 1)."""

    def __check_init__(self) -> None:
        check_start(self.start)

    def init(self, system: System, clock: Clock, g0: Point, xi0: Array) -> Outcome:
        return started(self.start, system, clock, g0, xi0)

    def update(self, system: System, clock: Clock, state: State, z: Array) -> Outcome:
        outcome, middle = self.flow(system, clock, state, z)
        return outcome._replace(p_minus=reflected(outcome.p_plus, middle.momentum))


def check_start(start: str) -> str:
    """Return the word for ``started``; ValueError for an unknown one."""
    if not isinstance(start, str) or start not in ("average", "multiplier"):
        raise ValueError(f"start must be 'multiplier' or 'average', got {shortly(start)}")
    return start


def started(start: str, system: System, clock: Clock, g0: Point, xi0: Array) -> Outcome:
    r"""Node 0 of a method that reflects: p̃₀ = ∂ℓ/∂ξ(x₀, ξ₀) and p^± = p̃₀ ± (h/2)(f₀ + μᵀλ₀), with minus f

    λ₀ is that of the continuous equations, or zero with start="average" (Remark 5 of the 2008 paper of Ferraro,
    Iglesias and Martín de Diego). Both are of order 2; with λ₀ = 0 all of it alternates in sign from the start on.
    """
    t, u = clock.time(0), clock.control(0)
    x = system.at(g0, t)
    p, force = system.momentum(x, xi0), system.force(t, x, xi0, u)
    if start == "multiplier":
        reaction = system.annihilator(x).T @ multipliers(system, t, g0, xi0, u)
        force = force + system.nonholonomic_part(x, reaction)
    half = clock.dt / 2 * force
    return Outcome(g0, p - half, p + half)
