"""Boundary conditions and cost of an optimal control problem, validated, for transcription and shooting alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax import Array

from geonh.analysis.subspaces import kernel
from geonh.arguments.inspection import careful
from geonh.arguments.validators import as_constant, as_count, as_float64, close, shortly
from geonh.engine import computed
from geonh.geometry.field import evaluated, takes_parameters, tried
from geonh.groups.base import ArrayLike, Point
from geonh.integrators.base import refuse
from geonh.integrators.clock import Clock
from geonh.mechanics.system import System
from geonh.runs.controls import inspect_forces


class RunningCost(NamedTuple):
    """Integrand c of the cost; ``takes_parameters`` is True for c(t, g, u, parameters), False for c(t, g, u)."""

    function: Callable
    takes_parameters: bool

    def at(self, system: System, t: Any, g: Point, u: Array) -> Array:
        """Value of c."""
        more = (system.parameters,) if self.takes_parameters else ()
        return evaluated("cost", self.function, t, g, u, *more)


class ConstraintRows(NamedTuple):
    """Constraints at a configuration: rows μ of all of them, rows G of φ, and ∂_tφ."""

    mu: ArrayLike
    G: ArrayLike
    phi_rate: ArrayLike


class SteeringProblem(NamedTuple):
    """Problem data: a motion from (g₀, ξ₀) at t₀ to g₁, and to ξ₁ unless it is free, in the span T, at the least ∫c dt.

    ``free`` are the components of η by which the end g₁exp(η) may vary, and ``end_rows`` the constraints there.
    """

    start: Point
    xi_start: np.ndarray
    end: Point
    xi_end: np.ndarray
    xi_end_is_free: bool
    t0: float
    span: float
    free: tuple[int, ...]
    n_controls: int
    cost: RunningCost
    end_rows: ConstraintRows

    @property
    def end_velocities(self) -> np.ndarray:
        """Orthonormal basis, in rows, of the allowed velocities at the end, on which ξ₁ is given; empty if free."""
        return orthogonal_complement(self.end_rows.mu)[: 0 if self.xi_end_is_free else None]


def steering_problem(
    system: System,
    method: Any,
    *,
    end: Any,
    n_controls: int,
    span: float,
    start: Any,
    xi_start: Any,
    xi_end: Any,
    free: Sequence[str],
    cost: Callable | None,
    t0: float,
) -> SteeringProblem:
    """Validate the arguments of ``optimal_control``.

    Raises
    ------
    ValueError, TypeError
        For an invalid argument, naming it.
    """
    refuse(method, system)
    if system.forces is None:
        raise ValueError(f"{system.name} has no forces= that use controls")
    n, names = system.group.dim, system.group.velocity_names
    t0, span = float(as_constant(t0, "t0")), float(as_constant(span, "span"))
    if not 1e-150 < span < 1e150:  # its square is a number
        raise ValueError(f"span must be positive, between 1e-150 and 1e150, got {span}")
    if unknown := [name for name in free if name not in names]:
        near = close(str(unknown[0]), names)
        raise ValueError(f"free: {unknown} are not velocity components, which are {list(names)}{near}")
    if len(set(free)) < len(free):
        raise ValueError(f"free: {list(free)} has a repeated name")
    g0, g1 = system.point(start, name="start"), system.point(end, name="end")
    xi0 = np.zeros(n) if xi_start is None else as_float64(xi_start, "xi_start", (n,))
    is_free = isinstance(xi_end, str) and xi_end == "free"
    xi1 = np.zeros(n) if xi_end is None or is_free else as_float64(xi_end, "xi_end", (n,))
    _refuse_off_constraints(system, "start", g0, xi0, t0)
    end_rows = _refuse_off_constraints(system, "end", g1, None if is_free else xi1, t0 + span)
    n_controls = as_count(n_controls, "n_controls")
    inspect_forces(system, Clock(t0, 1.0, np.zeros((2, n_controls))), g0, xi0)
    return SteeringProblem(
        start=g0,
        xi_start=xi0,
        end=g1,
        xi_end=xi1,
        xi_end_is_free=is_free,
        t0=t0,
        span=span,
        free=tuple(names.index(name) for name in free),
        n_controls=n_controls,
        cost=_running_cost(cost, system, n_controls),
        end_rows=end_rows,
    )


def _refuse_off_constraints(system: System, name: str, g: Point, xi: np.ndarray | None, t: float) -> ConstraintRows:
    """Constraint rows at a state; ValueError if it is off the constraints. Without a velocity only φ is checked."""
    velocity = np.zeros(system.group.dim) if xi is None else xi
    phi, gap, rows = computed(_residuals_and_rows, system, (g, velocity, np.float64(t)))
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


def _residuals_and_rows(system: System, node: tuple) -> tuple[Array, Array, ConstraintRows]:
    """Residuals φ and μξ − b at a state, and the rows of the constraints there."""
    g, xi, t = node
    x = system.at(g, t)
    phi, at_rest = system.holonomic_residual(x), system.constraint_residual(x, 0.0 * xi)
    G = system.holonomic_rows(x)
    residual, mu = system.constraint_residual(x, xi), system.annihilator(x)
    return phi, residual, ConstraintRows(mu, G, at_rest[: len(phi)])


def orthogonal_complement(rows: np.ndarray) -> np.ndarray:
    """Orthonormal basis, in rows, of the orthogonal complement of given rows, shape=[n − rank, n]."""
    return kernel(rows, float(np.linalg.norm(rows)) or 1.0).T


def effort(t: Any, g: Any, u: Any) -> Any:
    """Control effort u·u, the default cost."""
    return u @ u


def _running_cost(cost: Callable | None, system: System, n_controls: int) -> RunningCost:
    """Validated cost, the effort if it is None; raises if it reads a missing name or is not a scalar."""
    function = effort if cost is None else cost
    takes = takes_parameters(function, "t, g, u", "cost")
    more = (system.parameters,) if takes else ()
    shape, by_data = tried("cost", function, 0.0, system.point(None), np.zeros(n_controls), *more)
    if shape:
        raise ValueError(f"cost must give one number, got an array of shape {shape}")
    return RunningCost(careful(function) if by_data else function, takes)


class Bounds(NamedTuple):
    """Lower and upper bounds of the controls, shape=[n_u] each, or numbers for all."""

    lower: np.ndarray
    upper: np.ndarray


UNBOUNDED = Bounds(np.array(-np.inf), np.array(np.inf))


def bounds_on_controls(bounds: Any, n_controls: int) -> Bounds:
    """Validated bounds."""
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise TypeError(f"bounds must be (lower, upper), got {shortly(bounds)}")
    limits = [as_float64(b, "bounds") for b in bounds]
    if invalid := [list(limit.shape) for limit in limits if limit.shape not in ((), (n_controls,))]:
        raise ValueError(f"bounds must be numbers, or of shape [{n_controls}], one for each control, got {invalid[0]}")
    lower, upper = (np.broadcast_to(limit, (n_controls,)) for limit in limits)
    if not np.all(lower < upper):
        raise ValueError(f"bounds: lower must be below upper, got {lower} and {upper}")
    return Bounds(lower, upper)
