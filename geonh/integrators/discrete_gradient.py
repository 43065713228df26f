r"""Energy-preserving methods: discrete gradients on the almost-Poisson form in quasi-velocities.

In momenta π = E(x)p along a frame E of D the energy is H(x, π), and (``geonh.mechanics.quasi_velocities``)

    ζ = hRᵀy,   π_{k+1} = π_k + h(S(x̄, π̄)y − Rη),   g_{k+1} = g_k τ(ζ/2)²,      (η, y) = D̄H,

with S skew, R = E(x̄) an orthonormal basis of D there, and a discrete gradient D̄H on D*: ⟨η, ζ⟩ + y·(π_{k+1} − π_k) =
H_{k+1} − H_k. By the equations the left-hand side is h(y·Rη + y·Sy − y·Rη) = 0, so the energy is kept, for any metric,
potential and linear constraint, and any x̄. The discrete gradients, where ∂_xH is ρ*∂H in g*, are

    gonzalez    ∂H(x̄, π̄) + (H_{k+1} − H_k − ⟨∂_xH, ζ⟩ − ∂_πH·(π_{k+1} − π_k)) (Mζ, 0)/⟨Mζ, ζ⟩   symmetric, order 2
    average     ∫₀¹ ∂H(x_k·exp(sζ), π_k + s(π_{k+1} − π_k)) ds by Gauss quadrature, five nodes  symmetric, order 2
    itoh-abe    quotients of differences of H, one coordinate of (ζ, π) changed after the other   order 1

with x̄ = x_k·τ(ζ/2), π̄ = ½(π_k + π_{k+1}) in the first two: seen from either end they are the same, and another R turns
all of π with it. Itoh–Abe's has x̄ = x_k, π̄ = π_k, and moves by canonical coordinates of the second kind, g_{k+1} =
g_k exp(ζ₁e₁)…exp(ζ_ne_n); ``method.adjoint() @ method`` is of order 2. Order 4 by ``compose(method, "suzuki4")``.

Sources: Gonzalez, *Time integration and discrete Hamiltonian systems*, J. Nonlinear Sci. 6 (1996); Itoh, Abe 1988;
Quispel, McLaren 2008; on Lie groups: Celledoni, Eidnes, Owren, Ringholm, *Energy-preserving methods on Riemannian
manifolds*, Math. Comp. 89 (2020).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.geometry.distribution import AffineDistribution
from geonh.groups.base import Point
from geonh.groups.retraction import Exponential, Retraction, make_retraction
from geonh.integrators.base import Clock, Guarantees, RetractingIntegrator, State
from geonh.integrators.hamel import Advance, QuasiVelocityMethod
from geonh.mechanics.quasi_velocities import (
    energy_on_distribution,
    energy_slopes,
    frame,
    gyroscopic_force,
    orthonormal_basis,
    velocity_of_momentum,
)
from geonh.mechanics.system import System
from geonh.numerics.newton import Newton

GRADIENTS = ("gonzalez", "average", "itoh-abe")
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(5)
_SMALL = 1e-5
"""Below this increment a difference quotient has lost more digits than the derivative in its middle is wrong by."""


class _Chart(NamedTuple):
    """Where a step's equations stand: x̄, an orthonormal basis R of D there, and π_k in it."""

    where: Any
    R: Array
    start: Array


