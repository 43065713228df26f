"""Rows of a tree's constraints that vary, and the number of independent ones, where contacts and loops are closed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import chain
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.precision import float64
from geonh.bodies.contacts import Wheel
from geonh.bodies.kinematic_tree import Tree
from geonh.bodies.rows import Held, Velocities, parted
from geonh.bodies.soundness import of_caller, samples
from geonh.engine import in_numpy
from geonh.mechanics.redundancy import Dependence, dependence

CLOSED = 1e-12
"""Residual of a position, m or rad, that counts as zero, relative to the size of the configuration."""
STILL = 1e-9
"""Variation of a row, relative to the sizes of rows, at or below which it is constant."""
ITERATIONS = 50
LEAN = 1e-4
"""Ratio of the height that a joint moves a contact to how far it moves it sideways, at or below which its axis counts
as vertical: files have rounded angles."""
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
        evaluate = in_numpy(at, jax.tree.map(np.asarray, group.identity()))

    def quietly(g: Any) -> Place:
        with np.errstate(invalid="ignore", divide="ignore"):  # where a wheel lies flat, which the caller tells
            return evaluate(g)

    return quietly


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
    """Analysis of the rows at random configurations, and at closed ones that are found from these.

    Raises
    ------
    ValueError
        For a row of a loop that does not change and is not zero, and a wheel whose axle nothing moves.

    Warns
    -----
    UserWarning
        If the height of a contact depends on one joint alone.
    """
    evaluate = evaluated_at(plan, held, forms, parameters)
    places = [evaluate(g) for g in samples(plan)]
    if forms is not None:
        _refuse_stuck(plan, forms, places)
    kept = _varying(plan, held.names, places)

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


def _varying(plan: Tree, names: list[str], places: list[Place]) -> list[int]:
    """Rows that are no constants. Heights that vary since axes lean a little are among these."""
    values = np.array([place.phi for place in places])
    slopes = np.max([np.abs(place.G) for place in places], axis=0)
    sideways = np.max([np.abs(place.mu).max(axis=0, initial=0.0) for place in places], axis=0)
    varies = slopes > STILL * max(1.0, float(slopes.max(initial=0.0)))
    kept = []
    for i, name in enumerate(names):
        is_height, among = name.startswith("height"), np.flatnonzero(varies[i])
        if is_height and np.all(slopes[i] <= LEAN * sideways):
            among = among[:0]
        if len(among):
            kept.append(i)
        elif not is_height and abs(values[0, i]) > STILL:
            raise ValueError(f"{name} is {values[0, i]:.6g} at all configurations: nothing can close it")
        if is_height and len(among) == 1:
            joint = _joint_at(plan, among[0])
            warnings.warn(
                f"{name} depends on the joint {joint!r} alone, which it therefore holds where it is; if its axis is to "
                "be vertical, it leans; if the body is to heave, it needs root='free'",
                stacklevel=of_caller(),
            )
    return kept


def _joint_at(plan: Tree, i: int) -> str:
    """Name of the joint of a component of the velocity."""
    slices = plan.velocity_slices
    return next(j.name for j in plan.free if slices[j.name].start <= i < slices[j.name].stop)


def _refuse_stuck(plan: Tree, forms: Velocities, places: list[Place]) -> None:
    """Raise ValueError for a wheel that rolls on a place that nothing but its own joint moves."""
    moving, begin = np.max([np.abs(place.mu) for place in places], axis=0) > STILL, 0
    joints = {link.name: link.joint.name for link in plan.links}
    for contact in chain.from_iterable(parted(forms.contacts)):
        rows, begin = moving[begin : begin + len(contact.row_names)], begin + len(contact.row_names)
        columns = np.flatnonzero(rows.any(axis=0))
        if isinstance(contact, Wheel) and len(columns) == 1 and _joint_at(plan, columns[0]) == joints[contact.link]:
            raise ValueError(
                f"wheel {contact.name!r} cannot turn: nothing moves its axle; the root needs a joint, root='planar' or "
                "'free' of from_file, or Joint('planar') of its link"
            )


def best_of(dependences: list[Dependence]) -> Dependence | None:
    """Dependence with the largest rank, None if there is none."""
    return max(dependences, key=lambda dependence: dependence.rank.total, default=None)
