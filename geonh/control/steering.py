"""Specification of an optimal motion: ends, cost, bounds and inequalities, validated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jax import Array

from geonh.analysis.subspaces import kernel
from geonh.arguments.precision import has_tracers
from geonh.arguments.validators import as_constant, as_count, as_float64, close
from geonh.control.conditions import UNBOUNDED, Conditions, Inequalities
from geonh.control.wanted import Wanted, bounded_components, bounded_functions, bounds_of, effort, validated_cost
from geonh.engine import computed
from geonh.geometry.field import argument_names
from geonh.groups.base import ArrayLike, Point
from geonh.integrators.base import Integrator, refuse
from geonh.integrators.clock import Clock
from geonh.mechanics.system import System
from geonh.runs.controls import inspect_forces

SHORTEST, LONGEST = 1e-2, 1e3
"""Bounds of a free span, relative to its guess."""


class Ends(NamedTuple):
    """Arguments of ``optimal_control`` about the states at the ends."""

    start: Any
    xi_start: Any
    end: Any
    xi_end: Any
    free: Sequence[str] = ()


class SteeringProblem(NamedTuple):
    """A motion from (g₀, ξ₀) at t₀ in the span T, which is free or given, under n_controls, at the least cost.

    ``of_nodes``, ``of_rates`` and ``of_end`` are the bounds of the values of the conditions at all nodes, of rates, and
    of those at the end alone; ``node_equations`` and ``end_equations`` those whose value is given; ``end`` is None
    where no point is given.
    """

    start: Point
    xi_start: np.ndarray
    end: Point | None
    t0: float
    span: float
    free_span: bool
    n_controls: int
    conditions: Conditions
    of_nodes: Inequalities
    of_rates: Inequalities
    of_end: Inequalities
    node_equations: Inequalities
    end_equations: Inequalities


def steering_problem(
    system: System,
    method: Integrator,
    ends: Ends,
    wanted: Wanted,
    *,
    n_controls: int,
    span: float,
    free_span: bool = False,
    t0: float = 0.0,
) -> SteeringProblem:
    """Validate the arguments of ``optimal_control``; ValueError or TypeError for an invalid argument, naming it."""
    refuse(method, system)
    if system.forces is None:
        raise ValueError(f"{system.name} has no forces= that use controls")
    if (
        ends.end is None
        and (ends.xi_end is None or isinstance(ends.xi_end, str))
        and all(part is None for part in wanted)
    ):
        raise ValueError("nothing is asked of the motion, and u = 0 is best: give end, terminal or a cost")
    t0, span = float(as_constant(t0, "t0")), as_duration(span, "span")
    states = _states(system, ends, t0, span)
    g0, xi0 = states.start, states.xi_start
    n_u = as_count(n_controls, "n_controls")
    inspect_forces(system, Clock(t0, 1.0, np.zeros((2, n_u))), g0, xi0)
    node = (0.0, g0, xi0, np.zeros(n_u))
    at_nodes, paths = bounded_functions(wanted.path, "path", system, node)
    at_some, vias = bounded_functions(wanted.via, "via", system, node, has_place=True)
    at_end, terminals = bounded_functions(wanted.terminal, "terminal", system, node)
    paths += vias
    held, ended = paths.lower == paths.upper, terminals.lower == terminals.upper
    places, of_components = bounded_components(system, wanted.limits, wanted.bounds, n_u)
    rate_names = tuple(f"rate of control {i}" for i in range(n_u))
    of_rates = UNBOUNDED if wanted.rates is None else bounds_of(wanted.rates, "rates", rate_names)
    of_span = bounds_of((SHORTEST, LONGEST) if free_span else (0.0, 2.0), "span", ("the span",))
    cost = effort if wanted.cost is None else wanted.cost
    takes_xi = callable(cost) and argument_names(cost, 3)[2] == "xi"
    arguments, at = ("t, g, xi, u", node) if takes_xi else ("t, g, u", (*node[:2], node[3]))
    ending = wanted.terminal_cost
    conditions = Conditions(
        cost=validated_cost(cost, "cost", arguments, system, at),
        cost_takes_xi=takes_xi,
        terminal_cost=None if ending is None else validated_cost(ending, "terminal_cost", "t, g, xi", system, node[:3]),
        path=at_nodes + at_some,
        terminal=at_end,
        path_rows=tuple(np.flatnonzero(held).tolist()),
        terminal_rows=tuple(np.flatnonzero(ended).tolist()),
        components=places,
        n_rates=len(of_rates.names),
        end=g0 if states.end is None else states.end,
        xi_end=states.xi_end,
        end_rows=states.end_rows,
        xi_rows=states.xi_rows,
        path_values=paths.lower[held],
        terminal_values=terminals.lower[ended],
        span=np.float64(span),
    )
    return SteeringProblem(
        start=g0,
        xi_start=xi0,
        end=states.end,
        t0=t0,
        span=span,
        free_span=free_span,
        n_controls=n_u,
        conditions=conditions,
        of_nodes=of_components + paths.of(~held),
        of_rates=of_rates,
        of_end=terminals.of(~ended) + of_span,
        node_equations=paths.of(held),
        end_equations=terminals.of(ended),
    )


def as_duration(value: Any, name: str) -> float:
    """Validate a duration, whose square is a number; ValueError or TypeError otherwise."""
    span = float(as_constant(value, name))
    if not 1e-150 < span < 1e150:
        raise ValueError(f"{name} must be positive, between 1e-150 and 1e150, got {span}")
    return span


class States(NamedTuple):
    """Validated states at the ends, and the rows of the conditions on g_end⁻¹g and ξ − ξ_end."""

    start: Point
    xi_start: np.ndarray
    end: Point | None
    xi_end: np.ndarray
    end_rows: np.ndarray
    xi_rows: np.ndarray


def _states(system: System, ends: Ends, t0: float, span: float) -> States:
    """Validated states at the ends, on the constraints."""
    n, names, free, xi_end = system.group.dim, system.group.velocity_names, ends.free, ends.xi_end
    if unknown := [name for name in free if name not in names]:
        near = close(str(unknown[0]), names)
        raise ValueError(f"free: {unknown} are not velocity components, which are {list(names)}{near}")
    if len(set(free)) < len(free):
        raise ValueError(f"free: {list(free)} has a repeated name")
    has_tracers(start=ends.start, end=ends.end)  # refuses a list that contains itself
    g0, g1 = system.point(ends.start, name="start"), None if ends.end is None else system.point(ends.end, name="end")
    xi0 = np.zeros(n) if ends.xi_start is None else as_float64(ends.xi_start, "xi_start", (n,))
    is_free = isinstance(xi_end, str) and xi_end == "free"
    xi1 = np.zeros(n) if xi_end is None or is_free else as_float64(xi_end, "xi_end", (n,))
    _refuse_off_constraints(system, "start", g0, xi0, t0)
    if g1 is None:
        if xi_end is not None and not is_free:
            raise ValueError("xi_end is given without an end: bound velocities with terminal=(c, lower, upper)")
        return States(g0, xi0, g1, xi1, np.zeros((0, n)), np.zeros((0, n)))
    rows = _refuse_off_constraints(system, "end", g1, None if is_free else xi1, t0 + span)
    given = np.delete(np.eye(n), [names.index(name) for name in free], axis=0)
    xi_rows = np.zeros((0, n)) if is_free else orthogonal_complement(rows.mu)
    return States(g0, xi0, g1, xi1, _tangent_rows(given, rows.G), xi_rows)


class ConstraintRows(NamedTuple):
    """Constraints at a configuration: rows μ of all of them, and rows G of φ."""

    mu: ArrayLike
    G: ArrayLike


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
