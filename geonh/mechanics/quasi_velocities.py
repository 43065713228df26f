r"""Quasi-velocities: the constrained system as an ordinary differential equation without constraints (Hamel).

The forms μ(x) are those of ``constraint_apart``: so nearly parallel ones lose no more digits than necessary. Near a
point c the (affine) distribution is parametrised by D(c): with N = (μμᵀ)⁻¹μ at c, shape=[m, n], which span the normals
of D(c) in the chosen basis of g,

    ξ = w + Nᵀκ,   μ(x)ξ = b(x),

so that y = Rw, with R any basis of D(c), are coordinates of ξ, and the constraint holds by construction for any
y. With ξ̇ of the constrained equations (mathematics.md §2) the dynamics is ġ = gξ, ẏ = Rξ̇: an ODE on G × Rʳ.
A Runge–Kutta method does not depend on the basis R; so everything here is written without one, with w, defined
modulo the normals.

The dual coordinates are the momenta π = p − μ(x)ᵀκ in D(c), Nπ = 0: the class of p modulo the constraint forces. In
(x, π) a linear system has the energy H(x, π) = ½⟨π, ξ⟩ + V, where ξ ∈ D(x) has the momentum π modulo μᵀ, and the
equations, at c, are almost Poisson,

    π̇ = P(ad*_ξ p − κᵀ(D_x μ)ρ(ξ) + ρ*∂_x(κᵀμξ)) − Pρ*∂_xH,      ∂H/∂π = Pξ,     P = 1 − μ(c)ᵀN.

The first term is that of the algebroid bracket, ⟨p, [[ξ, E_a]]⟩ along the frame E_a = e_a − Nᵀ(μNᵀ)⁻¹μe_a of D: it is
linear in ξ and does no work (Hamel's equations).

Sources: Hamel, *Die Lagrange–Eulerschen Gleichungen der Mechanik* (1904); Bloch, Marsden, Zenkov, *Quasivelocities and
symmetries in non-holonomic systems*, Dynamical Systems 24 (2009); Kane's generalised speeds are such y.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from geonh.algebra.linear import orthogonal, solve, solve_spd
from geonh.algebra.newton import Newton
from geonh.mechanics.equations import accelerations_at
from geonh.mechanics.holonomic import SMALL
from geonh.mechanics.system import System

FEW = 3
"""Number of rows up to which a matrix of them is inverted by cofactors."""


class Normals(NamedTuple):
    """Normals of D at a point: μ there and N = (μμᵀ)⁻¹μ, each of shape=[m, n]."""

    forms: Array
    lifts: Array


def normals(system: System, x: Any) -> Normals:
    """Normals of D at x."""
    return normals_of(system.constraint_apart(x)[0])


def normals_of(mu: Array) -> Normals:
    """Normals of rows μ, shape=[m, n]."""
    return Normals(mu, solve_spd(mu @ mu.T, mu))


def parted(N: Normals, v: Array) -> tuple[Array, Array]:
    """Split v = Pv + μᵀκ at c: Pv along D and κ along the normals, shapes [n] and [m], of a velocity or momentum."""
    kappa = N.lifts @ v
    return v - N.forms.T @ kappa, kappa


def restored(system: System, x: Any, w: Array, N: Normals) -> Array:
    """Velocity ξ = w + Nᵀκ, shape=[n], with μ(x)ξ = b(x); nan if nonlinear constraints have none near w."""
    if system.is_nonlinear:

        def left(kappa: Array) -> Array:
            return system.constraint_residual(x, w + N.lifts.T @ kappa)

        kappa, converged = Newton().solve(
            left, jnp.zeros(len(N.forms)), SMALL * jnp.sqrt(w @ w), SMALL * jnp.sqrt(w @ w)
        )
        return jnp.where(converged, w + N.lifts.T @ kappa, jnp.nan)
    mu, right = _constraint(system, x)
    return w + N.lifts.T @ _solve_near_identity(mu @ N.lifts.T, (right - mu @ w)[:, None])[:, 0]


def aligned_constraint(system: System, x: Any, N: Normals) -> tuple[Array, Array]:
    """Constraint in the basis of the normals at c: μ̂ = (μNᵀ)⁻¹μ and b̂ = (μNᵀ)⁻¹b at x, shapes [m, n] and [m].

    So it does not depend on the representation of the forms at x, and is smooth even where they jump.
    """
    mu, b = _constraint(system, x)
    both = _solve_near_identity(mu @ N.lifts.T, jnp.concatenate([mu, b[:, None]], axis=1))
    return both[:, :-1], both[:, -1]


def multipliers_of(system: System, x: Any, N: Normals, lam: Array) -> Array:
    """Multipliers of the given forms at x from those of ``aligned_constraint``, both of shape=[m]."""
    across = system.annihilator(x) @ N.lifts.T
    return solve(across.T, lam)


def _constraint(system: System, x: Any) -> tuple[Array, Array]:
    """μ(x) and b(x) in orthogonal rows for ``_solve_near_identity``, of any lengths where they are few."""
    mu = system.annihilator(x)
    if len(mu) > FEW:
        return system.constraint_apart(x)
    mu, b = orthogonal(mu, system.right_hand_side(x)[:, None])
    return mu, b[:, 0]


def _solve_near_identity(A: Array, right: Array) -> Array:
    """A⁻¹ right, shapes [m, m] and [m, k], for A = μNᵀ: near 1 but for the lengths of its rows where they are few, or
    near a permutation, where an annihilator changes the order of its rows.
    """
    m = len(A)
    if m > FEW:
        return solve_spd(A.T @ A, A.T @ right)
    if m == 0:
        return right
    if m == 1:
        return right * (1 / A[0, 0])
    if m == 2:
        (a, b), (c, d) = A
        cofactors, volume = jnp.stack([jnp.stack([d, -b]), jnp.stack([-c, a])]), a * d - b * c
    else:
        u, v, w = A.T
        cofactors = jnp.stack([jnp.cross(v, w), jnp.cross(w, u), jnp.cross(u, v)])
        volume = cofactors[0] @ u
    return cofactors @ right * (1 / volume)


def reduced_momentum(system: System, x: Any, p: Array, N: Normals) -> tuple[Array, Array]:
    """Reduced momentum π and κ, shapes [n] and [m], with p = π + μ(x)ᵀκ and Nπ = 0."""
    mu, _ = system.constraint_apart(x)
    across = mu @ N.lifts.T
    kappa = solve_spd(across @ across.T, across @ (N.lifts @ p))
    return p - mu.T @ kappa, kappa


def velocity_of_momentum(system: System, x: Any, pi: Array) -> Array:
    """Velocity ξ, shape=[n], in D(x) of a linear system, momentum π modulo constraint forces."""
    mu = system.annihilator(x)
    kinetic = pi - system.momentum_at_rest(x)
    return system.constrained(system.mass_matrix(x), mu, kinetic, jnp.zeros(len(mu)))[0]


def reduced_energy(system: System, x: Any, pi: Array) -> Array:
    """Reduced energy H(x, π), scalar, of a linear system."""
    xi = velocity_of_momentum(system, x, pi)
    return (pi - system.momentum_at_rest(x)) @ xi / 2 + system.potential_energy(x)


def energy_slope(system: System, x: Any, xi: Array, kappa: Array) -> Array:
    """Derivative ρ*∂_xH at fixed π, shape=[n], where the velocity is ξ and p = π + μᵀκ.

    At fixed π, p varies with the forms, ∂_x p = κᵀ∂_xμ: at constant ξ and κ it is the derivative of κᵀμξ − ℓ(x, ξ).
    """
    return system.coanchor(lambda x: kappa @ (system.constraint_apart(x)[0] @ xi) - system.lagrangian(x, xi), x)


def gyroscopic_force(system: System, x: Any, p: Array, xi: Array, kappa: Array) -> Array:
    """Gyroscopic force, which does no work on ξ in D(x), for p = π + μᵀκ with π in D(x): shape=[n], linear in ξ.

    Tangential part: that of ⟨p, [[ξ, E_a]]⟩, with the frame E_a of D as in the module docstring.
    """
    along = jax.jvp(lambda x: kappa @ system.constraint_apart(x)[0], (x,), (system.anchor(x, xi),))[1]
    across = system.coanchor(lambda x: kappa @ (system.constraint_apart(x)[0] @ xi), x)
    return system.group.ad_star(xi, p) - along + across


def rates(system: System, t: Array, x: Any, w: Array, N: Normals, u: Any = None) -> tuple[Array, Array]:
    """Vector field (ξ, ξ̇), each of shape=[n], at time t; ẇ = ξ̇ modulo the normals."""
    xi = restored(system, x, w, N)
    return xi, accelerations_at(system, t, x, xi, u)[0]
