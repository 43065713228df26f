"""Consistent initial conditions of trees of bodies: contacts on the plane, and rates of wheels from what is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax import Array

from geonh.arguments.signatures import judged
from geonh.arguments.validators import as_float64
from geonh.bodies.system import TreeSystem
from geonh.engine import computed

CLOSED = 1e-12
"""Height, m, and velocity, m/s, at contacts that counts as zero, relative to the size of configuration and velocity."""


@judged
def start(
    system: TreeSystem, positions: Mapping[str, Any] | None = None, velocities: Mapping[str, Any] | None = None
) -> tuple[Any, np.ndarray]:
    """Initial conditions with given positions and velocities of some joints, in contact and without slipping.

    Parameters
    ----------
    system : TreeSystem
        System of ``tree`` or ``from_file``.
    positions : mapping of str to array_like, optional
        Coordinate of joints by name: a scalar, or a point of the joint's group; the others are zero, or the identity.
        Where contacts are held on the plane, the nearest such configuration is found by Newton's method.
    velocities : mapping of str to array_like, optional
        Velocities of joints by name, shape=[d] or a number, kept as they are. Those of the others are the smallest for
        which nothing slips.

    Returns
    -------
    g0 : point of the group
    xi0 : ndarray, shape=[n]

    Raises
    ------
    TypeError, ValueError
        For an unknown joint or another shape, and where contacts cannot be closed.
    """
    tree = system.tree
    for name in [*(positions or {}), *(velocities or {})]:
        if not any(joint.name == name for joint in tree.free):
            raise ValueError(f"there is no joint {name!r} with coordinates; there are {[j.name for j in tree.free]}")
    g = _closed(system, _placed(system, positions or {}))
    given = np.zeros(tree.dim, dtype=bool)
    xi = np.zeros(tree.dim)
    for name, value in (velocities or {}).items():
        slot = tree.slots[name]
        rate, dim = as_float64(value, f"velocities[{name!r}]"), slot.stop - slot.start
        xi[slot] = as_float64(rate[None] if rate.ndim == 0 else rate, f"velocities[{name!r}]", (dim,))
        given[slot] = True
    if not system.is_constrained:
        return g, xi
    rows = np.asarray(computed(_rows, system, g))
    found = xi.copy()
    found[~given] = np.linalg.lstsq(rows[:, ~given], -rows @ xi, rcond=1e-12)[0]
    left = np.abs(rows @ found).max()
    if left > 1e-9 * (1 + np.abs(found).max()):
        raise ValueError(f"velocities: with these given, something slips at {left:.3g} m/s; give fewer of them")
    return g, found


def _rows(system: TreeSystem, g: Any) -> Array:
    return system.rows(system.at(g, 0.0))


def _placed(system: TreeSystem, positions: Mapping[str, Any]) -> Any:
    """Point of the group with given coordinates of joints."""
    tree, parts = system.tree, []
    for run in tree.runs:
        if run[0].dim == 1:
            values = [as_float64(positions.get(j.name, 0.0), f"positions[{j.name!r}]", ()) for j in run]
            parts.append(np.array(values))
        else:
            factor = system.group.factors[len(parts)]  # type: ignore[attr-defined]
            parts.append(positions.get(run[0].name, factor.identity()))
    single = isinstance(system.group.identity(), np.ndarray)
    return system.point(parts[0] if single else tuple(parts), name="positions")


def _closed(system: TreeSystem, g: Any) -> Any:
    """Nearest configuration with the contacts on the plane."""
    if system.holonomic is None:
        return g
    for _ in range(30):
        height, G = computed(_heights, system, g)
        if np.abs(height).max() <= CLOSED:
            return jax.tree.map(np.asarray, g)
        if not np.all(np.isfinite(G)):
            break
        g = computed(_moved, system, (g, -np.linalg.lstsq(G, height, rcond=1e-12)[0]))
    raise ValueError(f"positions: the contacts do not come to the plane from there, heights {height} m remain")


def _heights(system: TreeSystem, g: Any) -> tuple[Array, Array]:
    """Heights of the contacts, and their derivative along the velocities."""
    x = system.at(g, 0.0)
    height = system.holonomic_residual(x)
    return height, system.rows(x)[: height.shape[0]]


def _moved(system: TreeSystem, node: tuple) -> Any:
    g, step = node
    return system.group.compose(g, system.group.exp(step))
