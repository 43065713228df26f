"""Validation of user-supplied motions: steadiness and generators of their symmetries, batched."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from geonh.analysis.equations import Derivatives, derivatives, material_symmetries, stacked
from geonh.arguments.validators import as_float64, as_part, shortly
from geonh.engine import mapped
from geonh.groups.base import Point
from geonh.integrators.clock import Clock
from geonh.mechanics.soundness import OFF_GROUP, gap_of, group_fault, place_fault
from geonh.mechanics.system import System, with_parameters
from geonh.runs.controls import as_controls, inspect_forces

FURTHER = 0.4
"""Distance along a motion, in the algebra, at which its linear equations are compared again."""


class GivenMotions(NamedTuple):
    """Motions (g, ξ) that a user gives, with a first axis, and the value of the controls, or None."""

    g: Point
    xi: np.ndarray
    u: Any


class VerifiedMotion(NamedTuple):
    """Steady motion: derivatives at g₀ and further along, σ, and the generators that span σ."""

    derivatives: Derivatives
    further: Derivatives
    g: Point
    xi: np.ndarray
    sigma: np.ndarray
    spins: np.ndarray | None


def given_motions(system: System, motions: list, controls: Any, t: float) -> GivenMotions:
    """Validate the motions (g, ξ) that a user gives."""
    for motion in motions:
        if not isinstance(motion, list | tuple) or len(motion) != 2:
            raise TypeError(f"motion must be (g, xi), or a function of a value that gives it, got {shortly(motion)}")
    xi = np.stack([as_float64(xi, "xi", (system.group.dim,)) for _, xi in motions])
    points = [system.point(g, on_group=False, name="g") for g, _ in motions]
    g, u = stacked(points), value_of_controls(system, controls, t, points[0], xi[0])
    gap = float(np.max(mapped(gap_of, system.group, g)))
    if not gap <= OFF_GROUP:
        raise ValueError(group_fault(system, g, gap, "g"))
    return GivenMotions(g, xi, u)


def value_of_controls(system: System, controls: Any, t: float, g: Point, xi: np.ndarray) -> Any:
    """Value of the controls on a motion, or None; raises if the forces do not use them."""
    if callable(controls):
        raise TypeError("controls must be the value that they have on the motion, not a function of time")
    if controls is None:
        return None
    u = as_float64(controls, "controls")
    inspect_forces(system, Clock(as_float64(t, "t", ()), 1.0, as_controls(system, u[None], 1)), g, xi)
    return u


def motion_at(motion: Any, *values: float) -> Any:
    """Motion that a user gives at values of parameters."""
    if not callable(motion):
        return motion
    try:
        return motion(*values)
    except Exception as error:
        at = ", ".join(f"{value:g}" for value in values)
        raise ValueError(f"motion could not be evaluated at {at}: {type(error).__name__}: {error}") from error


def single(points: Any, i: int = 0) -> Any:
    """Select one of points with a first axis."""
    return jax.tree.map(lambda a: np.asarray(a)[i], points)


def generators(system: System, spins: Any) -> np.ndarray | None:
    """Given generators of material symmetries, shape=[k, n]; None if they are to be found."""
    return None if spins is None else rows_of_algebra(system, spins, "spins")


def rows_of_algebra(system: System, rows: Any, name: str) -> np.ndarray:
    """Validate elements of the algebra that a user gives, shape=[k, n]."""
    elements, n = np.atleast_2d(as_float64(rows, name)), system.group.dim
    if elements.ndim != 2 or (elements.shape[1] != n and elements.size):
        raise ValueError(f"{name} must have shape [k, {n}], got {list(np.shape(rows))}")
    return elements.reshape(-1, n)


def verified_motions(
    system: System,
    parameters: list,
    t: float,
    motions: GivenMotions,
    spins: np.ndarray | None,
    tol: float,
    labels: list[str],
) -> list[VerifiedMotion]:
    """Verify that motions are steady, as many as there are parameters; errors begin with their labels; ValueError if
    constraints are dependent, a motion is off them or not steady, or its equations depend on time or are not finite.
    """
    tol = as_part(tol, "tol")
    g, xi, u = motions
    for i, label in enumerate(labels):
        if fault := place_fault(with_parameters(system, parameters[i]), t, single(g, i), "at this motion"):
            raise ValueError(f"{label}{fault}")
    system = system.with_rank_at(single(g), t)
    at_start, sigmas = derivatives(system, parameters, t, g, xi, u), []
    for i, label in enumerate(labels):
        one = at_start.at(i)
        _refuse_off_constraint(system, one, xi[i], tol, label)
        if spins is None and unsteadiness(system, one, xi[i], np.zeros_like(xi[i])).residual > tol:
            spins = material_symmetries(with_parameters(system, parameters[i]), t, single(g, i), u)
        sigmas.append(least_squares_sigma(system, one, xi[i], spins))
        defect = unsteadiness(system, one, xi[i], sigmas[i])
        if not defect.residual <= tol:
            raise ValueError(
                f"{label}this is no steady motion of {system.name}: {defect.description}; steady_motion finds one "
                "near it"
            )
    along = xi - np.stack(sigmas)
    along = FURTHER * along / np.maximum(1.0, np.linalg.norm(along, axis=1, keepdims=True))
    further = derivatives(system, parameters, t, g, xi, u, along) if np.any(along) else at_start
    return [
        VerifiedMotion(at_start.at(i), further.at(i), single(g, i), xi[i], sigmas[i], spins) for i in range(len(xi))
    ]


def _refuse_off_constraint(system: System, derivatives: Derivatives, xi: np.ndarray, tol: float, label: str) -> None:
    """Raise ValueError if a motion is off the constraints, or its equations depend on time or are not finite."""
    if not all(np.all(np.isfinite(part)) for part in derivatives[:4]):
        raise ValueError(f"{label}the equations of {system.name} or their derivatives are not finite at this motion")
    n = system.group.dim
    residual, size = derivatives.value[n:], float(np.linalg.norm(derivatives.by_xi[n:]) * np.linalg.norm(xi))
    if np.abs(residual).max(initial=0.0) > tol * (1.0 + size):
        raise ValueError(
            f"{label}xi is off the constraints of {system.name}: residual {residual}; "
            "system.project(g, xi) gives one on them"
        )
    if np.abs(derivatives.by_t).max() > tol * (1.0 + np.abs(derivatives.value).max()):
        raise ValueError(
            f"{label}the equations of {system.name} depend on time here: by {np.abs(derivatives.by_t).max():.3g}/s"
        )


class Unsteadiness(NamedTuple):
    """Residual of steadiness, relative to the linear equations, and a description of its largest part."""

    residual: float
    description: str


def unsteadiness(system: System, derivatives: Derivatives, xi: np.ndarray, sigma: np.ndarray) -> Unsteadiness:
    """Deviation of a motion from one that is steady with a given σ."""
    n = system.group.dim
    slope = derivatives.by_g @ (xi - sigma)
    rate, drift = derivatives.value[:n] + derivatives.ad(sigma) @ xi, slope[:n]
    size = 1.0 + float(np.linalg.norm(derivatives.by_g) + np.linalg.norm(derivatives.by_xi))
    scale = size * (1.0 + float(np.linalg.norm(xi)))
    i, j = int(np.argmax(np.abs(rate))), int(np.argmax(np.abs(drift)))
    names = system.group.velocity_names
    if abs(rate[i]) / scale >= np.abs(slope).max(initial=0.0) / (scale * size):
        return Unsteadiness(abs(rate[i]) / scale, f"{names[i]} changes by {rate[i]:.3g} per second")
    gap = float(np.abs(slope).max())
    worst = f"the rate of {names[j]}" if abs(drift[j]) == gap else "a constraint"
    return Unsteadiness(gap / (scale * size), f"it is so for an instant only, {worst} changes by {gap:.3g} per second")


def least_squares_sigma(
    system: System, derivatives: Derivatives, xi: np.ndarray, spins: np.ndarray | None
) -> np.ndarray:
    """Least-squares σ in the span of the generators, shape=[n]."""
    n = system.group.dim
    if spins is None or not len(spins):
        return np.zeros(n)
    rows = np.concatenate([-derivatives.ad(xi), -derivatives.by_g]) @ spins.T  # ad_σξ = −ad_ξσ
    right = -np.concatenate([derivatives.value[:n], derivatives.by_g @ xi])
    return spins.T @ np.linalg.lstsq(rows, right, rcond=1e-10)[0]
