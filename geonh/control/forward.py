r"""Single shooting, forwards: cost and terminal residual of the motion under controls at the knots, and derivatives.

The motion is integrated by any method under controls that are linear between the knots; derivatives are exact through
all steps, in as many directions as there are controls.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.control.steering import RunningCost
from geonh.engine import mapped
from geonh.groups.base import ArrayLike, Point
from geonh.integrators.base import Integrator
from geonh.integrators.clock import Clock
from geonh.integrators.node import State
from geonh.mechanics.system import System

REJECTED = 1e10
"""Cost and terminal residual of a trial that cannot be integrated, so large that the solver rejects it."""
REACHED = 1e-7
"""Tolerance on the terminal residual, relative to 1 + |ξ|."""


class ShootingProblem(NamedTuple):
    """A motion from (g₀, ξ₀) at t₀ in n steps of a method, its cost, and the end that it is to reach.

    ``g_rows`` are the rows T, and ``xi_rows`` the rows D, of the terminal conditions.
    """

    system: System
    method: Integrator
    g0: Point
    xi0: ArrayLike
    t0: ArrayLike
    span: ArrayLike
    n_steps: ArrayLike
    cost: RunningCost
    g_end: Point
    xi_end: ArrayLike
    g_rows: ArrayLike
    xi_rows: ArrayLike

    @property
    def tolerance(self) -> float:
        """Largest entry of the terminal residual with which the end counts as reached."""
        return REACHED * (1 + np.abs(self.xi0).max())


class ShootingValues(NamedTuple):
    """Cost J and terminal residual r, shape=[q], of a motion, their derivatives by all controls, shape=[J·n_u] and
    [q, J·n_u], and its status."""

    cost: float
    gradient: np.ndarray
    residual: np.ndarray
    jacobian: np.ndarray
    status: int

    @property
    def miss(self) -> float:
        """Largest entry of the terminal residual."""
        return float(np.abs(self.residual).max(initial=0.0))

    def reaches(self, tolerance: float) -> bool:
        """True if the motion was integrated, and reaches the end."""
        return not self.status and self.miss <= tolerance

    def rejected_if_nan(self) -> ShootingValues:
        """The same with REJECTED in place of values that are nan, and zero in place of such derivatives."""
        return ShootingValues(
            cost=float(np.nan_to_num(self.cost, nan=REJECTED)),
            gradient=np.nan_to_num(self.gradient),
            residual=np.nan_to_num(self.residual, nan=REJECTED),
            jacobian=np.nan_to_num(self.jacobian),
            status=self.status,
        )


def shooting_values(problem: ShootingProblem, u: np.ndarray) -> ShootingValues:
    """Values of the motion under controls at the knots, and their derivatives by all of these."""
    directions = np.eye(u.size).reshape(-1, *u.shape)
    motion, slopes = mapped(_directional, problem, (np.broadcast_to(u, directions.shape), directions))
    slopes = np.asarray(slopes).T
    values, status = motion.values[0], motion.status[0]
    return ShootingValues(float(values[0]), slopes[0], values[1:], slopes[1:], int(status))


class _MotionValues(NamedTuple):
    """Cost and terminal residual (J, r) of a motion, shape=[1 + q], and its status."""

    values: Array
    status: Array


def _directional(problem: ShootingProblem, node: tuple[Array, Array]) -> tuple[_MotionValues, Array]:
    """Motion under controls at the knots, and the derivative of its values in one direction of these."""
    u, direction = node
    zero = jnp.zeros(())
    motion, derivative = jax.jvp(lambda s: _motion(problem, u + s * direction), (zero,), (zero + 1.0,))
    return motion, derivative.values


class _Integration(NamedTuple):
    """State of the loop over steps: the node, the cost so far, and the status of the first step that failed."""

    node: State
    cost: Array
    status: Array


def _motion(problem: ShootingProblem, u: Array) -> _MotionValues:
    system, method, t0, span = problem.system, problem.method, problem.t0, problem.span
    h, knots = span / problem.n_steps, t0 + span * np.linspace(0, 1, len(u))
    clock = Clock(t0, h, lambda t: interpolated(t, knots, u))

    def cost(node: State) -> Array:
        t = clock.time(node.k)
        return h * problem.cost.at(system, t, node.g, clock.between(t))

    def advance(_: Array, done: _Integration) -> _Integration:
        node = method.next_node(system, clock, done.node)
        return _Integration(node, done.cost + cost(node), jnp.where(done.status == 0, node.status, done.status))

    first = method.first_node(system, clock, problem.g0, problem.xi0)
    begin = _Integration(first, cost(first) / 2, first.status)
    done = lax.fori_loop(0, problem.n_steps, advance, begin)
    last, J = done.node, done.cost - cost(done.node) / 2  # trapezoidal rule: half of the first and of the last node
    xi = system.velocity(system.at(last.g, t0 + span), (last.p_plus + last.p_minus) / 2)
    eta = system.group.log(system.group.compose(system.group.inverse(problem.g_end), last.g))
    values = jnp.concatenate([J[None], problem.g_rows @ eta, problem.xi_rows @ (xi - problem.xi_end)])
    return _MotionValues(values, done.status)


def interpolated(t: Any, knots: Any, u: Any) -> Array:
    """u(t), linear between equally spaced knots: Σ_j u_j·hat(place − j), of hat functions of the place among them."""
    place = (t - knots[0]) / (knots[-1] - knots[0]) * (len(knots) - 1)
    hats = jnp.clip(1 - jnp.abs(place - np.arange(len(knots))), 0.0, 1.0)
    return hats @ u
