r"""Quasi-velocities: the constrained system as an ordinary differential equation without constraints (Hamel).

Let R, shape=[r, n], be constant forms with RRᵀ = 1 that complete μ(x) to a coframe. Then y = Rξ are coordinates on the
(affine) distribution, and ξ is the solution of

    Rξ = y,   μ(x)ξ = b(x):      ξ = Rᵀ(y − Cκ) + μᵀκ,   (μμᵀ − CᵀC)κ = b − Cᵀy,   C = Rμᵀ,

so that the constraint holds by construction, whatever is done to y. With ξ̇ of the constrained equations
(mathematics.md §2) the dynamics is ġ = gξ, ẏ = Rξ̇: an ODE on G × Rʳ. ``adapted_frame`` gives the M-orthonormal frame
of D that belongs to R, in which the energy of a linear system is ½|w|² + V and the equations are

    ẇ_a = ⟨p, [[ξ, F_a]]⟩ − ⟨dV, ρ(F_a)⟩,      ξ = Fᵀw,  p = Mξ,

almost Poisson: the first term is orthogonal to w (Hamel's equations, with the algebroid bracket).

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


def adapted_frame(system: System, x: Any, R: Array) -> Array:
    """M-orthonormal frame of D, rows F_a of shape=[r, n], smooth in x where R completes μ(x)."""
    return gram_schmidt(frame(system, x, R), system.mass_matrix(x))


def gyroscopic_force(system: System, x: Any, w: Array, R: Array) -> Array:
    """⟨p, [[ξ, F_a]]⟩, shape=[r], with ξ = Fᵀw and p = Mξ: what turns w in the adapted frame; orthogonal to w.

    [[ξ, F_a]] = [ξ, F_a] + ρ(ξ)F_a − ρ(F_a)(F_b)w_b is the algebroid bracket, w held constant. Since ½|w|² does not
    depend on x, −⟨p, ρ(F_a)(F_b)w_b⟩ is ρ(F_a) of ½ξᵀM(x)ξ, ξ held constant.
    """
    F, action = adapted_frame(system, x, R), system.action
    xi = F.T @ w
    p = system.mass_matrix(x) @ xi
    along = jax.jvp(lambda x: adapted_frame(system, x, R) @ p, (x,), (action.anchor(x, xi),))[1]
    return along + F @ (system.group.ad_star(xi, p) + action.coanchor(lambda x: xi @ system.mass_matrix(x) @ xi / 2, x))


def _complement(system: System, x: Any, R: Array) -> tuple[Array, Array, Array]:
    """μ, C and the Gram matrix of the parts of μ that are not in the span of R."""
    assert system.distribution is not None
    mu = system.distribution.annihilator(x, system.parameters)
    C = R @ mu.T
    return mu, C, mu @ mu.T - C.T @ C
