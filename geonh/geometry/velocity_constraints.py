r"""Constraints that are nonlinear in the velocity, c(x, ξ) = 0, by Chetaev's rule (mathematics.md §8).

The reaction is Aᵀλ with A = ∂c/∂ξ, of shape=[m, n]: at a velocity ξ₀ the constraint is, to first order, the affine one

    A(x, ξ₀) ξ = A(x, ξ₀) ξ₀ − c(x, ξ₀),

with which all formulas of affine constraints hold there (``at_velocity``). That the reaction is spanned by ∂c/∂ξ is an
assumption, which linear constraints satisfy by d'Alembert's principle. It does the work λ·Aξ: the energy is kept if and
only if ξ·∂c/∂ξ = 0 on c = 0, as where c is homogeneous in ξ.

Sources: N. G. Chetaev, *On Gauss's principle* (1932); C.-M. Marle, *Various approaches to conservative and
nonconservative nonholonomic systems*, Reports on Mathematical Physics 42 (1998).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from geonh.arguments.signatures import argument_type
from geonh.arguments.validators import shortly
from geonh.engine import SIDE_BY_SIDE, jacobian
from geonh.geometry.distribution import MANY, AffineDistribution, Distribution
from geonh.geometry.field import TimeDependent, arguments, evaluated, takes_parameters


class _Velocity(eqx.Module):
    """User's function c, called as (x, ξ, parameters)."""

    function: Callable
    timed: bool = eqx.field(static=True)
    takes_parameters: bool = eqx.field(static=True)

    def __init__(self, function: Any):
        self.timed = isinstance(function, TimeDependent)
        self.function = function.function if isinstance(function, TimeDependent) else function
        if not callable(self.function):
            raise TypeError(f"velocity must be a function of (x, xi), got {shortly(self.function)}")
        self.takes_parameters = takes_parameters(self.function, "t, x, xi" if self.timed else "x, xi", "velocity")

    def __call__(self, x: Any, xi: Array, parameters: Any) -> Array:
        extra = (parameters,) if self.takes_parameters else ()
        return evaluated("velocity", self.function, *arguments(x, self.timed, "velocity"), xi, *extra)


@argument_type
class VelocityConstraints(Distribution):
    """Constraints c(x, ξ) = 0 that are not linear in the velocity, with reactions by Chetaev's rule.

    Parameters
    ----------
    velocity : callable
        c(x, ξ) or c(x, ξ, parameters) → shape=[m], of a base point and a velocity of shape=[n]; of (t, x, ξ) with
        ``geonh.time_dependent``. Linear constraints may be among them.

    Raises
    ------
    TypeError
        If ``velocity`` is not a function of these arguments.

    Notes
    -----
    For methods whose ``guarantees.nonlinear`` is true. The derivative ∂c/∂ξ must have full rank along a motion. The
    energy is kept if and only if ξ·∂c/∂ξ = 0 where c = 0, as for a homogeneous c. Chetaev's rule is an assumption.

    References
    ----------
    .. [Chetaev1932] N. G. Chetaev, "On Gauss's principle", Izvestia of the Physico-mathematical Society of Kazan
       University 6 (1932), 68–71.
    .. [Marle1998] C.-M. Marle, "Various approaches to conservative and nonconservative nonholonomic systems", Reports
       on Mathematical Physics 42 (1998), 211–229.

    Examples
    --------
    >>> import geonh as gn
    >>> isokinetic = gn.VelocityConstraints(lambda x, xi: [xi @ xi - 1.0])
    """

    velocity: _Velocity

    def __init__(self, velocity: Any):
        self.forms = self.frame = None
        self.velocity = velocity if isinstance(velocity, _Velocity) else _Velocity(velocity)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(velocity=a function)"

    def at_velocity(self, xi: Array) -> AffineDistribution:
        """The affine distribution to which the constraints are equal to first order at a velocity, shape=[n]."""
        return _AtVelocity(self.velocity, xi)

    def residual(self, xi: Array, x: Any, parameters: Any = None) -> Array:
        return self.velocity(x, xi, parameters)

    def annihilator(self, x: Any, parameters: Any = None) -> Array:
        raise ValueError(
            "the constraints are nonlinear in the velocity, so their forms depend on it, and what is asked for is "
            "defined for linear and affine ones; system.linear_at(xi) has those at a velocity"
        )

    def degeneracy_rows(self, x: Any, parameters: Any = None) -> Array:
        return self.annihilator(x, parameters)

    def right_hand_side(self, x: Any, parameters: Any = None) -> Array:
        return self.annihilator(x, parameters)

    def P(self, M: Array, x: Any, parameters: Any = None) -> Array:
        return self.annihilator(x, parameters)

    def normal_momentum(self, M: Array, p: Array, x: Any, parameters: Any = None) -> Array:
        return self.annihilator(x, parameters)


class _Frozen(eqx.Module):
    """A(x, ξ₀), or A(x, ξ₀)ξ₀ − c(x, ξ₀), as a field over the base."""

    velocity: _Velocity
    xi: Array
    is_rows: bool = eqx.field(static=True)

    @property
    def timed(self) -> bool:
        return self.velocity.timed

    @property
    def function(self) -> Callable:
        return self.velocity.function

    def __call__(self, x: Any, parameters: Any = None) -> Array:
        def c(xi: Array) -> Array:
            return self.velocity(x, xi, parameters)

        if not self.is_rows:
            value, along = jax.jvp(c, (self.xi,), (self.xi,))
            return along - value
        if len(self.xi) < MANY:
            return jax.jacrev(c)(self.xi)
        return jacobian(c, self.xi, together=SIDE_BY_SIDE)


class _AtVelocity(AffineDistribution):
    """The affine constraint to which nonlinear ones are equal at a velocity ξ₀, to first order."""

    def __init__(self, velocity: _Velocity, xi: Array):
        self.forms, self.rhs = _Frozen(velocity, jnp.asarray(xi), True), _Frozen(velocity, jnp.asarray(xi), False)  # type: ignore[assignment]
        self.frame = self.drift = None
