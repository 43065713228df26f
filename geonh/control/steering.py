"""Specification of an optimal motion: ends, cost, bounds and inequalities, validated."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from geonh.arguments.validators import as_constant, as_count
from geonh.control.conditions import UNBOUNDED, Conditions, Inequalities
from geonh.control.ends import Ends, States, refuse_off_constraints, validated_states
from geonh.control.phases import Phase
from geonh.control.sought import Sought
from geonh.control.wanted import (
    Wanted,
    bounded_components,
    bounded_functions,
    bounded_in_phases,
    bounds_of,
    effort,
    sought_parameters,
    validated_cost,
)
from geonh.geometry.field import argument_names
from geonh.groups.base import Point
from geonh.integrators.base import Integrator, refuse
from geonh.integrators.clock import Clock
from geonh.integrators.runge_kutta import RKMK
from geonh.integrators.symmetric_projection import SymmetricProjection
from geonh.mechanics.system import System
from geonh.runs.controls import inspect_forces

SHORTEST, LONGEST = 1e-2, 1e3
"""Bounds of a free span, relative to its guess."""
ON_BOUND = 1e-8
"""Distance beyond a bound at which a component of the end is on it."""


class SteeringProblem(NamedTuple):
    """A motion from (g₀, ξ₀) at t₀ in phases, whose durations in sum are free or given, under n_controls, at the least
    cost.

    Of a periodic motion ``start_is_given`` is the mask of the coordinates of g₀ that are given, None of others;
    ``theta`` are the numbers of the parameters that are sought, before they are found.

    ``of_nodes``, ``of_rates`` and ``of_end`` are the bounds of the values of the conditions at all nodes, of rates, and
    of those at the end alone; ``node_equations`` and ``end_equations`` those whose value is given; ``end`` is None
    where no point is given.
    """

    start: Point
    xi_start: np.ndarray
    start_is_given: np.ndarray | None
    end: Point | None
    t0: float
    spans: np.ndarray
    free_span: bool
    n_controls: int
    theta: np.ndarray
    conditions: Conditions
    of_nodes: Inequalities
    of_rates: Inequalities
    of_end: Inequalities
    node_equations: Inequalities
    end_equations: Inequalities

    @property
    def span(self) -> float:
        """Sum of the durations before they are found, s."""
        return float(np.sum(self.spans))


def default_method(*systems: System) -> Integrator:
    """Method of the steps where none is given: ``RKMK`` of order 4, with φ = 0 ``SymmetricProjection``."""
    return RKMK() if all(system.holonomic is None for system in systems) else SymmetricProjection()


def steering_problem(
    phases: tuple[Phase, ...],
    method: Integrator,
    ends: Ends,
    wanted: Wanted,
    *,
    n_controls: int,
    free_span: bool = False,
    t0: float = 0.0,
) -> SteeringProblem:
    """Validate the arguments of ``optimal_control``; ValueError or TypeError for an invalid argument, naming it."""
    for phase in phases:
        refuse(method, phase.system)
        if phase.system.forces is None:
            raise ValueError(f"{phase.name} has no forces= that use controls")
    system, spans, names = phases[0].system, np.array([phase.span for phase in phases]), [p.name for p in phases]
    free_end = ends.end is None and (ends.xi_end is None or isinstance(ends.xi_end, str))
    if free_end and all(part is None for part in wanted):
        raise ValueError("nothing is asked of the motion, and u = 0 is best: give end, terminal or a cost")
    t0 = float(as_constant(t0, "t0"))
    states = validated_states(system, phases[-1].system, ends, t0, float(np.sum(spans)))
    g0, xi0 = states.start, states.xi_start
    n_u = as_count(n_controls, "n_controls")
    for phase in phases:
        inspect_forces(phase.system, Clock(t0, 1.0, np.zeros((2, n_u))), g0, xi0)
    node = (0.0, g0, xi0, np.zeros(n_u))
    at_nodes, paths = bounded_in_phases(wanted.path, names, system, node)
    at_some, vias = bounded_functions(wanted.via, "via", system, node, has_place=True)
    if vias.names and len(phases) > 1:
        raise ValueError("via= is a part of the span of a motion in one mode: end a phase there, or use path=")
    at_end, terminals = bounded_functions(wanted.terminal, "terminal", system, node)
    paths += vias
    held, ended = paths.lower == paths.upper, terminals.lower == terminals.upper
    places, of_components = bounded_components(system, wanted.limits, wanted.bounds, n_u)
    if states.end is not None and not ends.free and ends.periodic is None:
        _refuse_end_beyond(of_components, places, states, isinstance(ends.xi_end, str))
    rate_names = tuple(f"rate of control {i}" for i in range(n_u))
    of_rates = UNBOUNDED if wanted.rates is None else bounds_of(wanted.rates, "rates", rate_names)
    sought_spans = free_span or len(phases) > 1
    of_phases = ("the span",) if len(phases) == 1 else tuple(f"the span of {name}" for name in names)
    of_span = bounds_of((SHORTEST, LONGEST) if sought_spans else (0.0, 2.0), "span", of_phases)
    cost = effort if wanted.cost is None else wanted.cost
    sought, of_parameters = sought_parameters(system, wanted.design)
    scale = np.where(sought.theta == 0.0, 1.0, np.abs(sought.theta))
    of_parameters = of_parameters._replace(lower=of_parameters.lower / scale, upper=of_parameters.upper / scale)
    if sought.names:
        if len(phases) > 1:
            raise ValueError("design= is of one system, and not of phases of Modes")
        _refuse_other_starts(sought, states, t0)
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
        sought=sought.names,
        end=g0 if states.end is None else states.end,
        xi_end=states.xi_end,
        end_rows=states.end_rows,
        xi_rows=states.xi_rows,
        return_rows=states.return_rows,
        xi_return_rows=states.xi_return_rows,
        path_values=paths.lower[held],
        terminal_values=terminals.lower[ended],
        spans=spans,
        of_spans=_changes_of_spans(len(phases), free_span),
        theta_scale=scale,
    )
    return SteeringProblem(
        start=g0,
        xi_start=xi0,
        start_is_given=states.start_is_given,
        end=states.end,
        t0=t0,
        spans=spans,
        free_span=free_span,
        n_controls=n_u,
        theta=sought.theta,
        conditions=conditions,
        of_nodes=of_components + paths.of(~held),
        of_rates=of_rates,
        of_end=terminals.of(~ended) + of_span + of_parameters,
        node_equations=paths.of(held),
        end_equations=terminals.of(ended),
    )


def _refuse_other_starts(sought: Sought, states: States, t0: float) -> None:
    """ValueError if the start is on the constraints with the given parameters alone."""
    other = sought.at(1.01 * sought.theta + 0.01)
    velocity = None if states.start_is_given is not None else states.xi_start
    try:
        refuse_off_constraints(other, "start", states.start, velocity, t0)
    except ValueError as error:
        raise ValueError(f"design: with other parameters {error}") from error


def _refuse_end_beyond(bounds: Inequalities, places: tuple[int, ...], states: States, velocity_is_free: bool) -> None:
    """ValueError if a component of the state at the end, all of which is given, is beyond its bounds."""
    point = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(states.end)])
    given = point if velocity_is_free else np.concatenate([point, states.xi_end])
    for name, place, low, high in zip(bounds.names, places, bounds.lower, bounds.upper, strict=True):
        if place < len(given) and not low - ON_BOUND <= given[place] <= high + ON_BOUND:
            which = "end" if place < len(point) else "xi_end"
            raise ValueError(
                f"{which}: {name} is {given[place]:.10g} there, beyond its bounds ({low:g}, {high:g}): end elsewhere, "
                "or widen them"
            )


def _changes_of_spans(count: int, free_span: bool) -> np.ndarray:
    """Changes of the durations by what is unknown of them; their sum stays unless it is free."""
    if free_span or count == 1:
        return np.eye(count)
    return np.concatenate([np.eye(count - 1), -np.ones((1, count - 1))])
