"""The part of a momentum that alternates in sign from node to node: whether it has spoiled a run, and in words.

Methods that give an impulse at the node have one (GNI, RATTLE, SHAKE); ``observables`` measures it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from jax import Array

from geonh.mechanics.system import System
from geonh.numerics.compiled import computed
from geonh.numerics.dependence import depends
from geonh.numerics.precision import float64

if TYPE_CHECKING:
    from geonh.trajectory import Trajectory

ALTERNATING = 0.01
"""Above this an alternating part of the momentum, relative to the largest, is warned of."""


class AlternationWarning(UserWarning):
    """The part of p⁻ that alternates in sign from node to node has become large: the run is not to be trusted."""


def what_alternates(trajectory: Trajectory, since: float) -> str:
    """What is said of a run that is spoiled from a time on."""
    return (
        f"from t = {since:.4g}: a part of the momentum alternates in sign from node to node and reaches "
        f"{100 * trajectory.alternation.max():.3g} % of it; a smaller dt does not cure that, SymmetricProjection() "
        "(the default of solve) or Gauss(2) does"
    )


def may_alternate(trajectory: Trajectory) -> bool:
    """Whether the jumps of the momentum leave room for an alternating part, at little cost: no wrong no."""
    system, method = trajectory.system, trajectory.method
    if system is None or method is None or method.guarantees.node != "impulse":
        return False
    origin = system.group.identity()
    with float64():
        if depends(system.mass_matrix, system.at(origin, 0.0)):
            return True
    inverse = np.linalg.inv(computed(_mass_matrix, system, origin))
    half = (trajectory.p_minus - trajectory.p_plus) / 2
    if trajectory.save_every == 1 and len(trajectory) > 2:
        half = (half[2:] - 2 * half[1:-1] + half[:-2]) / 4  # what alternates stays, what is smooth goes
    scale = np.sqrt(np.diag(inverse))  # the kinetic norm lies between multiples of that of its diagonal
    low, high = np.linalg.eigvalsh(inverse / np.outer(scale, scale))[[0, -1]]
    momenta = trajectory.p_plus + trajectory.p_minus
    sizes = [np.square(v * scale).sum(axis=1).max() for v in (half, momenta)]
    return bool(high * sizes[0] > (0.1 * ALTERNATING) ** 2 * low * sizes[1] / 4)


def _mass_matrix(system: System, g: Any) -> Array:
    return system.mass_matrix(system.at(g, 0.0))
