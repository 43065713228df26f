"""Coefficients of Runge–Kutta methods: pairs (a, b), and an explicit step."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import Array

_S5, _S15 = 5.0**0.5, 15.0**0.5

RK4 = np.array([[0, 0, 0, 0], [0.5, 0, 0, 0], [0, 0.5, 0, 0], [0, 0, 1, 0]]), np.array([1, 2, 2, 1]) / 6
BUTCHER6 = (  # Butcher 1964, seven stages, order 6
    np.array(
        [
            [0, 0, 0, 0, 0, 0, 0],
            [(5 - _S5) / 10, 0, 0, 0, 0, 0, 0],
            [-_S5 / 10, (5 + 2 * _S5) / 10, 0, 0, 0, 0, 0],
            [(-15 + 7 * _S5) / 20, (-1 + _S5) / 4, (15 - 7 * _S5) / 10, 0, 0, 0, 0],
            [(5 - _S5) / 60, 0, 1 / 6, (15 + 7 * _S5) / 60, 0, 0, 0],
            [(5 + _S5) / 60, 0, (9 - 5 * _S5) / 12, 1 / 6, (-5 + 3 * _S5) / 10, 0, 0],
            [1 / 6, 0, (-55 + 25 * _S5) / 12, (-25 - 7 * _S5) / 12, 5 - 2 * _S5, (5 + _S5) / 2, 0],
        ]
    ),
    np.array([1 / 12, 0, 0, 0, 5 / 12, 5 / 12, 1 / 12]),
)
GAUSS = {
    1: (np.array([[0.5]]), np.array([1.0])),
    2: (np.array([[0.25, 0.25 - 3**0.5 / 6], [0.25 + 3**0.5 / 6, 0.25]]), np.array([0.5, 0.5])),
    3: (
        np.array(
            [
                [5 / 36, 2 / 9 - _S15 / 15, 5 / 36 - _S15 / 30],
                [5 / 36 + _S15 / 24, 2 / 9, 5 / 36 - _S15 / 24],
                [5 / 36 + _S15 / 30, 2 / 9 + _S15 / 15, 5 / 36],
            ]
        ),
        np.array([5, 8, 5]) / 18,
    ),
}

EULER = np.zeros((1, 1)), np.ones(1)
DORMAND_PRINCE = (
    np.array(
        [
            [0, 0, 0, 0, 0, 0],
            [1 / 5, 0, 0, 0, 0, 0],
            [3 / 40, 9 / 40, 0, 0, 0, 0],
            [44 / 45, -56 / 15, 32 / 9, 0, 0, 0],
            [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0],
            [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0],
        ]
    ),
    np.array([35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84]),
)
DORMAND_PRINCE_ERROR = np.array([71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40])
"""Weights of the fifth order minus those of the embedded fourth; the seventh stage is at the end of the step."""

EXPLICIT = {"euler": (EULER, 1, 2.0), "rk4": (RK4, 4, 2.78), "dormand-prince": (DORMAND_PRINCE, 5, 3.3)}
"""Tableau, order, and length of the real interval of stability."""


def weighted(weights: np.ndarray | Array, slopes: list[Array], size: int) -> Array:
    """Weighted sum Σ wᵢ sᵢ over the slopes that exist and the nonzero weights."""
    total = jnp.zeros(size)
    for weight, slope in zip(weights, slopes, strict=False):
        total = total + weight * slope
    return total


def interpolation(nodes: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Interpolation matrix, shape=[k, s], from values at s nodes to those of their polynomial at k points."""
    others = [np.delete(nodes, j) for j in range(len(nodes))]
    return np.stack([np.prod((at[:, None] - o) / (c - o), axis=1) for c, o in zip(nodes, others, strict=True)], axis=1)


def explicit_step(
    slope: Callable[[float, Array], Array], tableau: tuple[np.ndarray, np.ndarray], h: Array, start: Array
) -> Array:
    """Explicit Runge–Kutta step y + hΣbᵢkᵢ, kᵢ = slope(cᵢ, y + hΣaᵢⱼkⱼ), in a vector space; c in units of the step."""
    a, b = tableau
    slopes: list[Array] = []
    for i in range(len(b)):
        slopes.append(slope(float(np.sum(a[i])), start + weighted(h * a[i], slopes, start.size)))
    return start + weighted(h * b, slopes, start.size)
