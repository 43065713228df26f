r"""One step and one node of a transcription: equations, term of the cost, and their exact derivatives, forward mode."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.control.steering import RunningCost
from geonh.engine import mapped
from geonh.groups.base import ArrayLike, Point
from geonh.integrators.clock import Clock
from geonh.integrators.node import State
from geonh.integrators.symmetric_projection import SymmetricProjection
from geonh.mechanics.holonomic import onto
from geonh.mechanics.system import System


class Step(NamedTuple):
    """Data of the step from g_k: the nodes g_{k−1}, g_k, g_{k+1}, the controls u_k, u_{k+1}, the span, and k."""

    g_before: Point
    g: Point
    g_after: Point
    u: ArrayLike
    u_after: ArrayLike
    span: ArrayLike
    k: ArrayLike


class StepEquations(NamedTuple):
    """Data common to all steps."""

    system: System
    method: SymmetricProjection
    xi_start: ArrayLike
    t0: ArrayLike
    n_steps: ArrayLike


class StepValues(NamedTuple):
    """Residual of a step, shape=[n], and the velocity with which it arrives, shape=[n]; or weights of these."""

    residual: ArrayLike
    xi_after: ArrayLike


class CostTerms(NamedTuple):
    """Data common to the terms of the cost at all nodes."""

    system: System
    cost: RunningCost
    t0: ArrayLike
    n_steps: ArrayLike


class CostNode(NamedTuple):
    """Data of the term at a node: g_k, u_k, T, k, and its weight in the trapezoidal rule."""

    g: Point
    u: ArrayLike
    span: ArrayLike
    k: ArrayLike
    weight: ArrayLike


class CostTerm(NamedTuple):
    """Value, gradient and Hessian of the term at a node by (η, u, T)."""

    value: ArrayLike
    gradient: ArrayLike
    hessian: ArrayLike


def steps_of(system: System, low: Point, high: Point) -> np.ndarray:
    """log(g⁻¹g') of each pair of points, shape=[·, n]."""
    return mapped(_relative_position, system, (low, high))


def _relative_position(system: System, node: tuple) -> Array:
    low, high = node
    return system.group.log(system.group.compose(system.group.inverse(low), high))


def moved(system: System, node: tuple) -> Point:
    """g exp(η), of (g, η)."""
    g, eta = node
    return system.group.project(system.group.compose(g, system.group.exp(eta)))


def projected(system: System, node: tuple) -> tuple[Point, Array]:
    """Projection of (g, t) onto φ = 0, and whether it exists."""
    return onto(system, *node)


def step_values(equations: StepEquations, step: Step) -> StepValues:
    """Residual of the step from g_k, in metres per second, and the velocity with which it arrives."""
    system, method, xi_start, t0, n_steps = equations
    group, h, tau = system.group, step.span / n_steps, method.tau(system)
    time = t0 + step.k * h
    system = system.holding(system.at(step.g, time))

    def state(g: Point, p: Array) -> State:
        xi = jnp.zeros(group.dim)
        warm = method.cold(system, Clock(time, h), jnp.asarray(0), g, xi)
        return State(jnp.asarray(0), g, p, p, (), warm, jnp.zeros((0, group.dim)), 0)

    def increment(g: Point, after: Point) -> Array:
        return tau.inverse(group, group.compose(group.inverse(g), after))

    def arrival(clock: Clock, begin: State, zeta: Array) -> Array:
        return method.flow(system, clock, begin, zeta)[1].momentum

    nothing = jnp.zeros(group.dim)
    back, here = Clock(time - h, h, jnp.stack([step.u, step.u])), Clock(time, h, jnp.stack([step.u, step.u_after]))
    arrives = arrival(back, state(step.g_before, nothing), increment(step.g_before, step.g))
    p = jnp.where(step.k == 0, system.momentum(system.at(step.g, time), xi_start), arrives)
    zeta, begin = increment(step.g, step.g_after), state(step.g, p)
    p_after = arrival(here, begin, zeta)
    residual = method.equations(system, here, begin).residual(zeta)
    return StepValues(residual / h, system.velocity(system.at(step.g_after, time + h), p_after))


def _perturbed(equations: StepEquations, step: Step, z: Array) -> StepValues:
    """Values of a step perturbed by z, (η_{k−1}, η_k, η_{k+1}, δu_k, δu_{k+1}, δT)."""
    group, n, n_u = equations.system.group, equations.system.group.dim, len(step.u)
    points = (step.g_before, step.g, step.g_after)
    perturbed = [group.compose(g, group.exp(z[i * n : (i + 1) * n])) for i, g in enumerate(points)]
    u, u_after = step.u + z[3 * n : 3 * n + n_u], step.u_after + z[3 * n + n_u : -1]
    return step_values(equations, Step(*perturbed, u, u_after, step.span + z[-1], step.k))


def step_derivative(equations: StepEquations, node: tuple[Step, Array]) -> tuple[StepValues, StepValues]:
    """Values of a step, and their derivative in one direction z."""
    step, direction = node
    zero = jnp.zeros(())
    return jax.jvp(lambda s: _perturbed(equations, step, s * direction), (zero,), (zero + 1.0,))


def step_second_derivative(equations: StepEquations, node: tuple[Step, Array, Array, StepValues]) -> Array:
    """Second derivative in two directions z of the values of a step, contracted with weights."""
    step, a, b, weights = node
    zero = jnp.zeros(())

    def scalar(r: Array, s: Array) -> Array:
        values = _perturbed(equations, step, r * a + s * b)
        return values.residual @ weights.residual + values.xi_after @ weights.xi_after

    def slope(s: Array) -> Array:
        return jax.jvp(lambda r: scalar(r, s), (zero,), (zero + 1.0,))[1]

    return jax.jvp(slope, (zero,), (zero + 1.0,))[1]


def cost_term(terms: CostTerms, node: CostNode) -> CostTerm:
    """Term of the cost at a node, and its derivatives by (η, u, T)."""
    g, u, span, k, weight = node
    system, n = terms.system, terms.system.group.dim

    def cost(z: Array) -> Array:
        h = (span + z[-1]) / terms.n_steps
        perturbed = system.group.compose(g, system.group.exp(z[:n]))
        return weight * h * terms.cost.at(system, terms.t0 + k * h, perturbed, u + z[n:-1])

    zero = jnp.zeros(n + len(u) + 1)
    return CostTerm(cost(zero), jax.jacfwd(cost)(zero), jax.jacfwd(jax.jacfwd(cost))(zero))
