"""Prediction of the unknowns of a step by extrapolation of the last solutions, as initial guess of Newton's method."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax

Weights = tuple[float, ...]
SMOOTH: tuple[Weights, ...] = (
    (-1.0, 6.0, -15.0, 20.0, -15.0, 6.0),
    (-1.0, 8.0, -28.0, 56.0, -70.0, 56.0, -28.0, 8.0),
)
"""Predictors of methods whose solutions are smooth in k: each the weights of the last solutions, oldest first, exact
for polynomials of a degree. The first makes the guess; each later one, which amplifies rounding more, replaces it where
the two differ by more than ``NOISE``. Methods whose solutions alternate (GNI, RATTLE, SHAKE) have their own, in
``predictors``."""
NOISE = 1e-13
"""Difference of two predictors, relative to the solution, below which the earlier one is kept: a hundred times the
rounding of the solutions or more, and small enough for one correction."""


def repeated(z: Array, predictors: tuple[Weights, ...] = SMOOTH) -> Array:
    """Initial history for ``continued``, shape=[most weights, r]: the solution z, shape=[r], repeated."""
    return jnp.stack([z] * max(map(len, predictors)))


def continued(past: Array, predictors: tuple[Weights, ...] = SMOOTH) -> Array:
    """Extrapolation of the next solution, shape=[r], from the last ones, shape=[most weights, r], by the predictors.

    If the prediction is far from the last solution, that is used instead.
    """
    last = past[-1]
    guesses = [sum((w * z for w, z in zip(v, past[-len(v) :], strict=True)), jnp.zeros(())) for v in predictors]
    ahead = guesses[0]
    for better in guesses[1:]:
        change = better - ahead
        ahead = _first_if(change @ change < NOISE**2 * (last @ last), ahead, better)
    change = ahead - last
    return _first_if(4 * (change @ change) < last @ last, ahead, last)


def _first_if(condition: Array, first: Array, second: Array) -> Array:
    return lax.cond(condition, lambda: first, lambda: second)


def followed_by(past: Array, z: Array) -> Array:
    """Append a solution, shape=[r], to the last ones."""
    return jnp.concatenate([past[1:], z[None]])
