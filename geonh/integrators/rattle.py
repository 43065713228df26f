r"""Nonholonomic SHAKE and RATTLE, on vector spaces and reduced on M × G, linear and affine constraints.

The state of RATTLE is (g, p̃, λ). On a vector space, for a constant mass matrix M,

    p_{k+½} = p̃_k + (h/2)(−∇V(q_k) + f + μ(q_k)ᵀλ_k)
    q_{k+1} = q_k + hM⁻¹p_{k+½}
    p̃_{k+1} = p_{k+½} + (h/2)(−∇V(q_{k+1}) + f + μ(q_{k+1})ᵀλ_{k+1})
    μ(q_{k+1})M⁻¹p̃_{k+1} = b(q_{k+1})                                   solved for λ_{k+1}

(Ferraro, Iglesias, Martín de Diego 2008, eqs. 11a–e; affine with μ(M⁻¹p̃ − Y) = 0). SHAKE is its two-step form in q,

    q_{k+1} = 2q_k − q_{k−1} + h²M⁻¹(−∇V(q_k) + f + μᵀλ_k),   μ(q_k)(q_{k+1} − q_{k−1})/2h = b(q_k)

(McLachlan, Perlmutter 2006, eqs. 4.4, 4.5); holonomic constraints have position multipliers there, so that
φ(q_{k+1}) = 0, and the rows μ are those orthogonal to G. On M × G the half-step velocity ξ and the two half-step
momenta are related by the retraction,

    (dτ_{hξ}⁻¹)ᵀ Mξ = p̃_k + (h/2)(−ρ*∂V + f + μᵀλ_k),       g_{k+1} = g_k τ(hξ)
    p̃_{k+1} = (dτ_{−hξ}⁻¹)ᵀ Mξ + (h/2)(−ρ*∂V + f + μᵀλ_{k+1}),    μM⁻¹p̃_{k+1} = b

(reduced RATTLE, mathematics.md §4). It equals the geometric nonholonomic integrator with the trapezoid rule.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.algebra.newton import Newton, make_newton
from geonh.arguments.precision import float64
from geonh.engine import depends
from geonh.groups.base import Point
from geonh.groups.retraction import Retraction, make_retraction
from geonh.integrators.base import Clock, Guarantees, Integrator, NextStep, Outcome, State
from geonh.integrators.discrete_flow import ReflectingFlow, arrived, check_start, reflected, started
from geonh.mechanics.holonomic import normal_directions, rounding_of_residual
from geonh.mechanics.system import System


class RATTLE(ReflectingFlow):
    """Nonholonomic RATTLE, reduced on groups.

    Parameters
    ----------
    retraction : str or Retraction
        "auto" (Cayley where the group has it), "cayley" or "exp".
    newton : Newton, optional
        Tolerance and iteration limit of the implicit solve (explicit on vector spaces).
    start : str
        λ at node 0: "multiplier", the exact λ₀, or "average", λ₀ = 0 (Ferraro, Iglesias & Martín de
        Diego, Nonlinearity 21 (2008), Remark 5).

    Raises
    ------
    TypeError, ValueError
        If an argument is not one of these; ``solve`` refuses a system that it does not suit.

    References
    ----------
    .. [Ferraro2008] S. Ferraro, D. Iglesias, D. Martín de Diego, "Momentum and energy preserving integrators for
       nonholonomic dynamics", Nonlinearity 21 (2008), 1911–1928; eqs. 11a–e.
    .. [McLachlan2006] R. I. McLachlan, M. Perlmutter, "Integrators for nonholonomic mechanical systems", Journal of
       Nonlinear Science 16 (2006), 283–328; §4.
    """

    retraction: Retraction | None
    newton: Newton
    start: str = eqx.field(static=True)

    def __init__(
        self, retraction: str | Retraction = "auto", *, newton: Newton | None = None, start: str = "multiplier"
    ) -> None:
        self.retraction, self.newton, self.start = make_retraction(retraction), make_newton(newton), check_start(start)

    @property
    def guarantees(self) -> Guarantees:
        return Guarantees(
            order=2,
            symmetric=True,
            energy="bi-invariant",
            momentum="horizontal",
            node="impulse",
            reference="Ferraro, Iglesias, Martín de Diego 2008, eqs. 11a–e; McLachlan, Perlmutter 2006, §4",
        )

    def refuse(self, system: System) -> None:
        super().refuse(system)
        refuse_changing_mass(self, system)

    def legendre_minus(self, system: System, h: Array, x: Any, zeta: Array) -> Array:
        half_step = system.momentum(x, zeta * (1 / h))
        return self.tau(system).pull(system.group, zeta, half_step) - h / 2 * potential_force(system, x)

    def legendre_plus(self, system: System, h: Array, x: Any, zeta: Array, y: Any) -> Array:
        half_step = system.momentum(x, zeta * (1 / h))
        return self.tau(system).pull(system.group, -zeta, half_step) + h / 2 * potential_force(system, y)


class SHAKE(Integrator):
    """Nonholonomic SHAKE on vector spaces: RATTLE as a two-step method in q.

    Parameters
    ----------
    newton : Newton, optional
        For forces that depend on the velocity and for holonomic constraints; otherwise the method is explicit.
    start : str
        λ at node 0, as in ``RATTLE``.

    Raises
    ------
    TypeError, ValueError
        If an argument is not one of these; ``solve`` refuses a system that it does not suit.

    References
    ----------
    .. [McLachlan2006] R. I. McLachlan, M. Perlmutter, "Integrators for nonholonomic mechanical systems", Journal of
       Nonlinear Science 16 (2006), 283–328; eqs. 4.4, 4.5.
    """

    newton: Newton
    start: str = eqx.field(static=True)
    holds = NextStep

    def __init__(self, *, newton: Newton | None = None, start: str = "multiplier") -> None:
        self.newton, self.start = make_newton(newton), check_start(start)

    @property
    def guarantees(self) -> Guarantees:
        return Guarantees(
            order=2,
            symmetric=True,
            implicit=False,
            energy="bi-invariant",
            momentum="horizontal",
            node="impulse",
            groups="vector spaces",
            reference="McLachlan, Perlmutter 2006, eqs. 4.4, 4.5",
        )

    def refuse(self, system: System) -> None:
        if np.any(system.group.structure_constants):
            raise ValueError(f"SHAKE is for vector spaces, not {system.group}: use RATTLE")
        refuse_changing_mass(self, system)

    def init(self, system: System, clock: Clock, g0: Point, xi0: Array) -> Outcome:
        outcome, h = started(self.start, system, clock, g0, xi0), clock.dt
        x = system.at(g0, clock.time(0))
        ahead, converged = self._next_increment(system, h, g0, x, outcome.p_minus + h / 2 * potential_force(system, x))
        return outcome._replace(memory=NextStep(ahead), converged=converged)

    def step(self, system: System, clock: Clock, state: State) -> Outcome:
        h, before = clock.dt, state.memory.zeta
        g = system.group.compose(state.g, system.group.exp(before))
        x = system.at(g, clock.time(state.k + 1))
        slope = h / 2 * potential_force(system, x)
        p_plus, middle = arrived(system, clock, state.k + 1, x, system.momentum(x, before / h) + slope, self.newton)
        p_minus = reflected(p_plus, middle.momentum)
        ahead, converged = self._next_increment(system, h, g, x, p_minus + slope)
        return Outcome(g, p_plus, p_minus, NextStep(ahead), converged=converged & middle.converged)

    def _next_increment(self, system: System, h: Array, g: Point, x: Any, half_step: Array) -> tuple[Array, Array]:
        """Increment q_{k+1} − q_k = hM⁻¹(p_{k+½} + Gᵀν) with φ(q_{k+1}) = 0, and convergence."""
        ahead = h * system.velocity(x, half_step)
        if system.holonomic is None:
            return ahead, jnp.asarray(True)
        directions = normal_directions(system, x)

        def phi(nu: Array) -> Array:
            return system.holonomic_residual(system.act(x, system.group.exp(ahead + directions @ nu), h))

        rounding = rounding_of_residual(g, system.holonomic_rows(x))
        nu, converged = self.newton.solve(phi, jnp.zeros(directions.shape[1]), rounding=rounding)
        return ahead + directions @ nu, converged


def refuse_changing_mass(method: Integrator, system: System) -> None:
    """Raise ValueError unless ∂ℓ/∂ξ = Mξ + π₀ with constant M and π₀."""
    name = type(method).__name__
    if not system.is_quadratic:
        raise ValueError(f"{name} is for ℓ = ½ξᵀMξ − V(x); {system.name} has a general Lagrangian: use GNI")
    with float64():
        x = jax.eval_shape(lambda: system.at(system.group.identity(), 0.0))
        xi = jax.ShapeDtypeStruct((system.group.dim,), np.float64)
        changes = depends(lambda x, xi: system.momentum(x, xi), x, xi)
    if changes:
        raise ValueError(f"{name} is for a constant metric; that of {system.name} depends on the base point: use GNI")


def potential_force(system: System, x: Point) -> Array:
    """Generalised force −ρ_x*∂V, shape=[n]."""
    return -system.coanchor(lambda x: system.potential_energy(x), x)