class DiscreteGradient(QuasiVelocityMethod, RetractingIntegrator):
    """Energy-preserving integrator.

    Parameters
    ----------
    gradient : str
        "gonzalez", "average" (average vector field) or "itoh-abe".
    retraction : str or Retraction
        "auto" (Cayley where the group has it), "cayley" or "exp"; the last two gradients use exp.
    newton : Newton, optional
        Tolerance and bound of the implicit solve.
    """

    gradient: str = eqx.field(static=True)
    retraction: Retraction | None
    newton: Newton

    def __init__(
        self, gradient: str = "gonzalez", retraction: str | Retraction = "auto", *, newton: Newton | None = None
    ):
        if gradient not in GRADIENTS:
            raise ValueError(f"gradient must be one of {list(GRADIENTS)}, got {gradient!r}")
        self.gradient, self.newton = gradient, newton or Newton()
        self.retraction = make_retraction(retraction) if gradient == "gonzalez" else Exponential()

    @property
    def guarantees(self) -> Guarantees:
        symmetric = self.gradient != "itoh-abe"
        return Guarantees(
            order=2 if symmetric else 1,
            symmetric=symmetric,
            implicit=True,
            constraint="nodes",
            energy="always",
            momentum="none",
            affine=False,
            groups="any",
            reference="Gonzalez 1996; Celledoni, Eidnes, Owren, Ringholm 2020",
        )

    def refuse(self, system: System) -> None:
        super().refuse(system)
        if not system.is_quadratic:
            raise ValueError(f"DiscreteGradient is for ℓ = ½ξᵀMξ − V(x); {system.name} has a general Lagrangian")
        if isinstance(system.distribution, AffineDistribution):
            raise ValueError(f"the energy of {system.name} is not kept: its constraints are affine; use Gauss or GNI")

    def guess(self, system: System, clock: Clock, state: State) -> Array:
        return jnp.concatenate([state.increment, jnp.zeros(state.rows.shape[0])])

    def advance(self, system: System, clock: Clock, state: State, xi: Array) -> Advance:
        h, n = clock.dt, system.group.dim
        x = system.action.at(state.g)
        p, t = system.momentum(x, xi), clock.time(state.k + 0.5)
        energy = system.energy(x, p)

        def chart(z: Array) -> _Chart:
            where = self._middle(system, x, z[:n])
            R = orthonormal_basis(system, where, state.rows)
            return _Chart(where, R, frame(system, x, R) @ p)

        def mismatch(z: Array) -> Array:
            zeta, change = z[:n], z[n:]
            where, R, start = at = chart(z)
            slope, y = self._gradient(system, x, energy, zeta, change, at)
            middle = start if self.gradient == "itoh-abe" else start + change / 2
            momentum = system.momentum(where, R.T @ velocity_of_momentum(system, where, middle, R))
            push = system.force(t, where, R.T @ y, clock.between(t)) - slope
            rate = gyroscopic_force(system, where, momentum, y, R) + R @ push
            return jnp.concatenate([zeta - h * (R.T @ y), change - h * rate])

        floor = 1e-14 * jnp.abs(h)
        z, solved, inverse = self.newton.follow(mismatch, state.increment, state.inverse, floor)
        zeta, (_, R, start) = z[:n], chart(z)
        g = system.group.compose(state.g, self._increment(system, zeta))
        ahead = system.action.at(g)
        E = frame(system, ahead, R)
        xi = E.T @ velocity_of_momentum(system, ahead, start + z[n:], E)
        return Advance(g, xi, solved, system.group.turn(zeta), z, inverse)

    def _increment(self, system: System, zeta: Array) -> Point:
        """W with g_{k+1} = g_k W."""
        group = system.group
        if self.gradient == "itoh-abe":
            return self._partial_increments(system, zeta)[-1]
        half = self.tau(system)(group, zeta / 2)
        return group.compose(half, half)

    def _middle(self, system: System, x: Any, zeta: Array) -> Any:
        """x̄."""
        if self.gradient == "itoh-abe":
            return x
        return system.action.act(x, self.tau(system)(system.group, zeta / 2))

    def _partial_increments(self, system: System, zeta: Array) -> list[Point]:
        """1, W₁, W₁W₂, …"""
        group = system.group
        found = [group.identity()]
        for j in range(group.dim):
            found.append(group.compose(found[-1], group.exp(jnp.zeros(group.dim).at[j].set(zeta[j]))))
        return found

    def _gradient(
        self, system: System, x: Any, energy: Array, zeta: Array, change: Array, at: _Chart
    ) -> tuple[Array, Array]:
        """D̄H = (η, y) of shapes [n] and [r], from the node x with that energy."""
        where, R, start = at
        action, group = system.action, system.group

        def H(x: Any, pi: Array) -> Array:
            return energy_on_distribution(system, x, pi, frame(system, x, R))

        if self.gradient == "average":

            def weighted(at: tuple[Array, Array]) -> tuple[Array, Array]:
                s, weight = at
                between = action.act(x, group.exp(s * zeta))
                slope, y = energy_slopes(system, between, start + s * change, R, frame(system, between, R))
                return weight * slope, weight * y

            slopes, ys = lax.map(weighted, (jnp.asarray((1 + _NODES) / 2), jnp.asarray(_WEIGHTS / 2)))
            return jnp.sum(slopes, axis=0), jnp.sum(ys, axis=0)
        if self.gradient == "itoh-abe":
            return self._quotients(system, x, zeta, start, H), self._conjugate(system, x, zeta, start, change, R)
        slope, y = energy_slopes(system, where, start + change / 2, R, R)
        lowered = system.mass_matrix(where) @ zeta
        size = lowered @ zeta
        ahead = action.act(x, self._increment(system, zeta))
        missing = H(ahead, start + change) - energy - slope @ zeta - y @ change
        resting = size == 0.0
        return slope + jnp.where(resting, 0.0, missing / jnp.where(resting, 1.0, size)) * lowered, y

    def _quotients(self, system: System, x: Any, zeta: Array, pi: Array, H: Callable) -> Array:
        """Itoh–Abe's difference quotients in ζ, shape=[n]; a derivative in the middle of a very short one."""
        action, group = system.action, system.group
        points = [action.act(x, W) for W in self._partial_increments(system, zeta)]
        values = [H(point, pi) for point in points]
        found = []
        for j in range(group.dim):
            short = jnp.abs(zeta[j]) < _SMALL
            quotient = (values[j + 1] - values[j]) / jnp.where(short, 1.0, zeta[j])
            half = group.exp(jnp.zeros(group.dim).at[j].set(zeta[j] / 2))
            slope = action.coanchor(lambda x: H(x, pi), action.act(points[j], half))[j]
            found.append(jnp.where(short, slope, quotient))
        return jnp.stack(found)

    def _conjugate(self, system: System, x: Any, zeta: Array, start: Array, change: Array, R: Array) -> Array:
        """Itoh–Abe's difference quotients in π, shape=[r]: H is quadratic, so they are derivatives in the middle."""
        ahead = system.action.act(x, self._increment(system, zeta))
        E = frame(system, ahead, R)
        found = []
        for a in range(change.size):
            middle = start + jnp.where(jnp.arange(change.size) < a, change, 0.0).at[a].set(change[a] / 2)
            found.append(velocity_of_momentum(system, ahead, middle, E)[a])
        return jnp.stack(found)
