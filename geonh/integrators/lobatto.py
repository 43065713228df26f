r"""Nonholonomic variational integrators of high order: partitioned Runge–Kutta, Lobatto IIIA–IIIB.

In the chart g = g_k τ(σ) of a step the Lagrangian is L(σ, σ̇) = ℓ(x_k·τ(σ), dτ_{−σ}σ̇). With a of Lobatto IIIA, â of
IIIB and weights b, the stages satisfy

    Q_i = hΣ_j a_ij V_j,    P_i = p_k + hΣ_j â_ij Ṗ_j,    P_i = ∂L/∂σ̇(Q_i, V_i),
    Ṗ_j = ∂L/∂σ(Q_j, V_j) + dτ_{−Q_j}ᵀ(f_j + μ(x_j)ᵀΛ_j),
    p_i = p_k + hΣ_j a_ij Ṗ_j,   μ(x_i)ξ(Q_i, p_i) = b(x_i),   i = 2, …, s,

and p_{k+1} is p_s carried back to the node, (dτ_{−Q_s}⁻¹)ᵀp_s. The constraint holds at the nodes. Λ₁ is the last
step's Λ_s (at node 0 the exact multiplier), so the multiplier is continuous. Order 2s − 2; s = 2 on a vector space
is RATTLE. The unknowns are hV and hΛ; Newton's iteration begins from the polynomials of the last step, corrected by
what they missed in the steps before.

Sources: Sato Martín de Almagro, *Convergence of Lobatto-type Runge–Kutta methods for partitioned differential-algebraic
systems of index 2*, BIT 62 (2022); Martín de Diego, Sato Martín de Almagro, *High-order geometric methods for
nonholonomic mechanical systems*, arXiv:1810.10926 (2018); Jay, *Symplectic partitioned Runge–Kutta methods for
constrained Hamiltonian systems*, SIAM J. Numer. Anal. 33 (1996).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.groups.base import Point
from geonh.groups.retraction import Retraction, make_retraction
from geonh.integrators.base import Clock, Guarantees, RetractingIntegrator, State, arrived, begun, rows_of
from geonh.integrators.tableaux import interpolated
from geonh.mechanics.equations import accelerations
from geonh.mechanics.system import System
from geonh.numerics.apart import apart
from geonh.numerics.linear import solve_spd
from geonh.numerics.newton import Newton, no_inverse

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


def _conjugate(a: np.ndarray) -> np.ndarray:
    """â with b_i â_ij + b_j a_ji = b_i b_j: the symplectic partner."""
    b = a[-1]
    return b - (b * a.T / b[:, None])


class _Stages(NamedTuple):
    """Stages of a step: positions in the chart, momenta and their slopes, each of shape=[s, n]."""

    Q: Array
    momenta: Array
    slopes: Array


def _each(function: Callable, columns: tuple[Array, ...]) -> Any:
    """Of every stage; in a loop where there are several, so that the program is as short as that of one."""
    if len(columns[0]) > 1:
        return lax.map(function, columns)
    return jax.tree.map(lambda made: made[None], function(tuple(column[0] for column in columns)))


class Lobatto(RetractingIntegrator):
    """Nonholonomic partitioned Runge–Kutta method of Lobatto IIIA–IIIB type, on groups through a retraction.

    Parameters
    ----------
    stages : int
        2, 3 or 4; the order is 2, 4 or 6.
    retraction : str or Retraction
        "auto" (Cayley where the group has it), "cayley" or "exp".
    newton : Newton, optional
        Tolerance and bound of the implicit solve.
    """

    stages: int = eqx.field(static=True)
    retraction: Retraction | None
    newton: Newton
    looks_ahead = True

    def __init__(self, stages: int = 3, retraction: str | Retraction = "auto", *, newton: Newton | None = None):
        if stages not in IIIA:
            raise ValueError(f"stages must be one of {list(IIIA)}, got {stages!r}")
        self.stages, self.retraction, self.newton = stages, make_retraction(retraction), newton or Newton()

    @property
    def guarantees(self) -> Guarantees:
        return Guarantees(
            order=2 * self.stages - 2,
            symmetric=False,
            implicit=True,
            constraint="nodes",
            energy="never",
            momentum="none",
            affine=True,
            groups="any",
            reference="Martín de Diego, Sato Martín de Almagro 2018; Sato Martín de Almagro 2022; Jay 1996",
        )

    def turned(self, before: State, state: State) -> State:
        return state  # the multipliers stay, and the stages are a guess only

    def init(self, system: System, clock: Clock, g0: Point, xi0: Array) -> State:
        p, t = system.momentum(system.action.at(g0), xi0), clock.time(0)
        lam = accelerations(system, t, g0, xi0, clock.between(t))[1]
        z = clock.dt * jnp.concatenate([jnp.tile(xi0, self.stages), jnp.tile(lam, self.stages - 1)])
        return begun(system, g0, p, p, jnp.stack([z, 0 * z, 0 * z]), no_inverse(z.size))

    def residual(self, system: System, clock: Clock, state: State, new: State) -> Array:
        return jnp.max(jnp.abs(self._left_over(system, clock, state, new.increment[0], self._leading(system, state))))

    def step(self, system: System, clock: Clock, state: State) -> State:
        tau, group, h = self.tau(system), system.group, clock.dt
        leading = self._leading(system, state)
        expected = apart(h, lambda z: self._continued(system, z), state.increment[0])
        missed, before = state.increment[1:]
        guess = expected + 2 * missed - before
        floor = 1e-14 + self.newton.tol * jnp.max(jnp.abs(guess / h))  # hΛ is known as well as p, not as hp
        z, solved, inverse = self.newton.follow(
            lambda z: self._left_over(system, clock, state, z, leading), guess, state.inverse, floor
        )
        stages = apart(h, lambda z: self._stages(system, clock, state, z), z)
        last = stages.Q[-1]
        g = group.compose(state.g, tau(group, last))
        p = tau.pull(group, -last, state.p_minus + h * (IIIA[self.stages][-1] @ stages.slopes))
        rows, turn = rows_of(system, system.action.at(g)), tau.turn(group, last)
        return arrived(state, g, p, p, jnp.stack([z, z - expected, missed]), rows, inverse, found=solved, turn=turn)

    def _continued(self, system: System, z: Array) -> Array:
        """hV and hΛ of the next step, from the polynomials through the last step's hξ, which need no chart, and hΛ."""
        tau, group, a, nodes = self.tau(system), system.group, IIIA[self.stages], np.sum(IIIA[self.stages], axis=1)
        steps, free = self._parts(system, z)
        turned = _each(lambda at: tau.dtau(group, -at[0]) @ at[1], (jnp.asarray(a) @ steps, steps))
        turned = interpolated(nodes, turned, 1 + nodes)
        steps = _each(lambda at: tau.dtau_inv(group, -at[0]) @ at[1], (jnp.asarray(a) @ turned, turned))
        return jnp.concatenate([steps.ravel(), interpolated(nodes[1:], free, 1 + nodes[1:]).ravel()])

    def _parts(self, system: System, z: Array) -> tuple[Array, Array]:
        """hV, shape=[s, n], and hΛ, shape=[s − 1, m]."""
        s, n = self.stages, system.group.dim
        return z[: s * n].reshape(s, n), z[s * n :].reshape(s - 1, -1)

    def _leading(self, system: System, state: State) -> tuple[Array, Array, Array]:
        """M⁻¹, M⁻¹μᵀ and (μM⁻¹μᵀ)⁻¹ at the node."""
        x = system.action.at(state.g)
        mu = system.annihilator(x)
        M = system.mass_matrix(x, system.velocity(x, state.p_minus))
        M_inv, raised = jnp.split(solve_spd(M, jnp.concatenate([jnp.eye(len(M)), mu]).T), [len(M)], axis=1)
        return M_inv, raised, solve_spd(mu @ raised, jnp.eye(len(mu)))

    def _stages(self, system: System, clock: Clock, state: State, z: Array) -> _Stages:
        tau, group, h, x0 = self.tau(system), system.group, clock.dt, system.action.at(state.g)
        steps, free = self._parts(system, z)
        start = self._parts(system, state.increment[0])[1][-1:]  # Λ₁

        def stage(at: tuple[Array, ...]) -> tuple[Array, Array]:
            """P and Ṗ."""
            q, v, lam, c = at
            x, t = self._at(system, x0, q), clock.time(state.k + c)
            xi, back = jax.vjp(lambda q: tau.dtau(group, -q) @ v, q)
            f = system.force(t, x, xi, clock.between(t)) + system.annihilator(x).T @ lam
            f = f + system.action.coanchor(lambda x: system.lagrangian(x, xi), x)
            p, left = system.momentum(x, xi), tau.dtau(group, -q)
            return left.T @ p, back(p)[0] + left.T @ f

        Q, a = jnp.asarray(IIIA[self.stages]) @ steps, IIIA[self.stages]
        at = (Q, steps / h, jnp.concatenate([start, free]) / h, jnp.asarray(np.sum(a, axis=1)))
        first = stage(tuple(column[0] for column in at))  # at the node, where Q = 0 and τ and dτ are known
        others = _each(stage, tuple(column[1:] for column in at))
        return _Stages(Q, *(jnp.concatenate([one[None], more]) for one, more in zip(first, others, strict=True)))

    def _left_over(
        self, system: System, clock: Clock, state: State, z: Array, leading: tuple[Array, Array, Array]
    ) -> Array:
        """What the unknowns z = (hV, hΛ) leave of the equations.

        That is brought to the unknowns by the equations' leading part at the node, Mδ(hV)/h − âμᵀδ(hΛ) for the momenta
        and aμM⁻¹μᵀδ(hΛ) for the constraints: then it changes little from step to step though the forms turn with the
        body. The constraints are taken at the positions after the momenta's correction.
        """
        h, a, x0 = clock.dt, IIIA[self.stages], system.action.at(state.g)
        Q, momenta, slopes = self._stages(system, clock, state, z)
        M_inv, raised, S_inv = leading
        off = h * (momenta - state.p_minus - h * jnp.asarray(_conjugate(a)) @ slopes) @ M_inv
        positions, nodes = Q - jnp.asarray(a) @ off, state.p_minus + h * jnp.asarray(a) @ slopes
        constraints = _each(lambda at: self._constraint(system, x0, *at), (positions[1:], nodes[1:]))
        missing = np.linalg.inv(a[1:, 1:]) @ constraints @ S_inv
        off = off + h * (_conjugate(a)[:, 1:] @ missing) @ raised.T
        return jnp.concatenate([off.ravel(), missing.ravel()])

    def _at(self, system: System, x0: Any, q: Array) -> Any:
        return system.action.act(x0, self.tau(system)(system.group, q))

    def _constraint(self, system: System, x0: Any, q: Array, p: Array) -> Array:
        """μξ − b at a stage, from its position and momentum in the chart."""
        x = self._at(system, x0, q)
        return system.constraint_residual(x, system.velocity(x, self.tau(system).pull(system.group, -q, p)))
