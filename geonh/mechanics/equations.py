r"""The continuous equations on M × g, solved for the acceleration and the multipliers (mathematics.md §2).

With H = ∂²ℓ/∂ξ², differentiating p = ∂ℓ/∂ξ and the constraint along ẋ = ρ_x ξ,

    H ξ̇ − (μᵀ + C)λ = ad*_ξ p + ρ_x*∂ℓ/∂x + f − (D_x p)ρ_x ξ
    μ ξ̇       = D_x(b − μξ) ρ_x ξ
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
from jax import Array

from geonh._former_paths import former_names
from geonh.algebra import constrained as null_space
from geonh.algebra.linear import saddle_directly
from geonh.arguments.precision import is_traced
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_float64
from geonh.engine import call_in_numpy, constant_to_first_order, differentiated_as, in_float64, traced_once
from geonh.groups.base import Point
from geonh.mechanics.constraints import ConstrainedSystem
from geonh.mechanics.lagrangian import MANY
from geonh.mechanics.redundancy import least_norm_multipliers, with_known_rank


@validated
@in_float64
def accelerations(system: ConstrainedSystem, t: Array, g: Point, xi: Array, u: Any = None) -> tuple[Array, Array]:
    """Accelerations ξ̇ and multipliers λ of the equations ṗ = ad*_ξ p + ρ_xᵀ∂ₓℓ + f + (μᵀ + C)λ, μξ = b.

    Parameters
    ----------
    system : System
        Linear or affine constraints, or none.
    t : float
        Time, s.
    g : point of the group
        Configuration.
    xi : array_like, shape=[n]
        Velocity in the frame of the body, on the constraints.
    u : array_like, optional
        Controls, of the shape that the system's forces take.

    Returns
    -------
    ndarray, shape=[n]
        ξ̇, the velocity's units per second; nan where a metric is not positive definite.
    ndarray, shape=[m]
        λ, in newtons or newton metres per unit of the forms.

    Raises
    ------
    TypeError
        If ``system`` is not a System, or the others are not made of numbers.
    ValueError
        If ``g`` or ``xi`` have other shapes than the system's, or ``u`` is given to a system without forces.
    """
    if not is_traced(system, t=t, g=g, xi=xi, u=u):
        g, xi = system.point(g, on_group=False, name="g"), as_float64(xi, "xi", (system.group.dim,))
        if u is not None and system.forces is None:
            raise ValueError(f"u is given, but {system.name} has no forces that would use it")
        u = None if u is None else as_float64(u, "u")
        if system.rank is None:
            result, rows = call_in_numpy(_with_rows, (system, t, g, xi, u), {})
            known = with_known_rank(system, t, g, rows, "at g")
            if known is system:
                return result
            system = known
    return call_in_numpy(_accelerations, (system, t, g, xi, u), {})


def _with_rows(system: ConstrainedSystem, t: Array, g: Point, xi: Array, u: Any) -> tuple[tuple[Array, Array], Array]:
    """``_accelerations``, and the rows of the constraints."""
    return _accelerations(system, t, g, xi, u), system.linear_at(xi).annihilator(system.at(g, t))


def _accelerations(system: ConstrainedSystem, t: Array, g: Point, xi: Array, u: Any) -> tuple[Array, Array]:
    x = system.at(g, t)
    rate, lam = accelerations_at(system, t, x, xi, u)
    return rate, least_norm_multipliers(system, x, system.mass_matrix(x, xi), lam)


@traced_once
def accelerations_at(system: ConstrainedSystem, t: Array, x: Any, xi: Array, u: Any = None) -> tuple[Array, Array]:
    """``accelerations`` at a base point x; of redundant rows, with the multipliers of those chosen there alone."""
    system = system.holding(x).linear_at(xi)
    velocity_of_x = system.rate(x, xi)
    force = system.force(t, x, xi, u) - system.bias_force(x, xi)
    H, mu = system.mass_matrix(x, xi), system.annihilator(x)
    turning = jax.jvp(lambda x: system.constraint_residual(x, xi), (x,), (velocity_of_x,))[1]
    columns = system.multiplier_columns(t, x, xi)
    by_momenta = columns is None and system.takes_momenta(mu)
    if by_momenta:
        motion = system.solved_by_momenta(x, mu, force, -turning)
        rate, lam = motion.x, null_space.multipliers(mu, motion.image - force)
    else:
        rate, lam = system.constrained(H, mu, force, -turning, columns)
    if not by_momenta and (system.group.dim < MANY or not system.is_quadratic):
        return rate, lam
    # The derivative by x of the equations for this ξ̇ and λ: that of M and μ would be n times as long. Second
    # derivatives depend on those of ξ̇ and λ, which are taken by the matrix.
    plain = saddle_directly(H, mu, force, -turning, columns)
    v, held = (constant_to_first_order(differentiated_as(*pair)) for pair in zip((rate, lam), plain, strict=True))
    missing = force - (system.momentum(x, v) - system.momentum_at_rest(x)) + system.reaction(x, held)
    gap = -turning - system.constraint_residual(x, v) - system.right_hand_side(x)
    if columns is not None:
        missing, columns = missing + columns @ held, constant_to_first_order(columns)
    change = saddle_directly(constant_to_first_order(H), constant_to_first_order(mu), missing, gap, columns)
    return differentiated_as(rate, v + change[0]), differentiated_as(lam, held + change[1])


@validated
@in_float64
def multipliers(system: ConstrainedSystem, t: Array, g: Point, xi: Array, u: Any = None) -> Array:
    """Multipliers λ of the constraint force μᵀλ in the continuous equations.

    Parameters
    ----------
    system : System
        Linear or affine constraints, or none.
    t : float
        Time, s.
    g : point of the group
        Configuration.
    xi : array_like, shape=[n]
        Velocity in the frame of the body, on the constraints.
    u : array_like, optional
        Controls, of the shape that the system's forces take.

    Returns
    -------
    ndarray, shape=[m]
        In newtons or newton metres per unit of the forms, those of holonomic constraints first.

    Raises
    ------
    TypeError, ValueError
        As for ``accelerations``.
    """
    return accelerations(system, t, g, xi, u)[1]


if not TYPE_CHECKING:
    __getattr__ = former_names(__name__)
