"""Programs of a Kalman filter: a step from a state, and a state with an error, with their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from geonh.analysis.flow import Integration, integrated
from geonh.control.interval import relative
from geonh.engine import jacobian
from geonh.geometry.field import evaluated
from geonh.groups.base import Point
from geonh.integrators.base import Integrator
from geonh.integrators.clock import Clock
from geonh.integrators.symmetric_projection import SymmetricProjection
from geonh.mechanics.holonomic import onto
from geonh.mechanics.system import System


class ObservedModel(NamedTuple):
    """A system, a method with its time step, and the observation of a state."""

    system: System
    method: Integrator
    dt: Any
    observe: Callable
    takes_parameters: bool


class Advanced(NamedTuple):
    """State after a step, its status, the derivative A, shape=[2n, 2n], and ∂ξ/∂p at the start, shape=[n, n]."""

    g: Point
    xi: Any
    status: Array
    slope: Array
    mobility: Array


class Corrected(NamedTuple):
    """State by an error, its observation, and the derivatives J of its error and H of its observation."""

    g: Point
    xi: Any
    observation: Array
    reset: Any
    slope: Array


def _projected(system: System, t: Array, g: Point, xi: Array, z: Array) -> tuple[Point, Array]:
    """State g exp(η), ξ + δ, on the constraints."""
    n = system.group.dim
    place = onto(system, system.group.compose(g, system.group.exp(z[:n])), t)[0]
    return place, system.projected_velocity(system.at(place, t), xi + z[n:])


def advanced(model: ObservedModel, node: tuple) -> Advanced:
    system, method, group = model.system, model.method, model.system.group
    t, g, xi, u = node
    controls: Any = (
        None if not len(u) else (jnp.stack([u, u]) if isinstance(method, SymmetricProjection) else lambda _: u)
    )
    clock, zero = Clock(t, model.dt, controls), jnp.zeros(2 * group.dim)

    def arrived(z: Array) -> tuple[Point, Array, Array]:
        first = method.first_node(system, clock, *_projected(system, t, g, xi, z))
        last, status = integrated(system, method, clock, Integration(first, first.status), 1)
        return last.g, system.velocity(system.at(last.g, clock.time(1)), (last.p_plus + last.p_minus) / 2), status

    g_new, xi_new, status = arrived(zero)

    def error(z: Array) -> Array:
        g_other, xi_other, _ = arrived(z)
        return jnp.concatenate([relative(group, (g_new, g_other)), xi_other - xi_new])

    x = system.at(g, t)
    mobility = jacobian(lambda p: system.velocity(x, p), system.momentum(x, xi))
    return Advanced(g_new, xi_new, status, jacobian(error, zero), mobility)


def corrected(model: ObservedModel, node: tuple) -> Corrected:
    system, group = model.system, model.system.group
    t, g, xi, e = node
    g_new, xi_new = _projected(system, t, g, xi, e)
    more = (system.parameters,) if model.takes_parameters else ()

    def together(z: Array) -> Array:
        g_other, xi_other = _projected(system, t, g, xi, e + z)
        y = jnp.ravel(evaluated("observe", model.observe, g_other, xi_other, *more))
        return jnp.concatenate([relative(group, (g_new, g_other)), xi_other - xi_new, y])

    zero, n_states = jnp.zeros(2 * group.dim), 2 * group.dim
    slopes = jacobian(together, zero)
    return Corrected(g_new, xi_new, together(zero)[n_states:], slopes[:n_states], slopes[n_states:])
