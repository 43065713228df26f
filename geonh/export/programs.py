"""Functions of vectors that are exported, of a system and a method.

Each takes what is held, then the numbers of the parameters and the inputs, which replace those held there, and returns
(result, status).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.integrators.base import Integrator, Problem
from geonh.integrators.clock import Clock
from geonh.integrators.node import State
from geonh.integrators.validity import Result
from geonh.mechanics.soundness import SINGLE, is_start
from geonh.mechanics.system import System
from geonh.results.nodes import Node
from geonh.results.observables import observe


class Run(NamedTuple):
    """State of a run: a node, its initial time and its step."""

    t0: Any
    dt: Any
    node: State


class Held(NamedTuple):
    """System and method with everything that is constant in the exported code."""

    system: System
    method: Integrator
    controls: Any


class Times(NamedTuple):
    """Initial time and step of a run, seconds."""

    t0: Any
    dt: Any


def problem_of(held: Held, numbers: Any, inputs: Any, times: Any) -> Problem:
    """Problem with these parameters and inputs, arrays of the shapes of those held."""
    system = held.system
    parameters = eqx.combine(numbers, system.parameters)
    system = eqx.tree_at(lambda s: s.parameters, system, parameters) if jax.tree.leaves(numbers) else system
    controls = held.controls if isinstance(inputs, tuple) else as_function(inputs)
    return Problem(system, held.method, Clock(times.t0, times.dt, controls))


def as_function(controls: Any) -> Any:
    """Controls as a function of the time: values are held."""
    return controls if controls is None or callable(controls) else jax.tree_util.Partial(_held, controls)


def _held(values: Any, t: Any) -> Any:
    return jnp.asarray(values)


def start(held: Held, numbers: Any, inputs: Any, times: Times, g: Any, xi: Array) -> tuple[Run, Array]:
    """Run that starts at (g, ξ)."""
    return started_at(problem_of(held, numbers, inputs, times), times, g, xi)


def started_at(problem: Problem, times: Times, g: Any, xi: Array) -> tuple[Run, Array]:
    """Run of a problem that starts at (g, ξ) at a time, and the status of this start."""
    system, clock = problem.system, problem.clock._replace(t0=times.t0)
    node = problem.method.first_node(system, clock, g, xi)
    sound = is_start(system, times.t0, g, xi, times.dt) & (times.dt != 0) & jnp.isfinite(times.t0 + times.dt)
    status = jnp.where((node.status == 0) & ~sound, np.int32(Result.START), node.status)
    return Run(times.t0, times.dt, node._replace(status=jnp.zeros_like(node.status))), status


def step(held: Held, numbers: Any, inputs: Any, run: Run) -> tuple[Run, Array]:
    """Run after a step."""
    problem = problem_of(held, numbers, inputs, run)
    node = problem.method.next_node(problem.system, problem.clock, run.node)
    status = node.status
    if not isinstance(inputs, tuple):
        status = jnp.where(jnp.all(jnp.isfinite(inputs)), status, np.int32(Result.NOT_FINITE))
    return run._replace(node=node), status


def observables(held: Held, numbers: Any, inputs: Any, run: Run) -> dict[str, Array]:
    """Quantities observed of a run, by name."""
    return observe(problem_of(held, numbers, inputs, run), Node.of(run.node))


def observed(held: Held, numbers: Any, inputs: Any, run: Run) -> tuple[Any, Array]:
    """Time, point, and what is observed, in order."""
    group = held.system.group
    values = observables(held, numbers, inputs, run)
    t = Clock(run.t0, run.dt).node_time(run.node.k)
    return (t, group.to_vector(run.node.g), [values[key] for key in ordered(values)]), jnp.zeros((), np.int32)


def projected(held: Held, numbers: Any, times: Times, g: Any, xi: Array) -> tuple[Any, Array]:
    """Point and velocity on the constraints; a point off the group has the status START."""
    system = problem_of(held, numbers, (), times).system
    on_group = system.group_defect(g) <= SINGLE
    g = system.project_position(g, times.t0)
    xi = system.projected_velocity(system.at(g, times.t0), xi)
    leaves = [jnp.ravel(leaf) for leaf in (*jax.tree.leaves(g), xi)]
    sound = on_group & jnp.all(jnp.isfinite(jnp.concatenate(leaves)))
    return (g, xi), jnp.where(sound, np.int32(Result.SUCCESS), np.int32(Result.START))


def ordered(values: Mapping[str, Any]) -> list[str]:
    """Names of observables, the velocity first."""
    first = ("xi", "p", "energy", "multipliers", "constraint_residual")
    return [*first, *sorted(values.keys() - set(first))]
