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

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import equinox as eqx
from jax import Array

from geonh.algebra.newton import Newton, make_newton
from geonh.groups.base import Point
from geonh.groups.retraction import Exponential, Retraction, make_retraction
from geonh.integrators.base import Guarantees, Integrator
from geonh.integrators.discrete_flow import DiscreteFlow, ReflectingFlow, check_start
from geonh.integrators.discretisation import DiscreteLagrangian, make_rule
from geonh.integrators.prediction import Weights
from geonh.mechanics.system import System


class RuleFlow(DiscreteFlow):
    """Flow of a discrete Lagrangian: of GNI, the variational integrator and the symmetric projection."""

    rule: DiscreteLagrangian
    retraction: Retraction | None
    newton: Newton

    def __init__(
        self,
        rule: str | DiscreteLagrangian | Callable = "trapezoid",
        retraction: str | Retraction = "auto",
        *,
        newton: Newton | None = None,
    ):
        self.rule, self.retraction, self.newton = make_rule(rule), make_retraction(retraction), make_newton(newton)

    @property
    def guarantees(self) -> Guarantees:
        return Guarantees(
            order=2 if self.rule.symmetric else 1,
            symmetric=self.rule.symmetric and (isinstance(self.retraction, Exponential) or not self.rule.needs_exp),
            energy="bi-invariant",
            momentum="horizontal",
            reference="",
        )

    @property
    def limits_starts(self) -> bool:
        return type(self.rule).refuse is not DiscreteLagrangian.refuse

    def refuse_start(self, system: System, dt: float, g0: Point, xi0: Array) -> None:
        self.rule.refuse(system, self.tau(system), dt, g0, xi0)

    def within_limits(self, system: System, dt: Array, g0: Point, xi0: Array) -> Array | bool:
        return self.rule.approximates(system, self.tau(system), dt, g0, xi0)

    def adjoint(self) -> Integrator:
        return self if self.guarantees.symmetric else eqx.tree_at(lambda m: m.rule, self, self.rule.adjoint())

    def legendre_minus(self, system: System, h: Array, x: Any, zeta: Array) -> Array:
        return self.rule.legendre_minus(system, self.tau(system), h, x, zeta)

    def legendre_plus(self, system: System, h: Array, x: Any, zeta: Array, y: Any) -> Array:
        return self.rule.legendre_plus(system, self.tau(system), h, x, zeta, y)


class GNI(RuleFlow, ReflectingFlow):
    """The geometric nonholonomic integrator.

    Parameters
    ----------
    rule : str, DiscreteLagrangian or callable
        "trapezoid" (Störmer–Verlet, order 2), "midpoint" (order 2), "left" (Euler A), "right" (Euler B), or any
        l_d(x, W, h): treated as of order 1, unless ``UserDiscreteLagrangian(l_d, symmetric=True)`` is given.
    retraction : str or Retraction
        "auto" (Cayley where the group has it), "cayley" or "exp".
    newton : Newton, optional
        Tolerance and iteration limit of the implicit solves.
    start : str
        Impulse at node 0: "multiplier", with the exact λ₀, or "average", with λ₀ = 0 as in the papers.

    Raises
    ------
    TypeError, ValueError
        If an argument is not one of these; ``solve`` refuses a system that it does not suit.

    Notes
    -----
    Preserves: the (affine) constraint on p̃ to rounding, every run; nonholonomic momentum maps of horizontal
    symmetries; energy at p⁻ for bi-invariant ℓ and left-invariant l_d, whatever D (Ferraro, Iglesias & Martín de
    Diego, Nonlinearity 21 (2008), Theorem 1), and for planar bodies whose metric does not depend on the shape. A part
    of p⁻ alternates in sign from node to node, and grows where the motion contracts the phase space;
    ``SymmetricProjection`` has none.

    References
    ----------
    .. [Ferraro2008] S. Ferraro, D. Iglesias, D. Martín de Diego, "Momentum and energy preserving integrators for
       nonholonomic dynamics", Nonlinearity 21 (2008), 1911–1928; eqs. 4, 6, 7.
    .. [Ferraro2015] S. Ferraro, F. Jiménez, D. Martín de Diego, "New developments on the geometric nonholonomic
       integrator", Nonlinearity 28 (2015), 871–900; definitions 6.1, 7.1, 8.2.

    Examples
    --------
    >>> import geonh as gn
    >>> traj = gn.solve(gn.systems.chaplygin_sleigh(), gn.GNI(), xi0=[0.8, -0.5, 0.0], dt=0.01, n_steps=100)
    """

    start: str = eqx.field(static=True)

    def __init__(
        self,
        rule: str | DiscreteLagrangian | Callable = "trapezoid",
        retraction: str | Retraction = "auto",
        *,
        newton: Newton | None = None,
        start: str = "multiplier",
    ):
        super().__init__(rule, retraction, newton=newton)
        self.start = check_start(start)

    @property
    def guarantees(self) -> Guarantees:
        reference = "Ferraro, Iglesias, Martín de Diego 2008, eqs. 4, 6, 7; 2015, definitions 6.1, 7.1, 8.2"
        return replace(super().guarantees, node="impulse", reference=reference)


class Variational(RuleFlow, ReflectingFlow):
    """Variational integrator, for systems without nonholonomic constraints.

    It is GNI with p⁻ = p⁺ (plus the impulse of forces) at the node: discrete Euler–Lagrange, Euler–Poincaré,
    Lagrange–Poincaré equations. With holonomic constraints it is RATTLE on groups. Symplectic, and preserves the
    momentum maps of the symmetries of l_d (and φ).

    Parameters
    ----------
    rule : str, DiscreteLagrangian or callable
        "trapezoid", "midpoint", "left", "right", or any l_d(x, W, h), as in ``GNI``.
    retraction : str or Retraction
        "auto" (Cayley where the group has it), "cayley" or "exp".
    newton : Newton, optional
        Tolerance and iteration limit of the implicit solves.

    Raises
    ------
    TypeError, ValueError
        If an argument is not one of these; ``solve`` refuses systems with nonholonomic constraints.

    References
    ----------
    .. [Marsden2001] J. E. Marsden, M. West, "Discrete mechanics and variational integrators", Acta Numerica 10
       (2001), 357–514; §1.5.3.
    .. [Marrero2006] J. C. Marrero, D. Martín de Diego, E. Martínez, "Discrete Lagrangian and Hamiltonian mechanics
       on Lie groupoids", Nonlinearity 19 (2006), 1313–1348.
    """

    start = "multiplier"
    predictors: ClassVar[tuple[Weights, ...]] = DiscreteFlow.predictors  # without constraints nothing alternates

    @property
    def guarantees(self) -> Guarantees:
        reference = "Marsden, West 2001, §1.5.3; reduced: Marrero, Martín de Diego, Martínez 2006"
        return replace(super().guarantees, reference=reference)

    def has_impulses(self, system: System) -> bool:
        return system.forces is not None or system.holonomic is not None

    def refuse(self, system: System) -> None:
        super().refuse(system)
        if system.distribution is not None:
            raise ValueError(
                f"Variational is for systems without nonholonomic constraints; {system.name} has some: use "
                "SymmetricProjection()"
            )
