r"""Runge–Kutta methods on G × Rʳ in quasi-velocities: Munthe-Kaas, commutator-free, and Gauss.

**Runge–Kutta–Munthe-Kaas** (Munthe-Kaas 1999, and with any retraction Iserles et al., *Lie-group methods*, Acta
Numerica 9 (2000), §4): with g = g_k τ(σ) the reconstruction ġ = gξ becomes σ̇ = dτ_{−σ}⁻¹ ξ, and the classical
method of order p is applied to (σ, y). dτ⁻¹ is in closed form, so nothing is truncated.

**Commutator-free, order 4** (Celledoni, Marthinsen, Owren, *Commutator-free Lie group methods*, FGCS 19 (2003)): with
K_i = hξ(stage i), written for left trivialisation,

    g₂ = g exp(½K₁), g₃ = g exp(½K₂), g₄ = g₂ exp(K₃ − ½K₁),
    g' = g exp((3K₁ + 2K₂ + 2K₃ − K₄)/12) exp((−K₁ + 2K₂ + 2K₃ + 3K₄)/12).

**Gauss**, s stages, order 2s, symmetric: the collocation method in the chart σ ↦ cτ(σ) centred in the middle of the
step,

    g_k = cτ(−δ),   g_{k+1} = cτ(δ),   σ_i = −δ + hΣ_j a_ij σ̇_j,   δ = (h/2)Σ_j b_j σ̇_j,   c = g_k τ(δ),
    ξ_i = dτ_{−σ_i}σ̇_i = ξ_k + hΣ_j a_ij ẇ_j,   ξ_{k+1} = ξ_k + hΣ_j b_j ẇ_j     modulo the normals of D at c,

solved for the hσ̇_j: by the second line they determine hẇ = a⁻¹(ξ_i − ξ_k), and what is left are the constraint and the
balance of momentum at the stages. Centred so, the equations are the same seen from either end and know nothing of the
steps before, so the energy error of a reversible system stays bounded. With one stage it is the implicit midpoint rule
g_{k+1} = g_k τ(hξ/2)², which may be composed to any even order.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from geonh.groups.base import Point
from geonh.groups.retraction import Retraction, make_retraction
from geonh.integrators.base import Clock, Guarantees, RetractingIntegrator, State
from geonh.integrators.hamel import Advance, QuasiVelocityMethod
from geonh.integrators.tableaux import BUTCHER6, GAUSS, RK4, continued, weighted
from geonh.mechanics.equations import balance
from geonh.mechanics.quasi_velocities import normals, rates, reduced_momentum, restored
from geonh.mechanics.system import System
from geonh.numerics.newton import Newton

TABLEAUX = {4: RK4, 6: BUTCHER6}


class RKMK(QuasiVelocityMethod, RetractingIntegrator):
    """Runge–Kutta–Munthe-Kaas in quasi-velocities, explicit.

    Parameters
    ----------
    order : int
        4 (classical, four stages) or 6 (Butcher, seven stages).
    retraction : str or Retraction
        "auto" (Cayley where the group has it), "cayley" or "exp".
    """

    stages_order: int = eqx.field(static=True)
    retraction: Retraction | None

    def __init__(self, order: int = 4, retraction: str | Retraction = "auto"):
        if order not in TABLEAUX:
            raise ValueError(f"order must be one of {list(TABLEAUX)}, got {order!r}")
        self.stages_order, self.retraction = order, make_retraction(retraction)

    @property
    def guarantees(self) -> Guarantees:
        return explicit(self.stages_order, "Munthe-Kaas 1999; Iserles, Munthe-Kaas, Nørsett, Zanna 2000, §4")

    def advance(self, system: System, clock: Clock, state: State, xi: Array) -> Advance:
        a, b = TABLEAUX[self.stages_order]
        tau, group, h, n = self.tau(system), system.group, clock.dt, system.group.dim
        N, w = normals(system, system.action.at(state.g)), xi
        slopes: list[tuple[Array, Array]] = []
        for i in range(len(b)):
            sigma = weighted(h * a[i], [s for s, _ in slopes], n)
            g = group.compose(state.g, tau(group, sigma)) if i else state.g
            t = clock.time(state.k + float(np.sum(a[i])))
            xi, rate = rates(system, t, g, w + weighted(h * a[i], [r for _, r in slopes], n), N, clock.between(t))
            slopes.append((tau.dtau_inv(group, -sigma) @ xi if i else xi, rate))
        sigma = weighted(h * b, [s for s, _ in slopes], n)
        g = group.compose(state.g, tau(group, sigma))
        xi = restored(system, system.action.at(g), w + weighted(h * b, [r for _, r in slopes], n), N)
        return Advance(g, xi, jnp.asarray(True), tau.turn(group, sigma), state.increment, state.inverse)


class CommutatorFree(QuasiVelocityMethod):
    """The commutator-free Lie group method of order 4 in quasi-velocities, explicit."""

    @property
    def guarantees(self) -> Guarantees:
        return explicit(4, "Celledoni, Marthinsen, Owren 2003, table 1")

    def advance(self, system: System, clock: Clock, state: State, xi: Array) -> Advance:
        group, h, g, w = system.group, clock.dt, state.g, xi
        N = normals(system, system.action.at(g))

        def slope(c: float, g: Point, w: Array) -> tuple[Array, Array]:
            t = clock.time(state.k + c)
            xi, rate = rates(system, t, g, w, N, clock.between(t))
            return h * xi, h * rate

        def move(g: Point, *increments: Array) -> Point:
            for increment in increments:
                g = group.compose(g, group.exp(increment))
            return g

        K1, L1 = slope(0, g, w)
        g2 = move(g, K1 / 2)
        K2, L2 = slope(0.5, g2, w + L1 / 2)
        K3, L3 = slope(0.5, move(g, K2 / 2), w + L2 / 2)
        K4, L4 = slope(1, move(g2, K3 - K1 / 2), w + L3)
        first, second = (3 * K1 + 2 * K2 + 2 * K3 - K4) / 12, (-K1 + 2 * K2 + 2 * K3 + 3 * K4) / 12
        turn = group.turn(first) + group.turn(second)
        g = move(g, first, second)
        xi = restored(system, system.action.at(g), w + (L1 + 2 * L2 + 2 * L3 + L4) / 6, N)
        return Advance(g, xi, jnp.asarray(True), turn, state.increment, state.inverse)


class Gauss(QuasiVelocityMethod, RetractingIntegrator):
    """Gauss collocation in quasi-velocities, symmetric.

    Parameters
    ----------
    stages : int
        1 (implicit midpoint), 2 or 3; the order is twice as much.
    retraction : str or Retraction
        "auto" (Cayley where the group has it), "cayley" or "exp".
    newton : Newton, optional
        Tolerance and bound of the implicit solve.
    """

    stages: int = eqx.field(static=True)
    retraction: Retraction | None
    newton: Newton

    def __init__(self, stages: int = 2, retraction: str | Retraction = "auto", *, newton: Newton | None = None):
        if stages not in GAUSS:
            raise ValueError(f"stages must be one of {list(GAUSS)}, got {stages!r}")
        self.stages, self.retraction, self.newton = stages, make_retraction(retraction), newton or Newton()

    @property
    def guarantees(self) -> Guarantees:
        return Guarantees(
            order=2 * self.stages,
            symmetric=True,
            implicit=True,
            constraint="nodes",
            energy="never",
            momentum="none",
            affine=True,
            groups="any",
            reference="Hairer, Lubich, Wanner 2006, §II.1.3; symmetric on groups: Zanna, Engø, Munthe-Kaas 2001",
        )

    def unknowns(self, system: System) -> tuple[int, int]:
        return self.stages * system.group.dim, self.stages * system.group.dim

    def advance(self, system: System, clock: Clock, state: State, xi: Array) -> Advance:
        a, b = GAUSS[self.stages]
        c, to_rates = np.sum(a, axis=1), np.linalg.inv(a)
        tau, group, h, shape = self.tau(system), system.group, clock.dt, (self.stages, system.group.dim)

        def stages(function: Callable[..., Array], *columns: ArrayLike) -> Array:
            """Of every stage; in a loop, so that the program is as short as that of one."""
            if self.stages > 1:
                return lax.map(lambda at: function(*at), tuple(map(jnp.asarray, columns)))
            return function(*(column[0] for column in columns))[None]

        def chart(z: Array) -> tuple[Array, Array, Array, Array]:
            """δ, and the stages' σ, ξ and hẇ."""
            K = z.reshape(shape)
            delta = b @ K / 2
            sigma = a @ K - delta
            xis = K / h if self.stages == 1 else stages(lambda s, K: tau.dtau(group, -s) @ K / h, sigma, K)
            return delta, sigma, xis, to_rates @ (xis - xi)

        def mismatch(z: Array) -> Array:
            delta, sigma, xis, changes = chart(z)
            centre = group.compose(state.g, tau(group, delta))
            N = normals(system, system.action.at(centre))

            def stage(s: Array, xi: Array, change: Array, c: ArrayLike) -> Array:
                g = centre if self.stages == 1 else group.compose(centre, tau(group, s))
                x, t = system.action.at(g), clock.time(state.k + c)
                H, _, force, right = balance(system, t, g, xi, clock.between(t))
                change = restored(system, x, change, N, h * right)
                missing = reduced_momentum(system, x, H @ change - h * force, N)[0]
                return missing + N.T @ system.constraint_residual(x, xi)

            return stages(stage, sigma, xis, changes, c).ravel()

        changes = continued(c, state.increment.reshape(shape))
        xis = xi + a @ changes
        guess = stages(lambda s, xi: h * (tau.dtau_inv(group, -s) @ xi), h * (a - b / 2) @ xis, xis)
        floor = 1e-14 * jnp.abs(h)
        z, solved, inverse = self.newton.follow(mismatch, guess.ravel(), state.inverse, floor)
        delta, _, _, changes = chart(z)
        half = tau(group, delta)
        centre = group.compose(state.g, half)
        g, N = group.compose(centre, half), normals(system, system.action.at(centre))
        xi = restored(system, system.action.at(g), xi + b @ changes, N)
        return Advance(g, xi, solved, 2 * tau.turn(group, delta), changes.ravel(), inverse)


def explicit(order: int, reference: str) -> Guarantees:
    """Guarantees of an explicit method in quasi-velocities."""
    return Guarantees(
        order=order,
        symmetric=False,
        implicit=False,
        constraint="nodes",
        energy="never",
        momentum="none",
        affine=True,
        groups="any",
        reference=reference,
    )
