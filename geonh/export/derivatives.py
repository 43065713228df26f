"""Derivatives of what is exported: of a step by state, inputs and parameters.

``linearised`` is of the step of a run. There the state is (g, ξ), and its changes are (η, δξ) with g exp(η), in the
frame of the body: 2n numbers, so that no entries belong to what a rotation matrix has too much. Methods with further
data at their nodes keep these. The functions for solvers are of (g, ξ) in coordinates, without a past.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from geonh.engine import Export
from geonh.export.model import Model
from geonh.export.programs import Held, Run, Times, problem_of
from geonh.integrators.validity import Result
from geonh.mechanics.equations import accelerations


class Linearised(NamedTuple):
    """Derivatives of the next (η, δξ).

    Attributes
    ----------
    A : array, shape=[2n, 2n]
        By (η, δξ).
    B : array, shape=[2n, U]
        By the inputs.
    P : array, shape=[2n, parameters]
        By the parameters.
    """

    A: Any
    B: Any
    P: Any


def functions(model: Model) -> dict[str, Export]:
    """Export ``linearise``, of (parameters, inputs, state)."""
    return {"linearise": Export(linearised, (*model.arguments, model.run), is_differentiated=True)}


def linearised(held: Held, numbers: Any, inputs: Any, run: Run) -> tuple[Linearised, Array]:
    """Derivatives of the step from a run's node, and the status of that step."""
    flat_numbers, numbers_of = _flat(numbers)
    flat_inputs, inputs_of = _flat(inputs)
    n, n_inputs = held.system.group.dim, len(flat_inputs)
    group = held.system.group
    here = _next(held, numbers, inputs, run)

    def after(z: Array) -> Array:
        change, u, p = jnp.split(z, [2 * n, 2 * n + n_inputs])
        inputs = inputs_of(u)
        problem = problem_of(held, numbers_of(p), inputs, run)
        system, node = problem.system, run.node
        t = run.t0 + node.k * run.dt
        moved = group.compose(node.g, group.exp(change[:n]))
        p_here = (node.p_plus + node.p_minus) / 2
        x, there = system.at(node.g, t), system.at(moved, t)
        # The velocity stays where parameters change: it is the state, and the momentum follows.
        xi = jax.lax.stop_gradient(problem_of(held, numbers, (), run).system.velocity(x, p_here))
        shift = system.momentum(there, xi + change[n:]) - jax.lax.stop_gradient(p_here)
        moved_node = node._replace(g=moved, p_plus=node.p_plus + shift, p_minus=node.p_minus + shift)
        g, v = _next(held, numbers_of(p), inputs, run._replace(node=moved_node))[:2]
        back = group.inverse(jax.lax.stop_gradient(here[0]))
        return jnp.concatenate([group.log(group.compose(back, g)), v])

    z = jnp.concatenate([jnp.zeros(2 * n), flat_inputs, flat_numbers])
    every = jax.jacfwd(after)(z)
    A, B, P = jnp.split(every, [2 * n, 2 * n + n_inputs], axis=1)
    bad = (here[2] == 0) & ~jnp.all(jnp.isfinite(every))
    return Linearised(A, B, P), jnp.where(bad, np.int32(Result.NOT_FINITE), here[2])


def solver_functions(model: Model) -> dict[str, Export]:
    """Exports ``next`` and ``rates`` of (x, u, p, times), and ``next_jacobian`` and ``rates_jacobian``.

    x is (g, ξ) in coordinates, the result (g, ξ) after one step from there, or their rates. Jacobians are by x, u, p
    and times, one after another, column by column.
    """
    numbers, inputs = model.arguments
    given = ((model.g, model.xi), inputs, numbers, model.times)
    made = {}
    for name, function in (("next", after_one_step), ("rates", rates)):
        made[name] = Export(function, given)
        made[f"{name}_jacobian"] = Export(partial(_jacobian, function), given, is_differentiated=True)
    return made


def after_one_step(held: Held, x: Any, u: Any, p: Any, times: Times) -> tuple[Any, Array]:
    """(g, ξ) after a step without a past, and its status."""
    problem = problem_of(held, p, u, times)
    node = problem.method.first_node(problem.system, problem.clock, *x)
    g, xi, status = _next(held, p, u, Run(times.t0, times.dt, node._replace(status=jnp.zeros_like(node.status))))
    return (g, xi), jnp.where(node.status == 0, status, node.status)


def rates(held: Held, x: Any, u: Any, p: Any, times: Times) -> tuple[Any, Array]:
    """Rates of (g, ξ) by the equations of motion, at the time of the start."""
    problem = problem_of(held, p, u, times)
    g, xi = x
    xi_dot = accelerations(problem.system, times.t0, g, xi, problem.clock.between(times.t0))[0]
    return (problem.system.group.left_tangent(g, xi), xi_dot), jnp.zeros((), np.int32)


def _jacobian(function: Callable, held: Held, *given: Any) -> tuple[list[Array], Array]:
    """Derivatives of a function by each of its arguments, column by column."""
    parts = [_flat(one) for one in given]
    ends = np.cumsum([len(vector) for vector, _ in parts])[:-1]

    def flat(z: Array) -> tuple[Array, Array]:
        arguments = [tree(vector) for (_, tree), vector in zip(parts, jnp.split(z, ends), strict=True)]
        result, status = function(held, *arguments)
        return ravel_pytree(result)[0], status

    z = jnp.concatenate([vector for vector, _ in parts])
    every, status = jax.jacfwd(flat, has_aux=True)(z)
    return [block.T for block in jnp.split(every, ends, axis=1)], status


def _next(held: Held, numbers: Any, inputs: Any, run: Run) -> tuple[Any, Array, Array]:
    """Point, velocity and status of the next node."""
    problem = problem_of(held, numbers, inputs, run)
    node = problem.method.next_node(problem.system, problem.clock, run.node)
    x = problem.system.at(node.g, run.t0 + node.k * run.dt)
    return node.g, problem.system.velocity(x, (node.p_plus + node.p_minus) / 2), node.status


def _flat(tree: Any) -> tuple[Array, Callable[[Array], Any]]:
    """Numbers of a pytree as a vector, and the inverse of this."""
    return ravel_pytree(tree) if jax.tree.leaves(tree) else (jnp.zeros(0), lambda _: tree)
