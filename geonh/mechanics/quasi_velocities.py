r"""Quasi-velocities: the constrained system as an ordinary differential equation without constraints (Hamel).

Let R, shape=[r, n], be constant forms that complete μ(x) to a coframe. Then y = Rξ are coordinates on the (affine)
distribution, and ξ is the solution of

    Rξ = y,   μ(x)ξ = b(x),      ξ = M⁻¹Aᵀ(AM⁻¹Aᵀ)⁻¹(y, b),   A = [R; μ(x)],

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
from geonh.numerics.linear import solve_spd


def completing_forms(system: System, x: Any) -> Array:
    """Forms R, shape=[r, n], that complete μ(x) to a coframe: dual to an M-orthonormal basis of D at x."""
    n = system.group.dim
    if system.distribution is None:
        return jnp.eye(n)
    M = system.mass_matrix(x)
    P = system.distribution.P(M, x, system.parameters)
    m = system.distribution.annihilator(x, system.parameters).shape[0]
    basis = jnp.linalg.svd(P)[0][:, : n - m].T
    return basis @ M


def velocity(system: System, x: Any, y: Array, R: Array) -> Array:
    """ξ, shape=[n], with Rξ = y and μ(x)ξ = b(x)."""
    if system.distribution is None:
        return y
    D, p = system.distribution, system.parameters
    raised, gram = _dual(system, x, R)
    return raised @ solve_spd(gram, jnp.concatenate([y, D.right_hand_side(x, p)]))


def rates(system: System, t: Array, g: Point, y: Array, R: Array, u: Any = None) -> tuple[Array, Array]:
    """(ξ, ẏ) of shapes [n] and [r] at time t: the whole vector field."""
    xi = velocity(system, system.action.at(g), y, R)
    return xi, R @ accelerations(system, t, g, xi, u)[0]


def adapted_frame(system: System, x: Any, R: Array) -> Array:
    """M-orthonormal frame of D, rows F_a of shape=[r, n], smooth in x where R completes μ(x)."""
    n = system.group.dim
    raised, gram = (solve_spd(system.mass_matrix(x), R.T), None) if system.distribution is None else _dual(system, x, R)
    r = R.shape[0]
    basis = (jnp.eye(n) if gram is None else raised @ solve_spd(gram, jnp.eye(n)[:, :r])).T
    M = system.mass_matrix(x)
    frame: list[Array] = []
    for row in basis:
        for vector in frame:
            row = row - (vector @ M @ row) * vector
        frame.append(row / jnp.sqrt(row @ M @ row))
    return jnp.stack(frame)


def gyroscopic_force(system: System, x: Any, w: Array, R: Array) -> Array:
    """⟨p, [[ξ, F_a]]⟩, shape=[r], with ξ = Fᵀw and p = Mξ: what turns w in the adapted frame; orthogonal to w.

    [[ξ, F_a]] = [ξ, F_a] + ρ(ξ)F_a − ρ(F_a)(F_b) w_b is the algebroid bracket, w held constant.
    """
    frame = lambda x: adapted_frame(system, x, R)  # noqa: E731
    F = frame(x)
    xi = F.T @ w
    p = system.mass_matrix(x) @ xi
    along = jax.jvp(frame, (x,), (system.action.anchor(x, xi),))[1]
    across = system.action.coanchor(lambda x: p @ (frame(x).T @ w), x)
    return F @ (system.group.ad_star(xi, p) - across) + along @ p


def _dual(system: System, x: Any, R: Array) -> tuple[Array, Array]:
    """M⁻¹Aᵀ and AM⁻¹Aᵀ for the coframe A = [R; μ(x)]."""
    assert system.distribution is not None
    A = jnp.concatenate([R, system.distribution.annihilator(x, system.parameters)])
    raised = solve_spd(system.mass_matrix(x), A.T)
    return raised, A @ raised
