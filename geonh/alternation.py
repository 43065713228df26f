"""The part of a momentum that alternates in sign from node to node: whether it has spoiled a run, and in words.

Methods that give an impulse at the node have one (GNI, RATTLE, SHAKE); ``observables`` measures it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import numpy as np

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
        f"{100 * trajectory.alternation.max():.2g} % of it; a smaller dt does not cure that, SymmetricProjection() "
        "(the default of solve) or Gauss(2) does"
    )


def may_alternate(trajectory: Trajectory) -> bool:
    """Whether the jumps of the momentum leave room for an alternating part, at little cost: no wrong no."""
    system, method = trajectory.system, trajectory.method
    half = (trajectory.p_minus - trajectory.p_plus) / 2
    if system is None or method is None or not np.any(half):
        return False
    if method.guarantees.node != "impulse":
        return False
    if trajectory.save_every == 1 and len(trajectory) > 2:
        half = (half[2:] - 2 * half[1:-1] + half[:-2]) / 4  # what alternates stays, what is smooth goes
    with float64():
        M = np.asarray(system.mass_matrix(system.action.at(jax.tree.map(lambda a: a[0], trajectory.g))))
    to_norm = np.linalg.inv(np.linalg.cholesky(M)).T  # |v|² in the kinetic norm is |v·to_norm|²
    momenta = trajectory.p_plus + trajectory.p_minus
    sizes = [np.square(v @ to_norm).sum(axis=1).max() for v in (half, momenta)]
    return bool(sizes[0] > (0.1 * ALTERNATING) ** 2 * sizes[1] / 4)
