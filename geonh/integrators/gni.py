r"""The geometric nonholonomic integrator on M ⋊ G, and the variational integrator it restricts to.

From the node (x_k, g_k, p⁻_k), with W_k = τ(ζ_k),

    F⁻(x_k, ζ_k) = p⁻_k                                                            solved for ζ_k
    g_{k+1} = g_k W_k,   x_{k+1} = x_k·W_k,   p⁺_{k+1} = F⁺(x_k, ζ_k)
    p⁻_{k+1} = p⁺_{k+1} − 2Q*(p⁺_{k+1} − Π)                                        the node

so that the average p̃ = ½(p⁺ + p⁻) satisfies the affine constraint, P*p⁺ = P*p⁻ is the projected discrete
Euler–Lagrange equation, and without a constraint p⁻ = p⁺. On a group alone with invariant D this is
p_k = (P − Q)* Ad*_{W_{k−1}} p_{k−1}.

Sources: Ferraro, Iglesias, Martín de Diego, *Momentum and energy preserving integrators for nonholonomic dynamics*,
Nonlinearity 21 (2008), eqs. (4), (6), (7); Ferraro, Jiménez, Martín de Diego, *New developments on the geometric
nonholonomic integrator*, Nonlinearity 28 (2015), definitions 4.1, 6.1 (affine), 7.1 (reduced), 8.2 (algebroids).
With the trapezoid rule on Rⁿ it is the nonholonomic RATTLE method, with the rectangle rules Euler A and B.
External forces enter as the impulse h f at the node, half before and half after the reflection.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from geonh.groups.retraction import Exponential, Retraction, make_retraction
from geonh.integrators.base import Clock, Guarantees, Integrator, ReflectingIntegrator, State, arrived, rows_of
from geonh.integrators.discretisation import DiscreteLagrangian, make_rule
from geonh.mechanics.system import System
from geonh.numerics.linear import solve
from geonh.numerics.newton import Newton


class _DiscreteFlow(ReflectingIntegrator):
    """What the variational integrator and GNI share: everything but the node."""

    rule: DiscreteLagrangian
    retraction: Retraction | None
    newton: Newton
    _reference: ClassVar[str]

    def __init__(
        self,
        rule: str | DiscreteLagrangian | Callable = "trapezoid",
        retraction: str | Retraction = "auto",
        *,
        newton: Newton | None = None,
        start: str = "average",
    ):
        self.rule = make_rule(rule)
        self.retraction = make_retraction(retraction)
        self.newton = newton or Newton()
        self.start = start

    @property
    def guarantees(self) -> Guarantees:
        return Guarantees(
            order=2 if self.rule.symmetric else 1,
            symmetric=self.rule.symmetric and (isinstance(self.retraction, Exponential) or not self.rule.needs_exp),
            implicit=True,
            constraint="nodes",
            energy="bi-invariant",
            momentum="horizontal",
            affine=True,
            groups="any",
            reference=self._reference,
        )

    def adjoint(self) -> Integrator:
        return self if self.rule.symmetric else eqx.tree_at(lambda m: m.rule, self, self.rule.adjoint())

    @abstractmethod
    def average(self, system: System, clock: Clock, k: Array, x: Any, p_plus: Array) -> tuple[Array, Array]:
        """p̃_k at the node from the incoming momentum, and whether it was found."""

    def residual(self, system: System, clock: Clock, state: State, new: State) -> Array:
        x = system.action.at(state.g)
        outgoing = self.rule.legendre_minus(system, self.tau(system), clock.dt, x, new.increment)
        return jnp.max(jnp.abs(outgoing - state.p_minus))

    def step(self, system: System, clock: Clock, state: State) -> State:
        tau, group, h = self.tau(system), system.group, clock.dt
        x = system.action.at(state.g)

        def mismatch(zeta: Array) -> Array:
            return self.rule.legendre_minus(system, tau, h, x, zeta) - state.p_minus

        floor = 1e-14 * jnp.abs(h)
        zeta, solved, inverse = self.newton.follow(mismatch, state.increment, state.inverse, floor)
        g = group.compose(state.g, tau(group, zeta))
        y = system.action.at(g)
        p_plus = self.rule.legendre_plus(system, tau, h, x, zeta, y)
        average, found = self.average(system, clock, state.k + 1, y, p_plus)
        p_minus = 2 * average - p_plus
        rows, turn = rows_of(system, y), tau.turn(group, zeta)
        return arrived(state, g, p_plus, p_minus, zeta, rows, inverse, found=solved & found, turn=turn)


class GNI(_DiscreteFlow):
    """The geometric nonholonomic integrator.

    Parameters
    ----------
    rule : str, DiscreteLagrangian or callable
        "trapezoid" (Störmer–Verlet, order 2), "midpoint" (order 2), "left" (Euler A), "right" (Euler B), or any
        l_d(x, W, h).
    retraction : str or Retraction
        "auto" (Cayley where the group has it), "cayley" or "exp".
    newton : Newton, optional
        Tolerance and bound of the implicit solves.
    start : str
        Outgoing momentum at node 0: "average", p⁻₀ = p̃₀ (λ₀ = 0), or "multiplier", with the exact λ₀.

    Notes
    -----
    Preserves: the (affine) constraint on p̃ to rounding, every run; nonholonomic momentum maps of horizontal
    symmetries; energy at p⁻ for bi-invariant ℓ and left-invariant l_d, whatever D (Theorem 1), and for planar bodies
    with joints, SE(2)×Tᵏ.

    Examples
    --------
    >>> import geonh as gn
    >>> traj = gn.solve(gn.systems.chaplygin_sleigh(), gn.GNI(), xi0=[0.8, -0.5, 0.0], dt=0.01, n_steps=100)
    """

    _reference: ClassVar[str] = "Ferraro, Iglesias, Martín de Diego 2008, eqs. 4, 6, 7; 2015, definitions 6.1, 7.1, 8.2"

    def average(self, system: System, clock: Clock, k: Array, x: Any, p_plus: Array) -> tuple[Array, Array]:
        r"""p̃ = P*(p⁺ + (h/2)f) + Q*Π; where f or the Legendre map depends on ξ̃, by Newton on

        P*(∂ℓ/∂ξ − (h/2)f(t, x, ξ̃, u) − p⁺) + M(Qξ̃ − Y) = 0.
        """
        M = system.mass_matrix(x)
        if system.is_quadratic and system.forces is None:
            return p_plus - system.normal_momentum(x, p_plus, M), jnp.asarray(True)
        t, u, h = clock.time(k), clock.control(k), clock.dt

        def mismatch(xi: Array) -> Array:
            free = p_plus + h / 2 * system.force(t, x, xi, u) - system.momentum(x, xi)
            tangential = (
                free if system.distribution is None else system.distribution.P_star(M, x, system.parameters) @ free
            )
            return system.normal_momentum(x, M @ xi, M) - tangential

        guess = solve(M, p_plus - system.momentum(x, jnp.zeros_like(p_plus)))
        xi, found = self.newton.solve(mismatch, guess)
        return system.momentum(x, xi), found


class Variational(_DiscreteFlow):
    """The variational integrator (discrete Euler–Lagrange, Euler–Poincaré, Lagrange–Poincaré), for systems without
    constraints: GNI with p⁻ = p⁺ (plus the impulse of forces) at the node.

    Parameters are those of ``GNI``. Symplectic, and preserves the momentum maps of the symmetries of l_d.
    """

    average = GNI.average
    _reference: ClassVar[str] = "Marsden, West 2001, §1.5.3; reduced: Marrero, Martín de Diego, Martínez 2006"

    def refuse(self, system: System) -> None:
        super().refuse(system)
        if system.distribution is not None:
            raise ValueError(f"Variational is for systems without constraints; {system.name} has some: use GNI")
