"""Coefficients of Runge–Kutta methods: pairs (a, b), and an explicit step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

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
DORMAND_PRINCE_8 = (  # Hairer, Nørsett, Wanner 1993, §II.10: DOP853, twelve stages, order 8
    np.array(
        [
            [*[0.0] * 12],
            [0.05260015195876773, *[0.0] * 11],
            [0.0197250569845379, 0.0591751709536137, *[0.0] * 10],
            [0.02958758547680685, 0, 0.08876275643042054, *[0.0] * 9],
            [0.2413651341592667, 0, -0.8845494793282861, 0.924834003261792, *[0.0] * 8],
            [0.037037037037037035, 0, 0, 0.17082860872947386, 0.12546768756682242, *[0.0] * 7],
            [0.037109375, 0, 0, 0.17025221101954405, 0.06021653898045596, -0.017578125, *[0.0] * 6],
            [
                0.03709200011850479,
                0,
                0,
                0.17038392571223998,
                0.10726203044637328,
                -0.015319437748624402,
                0.008273789163814023,
                *[0.0] * 5,
            ],
            [
                0.6241109587160757,
                0,
                0,
                -3.3608926294469414,
                -0.868219346841726,
                27.59209969944671,
                20.154067550477894,
                -43.48988418106996,
                *[0.0] * 4,
            ],
            [
                0.47766253643826434,
                0,
                0,
                -2.4881146199716677,
                -0.590290826836843,
                21.230051448181193,
                15.279233632882423,
                -33.28821096898486,
                -0.020331201708508627,
                *[0.0] * 3,
            ],
            [
                -0.9371424300859873,
                0,
                0,
                5.186372428844064,
                1.0914373489967295,
                -8.149787010746927,
                -18.52006565999696,
                22.739487099350505,
                2.4936055526796523,
                -3.0467644718982196,
                0,
                0,
            ],
            [
                2.273310147516538,
                0,
                0,
                -10.53449546673725,
                -2.0008720582248625,
                -17.9589318631188,
                27.94888452941996,
                -2.8589982771350235,
                -8.87285693353063,
                12.360567175794303,
                0.6433927460157636,
                0,
            ],
        ]
    ),
    np.array(
        [
            0.054293734116568765,
            *[0.0] * 4,
            4.450312892752409,
            1.8915178993145003,
            -5.801203960010585,
            0.3111643669578199,
            -0.1521609496625161,
            0.20136540080403034,
            0.04471061572777259,
        ]
    ),
)
_DORMAND_PRINCE_8_ERRORS = (
    np.array(
        [
            0.01312004499419488,
            *[0.0] * 4,
            -1.2251564463762044,
            -0.4957589496572502,
            1.6643771824549864,
            -0.35032884874997366,
            0.3341791187130175,
            0.08192320648511571,
            -0.022355307863886294,
        ]
    ),
    np.array(
        [
            -0.18980075407240762,
            *[0.0] * 4,
            4.450312892752409,
            1.8915178993145003,
            -5.801203960010585,
            -0.4226823213237919,
            -0.1521609496625161,
            0.20136540080403034,
            0.02265179219836082,
        ]
    ),
)


class Embedded(NamedTuple):
    """Embedded error estimate of an explicit method.

    Attributes
    ----------
    order : int
        The estimate is O(h^{order + 1}).
    a : ndarray, shape=[s, s or s - 1]
        Matrix of the stages that it uses.
    weights : tuple of ndarray, shape=[s]
        Weights of the method minus those of embedded ones, of which the first gives the error e, and a second one
        corrects it: e |e|/√(|e|² + |e₂|²/100).
    """

    order: int
    a: np.ndarray
    weights: tuple[np.ndarray, ...]


EMBEDDED = {
    5: Embedded(
        4,
        np.vstack(DORMAND_PRINCE),
        (np.array([71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40]),),
    ),
    8: Embedded(7, DORMAND_PRINCE_8[0], _DORMAND_PRINCE_8_ERRORS),
}
"""Error estimates by the order of the method: of Dormand and Prince, with a seventh stage at the end of the step; of
Hairer, by embedded methods of the orders 5 and 3."""

EXPLICIT = {"euler": (EULER, 1, 2.0), "rk4": (RK4, 4, 2.78), "dormand-prince": (DORMAND_PRINCE, 5, 3.3)}
"""Tableau, order, and length of the real interval of stability."""


def estimated(errors: Sequence[Array]) -> Array:
    """Error estimate, shape=[n], from the sums of an embedded method's weights."""
    error, *other = errors
    if not other:
        return error
    square = jnp.sum(error**2)
    return error * jnp.sqrt(square / jnp.maximum(square + 0.01 * jnp.sum(other[0] ** 2), np.finfo(float).tiny))


def interpolation(nodes: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Interpolation matrix, shape=[k, s], from values at s nodes to those of their polynomial at k points."""
    others = [np.delete(nodes, j) for j in range(len(nodes))]
    return np.stack([np.prod((at[:, None] - o) / (c - o), axis=1) for c, o in zip(nodes, others, strict=True)], axis=1)


def weighted_slopes(
    slope: Callable[[Any, Array], Array],
    a: np.ndarray,
    weights: Sequence[np.ndarray],
    size: int,
    h: Array,
    *,
    loop: bool = False,
) -> list[Array]:
    """Sums hΣwᵢkᵢ, shape=[size], for each of some weights w, of the slopes kᵢ = slope(cᵢ, hΣaᵢⱼkⱼ) at the stages in the
    rows of a; c in units of the step.

    Stages of which each depends on the one before alone, as those of the classical method, are in a loop, and others
    where asked: the program is as short as that of two stages.
    """
    first, one_by_one = slope(0.0, jnp.zeros(size)), not np.any(np.tril(a, -2)) and len(a) > 2
    if not loop and not one_by_one:
        slopes = [first]
        for row in a[1:]:
            slopes.append(slope(float(np.sum(row)), _weighted(row, slopes, size, h)))
        return [_weighted(w, slopes, size, h) for w in weights]
    square = np.pad(a, [(0, 0), (0, len(a) - a.shape[1])])
    rows = jnp.asarray(np.diag(square, -1)[:, None] if one_by_one else square[1:])
    c, w = jnp.asarray(a.sum(axis=1)[1:]), jnp.asarray([np.pad(w, (0, len(a) - len(w))) for w in weights]).T

    def following(i: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        known, sums = carry
        k = slope(c[i], h * rows[i] @ known)
        return k[None] if one_by_one else known.at[i + 1].set(k), sums + jnp.outer(h * w[i + 1], k)

    known = first[None] if one_by_one else jnp.zeros((len(a), size)).at[0].set(first)
    return list(lax.fori_loop(0, len(c), following, (known, jnp.outer(h * w[0], first)))[1])


def _weighted(weights: np.ndarray, slopes: list[Array], size: int, h: Array) -> Array:
    """Weighted sum hΣwᵢkᵢ over the slopes that exist and the nonzero weights."""
    total = jnp.zeros(size)
    for weight, slope in zip(weights, slopes, strict=False):
        total = total + h * weight * slope if weight else total
    return total


def explicit_step(
    slope: Callable[[float, Array], Array], tableau: tuple[np.ndarray, np.ndarray], h: Array, start: Array
) -> Array:
    """Explicit Runge–Kutta step y + hΣbᵢkᵢ, kᵢ = slope(cᵢ, y + hΣaᵢⱼkⱼ), in a vector space; c in units of the step."""
    a, b = tableau
    return start + weighted_slopes(lambda c, change: slope(c, start + change), a, [b], start.size, h)[0]
