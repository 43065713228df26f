"""Rows of a tree's constraints that vary, and the number of independent ones, where contacts and loops are closed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.precision import float64
from geonh.bodies.kinematic_tree import Tree
from geonh.bodies.rows import Held, Velocities
from geonh.bodies.soundness import samples
from geonh.engine import in_numpy
from geonh.mechanics.redundancy import Dependence, dependence

CLOSED = 1e-12
"""Residual of a position, m or rad, that counts as zero, relative to the size of the configuration."""
STILL = 1e-9
"""Variation of a row, relative to the sizes of rows, at or below which it is constant."""
ITERATIONS = 50
LONGEST = 1.0
"""Largest displacement in an iteration, m or rad."""


class Place(NamedTuple):
    """Positions that vanish, shape=[k], their derivatives along the velocities, shape=[k, n], and the rows of contacts,
    shape=[m, n], at a configuration."""

    phi: Any
    G: Any
    mu: Any


def evaluated_at(
    plan: Tree, held: Held | None, forms: Velocities | None, parameters: Any, t: float = 0.0
) -> Callable[[Any], Place]:
    """Function of a configuration, of NumPy, with prescribed joints at a time."""
    group, n = plan.group, plan.dim

    def at(g: Any) -> Place:
        def phi(g: Any) -> Array:
            return jnp.zeros(0) if held is None else held.in_time(t, g, parameters)

        def along(xi: Array) -> Array:
            return jax.jvp(phi, (g,), (group.left_tangent(g, xi),))[1]

        mu = jnp.zeros((0, n)) if forms is None else jnp.stack(forms(g, jnp.eye(n), parameters))
        return Place(phi(g), jax.vmap(along, out_axes=1)(jnp.eye(n)), mu)

    with float64():
        return in_numpy(at, jax.tree.map(np.asarray, group.identity()))


def mover(plan: Tree) -> Callable[[Any, np.ndarray], Any]:
    """Function (g, ξ) → g exp ξ, of NumPy."""
    group = plan.group
    with float64():
        return in_numpy(
            lambda g, way: group.compose(g, group.exp(way)),
            jax.tree.map(np.asarray, group.identity()),
            np.zeros(plan.dim),
        )


def closed(evaluate: Callable[[Any], Place], move: Callable[[Any, np.ndarray], Any], g: Any) -> tuple[Any, float]:
    """Configuration near g at which all positions vanish, by Newton's method with least displacements, and the residual
    that is left."""
    left = np.inf
    for _ in range(ITERATIONS):
        place = evaluate(g)
        left = float(np.abs(place.phi).max(initial=0.0))
        if left <= CLOSED or not np.all(np.isfinite(place.G)):
            break
        step = np.linalg.lstsq(place.G, -place.phi, rcond=1e-9)[0]
        g = move(g, step * min(1.0, LONGEST / np.abs(step).max(initial=1e-300)))
    return g, left


class Analysis(NamedTuple):
    """Rows of positions that depend on the configuration, and the dependence of rows at closed configurations."""

    kept: list[int]
    dependences: list[Dependence]


def analysed(plan: Tree, held: Held, forms: Velocities | None, parameters: Any) -> Analysis:
    """Analysis of the rows at random configurations, and at closed ones that are found from these; ValueError for a
    loop that nothing can close.
    """
    evaluate = evaluated_at(plan, held, forms, parameters)
    kept = _varying(held.names, [evaluate(g) for g in samples(plan)])

    def of_kept(g: Any) -> Place:
        place = evaluate(g)
        return place._replace(phi=place.phi[kept], G=place.G[kept])

    move, dependences = mover(plan), []
    for g in samples(plan, 8 if kept else 3):
        if kept:
            g, left = closed(of_kept, move, g)
            if left > CLOSED * (1 + max(np.abs(part).max() for part in jax.tree.leaves(g))):
                continue
        place = of_kept(g)
        rows = np.concatenate([place.G, place.mu])
        if len(rows) and np.all(np.isfinite(rows)) and np.all(np.linalg.norm(rows, axis=1) > 0):
            dependences.append(dependence(rows, len(place.G)))
        if len(dependences) == 3:
            break
    return Analysis(kept, dependences)


def _varying(names: list[str], places: list[Place]) -> list[int]:
    values = np.array([place.phi for place in places])
    slopes = np.max([np.abs(place.G).max(axis=1, initial=0.0) for place in places], axis=0)
    moving = slopes > STILL * max(1.0, float(slopes.max(initial=0.0)))
    for i, name in enumerate(names):
        if not moving[i] and not name.startswith("height") and abs(values[0, i]) > STILL:
            raise ValueError(f"{name} is {values[0, i]:.6g} at all configurations: nothing can close it")
    return [i for i, moves in enumerate(moving) if moves]


def best_of(dependences: list[Dependence]) -> Dependence | None:
    """Dependence with the largest rank, None if there is none."""
    return max(dependences, key=lambda dependence: dependence.rank.total, default=None)
