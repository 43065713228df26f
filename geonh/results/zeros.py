r"""Zeros of functions along a step: where they may be, brackets of their sign changes, and their location.

On a step the motion is a curve on the group, s ∈ [0, 1]. Five samples along it determine a polynomial, which has no
more zeros than its Bernstein coefficients have sign changes, and as many up to an even number (Descartes): no sign
change means no zero, one means one zero. With more, the interval is bisected until the zeros are isolated. Each
bracket is then reduced by the ITP method (Oliveira, Takahashi, *ACM TOMS* 47 (2021) 5), which needs as few
evaluations as the secant method and at most one more than bisection.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from geonh.engine import once

TOLERANCE = 1e-13
"""Tolerance of a root in s, relative to the step."""
NEAREST = 2.0**-16
"""Fraction of a step below which zeros are not resolved."""
MOST = 128
"""Maximum number of intervals of a step that are bisected at once."""
SMALL = 1e-3
"""A sign change is a jump if the function next to it exceeds this fraction of its variation around it."""
LEAST = 1e-300
"""Replacement for a zero, with the sign that follows it."""
PLACES = np.linspace(0.0, 1.0, 5)
"""Sample points in an interval."""
BERNSTEIN = np.linalg.inv([[comb(4, i) * s**i * (1 - s) ** (4 - i) for i in range(5)] for s in PLACES])
"""Bernstein coefficients on [0, 1] of the polynomial with given values at ``PLACES``."""


def crossed(before: Any, after: Any, direction: Any) -> Any:
    """True where values change sign from one node to the next, elementwise: from nonzero onto zero or past it."""
    up, down = (before < 0) & (after >= 0), (before > 0) & (after <= 0)
    return (up & (direction >= 0)) | (down & (direction <= 0))


def suspected(values: Array, directions: Array) -> Array:
    """True where functions may have zeros of the wanted directions in a step, shape=[events], by their values at the
    ``PLACES``, shape=[5, events]; False where one is zero over the whole step, or nan at one of its ends.
    """
    begin, end = values[0], values[-1]
    coefficients = jnp.concatenate([begin[None], jnp.asarray(BERNSTEIN[1:-1]) @ values, end[None]])
    positive, negative = coefficients > 0, coefficients < 0
    one = jnp.all(positive | negative, axis=0) & (jnp.sum(positive[1:] != positive[:-1], axis=0) == 1)
    none = jnp.all(positive, axis=0) | jnp.all(negative, axis=0) | jnp.all(values == 0, axis=0)
    unwanted = one & ~crossed(begin, end, directions)
    return ~(none | unwanted | jnp.isnan(begin) | jnp.isnan(end))


class Brackets(NamedTuple):
    """Intervals of steps, each with one sign change of a function, along the first axis.

    Attributes
    ----------
    row : ndarray of int, shape=[K]
        Index of the function.
    a, b : ndarray, shape=[K]
        Ends of the interval, as fractions of the step.
    at_a, at_b : ndarray, shape=[K]
        Values there, which differ in sign.
    """

    row: np.ndarray
    a: np.ndarray
    b: np.ndarray
    at_a: np.ndarray
    at_b: np.ndarray

    def taken(self, which: np.ndarray) -> Brackets:
        """Some of the intervals."""
        return Brackets(*(part[which] for part in self))


def brackets(sample: Callable[[np.ndarray, np.ndarray], np.ndarray], ends: np.ndarray) -> Brackets:
    """Bracket the sign changes of functions in steps: intervals with one sign change each.

    Parameters
    ----------
    sample : callable
        (row, s) → values of the functions of these rows at the fractions s of their steps, all of shape=[N].
    ends : ndarray, shape=[rows, 2]
        Values at both ends of the steps. A zero there is one that stays zero.

    Returns
    -------
    Brackets
    """
    row, a, width, new = np.arange(len(ends)), np.zeros(len(ends)), 1.0, [1, 2, 3]
    values = np.full((len(ends), 5), np.nan)
    values[:, 0], values[:, 4] = ends[:, 0], np.where(ends[:, 1] == 0, -LEAST * np.sign(ends[:, 0]), ends[:, 1])
    intervals = []
    while len(row):
        places = a[:, None] + width * PLACES
        values[:, new] = sample(np.repeat(row, len(new)), places[:, new].ravel()).reshape(-1, len(new))
        for i in reversed(range(4)) if np.any(values == 0) else ():
            values[:, i] = np.where(values[:, i] == 0, np.copysign(LEAST, values[:, i + 1]), values[:, i])
        finite = np.isfinite(values)
        changes = np.diff(np.where(finite, values, 0.0) @ BERNSTEIN.T > 0, axis=1).sum(axis=1)
        many = ~finite.all(axis=1) | (changes > 1)
        apart = many & (width > NEAREST) & (np.bincount(row[many], minlength=len(ends))[row] <= MOST)
        # for one sign change the two samples around it, for several unresolved ones the ends of the interval
        begin = np.where(many, 0, np.argmax(np.diff(values > 0, axis=1), axis=1))
        end, each = np.where(many, 4, begin + 1), np.arange(len(row))
        at_a, at_b = values[each, begin], values[each, end]
        there = ~apart & (at_a * np.sign(at_b) < 0)
        intervals.append(Brackets(row, places[each, begin], places[each, end], at_a, at_b).taken(there))
        if not apart.any():
            break
        halves = np.full((int(apart.sum()), 2, 5), np.nan)
        halves[:, 0, ::2], halves[:, 1, ::2] = values[apart, :3], values[apart, 2:]
        row, a, width, new = np.repeat(row[apart], 2), places[apart][:, [0, 2]].ravel(), width / 2, [1, 3]
        values = halves.reshape(-1, 5)
    return Brackets(*(np.concatenate(parts) for parts in zip(*intervals, strict=True)))


def root(
    function: Callable[[Array], tuple[Array, Any]],
    begin: Array,
    rounding: Array | float = 0.0,
    interval: tuple[ArrayLike, ArrayLike] = (0.0, 1.0),
) -> Any:
    """Auxiliary output of a function s → (value, more), a scalar and a pytree, at its sign change in (a, b].

    It is located by the ITP method, from a nonzero value ``begin`` at a, to the rounding error of s; if a = b, the
    function is evaluated there. Without a sign change it is the output at b. Points with a non-finite value are
    skipped, and the search continues beyond them; nan if no value is finite.
    """
    function = once(function)
    start, stop = (jnp.asarray(end, float) for end in interval)
    sign, half, span = -jnp.sign(begin), TOLERANCE / 2 + rounding, stop - start
    bound = jnp.ceil(jnp.log2(jnp.maximum(span / (2 * half), 1.0))) + 1.0

    def narrow(carry: Any) -> Any:
        (a, at_a), (b, at_b), j, known = carry
        middle, width = (a + b) / 2, b - a
        reach = jnp.maximum(half * 2.0 ** (bound - j) - width / 2, 0.0)
        secant = (at_b * a - at_a * b) / (at_b - at_a)
        gap = jnp.abs(middle - secant)
        shift = jnp.maximum(0.2 * width**2 / span, half)
        inwards = jnp.where(shift <= gap, secant + jnp.sign(middle - secant) * shift, middle)
        inwards = jnp.clip(inwards, middle - reach, middle + reach)
        s = jnp.where(j == 0.0, stop, inwards)
        value, more = function(s)
        value = sign * value
        past = value >= 0
        is_end = ~jnp.isfinite(value) | ((value < 0) & (at_b == 0))  # the first zero, where it stays one
        known = jax.tree.map(lambda new, old: jnp.where(is_end, old, new), more, known)
        left = (jnp.where(past, a, s), jnp.where(value < 0, value, at_a))
        right = (jnp.where(past, s, b), jnp.where(past, value, at_b))
        return left, right, j + 1.0, known

    def unfinished(carry: Any) -> Array:
        (a, _), (b, _), j, _ = carry
        return (j == 0.0) | ((b - a > 2 * half) & (j < bound + 4.0))

    nothing = jax.tree.map(lambda a: jnp.full(a.shape, jnp.nan, a.dtype), jax.eval_shape(function, start)[1])
    first: Any = (start, sign * begin), (stop, jnp.ones(())), jnp.zeros(()), nothing
    return lax.while_loop(unfinished, narrow, first)[3]
