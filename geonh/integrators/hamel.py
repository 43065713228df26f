r"""Methods in quasi-velocities: what they share.

A step solves the unconstrained equations on G × Rʳ (``geonh.mechanics.quasi_velocities``), so the constraint holds at
every node and every stage, by construction. The coordinates are y = Rξ with R an orthonormal basis of D where the step
begins, or in its middle for symmetric methods; which basis does not matter (but to Itoh–Abe's discrete gradient), and
what is handed on is only where the next step begins to look for its own. Forms R kept for many steps would be a memory
in the result, under which the energy of a reversible system drifts.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from geonh.groups.base import Point
from geonh.integrators.base import Clock, Integrator, State, arrived, rows_of
from geonh.mechanics.quasi_velocities import completing_forms, orthonormal_basis
from geonh.mechanics.system import System
from geonh.numerics.newton import no_inverse


class Advance(NamedTuple):
    """A step made: the next g and ξ; whether it was found, and the angle it turns a body by; the next guess and what
    Newton keeps."""

    g: Point
    xi: Array
    found: Array
    turn: Array
    guess: Array
    inverse: Array


class QuasiVelocityMethod(Integrator):
    """A one-step method in quasi-velocities; subclasses say how a step is made."""

    @abstractmethod
    def guess(self, system: System, clock: Clock, state: State) -> Array:
        """What ``State.increment`` holds at node 0: the guess of the first implicit solve, or an empty array."""

    @abstractmethod
    def advance(self, system: System, clock: Clock, state: State, xi: Array) -> Advance:
        """The step from ``state``, where the velocity is ξ."""

    def init(self, system: System, clock: Clock, g0: Point, xi0: Array) -> State:
        x = system.action.at(g0)
        p = system.momentum(x, xi0)
        R = completing_forms(system, x)
        state = State(jnp.asarray(0), g0, p, p, clock.dt * xi0, R, jnp.asarray(0, dtype=jnp.int32))
        guess = self.guess(system, clock, state)
        return state._replace(increment=guess, inverse=no_inverse(guess.size))

    def step(self, system: System, clock: Clock, state: State) -> State:
        x = system.action.at(state.g)
        made = self.advance(system, clock, state, system.velocity(x, state.p_minus))
        ahead = system.action.at(made.g)
        p = system.momentum(ahead, made.xi)
        before, after = state._replace(rows=rows_of(system, x)), rows_of(system, ahead)
        new = arrived(before, made.g, p, p, made.guess, after, made.inverse, found=made.found, turn=made.turn)
        return new._replace(rows=orthonormal_basis(system, ahead, state.rows))

    def residual(self, system: System, clock: Clock, state: State, new: State) -> Array:
        return jnp.zeros(())
