r"""Methods in quasi-velocities: what they share.

A step takes (g, y) of the unconstrained equations on G × Rʳ (``geonh.mechanics.quasi_velocities``) to the next node, in
the coordinates of forms R that are kept from step to step. The constraint holds at every node and every stage, by
construction. R is renewed between steps only where the coordinates become bad, so that symmetric methods stay so.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from geonh.groups.base import Point
from geonh.groups.retraction import Retraction
from geonh.integrators.base import Clock, Integrator, Result, State, first_failure, rank_lost, rows_of
from geonh.mechanics.quasi_velocities import completing_forms, frame, velocity
from geonh.mechanics.system import System
from geonh.numerics.linear import gram_schmidt
from geonh.numerics.newton import no_inverse

WORST = 4.0
"""R is renewed where the squared length of a vector of its dual frame exceeds this."""


class Advance(NamedTuple):
    """A step made: the next g and y; whether it was found, and the angle it turns a body by; the next guess and what
    Newton keeps."""

    g: Point
    y: Array
    found: Array
    turn: Array
    guess: Array
    inverse: Array


class QuasiVelocityMethod(Integrator):
    """A one-step method for (g, y); subclasses say how a step is made."""

    @abstractmethod
    def retraction_on(self, system: System) -> Retraction:
        """The retraction used on a system."""

    def refuse(self, system: System) -> None:
        self.retraction_on(system)

    @abstractmethod
    def guess(self, system: System, clock: Clock, state: State) -> Array:
        """What ``State.increment`` holds at node 0: the guess of the first implicit solve, or an empty array."""

    @abstractmethod
    def advance(self, system: System, clock: Clock, state: State, y: Array) -> Advance:
        """The step from ``state``, where the quasi-velocity is y."""

    def init(self, system: System, clock: Clock, g0: Point, xi0: Array) -> State:
        x = system.action.at(g0)
        p = system.momentum(x, xi0)
        R = completing_forms(system, x)
        state = State(jnp.asarray(0), g0, p, p, clock.dt * xi0, R, jnp.asarray(0, dtype=jnp.int32))
        guess = self.guess(system, clock, state)
        return state._replace(increment=guess, inverse=no_inverse(guess.size))

    def step(self, system: System, clock: Clock, state: State) -> State:
        x = system.action.at(state.g)
        y = state.rows @ system.velocity(x, state.p_minus)
        made = self.advance(system, clock, state, y)
        ahead = system.action.at(made.g)
        p = system.momentum(ahead, velocity(system, ahead, made.y, state.rows))
        status = first_failure(
            (~jnp.isfinite(jnp.sum(p)) & made.found, Result.NOT_FINITE),
            (~made.found, Result.NEWTON),
            (made.turn >= jnp.pi, Result.CHART),
            (rank_lost(rows_of(system, x), rows_of(system, ahead)), Result.RANK),
        )
        return State(state.k + 1, made.g, p, p, made.guess, state.rows, status, made.inverse)

    def recentre(self, system: System, state: State) -> State:
        if system.distribution is None:
            return state
        dual = frame(system, system.action.at(state.g), state.rows)
        bad = jnp.max(jnp.sum(dual * dual, axis=1)) > WORST
        return state._replace(rows=jnp.where(bad, gram_schmidt(dual, jnp.eye(system.group.dim)), state.rows))

    def residual(self, system: System, clock: Clock, state: State, new: State) -> Array:
        return jnp.zeros(())
