r"""Methods in quasi-velocities: what they share.

A step solves the unconstrained equations on G × Rʳ (``geonh.mechanics.quasi_velocities``), so the constraint holds at
every node and every stage, by construction. Velocities count modulo the normals of the distribution where the step
begins, or in its middle for symmetric methods. No basis is chosen, and nothing but a guess is handed on from step to
step: coordinates kept for many steps would be a memory in the result, under which the energy of a reversible system
drifts.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.groups.base import Point
from geonh.integrators.base import Clock, Integrator, State, arrived, begun, rows_of
from geonh.integrators.tableaux import interpolated
from geonh.mechanics.system import System
from geonh.numerics.newton import no_inverse, rescaled


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

    past = np.zeros(0)
    """Times in steps, from the node, of the hẇ that ``State.increment`` begins with."""

    @abstractmethod
    def advance(self, system: System, clock: Clock, state: State, xi: Array) -> Advance:
        """The step from ``state``, where the velocity is ξ."""

    def unknowns(self, system: System) -> tuple[int, int]:
        """Number of rows of ``State.increment``, zeros at node 0, and of the implicit equations."""
        return 0, 0

    def changes(self, state: State, at: np.ndarray | Array) -> Array:
        """hẇ at times in steps from the node, shape=[k, n], by the polynomial through those of the past."""
        return interpolated(self.past, state.increment[: len(self.past)], at)

    def stretched(self, state: State, ratio: Array | float) -> State:
        return super().stretched(state, ratio)._replace(inverse=rescaled(state.inverse, ratio))

    def init(self, system: System, clock: Clock, g0: Point, xi0: Array) -> State:
        p, (kept, n) = system.momentum(system.action.at(g0), xi0), self.unknowns(system)
        return begun(system, g0, p, p, jnp.zeros((kept, system.group.dim)), no_inverse(n))

    def step(self, system: System, clock: Clock, state: State) -> State:
        made = self.advance(system, clock, state, system.velocity(system.action.at(state.g), state.p_minus))
        x = system.action.at(made.g)
        p, rows = system.momentum(x, made.xi), rows_of(system, x)
        return arrived(state, made.g, p, p, made.guess, rows, made.inverse, found=made.found, turn=made.turn)

    def residual(self, system: System, clock: Clock, state: State, new: State) -> Array:
        return jnp.zeros(())
