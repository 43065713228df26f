"""Periodicity conditions of an orbit, from the user's functions, and Newton's method for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.analysis.flow import Arc, BoundaryProblem, FlowDerivatives, PhasePoint, flow_derivatives
from geonh.arguments.precision import float64
from geonh.arguments.validators import as_count, as_float64, as_part, shortly
from geonh.geometry.field import check_arguments, evaluated, tried
from geonh.groups.base import Point
from geonh.integrators.base import Integrator, refuse
from geonh.integrators.registry import as_method
from geonh.integrators.runge_kutta import RKMK, Gauss
from geonh.integrators.validity import Result
from geonh.mechanics.system import System
from geonh.runs.controls import drive_of

FREE = 1e-8
"""Relative singular values below which directions are free: the shift along an orbit, a family."""
ROUNDING = 1e-13
"""Rounding error of positions and velocities of size one, times the derivatives of the motion."""
HALVINGS = 10
"""Maximum number of halvings of a step that increases the residual."""


class Periodicity:
    """Residual of periodicity at the end of a motion: hashable by its components, so that it compiles once."""

    def __init__(self, function: Callable | None, fixed: Callable | None) -> None:
        self.function, self.fixed = function, fixed
        self.arcs_per_period = 1 if fixed is None else 2

    def __hash__(self) -> int:
        return hash((self.function, self.fixed))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Periodicity) and (self.function, self.fixed) == (other.function, other.fixed)

    def __call__(self, system: System, g: Point, xi: Array, after: Point, xi_after: Array) -> Array:
        if self.fixed is not None:
            residuals = [evaluated("fixed", self.fixed, g, xi), evaluated("fixed", self.fixed, after, xi_after)]
        elif self.function is not None:
            residuals = [evaluated("returns", self.function, g, xi, after, xi_after)]
        else:
            residuals = [jax.tree.map(jnp.subtract, system.action.at(after), system.action.at(g)), xi_after - xi]
        return jnp.concatenate([jnp.zeros(0), *(jnp.ravel(jnp.asarray(a, float)) for a in jax.tree.leaves(residuals))])


def method_of_velocities(system: System, method: Any, default: Integrator) -> Integrator:
    """Method that a user names, whose node is a velocity; ValueError for one that does not suit the system."""
    method = as_method(default if method is None else method)
    refuse(method, system)
    if method.guarantees.node != "velocity":
        raise ValueError(
            f"method must be one whose node is a velocity, such as RKMK(6) or Gauss(2), not {type(method).__name__}"
        )
    return method


def boundary_problem(
    system: System,
    g: Any,
    xi: Any,
    *,
    returns: Any,
    fixed: Any,
    conditions: Any,
    method: Any,
    n_steps: int,
    t0: float,
    controls: Any,
) -> tuple[BoundaryProblem, PhasePoint]:
    """Boundary value problem of an orbit, validated, and the guess of its start."""
    method = method_of_velocities(system, method, RKMK(6) if system.holonomic is None else Gauss(3))
    if returns is not None and fixed is not None:
        raise TypeError("give returns= or fixed=, not both")
    for name, value in (("returns", returns), ("fixed", fixed), ("conditions", conditions)):
        if value is not None and not callable(value):
            raise TypeError(f"{name} must be a function, got {shortly(value)}")
    _inspect(system, returns, fixed, conditions)
    periodicity = Periodicity(returns, fixed)
    n_steps = as_count(n_steps, "n_steps")
    if n_steps % periodicity.arcs_per_period:
        raise ValueError(f"n_steps must be even for a symmetric orbit, got {n_steps}")
    t0 = as_float64(t0, "t0", ())
    place = system.project_position(system.point(g, on_group=False, name="g"), t0)
    system = system.with_rank_at(place, t0)
    projected = system.project(place, as_float64(xi, "xi", (system.group.dim,)), t0)
    start = PhasePoint(place, np.asarray(projected if system.holonomic is None else projected[1]))
    controls = drive_of(system, controls, *start)
    count = np.int64(n_steps // periodicity.arcs_per_period)
    return BoundaryProblem(system, method, controls, t0, count, periodicity, conditions, ""), start


def _inspect(system: System, returns: Any, fixed: Any, conditions: Any) -> None:
    """Trace the user's functions once and raise an error if they are invalid."""
    with float64():
        g = jax.tree.map(np.asarray, system.group.identity())
        xi = np.zeros(system.group.dim)
        functions = (
            ("returns", returns, "g0, xi0, g1, xi1", (g, xi, g, xi)),
            ("fixed", fixed, "g, xi", (g, xi)),
            ("conditions", conditions, "g, xi, T, parameters", (g, xi, np.float64(1.0), system.parameters)),
        )
        for name, function, parameters, arguments in functions:
            if function is not None:
                check_arguments(function, parameters, name)
                shape, by_data = tried(name, function, *arguments)
                if by_data:
                    raise ValueError(
                        f"{name} reads an array at an index that depends on data, so it has no derivative there"
                    )
                if 0 in shape:
                    raise ValueError(f"{name} gives no number")


