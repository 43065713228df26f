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
from geonh.engine import computed, mapped
from geonh.geometry.distribution import DEPENDENT, rank_fault
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
        ahead, size = computed(_corrected, system, (g, t))
        if left <= size < ON_HOLONOMIC or size == 0.0:
            return g if size == 0.0 else best
        best, left, g = g, size, ahead
        if not np.isfinite(size):
            break
    raise ValueError(f"no point near g0 satisfies the holonomic constraints of {system.name}: φ = {size:.3g} is left")


def _corrected(system: Any, node: tuple) -> tuple[Point, Array]:
    """Take one Newton step; return the point, and the largest |φ| before it."""
    (g, t), group = node, system.group
    x = system.at(g, t)
    phi = system.holonomic_residual(x)
    ahead = group.project(group.compose(g, group.exp(-normal_directions(system, x) @ phi)))
    return ahead, jnp.max(jnp.abs(phi))


def refuse_holonomic(system: Any, what: str) -> None:
    """Raise ValueError if a system has holonomic constraints, which ``what`` does not support."""
    if system.holonomic is not None:
        raise ValueError(f"{what} is for systems without constraints on positions; {system.name} has some")


def rows_fault(system: Any, g: Point, t: Any, rows: Any, where: str) -> str:
    """Description of a rank deficiency of the rows of all constraints at a point; "" if there is none.

    Dependent rows are redundant if they are so at points about g too, on φ = 0 or not; else the configuration is
    singular.
    """
    fault = rank_fault(system.name, rows, where)
    if not fault or system.holonomic is None or not np.all(np.isfinite(rows)):
        return fault
    steps = np.random.default_rng(0).normal(size=(3, system.group.dim))
    around = jax.tree.map(lambda a: np.repeat(np.asarray(a)[None], len(steps), axis=0), (g, np.float64(t)))
    everywhere = all(
        np.linalg.svd(_units(there), compute_uv=False)[-1] <= DEPENDENT
        for there in mapped(_rows_near, system, (*around, 0.3 * steps))
    )
    k = len(computed(_residual, system, (g, t)))
    said = f"the {k} row(s) of holonomic= and the {len(rows) - k} of the distribution of {system.name}"
    if everywhere:
        return (
            f"{said} are redundant, dependent at random points too: leave out what follows from the others (a body "
            "that rolls takes φ and two forms along the ground, not three)"
        )
    return (
        f"{said} are dependent {where}, though not about it: the configuration is singular, and the constraint force "
        "is not determined; start elsewhere"
    )


def _rows_near(system: Any, node: tuple) -> Array:
    g, t, step = node
    return system.rows(system.at(system.group.compose(g, system.group.exp(step)), t))


def _residual(system: Any, node: tuple) -> Array:
    return system.holonomic_residual(system.at(*node))


def _units(rows: np.ndarray) -> np.ndarray:
    sizes = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(sizes > 0, sizes, 1.0)
