r"""Quasi-velocities: the constrained system as an ordinary differential equation without constraints (Hamel).

Let R, shape=[r, n], be constant forms with RRᵀ = 1 that complete μ(x) to a coframe. Then y = Rξ are coordinates on the
(affine) distribution, and ξ is the solution of

    Rξ = y,   μ(x)ξ = b(x):      ξ = Rᵀ(y − Cκ) + μᵀκ,   (μμᵀ − CᵀC)κ = b − Cᵀy,   C = Rμᵀ,

so that the constraint holds by construction, whatever is done to y. With ξ̇ of the constrained equations
(mathematics.md §2) the dynamics is ġ = gξ, ẏ = Rξ̇: an ODE on G × Rʳ. In the momenta π = Ep along the frame E of D dual
to R a linear system has the energy H(x, π) = ½πᵀ(EMEᵀ)⁻¹π + V, and the equations are

    π̇_a = ⟨p, [[ξ, E_a]]⟩ − ρ(E_a)H,      ξ = Eᵀy,  y = ∂H/∂π,  p = Mξ,

almost Poisson: the first term is orthogonal to y (Hamel's equations, with the algebroid bracket).

Sources: Hamel, *Die Lagrange–Eulerschen Gleichungen der Mechanik* (1904); Bloch, Marsden, Zenkov, *Quasivelocities and
symmetries in non-holonomic systems*, Dynamical Systems 24 (2009); Kane's generalised speeds are such y.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from geonh.groups.base import Point
from geonh.mechanics.equations import accelerations
from geonh.mechanics.system import System
from geonh.numerics.apart import apart
from geonh.numerics.linear import gram_schmidt, solve_spd


def completing_forms(system: System, x: Any) -> Array:
    """Forms R, shape=[r, n], RRᵀ = 1, that complete μ(x) to a coframe: a basis of ker μ(x), lowered."""
    n = system.group.dim
    if system.distribution is None:
        return jnp.eye(n)
    mu = system.distribution.annihilator(x, system.parameters)
    return jnp.linalg.svd(mu)[2][mu.shape[0] :]


def velocity(system: System, x: Any, y: Array, R: Array) -> Array:
    """ξ, shape=[n], with Rξ = y and μ(x)ξ = b(x)."""
    if system.distribution is None:
        return y
    mu, C, gram = _complement(system, x, R)
    kappa = solve_spd(gram, system.distribution.right_hand_side(x, system.parameters) - C.T @ y)
    return R.T @ (y - C @ kappa) + mu.T @ kappa


def frame(system: System, x: Any, R: Array) -> Array:
    """Frame of D dual to R, rows E_a of shape=[r, n]: R_b E_a = δ_ab, μ(x)E_a = 0."""
    if system.distribution is None:
        return jnp.eye(system.group.dim)
    mu, C, gram = _complement(system, x, R)
    return R - solve_spd(gram, C.T).T @ (mu - C.T @ R)


def rates(system: System, t: Array, g: Point, y: Array, R: Array, u: Any = None) -> tuple[Array, Array]:
    """(ξ, ẏ) of shapes [n] and [r] at time t: the whole vector field."""

    def field(g: Point, y: Array, R: Array) -> tuple[Array, Array]:
        xi = velocity(system, system.action.at(g), y, R)
        return xi, R @ accelerations(system, t, g, xi, u)[0]

    return apart(jnp.asarray(t, y.dtype), field, g, y, R)


def orthonormal_basis(system: System, x: Any, R: Array) -> Array:
    """Orthonormal basis of D (of its linear part) at x, shape=[r, n]: the completing forms that belong to x itself."""
    E = frame(system, x, R)
    return E if system.distribution is None else gram_schmidt(E, jnp.eye(system.group.dim))


def adapted_frame(system: System, x: Any, R: Array) -> Array:
    """M-orthonormal frame of D, rows F_a of shape=[r, n], smooth in x where R completes μ(x)."""
    return gram_schmidt(frame(system, x, R), system.mass_matrix(x))


def energy_on_distribution(system: System, x: Any, pi: Array, E: Array) -> Array:
    """H(x, π), scalar, of a linear system, in a frame E of D at x."""
    potential = 0.0 if system.potential is None else system.potential(x, system.parameters)
    return pi @ velocity_of_momentum(system, x, pi, E) / 2 + potential


def velocity_of_momentum(system: System, x: Any, pi: Array, E: Array) -> Array:
    """y = ∂H/∂π = (EMEᵀ)⁻¹π, shape=[r], in a frame E of D at x."""
    return solve_spd(E @ system.mass_matrix(x) @ E.T, pi)


def energy_slopes(system: System, x: Any, pi: Array, R: Array, E: Array) -> tuple[Array, Array]:
    """(ρ*∂_xH, ∂H/∂π) of shapes [n] and [r], where the frame dual to R is E.

    The frame turns as the forms do, ⟨p, dE_a⟩ = −κᵀ(dμ)E_a, with κ the components of p along μ in the coframe (R, μ):
    with ξ = Eᵀy and κ held constant ∂_xH is that of V − ½ξᵀMξ + κᵀμξ.
    """
    y = velocity_of_momentum(system, x, pi, E)
    xi = E.T @ y
    kappa = _along_forms(system, x, system.mass_matrix(x) @ xi, R)

    def held(x: Any) -> Array:
        potential = 0.0 if system.potential is None else system.potential(x, system.parameters)
        return potential - xi @ system.mass_matrix(x) @ xi / 2 + kappa @ (_forms(system, x) @ xi)

    return system.action.coanchor(held, x), y


def gyroscopic_force(system: System, x: Any, p: Array, y: Array, R: Array) -> Array:
    """⟨p, [[ξ, E_a]]⟩, shape=[r], for p in M(D), with ξ = Eᵀy, at a point where E = R: linear in y, orthogonal to it.

    [[ξ, E_a]] = [ξ, E_a] + ρ(ξ)E_a − ρ(E_a)(E_b)y_b is the algebroid bracket, y held constant; the frame turns as in
    ``energy_slopes``.
    """
    action = system.action
    xi, kappa = R.T @ y, _along_forms(system, x, p, R)
    along = jax.jvp(lambda x: kappa @ _forms(system, x), (x,), (action.anchor(x, xi),))[1]
    across = action.coanchor(lambda x: kappa @ (_forms(system, x) @ xi), x)
    return R @ (system.group.ad_star(xi, p) - along + across)


def _forms(system: System, x: Any) -> Array:
    """μ(x), with m = 0 without constraints."""
    if system.distribution is None:
        return jnp.zeros((0, system.group.dim))
    return system.distribution.annihilator(x, system.parameters)


def _along_forms(system: System, x: Any, p: Array, R: Array) -> Array:
    """κ with p = Rᵀα + μᵀκ, shape=[m]."""
    if system.distribution is None:
        return jnp.zeros(0)
    mu, C, gram = _complement(system, x, R)
    return solve_spd(gram, mu @ p - C.T @ (R @ p))


def _complement(system: System, x: Any, R: Array) -> tuple[Array, Array, Array]:
    """μ, C and the Gram matrix of the parts of μ that are not in the span of R."""
    assert system.distribution is not None
    mu = system.distribution.annihilator(x, system.parameters)
    C = R @ mu.T
    return mu, C, mu @ mu.T - C.T @ C
