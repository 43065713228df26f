"""The part of a momentum that alternates in sign from node to node: whether it has spoiled a run, and in words.

Methods that give an impulse at the node have one (GNI, RATTLE, SHAKE); ``observables`` measures it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from jax import Array

from geonh.mechanics.system import System
from geonh.numerics.compiled import computed, uses

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
    if uses(_mass_matrix, system, origin):
        return True
    inverse = np.linalg.inv(computed(_mass_matrix, system, origin))
    diagonal = np.diag(inverse)  # the kinetic norm lies between multiples of that of its diagonal
    with np.errstate(all="ignore"):
        sizes = np.sqrt(diagonal)
        scaled = inverse / sizes / sizes[:, None]
    if not np.all(np.isfinite(scaled)):  # masses at the edge of float64
        return True
    low, high = np.linalg.eigvalsh(scaled)[[0, -1]]
    smooth = trajectory.save_every == 1 and len(trajectory) > 2
    jump, whole = np.max([_sizes(*block, diagonal, smooth) for block in _blocks(trajectory)], axis=0)
    return bool(high * jump > (0.1 * ALTERNATING) ** 2 * low * whole)


def _blocks(trajectory: Trajectory, length: int = 2048) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """p⁻ and p⁺ in pieces small enough for the cache, which overlap by two nodes."""
    for begin in range(0, max(len(trajectory) - 2, 1), length):
        nodes = slice(begin, begin + length + 2)
        yield trajectory.p_minus[nodes], trajectory.p_plus[nodes]


def _sizes(p_minus: np.ndarray, p_plus: np.ndarray, weights: np.ndarray, smooth: bool) -> tuple[float, float]:
    """Largest squares of the jump p⁻ − p⁺ and of p⁻ + p⁺; of a smooth run, of what is not smooth in the jump."""
    jump = p_minus - p_plus
    if smooth:
        jump = (jump[2:] - 2 * jump[1:-1] + jump[:-2]) / 4  # what alternates stays, what is smooth goes
    return (np.square(jump) @ weights).max(), (np.square(p_minus + p_plus) @ weights).max()


def _mass_matrix(system: System, g: Any) -> Array:
    return system.mass_matrix(system.at(g, 0.0))
