r"""Methods in quasi-velocities: what they share.

A step solves the unconstrained equations on G × Rʳ (``geonh.mechanics.quasi_velocities``), so the constraint holds at
every node and every stage, by construction. Velocities count modulo the normals of the distribution where the step
begins, or in its middle for symmetric methods. No basis is chosen, and nothing but a guess is handed on from step to
step: coordinates kept for many steps would be a memory in the result, under which the energy of a reversible system
drifts.
"""

from __future__ import annotations

from typing import Any

from jax import Array

from geonh.groups.base import Point
from geonh.integrators.base import Outcome, State, Warm
from geonh.mechanics.system import System


def node_velocity(system: System, state: State) -> Array:
    """ξ at a node where p⁺ = p⁻, shape=[n]."""
    return system.velocity(system.action.at(state.g), state.p_minus)


def velocity_node(system: System, g: Point, xi: Array, turn: Any, *, guess: Array | None = None) -> Outcome:
    """The next node, of (g, ξ)."""
    p = system.momentum(system.action.at(g), xi)
    return Outcome(g, p, p, warm=Warm() if guess is None else Warm(guess), turn=turn, xi=xi)
