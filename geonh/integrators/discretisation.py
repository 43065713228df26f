r"""Discrete Lagrangians l_d ≈ ∫₀ʰ ℓ dt on the groupoid M ⋊ G, and their Legendre transforms (mathematics.md §3).

A discrete Lagrangian is written here as a function of three slots, l_d(x, ζ, y), with W = τ(ζ) and the target y = x·W,
since then

    F⁻ = (dτ_ζ⁻¹)ᵀ ∂_ζ l_d − ρ_xᵀ ∂_x l_d        (at the source)
    F⁺ = (dτ_{−ζ}⁻¹)ᵀ ∂_ζ l_d + ρ_yᵀ ∂_y l_d      (at the target)

with partial derivatives slot by slot. The argument in the slot y moves with W, and d/dη of x·exp(η)W is
ρ_y(Ad_{W⁻¹}η): the two contributions of ∂_y l_d to F⁻, through ζ and through x, cancel. So a rule that evaluates ℓ at
the target (Störmer–Verlet, trapezoid) stays as explicit as the group allows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.inspection import inspected
from geonh.arguments.validators import as_flag, shortly
from geonh.engine import Precise, traced_once
from geonh.geometry.field import Moment, evaluated, takes_parameters
from geonh.groups.retraction import Retraction
from geonh.mechanics.system import System


class DiscreteLagrangian(Precise):
    """Discretisation rule: maps a system to its discrete Lagrangian l_d(x, ζ, y).

    ``rule(system, tau, h, x, zeta, y)`` is the scalar l_d in joule seconds, of base points x and y = x·τ(ζ), ``zeta``
    of shape=[n] and the step h in seconds.
    """

    symmetric = False
    """True if l_d is self-adjoint, l_d*(x, ζ, y; h) = −l_d(y, −ζ, x; −h): the method then has even order."""
    needs_exp = False
    """True if that holds exactly only with τ(ζ) = τ(ζ/2)²; up to O(h⁴) otherwise."""

    @abstractmethod
    def __call__(self, system: System, tau: Retraction, h: Array, x: Any, zeta: Array, y: Any) -> Array:
        """Value of l_d, scalar (joule seconds)."""

    def refuse(self, system: System, tau: Retraction, h: float, g0: Any, xi: Array) -> None:
        """Raise ValueError if l_d is not a discretisation of the system's ℓ, tested at g0 and ``xi``, shape=[n].

        Those of the library always are.
        """

    def approximates(self, system: System, tau: Retraction, h: Array, g0: Any, xi: Array) -> Array | bool:
        """True if ``refuse`` does not raise for the values of l_d; traceable."""
        return True

    def adjoint(self) -> DiscreteLagrangian:
        """Discrete Lagrangian of the adjoint method, l_d*(x, ζ, y; h) = −l_d(y, −ζ, x; −h)."""
        return self if self.symmetric and not self.needs_exp else AdjointRule(self)

    def slope(self, system: System, tau: Retraction, h: Array, x: Any, zeta: Array, y: Any) -> Array:
        """Derivative ∂_ζ l_d, shape=[n]."""
        return jax.grad(lambda z: self(system, tau, h, x, z, y))(zeta)

    @traced_once
    def legendre_minus(self, system: System, tau: Retraction, h: Array, x: Any, zeta: Array) -> Array:
        """F⁻(x, ζ), the outgoing momentum p⁻ at the source, shape=[n]; ``zeta`` of shape=[n]."""
        y = system.act(x, tau(system.group, zeta), h)
        slope = self.slope(system, tau, h, x, zeta, y)
        at_source = system.coanchor(lambda x: self(system, tau, h, x, zeta, y), x)
        return tau.pull(system.group, zeta, slope) - at_source

    @traced_once
    def legendre_plus(self, system: System, tau: Retraction, h: Array, x: Any, zeta: Array, y: Any) -> Array:
        """F⁺(x, ζ), the incoming momentum p⁺ at the target y = x·τ(ζ), shape=[n]; ``zeta`` of shape=[n]."""
        slope = self.slope(system, tau, h, x, zeta, y)
        at_target = system.coanchor(lambda y: self(system, tau, h, x, zeta, y), y)
        return tau.pull(system.group, -zeta, slope) + at_target


class LeftRectangle(DiscreteLagrangian):
    """h ℓ(x, ζ/h): Euler A; order 1."""

    symmetric = False

    def __call__(self, system: System, tau: Retraction, h: Array, x: Any, zeta: Array, y: Any) -> Array:
        return h * system.lagrangian(x, zeta * (1 / h))

    def slope(self, system: System, tau: Retraction, h: Array, x: Any, zeta: Array, y: Any) -> Array:
        return system.momentum(x, zeta * (1 / h))

    def adjoint(self) -> DiscreteLagrangian:
        return RightRectangle()


class RightRectangle(DiscreteLagrangian):
    """h ℓ(x·W, ζ/h): Euler B, the adjoint of Euler A; order 1."""

    symmetric = False

    def __call__(self, system: System, tau: Retraction, h: Array, x: Any, zeta: Array, y: Any) -> Array:
        return h * system.lagrangian(y, zeta * (1 / h))

    def slope(self, system: System, tau: Retraction, h: Array, x: Any, zeta: Array, y: Any) -> Array:
        return system.momentum(y, zeta * (1 / h))

    def adjoint(self) -> DiscreteLagrangian:
        return LeftRectangle()


class AdjointRule(DiscreteLagrangian):
    """Adjoint of a rule."""

    rule: DiscreteLagrangian

    @property
    def symmetric(self) -> bool:  # type: ignore[override]
        return self.rule.symmetric

    @property
    def needs_exp(self) -> bool:  # type: ignore[override]
        return self.rule.needs_exp

    def __call__(self, system: System, tau: Retraction, h: Array, x: Any, zeta: Array, y: Any) -> Array:
        return -self.rule(system, tau, -h, y, -zeta, x)

    def adjoint(self) -> DiscreteLagrangian:
        return self.rule


class Trapezoid(DiscreteLagrangian):
    """h/2 [ℓ(x, ζ/h) + ℓ(x·W, ζ/h)]: Störmer–Verlet; order 2."""

    symmetric = True

    def __call__(self, system: System, tau: Retraction, h: Array, x: Any, zeta: Array, y: Any) -> Array:
        xi = zeta * (1 / h)  # one division for all components
        return h / 2 * (system.lagrangian(x, xi) + system.lagrangian(y, xi))

    def slope(self, system: System, tau: Retraction, h: Array, x: Any, zeta: Array, y: Any) -> Array:
        xi = zeta * (1 / h)
        return 0.5 * (system.momentum(x, xi) + system.momentum(y, xi))


class Midpoint(DiscreteLagrangian):
    """h ℓ(x·τ(ζ/2), ζ/h); order 2. Self-adjoint with exp; with Cayley up to O(h⁴), since τ(ζ) ≠ τ(ζ/2)²."""

    symmetric = True
    needs_exp = True

    def __call__(self, system: System, tau: Retraction, h: Array, x: Any, zeta: Array, y: Any) -> Array:
        return h * system.lagrangian(self._between(system, tau, h, x, zeta), zeta * (1 / h))

    def slope(self, system: System, tau: Retraction, h: Array, x: Any, zeta: Array, y: Any) -> Array:
        xi = zeta * (1 / h)
        moving = jax.grad(lambda z: h * system.lagrangian(self._between(system, tau, h, x, z), xi))(zeta)
        return system.momentum(self._between(system, tau, h, x, zeta), xi) + moving

    def _between(self, system: System, tau: Retraction, h: Array, x: Any, zeta: Array) -> Any:
        return system.act(x, tau(system.group, zeta / 2), h / 2)


class UserDiscreteLagrangian(DiscreteLagrangian):
    """Any l_d(x, W, h) or l_d(x, W, h, parameters) that approximates ∫₀ʰ ℓ dt, for instance Moser–Veselov's.

    Parameters
    ----------
    function : callable
        l_d, scalar; x is the source's base point, W the group increment.
    symmetric : bool
        True if self-adjoint, l_d(x, W, h) = −l_d(x·W, W⁻¹, −h): then of order 2, else of order 1 at least.

    Raises
    ------
    TypeError
        If ``symmetric`` is not a bool. ``function`` is tested by ``solve``.
    """

    function: Callable
    symmetric: bool = eqx.field(static=True)

    def __init__(self, function: Callable, symmetric: bool = False):
        if not callable(function):
            raise TypeError(f"function must be a discrete Lagrangian, a function, got {shortly(function)}")
        self.function = function
        self.symmetric = as_flag(symmetric, "symmetric")

    def refuse(self, system: System, tau: Retraction, h: float, g0: Any, xi: Array) -> None:
        """Trace it once for out-of-range reads and loss of digits; then test that F⁻(x, hξ) tends to ∂ℓ/∂ξ as h → 0.

        Raises
        ------
        ValueError
            If it does not, at g0 and ``xi``, shape=[n].
        """
        x = system.at(g0, 0.0)
        inspected(
            "the discrete Lagrangian", jax.make_jaxpr(lambda x, z, h: self(system, tau, h, x, z, x))(x, h * xi, h)
        )
        agree, momentum, wanted = self._momenta(system, tau, jnp.asarray(h), x, xi)
        if not agree:
            raise ValueError(
                f"the discrete Lagrangian is not one of {system.name}: as h → 0 its momentum at ξ = "
                f"{np.asarray(xi) + 1.0} tends to {np.asarray(momentum)}, that of the system is {np.asarray(wanted)}; "
                "it takes (x, W, h), W the increment over the step, and approximates the integral of ℓ over it"
            )

    def approximates(self, system: System, tau: Retraction, h: Array, g0: Any, xi: Array) -> Array | bool:
        return self._momenta(system, tau, h, system.at(g0, 0.0), xi)[0]

    def _momenta(self, system: System, tau: Retraction, h: Array, x: Any, xi: Array) -> tuple[Array, Array, Array]:
        """True if F⁻(x, hξ) tends to ∂ℓ/∂ξ as h → 0; it for a small h, and ∂ℓ/∂ξ; both of shape=[n]."""
        xi = xi + 1.0  # the test is void at rest
        wanted = system.momentum(x, xi)
        far, near = (self.legendre_minus(system, tau, small, x, small * xi) for small in (1e-4 * h, 1e-5 * h))
        gaps = [jnp.max(jnp.abs(momentum - wanted)) for momentum in (far, near)]
        return gaps[1] <= jnp.maximum(0.5 * gaps[0], 1e-6 * (1.0 + jnp.max(jnp.abs(wanted)))), near, wanted

    def __call__(self, system: System, tau: Retraction, h: Array, x: Any, zeta: Array, y: Any) -> Array:
        extra = (system.parameters,) if takes_parameters(self.function, "x, W, h", "the discrete Lagrangian") else ()
        x = x.x if isinstance(x, Moment) else x
        value = evaluated("discrete Lagrangian", self.function, x, tau(system.group, zeta), h, *extra)
        if value.shape != ():
            raise ValueError(f"the discrete Lagrangian l_d(x, W, h) must give a number, got shape {value.shape}")
        return value


RULES: dict[str, type[DiscreteLagrangian]] = {
    "left": LeftRectangle,
    "right": RightRectangle,
    "trapezoid": Trapezoid,
    "midpoint": Midpoint,
}


def make_rule(rule: str | DiscreteLagrangian | Callable) -> DiscreteLagrangian:
    """Rule of a given name, or of a user's function l_d(x, W, h); ValueError for an unknown name."""
    if isinstance(rule, DiscreteLagrangian):
        return rule
    if callable(rule) and not isinstance(rule, type):
        return UserDiscreteLagrangian(rule)
    if not isinstance(rule, str) or rule not in RULES:
        raise ValueError(
            f"rule must be one of {list(RULES)}, a DiscreteLagrangian or l_d(x, W, h), got {shortly(rule)}"
        )
    return RULES[rule]()
