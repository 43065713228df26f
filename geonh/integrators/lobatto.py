r"""Nonholonomic variational integrators of high order: partitioned Runge–Kutta, Lobatto IIIA–IIIB.

In a chart g = cτ(σ) centred in the middle of the step, g_k = cτ(−δ), g_{k+1} = cτ(δ), the Lagrangian is
L(σ, σ̇) = ℓ(c·τ(σ), dτ_{−σ}σ̇). With a of Lobatto IIIA, â of IIIB and weights b, the stages satisfy

    Q_i = −δ + hΣ_j a_ij V_j,   δ = (h/2)Σ_j b_j V_j,   π_i = π₀ + hΣ_j â_ij Ṗ_j,   π_i = ∂L/∂σ̇(Q_i, V_i),
    Ṗ_j = ∂L/∂σ(Q_j, V_j) + dτ_{−Q_j}ᵀ(f_j + μ̂(x_j)ᵀΛ_j),   π₀ = dτ_δᵀ p_k,
    P_i = π₀ + hΣ_j a_ij Ṗ_j,   μ(x_i)ξ(Q_i, P_i) = b(x_i),   i = 2, …, s,

and p_{k+1} is P_s transported to the node, (dτ_{−δ}⁻¹)ᵀP_s. The constraint holds at the nodes. The s multipliers Λ_j
are the values of one polynomial of degree s − 2: one for each constraint solved. So the state is (g, p̃) alone,
the step is self-adjoint, and no multiplier alternates. (With Λ₁ taken from the step before, as in the papers, it
does, and spoils long runs of systems that contract the phase space.) The forms μ̂ = (μN_cᵀ)⁻¹μ are those of the
distribution, in the basis of its normals N_c at the centre: so the result does not depend on their representation.

Holonomic constraints φ = 0 are added as rows of μ, with velocity multipliers, and are kept by a
symmetric projection: the step leads from g_kτ(σ) to g_{k+1}τ(σ)⁻¹ with the same shift σ, normal to φ = 0 in the centre,
so that φ(g_{k+1}) = 0; the last constraint is that of the node itself.

Order 2s − 2. The unknowns are hV, h²Λ and σ, invariant under a change of the unit of time; Newton's iteration starts
from the polynomials of the last step, corrected by their defect in the steps before.

Sources: Sato Martín de Almagro, *Convergence of Lobatto-type Runge–Kutta methods for partitioned differential-algebraic
systems of index 2*, BIT 62 (2022); Martín de Diego, Sato Martín de Almagro, *High-order geometric methods for
nonholonomic mechanical systems*, arXiv:1810.10926 (2018); Jay, *Symplectic partitioned Runge–Kutta methods for
constrained Hamiltonian systems*, SIAM J. Numer. Anal. 33 (1996); centred charts: Zanna, Engø, Munthe-Kaas 2001;
symmetric projection: Hairer, Lubich, Wanner 2006, §V.4.1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.algebra.linear import Saddle, saddle_inverses
from geonh.algebra.newton import Newton, make_newton, near_identity
from geonh.arguments.validators import one_of
from geonh.groups.base import Point
from geonh.groups.retraction import Retraction, make_retraction
from geonh.integrators.base import (
    Clock,
    Equations,
    Guarantees,
    ImplicitIntegrator,
    Outcome,
    RetractingIntegrator,
    State,
    Warm,
)
from geonh.integrators.prediction import continued, followed_by, repeated
from geonh.integrators.tableaux import interpolation
from geonh.mechanics.equations import accelerations
from geonh.mechanics.holonomic import rounding_of_places, shift_left
from geonh.mechanics.quasi_velocities import Normals, aligned_constraint, multipliers_of, normals
from geonh.mechanics.system import System

_S5 = 5.0**0.5
IIIA = {
    2: np.array([[0, 0], [1 / 2, 1 / 2]]),
    3: np.array([[0, 0, 0], [5 / 24, 1 / 3, -1 / 24], [1 / 6, 2 / 3, 1 / 6]]),
    4: np.array(
        [
            [0, 0, 0, 0],
            np.array([11 + _S5, 25 - _S5, 25 - 13 * _S5, -1 + _S5]) / 120,
            np.array([11 - _S5, 25 + 13 * _S5, 25 + _S5, -1 - _S5]) / 120,
            np.array([1, 5, 5, 1]) / 12,
        ]
    ),
}


def _centred(a: np.ndarray) -> np.ndarray:
    """Coefficients of the positions from the centre of the step, a_ij − b_j/2."""
    return a - a[-1] / 2


def _conjugate(a: np.ndarray) -> np.ndarray:
    """Symplectic partner â, with b_i â_ij + b_j a_ji = b_i b_j."""
    b = a[-1]
    return b - (b * a.T / b[:, None])


_POLYNOMIAL = {s: interpolation(nodes[1:], nodes) for s, nodes in ((s, np.sum(a, axis=1)) for s, a in IIIA.items())}
"""Values at the s nodes of the polynomial of degree s − 2 with given values at all but the first, shape=[s, s − 1]."""


class _Stages(NamedTuple):
    """Stages of a step: δ and the shift; the base points at its start and centre, and the normals there; π₀;
    positions Q in the chart, momenta π and slopes Ṗ, each of shape=[s, n]."""

    delta: Array
    shift: Array | None
    begin: Any
    centre: Any
    N: Normals
    start: Array
    Q: Array
    momenta: Array
    slopes: Array


class Lobatto(ImplicitIntegrator, RetractingIntegrator):
    """Nonholonomic partitioned Runge–Kutta method of Lobatto IIIA–IIIB type, on groups through a retraction.

    Parameters
    ----------
    stages : int
        2, 3 or 4; the order is 2, 4 or 6.
    retraction : str or Retraction
        "auto" (Cayley where the group has it), "cayley" or "exp".
    newton : Newton, optional
        Tolerance and iteration limit of the implicit solve.

    Raises
    ------
    TypeError, ValueError
        If an argument is not one of these; ``solve`` refuses a system that it does not suit.

    References
    ----------
    .. [MartinDeDiego2018] D. Martín de Diego, R. Sato Martín de Almagro, "High-order geometric methods for
       nonholonomic mechanical systems", arXiv:1810.10926 (2018).
    .. [Sato2022] R. Sato Martín de Almagro, "Convergence of Lobatto-type Runge–Kutta methods for partitioned
       differential-algebraic systems of index 2", BIT Numerical Mathematics 62 (2022).
    .. [Jay1996] L. Jay, "Symplectic partitioned Runge–Kutta methods for constrained Hamiltonian systems", SIAM
       Journal on Numerical Analysis 33 (1996), 368–387.
    """

    stages: int = eqx.field(static=True)
    retraction: Retraction | None
    newton: Newton

    def __init__(self, stages: int = 3, retraction: str | Retraction = "auto", *, newton: Newton | None = None):
        stages = one_of(stages, "stages", IIIA)
        self.stages, self.retraction, self.newton = stages, make_retraction(retraction), make_newton(newton)

    @property
    def guarantees(self) -> Guarantees:
        return Guarantees(
            order=2 * self.stages - 2,
            symmetric=True,
            multiplier_forces=True,
            nonlinear=True,
            reference="Martín de Diego, Sato Martín de Almagro 2018; Sato Martín de Almagro 2022; Jay 1996",
        )

    def cold(self, system: System, clock: Clock, k: Array, g: Point, xi: Array) -> Warm:
        t = clock.time(k)
        x = system.at(g, t)
        linear = system.linear_at(xi)
        impulse = linear.annihilator(x).T @ accelerations(system, t, g, xi, clock.between(t))[1]
        lam = normals(linear, x).lifts @ impulse
        shift = jnp.zeros(0 if system.holonomic is None else xi.size)
        h = clock.dt
        z = jnp.concatenate([h * jnp.tile(xi, self.stages), h**2 * jnp.tile(lam, self.stages - 1), shift])
        return Warm(repeated(z), near_identity(z.size))

    def equations(self, system: System, clock: Clock, state: State) -> Equations:
        x = system.at(state.g, clock.time(state.k))
        xi = system.velocity(x, state.p_minus)
        leading = saddle_inverses(system.mass_matrix(x, xi), system.linear_at(xi).constraint_apart(x)[0])
        left = lambda z: self._residual(system, clock, state, z, leading)  # noqa: E731
        rounding = rounding_of_places(system, state.g)
        return Equations(left, continued(state.warm.guess), 1e-14 * jnp.abs(clock.dt), rounding)

    def update(self, system: System, clock: Clock, state: State, z: Array) -> Outcome:
        tau, group, h = self.tau(system), system.group, clock.dt
        stages = self._stages(system, clock, state, z)
        half, g, shift = tau(group, stages.delta), state.g, stages.shift
        g = g if shift is None else group.compose(g, tau(group, shift))
        g = group.compose(group.compose(g, half), half)
        g = g if shift is None else group.compose(g, tau(group, shift))
        p = tau.pull(group, -stages.delta, stages.start + h * (IIIA[self.stages][-1] @ stages.slopes))
        return Outcome(g, p, p, warm=Warm(followed_by(state.warm.guess, z)), turn=2 * tau.angle(group, stages.delta))

    # --- the equations -------------------------------------------------------------------------------------
    def _stages(self, system: System, clock: Clock, state: State, z: Array) -> _Stages:
        tau, group, h, a = self.tau(system), system.group, clock.dt, IIIA[self.stages]
        steps, free, shift = self._parts(system, z)
        delta, Q = jnp.asarray(a[-1] / 2) @ steps, jnp.asarray(_centred(a)) @ steps
        begin = system.at(state.g, clock.time(state.k))
        begin = begin if shift is None else self._at(system, begin, shift, 0.0)
        centre = self._at(system, begin, delta, h / 2)
        N = normals(system.linear_at(delta * (2 / h)), centre)

        def stage(at: tuple[Array, ...]) -> tuple[Array, Array]:
            """Momentum π and its slope Ṗ."""
            q, v, lam, c = at
            x, t = self._at(system, centre, q, (c - 0.5) * h), clock.time(state.k + c)
            xi, back = jax.vjp(lambda q: tau.dtau(group, -q) @ v, q)
            linear = system.linear_at(xi)
            reaction = aligned_constraint(linear, x, N)[0].T @ lam
            f = system.force(t, x, xi, clock.between(t)) + reaction
            columns = linear.multiplier_columns(t, x, xi)
            f = f if columns is None else f + columns @ multipliers_of(linear, x, N, lam)
            f = f + system.coanchor(lambda x: system.lagrangian(x, xi), x)
            p, left = system.momentum(x, xi), tau.dtau(group, -q)
            return left.T @ p, back(p)[0] + left.T @ f

        lam = jnp.asarray(_POLYNOMIAL[self.stages]) @ free * (1 / h) * (1 / h)
        momenta, slopes = lax.map(stage, (Q, steps * (1 / h), lam, jnp.asarray(np.sum(a, axis=1))))
        start = tau.dtau(group, delta).T @ state.p_minus
        return _Stages(delta, shift, begin, centre, N, start, Q, momenta, slopes)

    def _residual(self, system: System, clock: Clock, state: State, z: Array, leading: Saddle) -> Array:
        """Residual of the equations at the unknowns z = (hV, h²Λ, σ).

        It is preconditioned by the equations' leading part at the node, Mδ(hV)/h − âμᵀhδΛ for the momenta
        and aμM⁻¹μᵀhδΛ for the constraints: then its Jacobian varies little between steps though the forms turn with the
        body. The constraints are taken at the positions after the momenta's correction, and φ after both.
        """
        h, a, poly = clock.dt, IIIA[self.stages], _POLYNOMIAL[self.stages]
        stages = self._stages(system, clock, state, z)
        off = h * (stages.momenta - stages.start - h * jnp.asarray(_conjugate(a)) @ stages.slopes) @ leading.inverse
        positions = stages.Q - jnp.asarray(_centred(a)) @ off
        nodes = stages.start + h * jnp.asarray(a) @ stages.slopes

        def constraint(at: tuple[Array, ...]) -> Array:
            """μ̂ξ − b̂ at a stage, from its position and momentum in the chart; the last stage is the node, shifted."""
            x = self._at(system, stages.centre, at[0], (at[2] - 0.5) * h)
            x = x if stages.shift is None else self._at(system, x, at[3], 0.0)
            mine = self.tau(system).pull(system.group, -at[0], at[1])
            xi = system.velocity(x, mine)
            mu, b = aligned_constraint(system.linear_at(xi), x, stages.N)
            return mu @ xi - b

        where: tuple = (positions[1:], nodes[1:], jnp.asarray(np.sum(a, axis=1)[1:]))
        if stages.shift is not None:
            where = (*where, jnp.outer(np.eye(len(a))[-1, 1:], stages.shift))
        constraints = lax.map(constraint, where)
        missing = np.linalg.inv(a[1:] @ poly) @ constraints @ leading.schur
        off = off + h * (_conjugate(a) @ poly @ missing) @ leading.raised.T
        left = jnp.concatenate([off.ravel(), h * missing.ravel()])
        if stages.shift is None:
            return left
        end, delta = stages.begin, stages.delta - jnp.asarray(a[-1] / 2) @ off
        for q, dt in ((delta, h / 2), (delta, h / 2), (stages.shift, 0.0)):
            end = self._at(system, end, q, dt)
        return jnp.concatenate([left, shift_left(system, stages.centre, stages.shift, system.holonomic_residual(end))])

    def _at(self, system: System, centre: Any, q: Array, dt: Any) -> Any:
        return system.act(centre, self.tau(system)(system.group, q), dt)

    def _parts(self, system: System, z: Array) -> tuple[Array, Array, Array | None]:
        """hV, shape=[s, n], h²Λ at the stages but the first, shape=[s − 1, m], and the shift σ, None without φ."""
        s, n = self.stages, system.group.dim
        z, shift = (z, None) if system.holonomic is None else (z[:-n], z[-n:])
        return z[: s * n].reshape(s, n), z[s * n :].reshape(s - 1, -1), shift
