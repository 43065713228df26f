r"""The discrete Lagrange–d'Alembert principle (DLA) on M ⋊ G.

A discrete Lagrangian l_d(x, ζ) and a discrete constraint φ(x, ζ) = 0 determine, at the node x_{k+1},

    F⁻(x_{k+1}, ζ_{k+1}) = F⁺(x_k, ζ_k) + h f + μ(x_{k+1})ᵀλ,      φ(x_{k+1}, ζ_{k+1}) = 0,

solved for ζ_{k+1} (and λ, which is eliminated: P* of the first line together with φ). Here μ is the constraint
distribution of the virtual displacements, and φ one of

    left        μ(x)ζ/h − b(x)                          order 1
    right       μ(x·W)ζ/h − b(x·W)                      order 1
    midpoint    μ(x·τ(ζ/2))ζ/h − b(x·τ(ζ/2))            order 2 with a symmetric l_d
    trapezoid   the mean of left and right              order 2 with a symmetric l_d

or a user's φ(x, W, h), for instance in terms of the matrix W. Holonomic constraints are imposed at the target, φ(x·W),
on top of it: at the nodes. On Q × Q: Cortés, Martínez, *Non-holonomic integrators*,
Nonlinearity 14 (2001); on Lie groups: Fedorov, Zenkov, *Discrete nonholonomic LL systems on Lie groups*,
Nonlinearity 18 (2005), McLachlan, Perlmutter, *Integrators for nonholonomic mechanical systems*, J. Nonlinear Sci.
16 (2006); on groupoids: Iglesias, Marrero, Martín de Diego, Martínez, *Discrete nonholonomic Lagrangian systems on
Lie groupoids*, J. Nonlinear Sci. 18 (2008).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from geonh.algebra.linear import saddle
from geonh.algebra.newton import Newton, make_newton
from geonh.arguments.inspection import inspected
from geonh.arguments.validators import as_constant, as_flag, shortly
from geonh.engine import Precise
from geonh.geometry.field import Moment, evaluated, takes_parameters
from geonh.groups.base import Point
from geonh.groups.retraction import Exponential, Retraction, make_retraction
from geonh.integrators.base import (
    Clock,
    Equations,
    Guarantees,
    ImplicitIntegrator,
    Integrator,
    NextStep,
    Outcome,
    RetractingIntegrator,
    State,
    Warm,
    no_inverse,
)
from geonh.integrators.discrete_flow import reflected
from geonh.integrators.discretisation import DiscreteLagrangian, make_rule
from geonh.mechanics.holonomic import rounding_of_places
from geonh.mechanics.system import System

POINTS = {"left": (0.0,), "right": (1.0,), "midpoint": (0.5,), "trapezoid": (0.0, 1.0)}
"""Points of the step at which the constraint is imposed, as fractions of ζ; the mean over them."""


class DiscreteConstraint(Precise):
    """Discrete constraint φ(x, ζ) = 0, shape=[m], in units of a velocity.

    Parameters
    ----------
    at : str, float or callable
        "left", "right", "midpoint", "trapezoid", a fraction of the step in [0, 1], or φ(x, W, h) (and parameters).
    symmetric : bool, optional
        True if a user's φ is self-adjoint; determines the order.

    Raises
    ------
    TypeError
        If ``at`` is not a word, number or function.
    ValueError
        If it is an unknown word, or a fraction outside the step.
    """

    fractions: tuple[float, ...] = eqx.field(static=True)
    function: Callable | None
    symmetric: bool = eqx.field(static=True)

    def __init__(self, at: str | float | Callable = "midpoint", symmetric: bool = False):
        symmetric = as_flag(symmetric, "symmetric")
        if callable(at):
            self.fractions, self.function, self.symmetric = (), at, symmetric
            return
        if isinstance(at, str) and at not in POINTS:
            raise ValueError(
                f"constraint must be one of {list(POINTS)}, a fraction of the step or φ(x, W, h), got {shortly(at)}"
            )
        self.fractions = POINTS[at] if isinstance(at, str) else (float(as_constant(at, "constraint")),)
        if not all(0 <= f <= 1 for f in self.fractions):
            raise ValueError(f"constraint must lie in the step, at a fraction in [0, 1], got {at}")
        self.function, self.symmetric = None, sum(self.fractions) == 0.5 * len(self.fractions)

    @property
    def needs_exp(self) -> bool:
        """True if it is self-adjoint exactly only with exp."""
        return not set(self.fractions) <= {0.0, 1.0}

    def adjoint(self) -> DiscreteConstraint:
        """Adjoint constraint: φ from the other end of the step, with time reversed.

        Raises ValueError for a user's φ that is not symmetric.
        """
        if self.symmetric:
            return self
        if self.function is None:
            return DiscreteConstraint(1 - self.fractions[0])
        raise ValueError("the adjoint of a constraint φ(x, W, h) of one's own is for its author to write")

    def __call__(self, system: System, tau: Retraction, h: Array, x: Any, zeta: Array) -> Array:
        """φ(x, ζ), shape=[m]."""
        if self.function is not None:
            extra = (system.parameters,) if takes_parameters(self.function, "x, W, h", "constraint") else ()
            x = x.x if isinstance(x, Moment) else x
            return evaluated("constraint", self.function, x, tau(system.group, zeta), h, *extra)
        points = [x if f == 0 else system.act(x, tau(system.group, f * zeta), f * h) for f in self.fractions]
        values = [system.nonholonomic_residual(point, zeta * (1 / h)) for point in points]
        return sum(values[1:], values[0]) / len(values)


class DLA(ImplicitIntegrator, RetractingIntegrator):
    """The discrete Lagrange–d'Alembert integrator.

    Parameters
    ----------
    rule : str, DiscreteLagrangian or callable
        Discretisation of ℓ, as in ``GNI``.
    constraint : str, float, callable or DiscreteConstraint
        Points at which the discrete constraint is imposed, or φ(x, W, h).
    retraction : str or Retraction
        "auto" (Cayley where the group has it), "cayley" or "exp".
    newton : Newton, optional
        Tolerance and iteration limit of the implicit solves.

    Raises
    ------
    TypeError, ValueError
        If an argument is not one of these; ``solve`` refuses a system that it does not suit.

    References
    ----------
    .. [Cortes2001] J. Cortés, S. Martínez, "Non-holonomic integrators", Nonlinearity 14 (2001), 1365–1392; eq. 3.3.
    .. [Fedorov2005] Y. N. Fedorov, D. V. Zenkov, "Discrete nonholonomic LL systems on Lie groups", Nonlinearity 18
       (2005), 2211–2241.
    .. [McLachlan2006] R. I. McLachlan, M. Perlmutter, "Integrators for nonholonomic mechanical systems", Journal of
       Nonlinear Science 16 (2006), 283–328.
    .. [Iglesias2008] D. Iglesias, J. C. Marrero, D. Martín de Diego, E. Martínez, "Discrete nonholonomic Lagrangian
       systems on Lie groupoids", Journal of Nonlinear Science 18 (2008), 221–276; definition 3.4.
    """

    rule: DiscreteLagrangian
    constraint: DiscreteConstraint
    retraction: Retraction | None
    newton: Newton
    holds = NextStep

    def __init__(
        self,
        rule: str | DiscreteLagrangian | Callable = "midpoint",
        constraint: str | float | Callable | DiscreteConstraint = "midpoint",
        retraction: str | Retraction = "auto",
        *,
        newton: Newton | None = None,
    ):
        self.rule = make_rule(rule)
        self.constraint = constraint if isinstance(constraint, DiscreteConstraint) else DiscreteConstraint(constraint)
        self.retraction = make_retraction(retraction)
        self.newton = make_newton(newton)

    @property
    def guarantees(self) -> Guarantees:
        symmetric = self.rule.symmetric and self.constraint.symmetric
        needs_exp = self.rule.needs_exp or self.constraint.needs_exp
        return Guarantees(
            order=2 if symmetric else 1,
            symmetric=symmetric and (isinstance(self.retraction, Exponential) or not needs_exp),
            constraint="step",
            momentum="horizontal",
            node="increment",
            reference="Cortés, Martínez 2001, eq. 3.3; Fedorov, Zenkov 2005; Iglesias et al. 2008, definition 3.4",
        )

    def adjoint(self) -> Integrator:
        rule, constraint = self.rule.adjoint(), self.constraint.adjoint()
        return eqx.tree_at(lambda m: (m.rule, m.constraint), self, (rule, constraint))

    def refuse_start(self, system: System, dt: float, g0: Point, xi0: Array) -> None:
        tau = self.tau(system)
        self.rule.refuse(system, tau, dt, g0, xi0)
        if self.constraint.function is not None:
            x = system.at(g0, 0.0)
            traced = jax.make_jaxpr(lambda x, z, h: self.constraint(system, tau, h, x, z))(x, dt * xi0, dt)
            inspected("the discrete constraint", traced)

    @property
    def limits_starts(self) -> bool:
        return self.constraint.function is not None

    def within_limits(self, system: System, dt: Array, g0: Point, xi0: Array) -> Array | bool:
        return self.rule.approximates(system, self.tau(system), dt, g0, xi0)

    def init(self, system: System, clock: Clock, g0: Point, xi0: Array) -> Outcome:
        """Node 0, xi0 of shape=[n]: ζ₀ from P*(F⁻(x₀, ζ₀) − p̃₀ − (h/2)f₀) = 0 and φ(x₀, ζ₀) = 0, with p̃₀ =
        ∂ℓ/∂ξ(x₀, ξ₀).
        """
        x, h = system.at(g0, clock.time(0)), clock.dt
        p = system.momentum(x, xi0)
        leaving = p + h / 2 * system.force(clock.time(0), x, xi0, clock.control(0))
        mismatch = self._node(system, clock, x, lambda p_minus: p_minus - leaving)
        rounding = rounding_of_places(system, g0)
        zeta, solved = self.newton.solve(mismatch, h * xi0, 1e-14 * jnp.abs(h), rounding)
        p_minus = self.rule.legendre_minus(system, self.tau(system), h, x, zeta)
        return Outcome(g0, reflected(p_minus, p), p_minus, NextStep(zeta), converged=solved)

    def cold(self, system: System, clock: Clock, k: Array, g: Point, xi: Array) -> Warm:
        return Warm(inverse=no_inverse(xi.size))

    def equations(self, system: System, clock: Clock, state: State) -> Equations:
        g, x, p_plus = self._arrival(system, clock, state)
        h, t, u = clock.dt, clock.time(state.k + 1), clock.control(state.k + 1)

        def jump(p_minus: Array) -> Array:
            if system.forces is None:
                return p_minus - p_plus
            return p_minus - p_plus - h * system.force(t, x, system.velocity(x, (p_plus + p_minus) / 2), u)

        rounding = rounding_of_places(system, g)
        return Equations(self._node(system, clock, x, jump), state.memory.zeta, 1e-14 * jnp.abs(h), rounding)

    def update(self, system: System, clock: Clock, state: State, z: Array) -> Outcome:
        tau = self.tau(system)
        g, x, p_plus = self._arrival(system, clock, state)
        p_minus = self.rule.legendre_minus(system, tau, clock.dt, x, z)
        return Outcome(g, p_plus, p_minus, NextStep(z), turn=tau.turn(system.group, z))

    def _arrival(self, system: System, clock: Clock, state: State) -> tuple[Point, Any, Array]:
        """Next node, which is known, and the incoming momentum F⁺ there."""
        tau, zeta = self.tau(system), state.memory.zeta
        g = system.group.compose(state.g, tau(system.group, zeta))
        before, x = system.at(state.g, clock.time(state.k)), system.at(g, clock.time(state.k + 1))
        return g, x, self.rule.legendre_plus(system, tau, clock.dt, before, zeta, x)

    def _node(self, system: System, clock: Clock, x: Any, jump: Callable) -> Callable[[Array], Array]:
        """Equations of a node for ζ: P* of the jump of the momentum, and across it φ(x, ζ)."""
        tau, h = self.tau(system), clock.dt

        def mismatch(zeta: Array) -> Array:
            impulse = jump(self.rule.legendre_minus(system, tau, h, x, zeta))
            mu, phi = system.annihilator(x), self.constraint(system, tau, h, x, zeta)
            if system.holonomic is not None:
                ahead = system.holonomic_residual(system.act(x, tau(system.group, zeta), h))
                phi = jnp.concatenate([ahead / h, phi])
            return impulse + mu.T @ saddle(system.mass_matrix(x), mu, impulse, phi)[1]

        return mismatch
