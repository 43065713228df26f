r"""The flow of a system over a time T, and its exact directional derivative, compiled and batched.

A motion begins at g₀exp(η), projected onto the holonomic constraints, with the velocity on the constraints nearest to
ξ₀ + δ, and takes n steps of T/n of a method. Derivatives are those of the method's own map, by forward mode through all
its steps, by z = (η, δ, T, a) with a parameter a of the system. At both ends they are perturbations (η, δ).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.engine import first_of_batch, mapped
from geonh.geometry.field import evaluated
from geonh.groups.base import ArrayLike, LieGroup, Point
from geonh.integrators.base import Integrator
from geonh.integrators.clock import Clock
from geonh.integrators.node import State
from geonh.mechanics.holonomic import onto
from geonh.mechanics.system import System, with_parameters


class PhasePoint(NamedTuple):
    """Configuration and velocity."""

    g: Point
    xi: ArrayLike


class Arc(NamedTuple):
    """Motion over a time: its start, projected onto the constraints; its duration T; and the parameter a."""

    start: PhasePoint
    span: ArrayLike
    value: ArrayLike


class BoundaryProblem(NamedTuple):
    """Boundary value problem: a system, a method in n steps, controls from t₀ on, and the conditions on the motion.

    ``returns(system, g₀, ξ₀, g_T, ξ_T)`` and ``conditions(g₀, ξ₀, T, parameters)`` are to vanish; ``parameter`` is the
    name of a.
    """

    system: System
    method: Integrator
    controls: Any
    t0: Any
    n_steps: Any
    returns: Any
    conditions: Any
    parameter: str


class Flow(NamedTuple):
    """Residual of the conditions, both ends of the motion, and the status of the first step that failed."""

    residual: Any
    start: PhasePoint
    end: PhasePoint
    status: Any


class FlowDerivatives(NamedTuple):
    """``Flow``, and the derivatives of residual and ends by z, each of shape=[·, 2n + 2]."""

    residual: np.ndarray
    start: PhasePoint
    end: PhasePoint
    status: int
    slope: np.ndarray
    start_slope: np.ndarray
    end_slope: np.ndarray

    @property
    def gap(self) -> float:
        """Largest entry of the residual."""
        return float(np.abs(self.residual).max(initial=0.0))

    @property
    def is_good(self) -> bool:
        """True if no step failed, and the derivatives are finite."""
        return self.status == 0 and bool(np.all(np.isfinite(self.slope)))


def flow_derivatives(problem: BoundaryProblem, arc: Arc) -> FlowDerivatives:
    """Motion, and its derivatives by z = (η, δ, T, a)."""
    directions = np.eye(2 * problem.system.group.dim + 2)
    arc = arc._replace(span=np.float64(arc.span), value=np.float64(arc.value))
    arcs = jax.tree.map(lambda a: np.broadcast_to(a, (len(directions), *np.shape(a))), arc)
    flow, slopes = mapped(_directional, problem, (arcs, directions))
    residual, start, end, status = first_of_batch(flow)
    return FlowDerivatives(residual, start, end, int(status), *(np.asarray(slope).T for slope in slopes))


def _directional(problem: BoundaryProblem, node: tuple[Arc, Array]) -> tuple[Flow, tuple]:
    """Motion, and the derivatives of residual and ends in one direction of z."""
    arc, direction = node
    group = problem.system.group
    zero = jnp.zeros(())
    flow, rate = jax.jvp(lambda s: _flow(problem, arc, s * direction), (zero,), (zero + 1.0,))

    def perturbation(point: PhasePoint, rate: PhasePoint) -> Array:
        return jnp.concatenate([displacement(group, point.g, rate.g), rate.xi])

    return flow, (rate.residual, perturbation(flow.start, rate.start), perturbation(flow.end, rate.end))


def displacement(group: LieGroup, g: Point, rate: Point) -> Array:
    """η, shape=[n], of a tangent vector at g: g·exp(εη) = g + ε·rate to first order."""

    def apart(s: Array) -> Array:
        moved = jax.tree.map(lambda a, b: a + s * b, g, rate)
        return group.log(group.compose(group.inverse(g), moved))

    zero = jnp.zeros(())
    return jax.jvp(apart, (zero,), (zero + 1.0,))[1]


class Integration(NamedTuple):
    """A node, and the status of the first step that failed on the way to it."""

    node: State
    status: Array


def integrated(system: System, method: Integrator, clock: Clock, begin: Integration, n_steps: Any) -> Integration:
    """Node after a number of steps, in a trace."""

    def advance(_: Array, done: Integration) -> Integration:
        new = method.next_node(system, clock, done.node)
        return Integration(new, jnp.where(done.status == 0, new.status, done.status))

    return lax.fori_loop(0, n_steps, advance, begin)


def _flow(problem: BoundaryProblem, arc: Arc, z: Array) -> Flow:
    """Motion along an arc perturbed by z."""
    system, method, n = problem.system, problem.method, problem.system.group.dim
    if problem.parameter:
        system = with_parameters(system, {problem.parameter: arc.value + z[-1]})
    group, span, t0 = system.group, arc.span + z[2 * n], jnp.asarray(problem.t0)
    g = onto(system, group.compose(arc.start.g, group.exp(z[:n])), t0)[0]
    xi = system.projected_velocity(system.at(g, t0), arc.start.xi + z[n : 2 * n])
    clock = Clock(t0, span / problem.n_steps, problem.controls)
    first = method.first_node(system, clock, g, xi)
    last, status = integrated(system, method, clock, Integration(first, first.status), problem.n_steps)
    xi_end = system.velocity(system.at(last.g, t0 + span), (last.p_plus + last.p_minus) / 2)
    residuals = [problem.returns(system, g, xi, last.g, xi_end)]
    if problem.conditions is not None:
        residuals.append(jnp.ravel(evaluated("conditions", problem.conditions, g, xi, span, system.parameters)))
    return Flow(jnp.concatenate(residuals), PhasePoint(g, xi), PhasePoint(last.g, xi_end), status)
