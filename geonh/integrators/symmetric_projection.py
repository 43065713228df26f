r"""The symmetric projection of the variational integrator onto the (affine) constraint.

The node is (g, p̃), with p̃ on the constraint. With rows N(x) that span D°(x), orthonormal for M(x)⁻¹, a step solves for
ζ and one multiplier κ, shape=[m],

    F⁻(x, ζ) = p̃₀ + (h/2)f₀ + N(x)ᵀκ,    y = x·τ(ζ),
    p̃₁ = F⁺(x, ζ) + (h/2)f₁ + N(y)ᵀUκ,   μ(y)ξ̃₁ = b(y),

where U, orthogonal, transports κ from one end to the other: the polar factor of N(y)M̄⁻¹N(x)ᵀ, M̄⁻¹ the mean of both
ends. So the result does not depend on the representation of the forms. The same impulse acts at both ends, there is one
multiplier per step, and the state is (g, p̃) alone: the step is self-adjoint, and no part of it alternates.

The last two equations give Uκ =: κ₁(ζ), the half impulse that projects F⁺ + (h/2)f₁ onto the constraint, so the step
is n equations for ζ alone,

    F⁻(x, ζ) − p̃₀ − (h/2)f₀ − N(x)ᵀUᵀκ₁(ζ) = 0,

a discrete Lagrange–d'Alembert method whose discrete constraint is symmetric by construction. Without constraints it is
the variational integrator. Kept to rounding: the constraint at the nodes; the horizontal momentum maps; and where
|F⁺| = |F⁻| (bi-invariant ℓ and left-invariant l_d, planar bodies whose metric does not depend on the shape) and the
constraint is linear, |p̃ + Nᵀκ|² = |p̃|² + |κ|² at both ends, so the energy at p̃.

Source: symmetric projection, Hairer, Lubich, Wanner, *Geometric Numerical Integration* (2006), §V.4.1, applied to the
variational step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from geonh.algebra.linear import det, pivots, polar_adjoint, solve_spd
from geonh.algebra.newton import near_identity
from geonh.groups.base import Point
from geonh.integrators.base import Clock, Equations, Guarantees, Outcome, State, Warm
from geonh.integrators.discrete_flow import Average
from geonh.integrators.gni import RuleFlow
from geonh.integrators.validity import Result
from geonh.mechanics.system import System

ROUNDING = 1e-12
"""Size, relative to the incoming momentum, below which its part across the constraint counts as zero, as at rest."""
SOFT = 0.75
"""Least eigenvalue of the Jacobian across the constraint, 1 − (hω/2)², at which the motion across it is accepted."""


class SymmetricProjection(RuleFlow):
    """Symmetric projection of the variational integrator; the default of ``solve`` for controls given at the nodes.

    Parameters
    ----------
    rule : str, DiscreteLagrangian or callable
        "trapezoid" (order 2), "midpoint" (order 2; symmetric with exp), "left", "right" (order 1), or any l_d(x, W, h):
        treated as of order 1, unless ``UserDiscreteLagrangian(l_d, symmetric=True)`` is given.
    retraction : str or Retraction
        "auto" (Cayley where the group has it), "cayley" or "exp".
    newton : Newton, optional
        Tolerance and iteration limit of the implicit solves.

    Examples
    --------
    >>> import geonh as gn
    >>> traj = gn.solve(gn.systems.suslov(), gn.SymmetricProjection(), xi0=[0.0, 1.0, 0.0], dt=0.05, n_steps=100)

    Raises
    ------
    TypeError, ValueError
        If an argument is not one of these; ``solve`` refuses a system that it does not suit.

    References
    ----------
    .. [Hairer2006] E. Hairer, C. Lubich, G. Wanner, *Geometric Numerical Integration*, 2nd ed., Springer (2006);
       §V.4.1.
    """

    @property
    def guarantees(self) -> Guarantees:
        return replace(super().guarantees, reference="Hairer, Lubich, Wanner 2006, §V.4.1")

    def init(self, system: System, clock: Clock, g0: Point, xi0: Array) -> Outcome:
        """Initial state (g₀, p̃₀) of xi0, shape=[n]; fails where a spring across D is too stiff for h.

        Across D, with a frequency ω there, ζ/h is the velocity of the node times 1/(1 − (hω/2)²): with rows e = NM⁻¹
        and K = e∂²Veᵀ the determinant of 1 − (h/2)²K must be near 1.
        """
        outcome, x = super().init(system, clock, g0, xi0), system.at(g0, clock.time(0))
        if system.distribution is None:
            return outcome
        lifts = system.split_forms(x)[1].lifts

        def pull(x: Any) -> Array:
            return lifts @ system.coanchor(lambda x: system.lagrangian(x, xi0), x)

        def change(e: Array) -> Array:
            return jax.jvp(pull, (x,), (system.anchor(x, e),))[1]

        J = jnp.eye(len(lifts)) + (clock.dt / 2) ** 2 * jax.vmap(change)(lifts)
        near = (_is_soft(J, 0.5) & (det(J) < 2.0)) | ~jnp.isfinite(jnp.sum(J))  # the step detects non-finite values
        return outcome._replace(status=jnp.where(near, 0, Result.ACROSS.value))

    def cold(self, system: System, clock: Clock, k: Array, g: Point, xi: Array) -> Warm:
        if system.distribution is None:
            return super().cold(system, clock, k, g, xi)
        return super().cold(system, clock, k, g, xi)._replace(inverse=near_identity(xi.size))

    def equations(self, system: System, clock: Clock, state: State) -> Equations:
        h, x = clock.dt, system.at(state.g, clock.time(state.k))
        leaving = state.p_minus
        if system.forces is not None:
            xi = system.velocity(x, state.p_minus)
            leaving = leaving + h / 2 * system.force(clock.time(state.k), x, xi, clock.control(state.k))
        if system.distribution is None:
            return super().equations(system, clock, state._replace(p_minus=leaving))
        M, (N, lifts, _) = system.mass_matrix(x), system.split_forms(x)[1]

        def mismatch(zeta: Array) -> Array:
            outcome, middle = self.flow(system, clock, state, zeta)
            y = system.at(outcome.g, clock.time(state.k + 1))
            N_y, lifts_y, c_y = system.split_forms(y)[1]
            if system.is_quadratic and system.forces is None:  # the same number, with less arithmetic
                kappa = c_y - lifts_y @ (outcome.p_plus - system.momentum_at_rest(y))
            else:
                kappa = lifts_y @ middle.reaction
            carried_back = polar_adjoint((N_y @ lifts.T + lifts_y @ N.T) / 2, kappa)
            missing = self.legendre_minus(system, h, x, zeta) - leaving - N.T @ carried_back
            # Preconditioned by the leading part (1 + NᵀNM⁻¹)M/h, the Jacobian is 1 + O(h) whatever the attitude.
            missing = missing - N.T @ (lifts @ missing) / 2
            return (
                h * solve_spd(M, missing) if system.holonomic is None else self._residual(system, h, x, zeta, missing)
            )

        return self._with_rounding(system, x, state, Equations(mismatch, self._expected(state), 1e-14 * jnp.abs(h)))

    def update(self, system: System, clock: Clock, state: State, z: Array) -> Outcome:
        outcome, middle = self.flow(system, clock, state, z)
        outcome = outcome._replace(p_plus=middle.momentum, p_minus=middle.momentum)
        if system.distribution is None:
            return outcome
        swings = self._swings_across(system, clock, state, z, middle)
        return outcome._replace(status=jnp.where(swings, Result.ACROSS.value, 0))

    def _swings_across(self, system: System, clock: Clock, state: State, z: Array, middle: Average) -> Array:
        """True if the discrete flow may oscillate across the constraint, undetected at the nodes.

        Between the nodes ζ/h is off the constraint by v. That is suspect where it is not small beside the motion and
        beside κ; from rest the motion is that of the step.
        """
        x = system.at(state.g, clock.time(state.k))
        M, xi = system.mass_matrix(x), system.velocity(x, state.p_minus)
        mean = z * (1 / clock.dt)
        N, lifts, _ = system.split_forms(x)[1]
        v = N @ (mean - xi)
        motion = jnp.maximum(xi @ M @ xi, mean @ M @ mean - v @ v)
        reaction = middle.reaction @ solve_spd(M, middle.reaction)
        rounding = ROUNDING**2 * middle.momentum @ solve_spd(M, middle.momentum)

        def is_stiff() -> Array:
            # Without v the equations have the residual −Jhv. A load that grows from zero, or a constraint that starts
            # to move, has such a v too, but with J near 1 in all directions: tested in steps of length v.
            bare, long = z - clock.dt * (v @ lifts), clock.dt * jnp.sqrt(v @ v)
            ends = jnp.concatenate([bare[None], bare + long * lifts])
            off = lax.map(self.equations(system, clock, state).residual, ends) @ N.T
            return ~_is_soft((off[1:] - off[0]) * (1 / long))

        is_suspect = 4 * v @ v > motion + reaction + rounding
        return lax.cond(is_suspect, is_stiff, lambda: jnp.asarray(False))


def _is_soft(J: Array, least: float = SOFT) -> Array:
    """True if all eigenvalues of a Jacobian across the constraint, shape=[m, m], are at least ``least``."""
    return jnp.all(pivots((J + J.T) / 2 - least * jnp.eye(len(J))) > 0)
