r"""Projection onto the holonomic constraints φ(x) = 0, by minimum-norm displacements in the kinetic metric.

    g ← g exp(M⁻¹Gᵀν),   φ = 0,   G = ρ_x*d_xφ

(Hairer, Lubich, Wanner, *Geometric Numerical Integration* (2006), §IV.4, with the metric M).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.algebra.linear import saddle
from geonh.algebra.newton import Newton
from geonh.arguments.precision import is_traced
from geonh.engine import batch_of_one, computed, first_of_batch
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
    way = all_from_afar(lambda g: batch_of_one(computed(corrected, system, (first_of_batch(g), t))), batch_of_one(g))
    if way.converged[0]:
        return first_of_batch(way.g)
    if way.ended[0]:
        raise ValueError(
            f"the holonomic constraints of {system.name} contradict each other near g0: φ = {way.phi[0]}, where "
            "independent ones are zero"
        )
    raise ValueError(
        f"no point near g0 satisfies the holonomic constraints of {system.name}: φ = {way.size[0]:.3g} is left"
    )


class Way(NamedTuple):
    """Points on φ = 0, with a leading axis, as all below; the largest independent φ, and all φ, at the end of the
    iteration; and whether it ended, there.
    """

    g: Point
    size: np.ndarray
    phi: np.ndarray
    ended: np.ndarray
    converged: np.ndarray


def all_from_afar(step: Callable[[Point], tuple[Point, np.ndarray, np.ndarray]], g: Point) -> Way:
    """Iterate ``step``, which is ``corrected`` of many points, until for each φ is zero or falls no more."""
    n = len(jax.tree.leaves(g)[0])
    best, found, left, ended, phi = g, g, np.full(n, np.inf), np.zeros(n, bool), np.zeros((n, 0))
    fine, lost, size = ended.copy(), ended.copy(), left
    for _ in range(LONGEST_WAY):
        ahead, size, phi = step(g)
        ends = ~(ended | lost) & (((left <= size) & (size < ON_HOLONOMIC)) | (size == 0.0))
        found = _chosen(ends, _chosen(size == 0.0, g, best), found)
        fine |= ends & (np.abs(phi).max(axis=1, initial=0.0) <= ON_HOLONOMIC)
        ended, lost = ended | ends, lost | ~np.isfinite(size)
        best, left, g = g, size, ahead
        if np.all(ended | lost):
            break
    return Way(found, size, phi, ended, fine)


def _chosen(which: np.ndarray, one: Point, other: Point) -> Point:
    """Points of ``one`` where ``which`` holds, and of ``other`` elsewhere."""
    return jax.tree.map(lambda a, b: np.where(which.reshape(-1, *[1] * (np.ndim(a) - 1)), a, b), one, other)


def corrected(system: Any, node: tuple) -> tuple[Point, Array, Array]:
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
