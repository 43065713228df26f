r"""Common parts of the methods in quasi-velocities.

A step solves the unconstrained equations on G × Rʳ (``geonh.mechanics.quasi_velocities``), so the constraint holds at
every node and every stage, by construction. Velocities are defined modulo the normals of the distribution at the start
of the step, or at its midpoint for symmetric methods. No basis is chosen, and only a guess is passed from step to
step: coordinates kept for many steps would be a memory in the result, under which the energy of a reversible system
drifts.
"""

from __future__ import annotations

from typing import Any

from jax import Array

from geonh.groups.base import Point
from geonh.integrators.base import Outcome, Warm
from geonh.mechanics.system import System


def velocity_node(
    system: System, x: Any, g: Point, xi: Array, turn: Any, *, guess: Any = None, converged: Any = True
) -> Outcome:
    """Next node from (g, ξ), with its base point x."""
    p = system.momentum(x, xi)
    return Outcome(g, p, p, warm=Warm() if guess is None else Warm(guess), converged=converged, turn=turn, xi=xi)
