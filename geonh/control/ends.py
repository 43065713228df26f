"""States at the ends of an optimal motion, validated, and the rows of the conditions there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jax import Array

from geonh.analysis.subspaces import kernel
from geonh.arguments.precision import has_tracers
from geonh.arguments.validators import as_float64, close
from geonh.engine import computed
from geonh.groups.base import ArrayLike, Point
from geonh.mechanics.system import System


class Ends(NamedTuple):
    """Arguments of ``optimal_control`` about the states at the ends."""

    start: Any
    xi_start: Any
    end: Any
    xi_end: Any
    free: Sequence[str] = ()
    periodic: Sequence[str] | None = None


class States(NamedTuple):
    """Validated states at the ends, and the rows of the conditions on g_end⁻¹g and ξ − ξ_end, of a periodic motion also
    on g₀⁻¹g and ξ − ξ₀; ``start_is_given`` is the mask of the coordinates of its start that are given, None of others.
    """

    start: Point
    xi_start: np.ndarray
    end: Point | None
    xi_end: np.ndarray
    end_rows: np.ndarray
    xi_rows: np.ndarray
    return_rows: np.ndarray
    xi_return_rows: np.ndarray
    start_is_given: np.ndarray | None


def _places(names: Any, argument: str, system: System) -> list[int]:
    """Places of named velocity components; ValueError for a name that is none, or is repeated."""
    if isinstance(names, str):
        raise TypeError(f"{argument} must be a list of names, got {names!r}")
    every = system.group.velocity_names
    if unknown := [name for name in names if name not in every]:
        near = close(str(unknown[0]), every)
        raise ValueError(f"{argument}: {unknown} are not velocity components, which are {list(every)}{near}")
    if len(set(names)) < len(names):
        raise ValueError(f"{argument}: {list(names)} has a repeated name")
    return [every.index(name) for name in names]


def validated_states(system: System, last: System, ends: Ends, t0: float, span: float) -> States:
    """Validated states at the ends, on the constraints, those of the last phase at its end."""
    n, xi_end = system.group.dim, ends.xi_end
    free = _places(ends.free, "free", system)
    has_tracers(start=ends.start, end=ends.end)  # refuses a list that contains itself
    g0, g1 = system.point(ends.start, name="start"), None if ends.end is None else system.point(ends.end, name="end")
    xi0 = np.zeros(n) if ends.xi_start is None else as_float64(ends.xi_start, "xi_start", (n,))
    is_free = isinstance(xi_end, str) and xi_end == "free"
    xi1 = np.zeros(n) if xi_end is None or is_free else as_float64(xi_end, "xi_end", (n,))
    if ends.periodic is not None:
        return _periodic(system, ends, g0, g1, free)
    refuse_off_constraints(system, "start", g0, xi0, t0)
    none = np.zeros((0, n))
    if g1 is None:
        if xi_end is not None and not is_free:
            raise ValueError("xi_end is given without an end: bound velocities with terminal=(c, lower, upper)")
        return States(g0, xi0, g1, xi1, none, none, none, none, None)
    rows = refuse_off_constraints(last, "end", g1, None if is_free else xi1, t0 + span)
    xi_rows = none if is_free else orthogonal_complement(rows.mu)
    end_rows = _tangent_rows(np.delete(np.eye(n), free, axis=0), rows.G)
    return States(g0, xi0, g1, xi1, end_rows, xi_rows, none, none, None)


def _periodic(system: System, ends: Ends, g0: Point, g1: Point | None, free: list[int]) -> States:
    """States at the ends of a periodic motion: its velocities return, and so do some coordinates of its point."""
    n, none = system.group.dim, np.zeros((0, system.group.dim))
    if ends.xi_start is not None or ends.xi_end is not None:
        raise ValueError("xi_start and xi_end are unknown of a periodic motion, and equal: leave them out")
    if system.holonomic is not None:
        raise ValueError(
            f"periodic: {system.name} has holonomic constraints, and its periodic motions are not available; give "
            "start, end, xi_start and xi_end of the motion, or take coordinates on φ = 0"
        )
    returning = _places(ends.periodic, "periodic", system)
    if both := set(free) & set(returning):
        raise ValueError(f"{[system.group.velocity_names[i] for i in sorted(both)]} cannot be both free and periodic")
    every, is_given = np.eye(n), np.ones(n, bool)
    is_given[returning] = False
    end_rows = none if g1 is None else np.delete(every, sorted({*free, *returning}), axis=0)
    if g1 is not None and not len(end_rows):
        raise ValueError("end has no effect: all coordinates are periodic or free; leave it out")
    return States(g0, np.zeros(n), g1, np.zeros(n), end_rows, none, every[returning], every, is_given)


class ConstraintRows(NamedTuple):
    """Constraints at a configuration: rows μ of all of them, and rows G of φ."""

    mu: ArrayLike
    G: ArrayLike


def refuse_off_constraints(system: System, name: str, g: Point, xi: np.ndarray | None, t: float) -> ConstraintRows:
    """Constraint rows at a state; ValueError if it is off the constraints. Without a velocity only φ is checked."""
    velocity = np.zeros(system.group.dim) if xi is None else xi
    phi, gap, rows = computed(residuals_and_rows, system, (g, velocity, np.float64(t)))
    if np.abs(phi).max(initial=0.0) > 1e-9:
        raise ValueError(
            f"{name} does not satisfy the holonomic constraints of {system.name}: φ = {phi}; "
            "system.project_position(…) gives a point near it that does"
        )
    if xi is not None and np.abs(gap).max(initial=0.0) > 1e-9 * (1 + np.abs(xi).max()):
        raise ValueError(
            f"xi_{name} is off the constraints of {system.name} by {np.abs(gap).max():.2g}; "
            "system.project(…) gives a velocity near it that satisfies them"
        )
    return rows


def residuals_and_rows(system: System, node: tuple) -> tuple[Array, Array, ConstraintRows]:
    """Residuals φ and μξ − b at a state, and the rows of the constraints there."""
    g, xi, t = node
    x = system.at(g, t)
    G, mu = system.holonomic_rows(x), system.annihilator(x)
    return system.holonomic_residual(x), system.constraint_residual(x, xi), ConstraintRows(mu, G)


def orthogonal_complement(rows: np.ndarray) -> np.ndarray:
    """Orthonormal basis, in rows, of the orthogonal complement of given rows, shape=[n − rank, n]."""
    return kernel(rows, float(np.linalg.norm(rows)) or 1.0).T


def _tangent_rows(given: np.ndarray, G: np.ndarray) -> np.ndarray:
    """Independent conditions on η at the end, on its given components, as far as φ = 0 does not imply them."""
    tangent = orthogonal_complement(G)
    T = given @ tangent.T @ tangent
    T = T[np.linalg.norm(T, axis=1) > 1e-9]
    return np.linalg.svd(T)[2][: np.linalg.matrix_rank(T)] if len(T) else T
