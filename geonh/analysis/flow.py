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

from geonh.analysis.equations import with_parameters
from geonh.engine.compiled import mapped
from geonh.geometry.field import evaluated
from geonh.groups.base import Point
from geonh.integrators.base import Integrator
from geonh.integrators.node import Clock
from geonh.mechanics.holonomic import onto
from geonh.mechanics.system import System


class Shooting(NamedTuple):
    """Shooting problem: a system, a method in n steps, controls from t₀ on, and the boundary conditions.

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


class Shot(NamedTuple):
    """Result of a shot: residuals, ends of the motion, and derivatives by all of z; ``status`` of the last step."""

    residual: np.ndarray
    start: tuple[Point, np.ndarray]
    end: tuple[Point, np.ndarray]
    slope: np.ndarray
    start_slope: np.ndarray
    end_slope: np.ndarray
    status: int


def shot(shooting: Shooting, g: Point, xi: np.ndarray, span: float, value: float) -> Shot:
    """Motion and its derivatives by z, each of shape=[·, 2n + 2]."""
    n = shooting.system.group.dim
    directions = np.eye(2 * n + 2)
    node = jax.tree.map(
        lambda a: np.broadcast_to(a, (len(directions), *np.shape(a))), (g, xi, np.float64(span), np.float64(value))
    )
    (residual, start, end, status), slopes = mapped(_directional, shooting, (*node, directions))
    one = jax.tree.map(lambda a: a[0], (residual, start, end))
    return Shot(*one, *(np.asarray(s).T for s in slopes), int(status[0]))


def _directional(shooting: Shooting, node: tuple) -> tuple[tuple, tuple]:
    """Residual and ends of a motion, and their derivatives in one direction of z."""
    *begin, direction = node
    group = shooting.system.group

    def along(s: Array) -> tuple:
        return _motion(shooting, *begin, s * direction)

    zero = jnp.zeros(())
    (residual, start, end, status), (slope, start_rate, end_rate, _) = jax.jvp(along, (zero,), (zero + 1.0,))

    def perturbation(place: tuple, rate: tuple) -> Array:
        g, g_rate = place[0], rate[0]

        def apart(s: Array) -> Array:
            moved = jax.tree.map(lambda a, b: a + s * b, g, g_rate)
            return group.log(group.compose(group.inverse(g), moved))

        return jnp.concatenate([jax.jvp(apart, (zero,), (zero + 1.0,))[1], rate[1]])

    return (residual, start, end, status), (slope, perturbation(start, start_rate), perturbation(end, end_rate))


def _motion(shooting: Shooting, g: Point, xi: Array, span: Array, value: Array, z: Array) -> tuple:
    system, n = shooting.system, shooting.system.group.dim
    if shooting.parameter:
        system = with_parameters(system, {shooting.parameter: value + z[-1]})
    group, method, span = system.group, shooting.method, span + z[2 * n]
    t0 = jnp.asarray(shooting.t0)
    g = onto(system, group.compose(g, group.exp(z[:n])), t0)[0]
    xi = system.projected_velocity(system.at(g, t0), xi + z[n : 2 * n])
    clock = Clock(t0, span / shooting.n_steps, shooting.controls)
    state = method.first_node(system, clock, g, xi)

    def advance(_: Array, carry: tuple) -> tuple:
        state, status = carry
        new = method.next_node(system, clock, state)
        return new, jnp.where(status == 0, new.status, status)

    state, status = lax.fori_loop(0, shooting.n_steps, advance, (state, state.status))
    after = system.velocity(system.at(state.g, t0 + span), (state.p_plus + state.p_minus) / 2)
    parts = [shooting.returns(system, g, xi, state.g, after)]
    if shooting.conditions is not None:
        parts.append(jnp.ravel(evaluated("conditions", shooting.conditions, g, xi, span, system.parameters)))
    return jnp.concatenate(parts), (g, xi), (state.g, after), status
