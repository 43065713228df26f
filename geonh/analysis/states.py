"""Random states of a system on its constraints, at which identities are tested, and functions evaluated there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from geonh.arguments.inspection import inspected
from geonh.arguments.precision import float64
from geonh.engine import mapped
from geonh.geometry.field import Field
from geonh.groups.base import Point
from geonh.mechanics.holonomic import all_from_afar, corrected
from geonh.mechanics.system import System

IDENTITY = 1e-9
"""Residual of an identity, relative to the size of its parts, below which it holds."""
NEAR = 0.9
"""Standard deviation of the displacements of random states from their centre, in the algebra."""


class States(NamedTuple):
    """Times, shape=[N], points, and velocities on the constraints, shape=[N, n]."""

    t: np.ndarray
    g: Point
    xi: np.ndarray


def random_states(
    system: System, g: Point, count: int, rng: np.random.Generator, near: float = NEAR, t: Any = 0.0
) -> States:
    """Random states about g at the times t; on φ = 0 those alone from which its projection converges."""
    t = np.broadcast_to(np.asarray(t, dtype=np.float64), count)
    draws = rng.normal(size=(2, count, system.group.dim))
    centre = jax.tree.map(lambda a: np.repeat(np.asarray(a)[None], count, axis=0), g)
    points = mapped(_displaced, system, (centre, near * draws[0]))
    if system.holonomic is not None:
        way = all_from_afar(lambda g: mapped(corrected, system, (g, t)), points)
        points = jax.tree.map(lambda a: a[way.converged], way.g)
        t, draws = t[way.converged], draws[:, way.converged]
    return States(t, points, mapped(_on_constraints, system, (t, points, draws[1])))


def _displaced(system: System, node: tuple[Point, Array]) -> Point:
    g, eta = node
    return system.group.compose(g, system.group.exp(eta))


def _on_constraints(system: System, node: tuple) -> Array:
    t, g, xi = node
    return system.projected_velocity(system.at(g, t), xi)


def require_scalars(fields: Sequence[Field], at: Any, parameters: Any) -> None:
    """Trace functions of ``at`` once; ValueError if one does not give one number."""
    with float64():
        at = jax.tree.map(np.asarray, at)
        for field in fields:
            trace = jax.make_jaxpr(lambda at, field=field: field(at, parameters))(at)
            inspected(field.name, trace)
            if trace.out_avals[0].shape != ():
                raise ValueError(f"{field.name} must give one number, got shape {list(trace.out_avals[0].shape)}")
