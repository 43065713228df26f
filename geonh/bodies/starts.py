"""Consistent initial conditions of trees of bodies: contacts on the plane, and rates of wheels from what is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jax import Array

from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_float64
from geonh.bodies.ranks import CLOSED, closed, evaluated_at, mover
from geonh.bodies.system import TreeSystem
from geonh.engine import computed


@validated
def start(
    system: TreeSystem,
    positions: Mapping[str, Any] | None = None,
    velocities: Mapping[str, Any] | None = None,
    t0: float = 0.0,
) -> tuple[Any, np.ndarray]:
    """Initial conditions with given positions and velocities of some joints, in contact and without slipping.

    Parameters
    ----------
    system : TreeSystem
        System of ``tree`` or ``from_file``.
    positions : mapping of str to array_like, optional
        Coordinate of joints by name: a scalar, or a point of the joint's group; the others are zero, or the identity.
        Where contacts or loops are held, the nearest such configuration is found by Newton's method.
    velocities : mapping of str to array_like, optional
        Velocities of joints by name, shape=[d] or a number, kept as they are. Those of the others are the smallest for
        which nothing slips.
    t0 : float
        Time, s, of prescribed joints.

    Returns
    -------
    g0 : point of the group
    xi0 : ndarray, shape=[n]

    Raises
    ------
    TypeError, ValueError
        For an unknown joint or another shape, where contacts cannot be closed, and for a wheel that lies flat.
    """
    tree = system.tree
    names = [joint.name for joint in tree.free]
    for what, given_of in (("positions", positions), ("velocities", velocities)):
        if unknown := [name for name in given_of or {} if name not in names]:
            raise ValueError(f"{what}: there is no joint {unknown[0]!r} with coordinates; there are {names}")
    g = _closed(system, _placed(system, positions or {}), t0)
    courses = {} if system.held is None else dict(system.held.prescribed)
    for name in courses.keys() & (positions or {}).keys():
        there = float(tree.coordinates(g, False)[name])
        if abs(there - as_float64((positions or {})[name], f"positions[{name!r}]", ())) > 1e-9 * (1 + abs(there)):
            raise ValueError(f"positions: joint {name!r} is prescribed, and at {there:.9g} at the time {t0:g}")
    given = np.zeros(tree.dim, dtype=bool)
    xi = np.zeros(tree.dim)
    for name, value in (velocities or {}).items():
        slot = tree.velocity_slices[name]
        rate, dim = as_float64(value, f"velocities[{name!r}]"), slot.stop - slot.start
        xi[slot] = as_float64(rate[None] if rate.ndim == 0 else rate, f"velocities[{name!r}]", (dim,))
        given[slot] = True
    if not system.is_constrained:
        return g, xi
    rows, right = map(np.asarray, computed(_rows, system, (g, np.float64(t0))))
    if (unknown := ~np.isfinite(rows).all(axis=1)).any():
        raise ValueError(
            f"positions: the row {system.row_names[np.argmax(unknown)]!r} is not a number there: a wheel needs an axis "
            "that is not vertical, a blade a direction that is not"
        )
    solution = xi.copy()
    solution[~given] = np.linalg.lstsq(rows[:, ~given], right - rows @ xi, rcond=1e-12)[0]
    left = np.abs(rows @ solution - right).max()
    if left > 1e-9 * (1 + np.abs(solution).max()):
        raise ValueError(f"velocities: with these given, something slips at {left:.3g} m/s; give fewer of them")
    return g, solution


def _rows(system: TreeSystem, node: tuple) -> tuple[Array, Array]:
    x = system.at(*node)
    return system.rows(x), system.right_hand_side(x)


def _placed(system: TreeSystem, positions: Mapping[str, Any]) -> Any:
    """Point of the group with given coordinates of joints."""
    tree, parts = system.tree, []
    for joints in tree.factor_joints:
        if joints[0].dim == 1:
            values = [as_float64(positions.get(j.name, 0.0), f"positions[{j.name!r}]", ()) for j in joints]
            parts.append(np.array(values))
        else:
            factor = system.group.factors[len(parts)]  # type: ignore[attr-defined]
            name = joints[0].name
            given, shape = positions.get(name), factor.point_shapes[0]
            parts.append(factor.identity() if given is None else as_float64(given, f"positions[{name!r}]", shape))
    single = isinstance(system.group.identity(), np.ndarray)
    return system.point(parts[0] if single else tuple(parts), name="positions")


def _closed(system: TreeSystem, g: Any, t: float) -> Any:
    """Nearest configuration with contacts and loops closed."""
    if system.held is None:
        return g
    tree, held = system.tree, replace(system.held, reduced=False)
    g, left = closed(evaluated_at(tree, held, None, system.parameters, t), mover(tree), g)
    size = max(np.abs(part).max() for part in jax.tree.leaves(g))
    if left > CLOSED * (1 + size):
        raise ValueError(
            f"positions: contacts or loops cannot be closed from there: {left:.3g} m of {held.names} is left"
        )
    return g
