r"""Projection onto the holonomic constraints φ(x) = 0, by minimum-norm displacements in the kinetic metric.

    g ← g exp(M⁻¹Gᵀν),   φ = 0,   G = ρ_x*d_xφ

(Hairer, Lubich, Wanner, *Geometric Numerical Integration* (2006), §IV.4, with the metric M).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.algebra.linear import saddle
from geonh.algebra.newton import Newton
from geonh.arguments.precision import is_traced
from geonh.engine import computed
from geonh.groups.base import Point

SMALL = 4e-15
"""A few units of rounding of 1."""
ON_HOLONOMIC = 1e-9
"""Largest |φ| of an admissible initial configuration."""
LONGEST_WAY = 100
"""Maximum number of Newton steps from a user's point onto φ = 0."""


def normal_directions(system: Any, x: Any) -> Array:
    """Normal directions M⁻¹Gᵀ(GM⁻¹Gᵀ)⁻¹ at x, shape=[n, k]: along them the derivative of φ is the identity."""
    G = system.holonomic_rows(x)
    zero = jnp.zeros(system.group.dim)
    return jax.vmap(lambda right: saddle(system.mass_matrix(x), G, zero, right)[0])(jnp.eye(len(G))).T


def rounding_of_places(system: Any, g: Point) -> Array | None:
    """Upper bound on the rounding of an increment from a point on φ = 0; None without φ."""
    return None if system.holonomic is None else SMALL * _extent(g)


def rounding_of_residual(g: Point, rows: Array) -> Array:
    """Upper bound on the rounding of φ near g, where its rows are G, shape=[k, n]."""
    return SMALL * residual_scale(g, rows)


def residual_scale(g: Point, rows: Array) -> Array:
    """Scale of φ: its change along a displacement of the size of g, where its rows are G, shape=[k, n]."""
    return _extent(g) * jnp.max(jnp.abs(rows))


def _extent(g: Point) -> Array:
    return jnp.max(jnp.stack([jnp.max(jnp.abs(part)) for part in jax.tree.leaves(g)]))


def shift_left(system: Any, centre: Any, shift: Array, phi: Array) -> Array:
    """Residual, shape=[n], of φ = 0 and of normality for a shift applied twice in a step about a centre."""
    M, G = system.mass_matrix(centre), system.holonomic_rows(centre)
    return shift + saddle(M, G, jnp.zeros_like(shift), phi / 2 - G @ shift)[0]


def onto(system: Any, g: Point, t: Any = None) -> tuple[Point, Array]:
    """Project a nearby point onto φ = 0 along its normals; return success too. g itself without φ."""
    if system.holonomic is None:
        return g, jnp.asarray(True)
    x, group = system.at(g, t), system.group
    system = system.holding(x)
    directions, rounding = normal_directions(system, x), rounding_of_residual(g, system.holonomic_rows(x))

    def moved(nu: Array) -> Point:
        return group.compose(g, group.exp(directions @ nu))

    start = jnp.zeros(directions.shape[1])
    nu, converged = Newton().solve(
        lambda nu: system.holonomic_residual(system.at(moved(nu), t)), start, rounding=rounding
    )
    return moved(nu), converged


def from_afar(system: Any, g: Point, t: Any) -> Point:
    """Project a point of the group onto φ = 0 by minimum-norm Newton steps; ValueError if the iteration does not
    converge.
    """
    if is_traced(system, g):
        return onto(system, g, t)[0]
    best, left = g, np.inf
    for _ in range(LONGEST_WAY):
        ahead, size, phi = computed(_corrected, system, (g, t))
        if left <= size < ON_HOLONOMIC or size == 0.0:
            if np.abs(phi).max() <= ON_HOLONOMIC:
                return g if size == 0.0 else best
            raise ValueError(
                f"the holonomic constraints of {system.name} contradict each other near g0: φ = {phi}, where "
                "independent ones are zero"
            )
        best, left, g = g, size, ahead
        if not np.isfinite(size):
            break
    raise ValueError(f"no point near g0 satisfies the holonomic constraints of {system.name}: φ = {size:.3g} is left")


def _corrected(system: Any, node: tuple) -> tuple[Point, Array, Array]:
    """Take one Newton step; return the point, and the largest of the independent φ, and all of them, before it."""
    (g, t), group = node, system.group
    x = system.at(g, t)
    held = system.holding(x)
    phi = held.holonomic_residual(x)
    ahead = group.project(group.compose(g, group.exp(-normal_directions(held, x) @ phi)))
    return ahead, jnp.max(jnp.abs(phi)), system.holonomic_residual(x)


def refuse_holonomic(system: Any, what: str) -> None:
    """Raise ValueError if a system has holonomic constraints, which ``what`` does not support."""
    if system.holonomic is not None:
        raise ValueError(f"{what} is for systems without constraints on positions; {system.name} has some")