class ClosedArc(NamedTuple):
    """Arc that satisfies the conditions, its derivatives, and the number of Newton steps."""

    arc: Arc
    flow: FlowDerivatives
    iterations: int


def closed(
    problem: BoundaryProblem, guess: Arc, step: np.ndarray, held: np.ndarray, tol: float, max_iterations: int
) -> ClosedArc:
    """Newton's method for the conditions, from a guess moved by a step z = (η, δ, T, a).

    Steps are orthogonal to the directions ``held``, or leave the parameter alone where there is none.
    """
    system, n = problem.system, problem.system.group.dim
    max_iterations = as_count(max_iterations, "max_iterations")
    tol = as_part(tol, "tol")
    if not problem.parameter:
        held = np.eye(2 * n + 2)[-1:]
    arc, flow = _moved(problem, guess, step)
    for iteration in range(max_iterations + 1):
        if not flow.is_good:
            reason = Result(flow.status).message if flow.status else "its derivatives are not finite"
            raise RuntimeError(f"the motion of {system.name} ends on the way: {reason}")
        gap, size = flow.gap, np.linalg.norm(flow.slope)
        if gap <= tol * (1.0 + size) and gap <= max(tol * extent(arc, flow), rounding_of(arc, flow)):
            return ClosedArc(arc, flow, iteration)
        rows = np.concatenate([flow.slope, held * size])
        right = np.concatenate([-flow.residual, np.zeros(len(held))])
        step = np.linalg.lstsq(rows, right, rcond=FREE)[0]
        for halvings in range(HALVINGS):
            new_arc, new_flow = _moved(problem, arc, 0.5**halvings * step)
            if new_flow.is_good and np.linalg.norm(new_flow.residual) < np.linalg.norm(flow.residual):
                break
        else:
            break
        arc, flow = new_arc, new_flow
    raise RuntimeError(
        f"no periodic orbit of {system.name} found near the guess: the conditions are off by {gap:.3g} after "
        f"{iteration} steps, at period {arc.span * problem.returns.arcs_per_period:.6g} s"
    )


def extent(arc: Arc, flow: FlowDerivatives) -> float:
    """Size of a motion: its duration times its rate at the end."""
    return abs(arc.span) * float(np.abs(flow.end_slope[:, -2]).max())


def rounding_of(arc: Arc, flow: FlowDerivatives) -> float:
    """Rounding error of the conditions."""
    size = 1.0 + max(float(np.abs(leaf).max(initial=0.0)) for leaf in jax.tree.leaves(arc.start))
    return ROUNDING * size * (1.0 + float(np.linalg.norm(flow.slope)))


def _moved(problem: BoundaryProblem, arc: Arc, step: np.ndarray) -> tuple[Arc, FlowDerivatives]:
    """Arc from g₀exp(η), ξ₀ + δ, of duration T + δT with the parameter a + δa, projected onto the constraints."""
    group, n = problem.system.group, problem.system.group.dim
    z = np.concatenate([np.zeros(2 * n), [arc.span, arc.value]]) + step
    with float64():
        g = group.project(group.compose(arc.start.g, group.exp(jnp.asarray(z[:n]))))
    start = PhasePoint(jax.tree.map(np.asarray, g), arc.start.xi + z[n : 2 * n])
    span, value = float(z[2 * n]), float(z[2 * n + 1])
    flow = flow_derivatives(problem, Arc(start, span, value))
    return Arc(jax.tree.map(np.asarray, flow.start), span, value), flow
