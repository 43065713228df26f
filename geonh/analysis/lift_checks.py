"""Tests of lifted runs: symmetries that hold at all nodes, and are transverse to the constraints between them."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.analysis.chaplygin import PARALLEL
from geonh.analysis.routh import Routh
from geonh.analysis.shapes import Shapes
from geonh.engine import mapped
from geonh.groups.base import Point
from geonh.mechanics.equations import accelerations_at
from geonh.mechanics.system import System
from geonh.results.trajectory import Trajectory

BROKEN = 1e-9
"""Difference of accelerations over a node, relative to 1 and their size, from which symmetries do not hold there."""


def refuse_tangent(shapes: Shapes, t: np.ndarray, g: Point) -> None:
    """Raise ValueError where symmetries are tangent to the constraints at one of some points, or between two of them.

    Between them the determinant of μXᵀ changes its sign, where all rows are independent forms.
    """
    crossing = np.asarray(mapped(_crossing, shapes, g))
    least, sides = np.linalg.svd(crossing, compute_uv=False)[:, -1], np.sign(np.linalg.det(crossing))
    D = shapes.system.distribution
    has_sign = shapes.system.rank is None and D is not None and D.forms is not None
    turns = np.flatnonzero(np.diff(sides[np.argsort(t)])) if has_sign else np.zeros(0)
    if least.min() >= PARALLEL and not len(turns):
        return
    when = t[np.argmin(least)] if least.min() < PARALLEL else np.sort(t)[turns[0]]
    raise ValueError(
        f"at t = {when:g}, or in the step from there, the symmetries are tangent to the constraints of "
        f"{shapes.system.name}: they determine no motion there"
    )


def refuse_broken(system: System, original: System, shapes: Shapes | Routh | None, run: Trajectory, g: Point) -> None:
    """Raise ValueError where the original system has other accelerations than the reduced one at a node of its run.

    ``g`` are the points over these nodes.
    """
    found = mapped(_difference, (system, original, shapes, run.clock), (run.t, run.g, run.xi, g))
    is_same = np.asarray(found.gap) / (1 + np.asarray(found.size)) <= BROKEN
    if not is_same.all():
        first = int(np.argmin(is_same))
        raise ValueError(
            f"at t = {run.t[first]:g} {original.name} has other accelerations than {system.name}, by "
            f"{found.gap[first]:.2g} of {found.size[first]:.2g}: something breaks the symmetry there, such as a "
            "force that is zero near the identity; give symmetry=, rows that hold everywhere"
        )


class _Difference(NamedTuple):
    """Largest difference of two accelerations, and their size."""

    gap: Array
    size: Array


def _difference(tree: tuple, node: tuple) -> _Difference:
    """Accelerations of the original system and those of the reduced one, lifted, at a node."""
    (system, original, shapes, clock), (t, s, sigma, g) = tree, node
    u = clock.starting(t).control(0)
    rate = accelerations_at(system, t, system.at(s), sigma, u)[0]

    def over(time: Array) -> Array:
        there, velocity = system.group.compose(s, system.group.exp(time * sigma)), sigma + time * rate
        return velocity if shapes is None else shapes.velocity(there, velocity)

    zero = jnp.zeros(())
    xi, lifted = jax.jvp(over, (zero,), (zero + 1.0,))
    own = accelerations_at(original, t, original.at(g), xi, u)[0]
    return _Difference(jnp.max(jnp.abs(own - lifted)), jnp.max(jnp.abs(own)))


def _crossing(shapes: Shapes, g: Point) -> Array:
    return shapes.chaplygin.crossing(g)
