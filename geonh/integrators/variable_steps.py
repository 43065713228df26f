"""Steps of variable length, of a method that another one makes: what all kinds have in common.

The time of a node, and the length of the step that follows, are memory of the method; guesses and inverses are those of
steps of length one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.arguments.validators import as_constant
from geonh.groups.base import Point
from geonh.integrators.base import Clock, Guarantees, Integrator, Outcome, State, Warm
from geonh.integrators.node import Pace
from geonh.integrators.validity import Result, held_at, judge, unless_risen
from geonh.mechanics.system import System

ROUNDING = 1e-18
"""Least tolerance: errors of this size are below rounding."""
FIRST_CHANGE = 0.01
"""Largest change of a coordinate of the group in the first step, relative to the size of g."""


class VariableSteps(Integrator):
    """Method with steps of variable length, each by another method: common parts.

    Attributes
    ----------
    method : Integrator
        Method that makes the steps.
    sizes : (float, float)
        Sizes of g and of ξ, to which errors are relative.
    """

    method: eqx.AbstractVar[Integrator]
    sizes: eqx.AbstractVar[Any]
    holds: ClassVar[type | None] = Pace

    @property
    def guarantees(self) -> Guarantees:
        return replace(self.method.guarantees, embedded=0)

    def refuse(self, system: System) -> None:
        self.method.refuse(system)

    def refuse_start(self, system: System, dt: float, g0: Point, xi0: Array) -> None:
        self.method.refuse_start(system, dt, g0, xi0)

    def cold(self, system: System, clock: Clock, k: Array, g: Point, xi: Array) -> Any:
        """Warm start of the method, for steps of length one, ``xi`` of shape=[n]."""
        return rescaled(self.method.cold(system, clock, k, g, xi), 1 / clock.dt)

    def residual(self, system: System, clock: Clock, state: State) -> Array:
        return self.method.residual(system, *self.inside(clock, state, state.memory.h))

    def next_node(self, system: System, clock: Clock, state: State) -> State:
        held, state = held_at(system, state, state.memory.t)
        after = self.judged(held, clock, state, self.step(held, clock, state))
        return unless_risen(system, after, after.memory.t)

    def first_length(self, clock: Clock, xi0: Array) -> Array:
        """At most dt, so that no coordinate of the group changes by more than ``FIRST_CHANGE`` of the size of g."""
        fastest = jnp.max(jnp.abs(xi0), initial=np.finfo(float).tiny)
        return jnp.sign(clock.dt) * jnp.minimum(jnp.abs(clock.dt), FIRST_CHANGE * self.sizes[0] / fastest)

    def next_within(self, system: System, clock: Clock, state: State) -> State:
        """Node after a step that is shortened to end at ``clock.end``; the node itself if that is there."""
        left = clock.end - state.memory.t
        nearer = jnp.abs(left) < jnp.abs(state.memory.h)
        begin = state._replace(memory=state.memory._replace(h=jnp.where(nearer, left, state.memory.h)))
        return lax.cond(is_at(state.memory.t, clock.end), lambda: state, lambda: self.next_node(system, clock, begin))

    def judged(self, system: System, clock: Clock, state: State, made: Outcome) -> State:
        """Node of an outcome, validated; its status is END if it is past the end of the run."""
        new = judge(system, state, made, made.memory.t, made.memory.t - state.memory.t)
        if clock.end is None:
            return new
        over = jnp.sign(clock.dt) * (made.memory.t - clock.end) > 0
        passes = over & ~is_at(made.memory.t, clock.end)
        return new._replace(status=jnp.where(passes & (new.status == 0), np.int32(Result.END), new.status))

    def inside(self, clock: Clock, state: State, h: Array) -> tuple[Clock, State]:
        """Clock and node as the method sees them in a step of length h: node 0, and its own memory."""
        pace = state.memory
        inner = state._replace(k=jnp.zeros_like(state.k), memory=pace.inner, warm=rescaled(state.warm, h))
        return Clock(pace.t, h, clock.function()), inner


def relative_error(sizes: tuple, place: Array, of_g: Array, of_xi: Array, *velocities: Array) -> Array:
    """Largest error of a step, of the logarithm of g and of ξ, shape=[n] each, relative to the sizes of both.

    That of g is the given one or the largest entry of ``place``, g as a vector; that of ξ is the given one and the
    largest component of the velocities at the ends of the step.
    """
    fastest = jnp.max(jnp.abs(jnp.stack(velocities)), initial=0.0)
    farthest = jnp.max(jnp.abs(place), initial=sizes[0])
    return jnp.maximum(
        jnp.max(jnp.abs(of_g), initial=0.0) / farthest, jnp.max(jnp.abs(of_xi), initial=0.0) / (sizes[1] + fastest)
    )


def as_tolerance(tolerance: Any) -> np.float64:
    """Validated tolerance; ValueError for one that the rounding of a step exceeds, with which steps were endless."""
    value = np.float64(as_constant(tolerance, "tolerance", positive=True))
    if value < ROUNDING:
        raise ValueError(f"tolerance must be at least {ROUNDING:g}, of the size of rounding errors, got {tolerance:g}")
    return value


def as_sizes(sizes: Any) -> tuple[np.float64, np.float64]:
    """Convert a user's input to the sizes of g and ξ; TypeError or ValueError for other input."""
    of_g, of_xi = as_constant(sizes, "sizes", (2,), positive=True)
    return of_g, of_xi


def is_at(t: Any, end: Any) -> Any:
    """True if times t, of any shape, are the end of a run, to rounding."""
    return abs(end - t) <= 4 * np.finfo(float).eps * abs(end)


def refuse_variable_steps(method: Any) -> None:
    """Raise ValueError for a method with steps of variable length."""
    if isinstance(method, VariableSteps):
        raise ValueError(
            f"{type(method).__name__} has steps of variable length, for solve, resume and integrate only; here they "
            f"are of one length, as of {type(method.method).__name__}"
        )


def without_derivatives(function: Callable[[Any], Any], tree: Any) -> Any:
    """``function(tree)`` as constants of differentiation: its loops are not differentiated."""
    leaves, structure = jax.tree.flatten(tree)
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Array)]

    @jax.custom_jvp
    def value(arrays: Any) -> Any:
        known = dict(zip(places, arrays, strict=True))
        return function(jax.tree.unflatten(structure, [known.get(i, leaf) for i, leaf in enumerate(leaves)]))

    @value.defjvp
    def _(primals: tuple, tangents: tuple) -> tuple:
        found = value(*primals)
        return found, jax.tree.map(_no_tangent, found)

    return value([leaves[i] for i in places])


def _no_tangent(a: Array) -> Any:
    is_float = jnp.issubdtype(a.dtype, jnp.floating)
    return jnp.zeros_like(a) if is_float else np.zeros(a.shape, jax.dtypes.float0)


def rescaled(warm: Any, factor: Any) -> Any:
    """Warm start with guesses multiplied, for steps of another length."""

    def changed(warm: Warm) -> Warm:
        return warm._replace(guess=warm.guess * factor)

    return jax.tree.map(changed, warm, is_leaf=lambda part: isinstance(part, Warm))
