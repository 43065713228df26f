r"""Energy-preserving methods: discrete gradients on the almost-Poisson form in quasi-velocities.

In an M-orthonormal frame F(x) of D the energy is ½|w|² + V(x), and (``geonh.mechanics.quasi_velocities``)

    ζ = hF(x̄)ᵀw̄,   w_{k+1} = w_k + h(S(x̄, w̄)w̄ − F(x̄)D̄V(x_k, ζ)),   w̄ = ½(w_k + w_{k+1}),   g_{k+1} = g_k τ(ζ/2)²,

with S skew and a discrete gradient on the group, ⟨D̄V, ζ⟩ = V(x_{k+1}) − V(x_k). Then ½|w|² + V is kept: w̄·(w_{k+1}
− w_k) = −⟨D̄V, ζ⟩, for any metric, potential and linear constraint, and any x̄. The discrete gradients are

    gonzalez    dV(x̄) + (V(x_{k+1}) − V(x_k) − ⟨dV(x̄), ζ⟩) Mζ/⟨Mζ, ζ⟩,   x̄ = x_k·τ(ζ/2)           symmetric, order 2
    average     ∫₀¹ dV(x_k·exp(sζ)) ds by Gauss quadrature                                          symmetric, order 2
    itoh-abe    (V(x_k·W₁…W_j) − V(x_k·W₁…W_{j−1}))/ζ_j,   W_j = exp(ζ_j e_j),   x̄ = x_k              order 1, no dV

where dV is ρ*∂V in g*. Itoh–Abe's moves by canonical coordinates of the second kind, g_{k+1} = g_k W₁…W_n, and becomes
symmetric of order 2 as ``method.adjoint() @ method``. Order 4 by ``compose(method, "suzuki4")``.

Sources: Gonzalez, *Time integration and discrete Hamiltonian systems*, J. Nonlinear Sci. 6 (1996); Itoh, Abe 1988;
Quispel, McLaren 2008; on Lie groups: Celledoni, Eidnes, Owren, Ringholm, *Energy-preserving methods on Riemannian
manifolds*, Math. Comp. 89 (2020).
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.geometry.distribution import AffineDistribution
from geonh.groups.base import Point
from geonh.groups.retraction import Exponential, Retraction, make_retraction
from geonh.integrators.base import Clock, Guarantees, State
from geonh.integrators.hamel import Advance, QuasiVelocityMethod
from geonh.mechanics.quasi_velocities import adapted_frame, gyroscopic_force
from geonh.mechanics.system import System
from geonh.numerics.newton import Newton

GRADIENTS = ("gonzalez", "average", "itoh-abe")
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(5)
_SMALL = 1e-5
"""Below this increment a difference quotient has lost more digits than the derivative in its middle is wrong by."""


class DiscreteGradient(QuasiVelocityMethod):
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
        x = system.action.at(state.g)
        w = adapted_frame(system, x, state.rows) @ state.p_minus
        return jnp.concatenate([state.increment, w])

    def advance(self, system: System, clock: Clock, state: State, xi: Array) -> Advance:
        h, n, R = clock.dt, system.group.dim, state.rows
        x = system.action.at(state.g)
        w0 = adapted_frame(system, x, R) @ state.p_minus
        t = clock.time(state.k + 0.5)

        def mismatch(z: Array) -> Array:
            zeta, w1 = z[:n], z[n:]
            middle = (w0 + w1) / 2
            where = self._middle(system, x, zeta)
            F = adapted_frame(system, where, R)
            velocity = F.T @ middle
            push = system.force(t, where, velocity, clock.between(t)) - self._slope(system, x, where, zeta)
            rate = gyroscopic_force(system, where, middle, R) + F @ push
            return jnp.concatenate([zeta - h * velocity, w1 - w0 - h * rate])

        floor = 1e-14 * jnp.abs(h)
        guess = jnp.concatenate([state.increment[:n], w0])
        z, solved, inverse = self.newton.follow(mismatch, guess, state.inverse, floor)
        zeta, w1 = z[:n], z[n:]
        g = system.group.compose(state.g, self._increment(system, zeta))
        ahead = adapted_frame(system, system.action.at(g), R)
        return Advance(g, ahead.T @ w1, solved, system.group.turn(zeta), z, inverse)

    def _increment(self, system: System, zeta: Array) -> Point:
        """W with g_{k+1} = g_k W."""
        group = system.group
        if self.gradient == "itoh-abe":
            return self._partial_increments(system, zeta)[-1]
        half = self.tau(system)(group, zeta / 2)
        return group.compose(half, half)

    def _middle(self, system: System, x: Any, zeta: Array) -> Any:
        """Where the frame and the gyroscopic force are taken."""
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

    def _slope(self, system: System, x: Any, middle: Any, zeta: Array) -> Array:
        """D̄V(x, ζ), shape=[n]."""
        if system.potential is None:
            return jnp.zeros_like(zeta)
        field, action = system.potential, system.action
        V = lambda x: field(x, system.parameters)  # noqa: E731
        if self.gradient == "average":
            points = [action.act(x, system.group.exp((1 + s) / 2 * zeta)) for s in _NODES]
            slopes = [w / 2 * action.coanchor(V, point) for w, point in zip(_WEIGHTS, points, strict=True)]
            return jnp.sum(jnp.stack(slopes), axis=0)
        if self.gradient == "itoh-abe":
            return self._quotients(system, x, zeta)
        slope = action.coanchor(V, middle)
        lowered = system.mass_matrix(middle) @ zeta
        size = lowered @ zeta
        missing = V(action.act(x, self._increment(system, zeta))) - V(x) - slope @ zeta
        resting = size == 0.0
        return slope + jnp.where(resting, 0.0, missing / jnp.where(resting, 1.0, size)) * lowered

    def _quotients(self, system: System, x: Any, zeta: Array) -> Array:
        """Itoh–Abe's difference quotients, shape=[n]; a derivative in the middle of a very short one."""
        field, action, group = system.potential, system.action, system.group
        assert field is not None
        V = lambda x: field(x, system.parameters)  # noqa: E731
        points = [action.act(x, W) for W in self._partial_increments(system, zeta)]
        values = [V(point) for point in points]
        found = []
        for j in range(group.dim):
            short = jnp.abs(zeta[j]) < _SMALL
            quotient = (values[j + 1] - values[j]) / jnp.where(short, 1.0, zeta[j])
            half = group.exp(jnp.zeros(group.dim).at[j].set(zeta[j] / 2))
            found.append(jnp.where(short, action.coanchor(V, action.act(points[j], half))[j], quotient))
        return jnp.stack(found)
