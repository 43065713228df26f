r"""Newton's iteration with an inverse Jacobian that is kept: from one correction to the next, and from call to call.

For few unknowns each correction after the first improves it by a Broyden update, so that it follows the Jacobian where
the solution moves; for many that costs more than it gains. The error after the k-th correction is estimated as δ_k
times the larger of δ_k/δ_{k−1} and δ_{k−1}/δ_{k−2} (where one unknown drives another the two alternate). An inverse
kept from where an equation was stiff misses errors where it no longer is: the correction is small, but the residual
stays large. With a kept inverse δ is therefore the larger of correction and residual, which must be in the units of z,
with a Jacobian near 1.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from geonh.algebra.corrections import FEW, applied, inverted, with_secant
from geonh.algebra.iterations import ROUNDING, SLOW, STAGNATION_RATIO, Estimate, Limits, Progress
from geonh.engine import jacobian

TRUST = 0.015
"""Contraction factor assumed for the first correction with a kept inverse, and a lower bound for that of the second:
if the unknowns move along a line, Broyden updates make the first correction almost exact in that direction only."""
STAGNANT = 1e-14
"""Relative size below which a correction that is not smaller than the one before counts as rounding."""
NOISE = 1e-12
"""The same where two corrections in a row are not, for many unknowns: the rounding of their equations may be larger, as
with the ill-conditioned metric of a long chain in relative coordinates."""
OUTDATED_RATIO = 10.0
"""Ratio of residual to correction above which a kept inverse Jacobian is recomputed."""


class QuasiNewtonStep(NamedTuple):
    """Last of the corrections with one inverse Jacobian.

    Attributes
    ----------
    before, z : array, shape=[n]
        The iterate before the correction, and after it.
    square : float
        Squared size of the correction or the residual, the larger of the two where the inverse is kept.
    ratio : float
        Ratio of that to the one before, squared contraction factor; infinite where the inverse is outdated.
    inverse : array, shape=[n, n]
        Inverse Jacobian, with Broyden updates.
    residual : array, shape=[n], or [0] where the inverse is not improved
        Residual at the iterate before.
    estimate : Estimate
    """

    before: Array
    z: Array
    square: Array
    ratio: Array
    inverse: Array
    residual: Array
    estimate: Estimate

    @property
    def shrinks(self) -> Array:
        """True if the correction is smaller than the one before."""
        return self.ratio < 1


class QuasiNewton(NamedTuple):
    """Iterations with one inverse Jacobian each: start and last iterate of the last one, whether the last is the
    better of the two, the inverse, whether it must be recomputed, and the progress."""

    start: Array
    z: Array
    better: Array
    inverse: Array
    renew: Array
    progress: Progress


def is_unknown(inverse: Array) -> Array:
    """True for ``no_inverse``, whose entries are zeros."""
    return jnp.max(jnp.abs(inverse[0])) == 0.0


@dataclass(frozen=True)
class QuasiNewtonIteration:
    """Iteration with a kept inverse Jacobian, recomputed if the corrections shrink too slowly.

    Sizes are squared. A correction is checked where it would be undone, so that the next need not wait for it.
    Parameters as of ``NewtonIteration``.
    """

    function: Callable[[Array], Array]
    limits: Limits
    floor: Array
    rounding: Array | None = None
    near: Array | None = None

    def root(self, start: Array, inverse: Array) -> tuple[Array, Array, Array]:
        """Last iterate, shape=[n], True if it converged, and the last inverse Jacobian, shape=[n, n]."""
        size = start @ start + self.floor * self.floor
        first = QuasiNewton(
            start, start, jnp.asarray(False), inverse, is_unknown(inverse), Progress.none(start, self.near)
        )
        at = lax.while_loop(
            lambda at: self.limits.try_again(at.progress), lambda at: self._with_one_inverse(at, size), first
        )
        return at.z, at.progress.estimate.is_root, at.inverse

    def _with_one_inverse(self, at: QuasiNewton, size: Array) -> QuasiNewton:
        """Corrections with the kept inverse, or with a new one, from the better iterate or the second guess."""
        is_new, (restarted, estimate) = at.renew, at.progress
        failed = ~self.limits.go_on(estimate)
        start, iterations = jnp.where(at.better, at.z, at.start), jnp.where(failed, 0, estimate.iterations)
        start = start if self.near is None else jnp.where(failed, self.near, start)
        infinite, zero = (jnp.asarray(x, start.dtype) for x in (jnp.inf, 0.0))
        begin = QuasiNewtonStep(
            start,
            start,
            _scale(start, size),
            zero,
            self._inverse_at(start, at.inverse, is_new),
            start if _is_improved(start) else start[:0],
            Estimate(infinite, zero, iterations),
        )

        def correct(last: QuasiNewtonStep) -> QuasiNewtonStep:
            return self._corrected(last, size, is_new, last.estimate.iterations == iterations)

        last = lax.while_loop(self._is_fast, correct, begin)
        z = lax.cond(last.shrinks | ~(last.estimate.error > 0), lambda: last.z, lambda: last.before)
        error = jnp.where(jnp.isnan(last.estimate.error) & ~is_new, infinite, last.estimate.error)
        estimate = last.estimate._replace(error=error)
        better = is_new | last.shrinks | ~self.limits.go_on(estimate)
        return QuasiNewton(start, z, better, last.inverse, jnp.asarray(True), Progress(restarted | failed, estimate))

    def _inverse_at(self, z: Array, inverse: Array, is_new: Array) -> Array:
        """Transposed inverse Jacobian at z if it is to be new, else the kept one."""

        def new(_: tuple[Array, Array]) -> tuple[Array, Array]:
            return inverted(jacobian(self.function, z, together=1).T), jnp.asarray(False)

        # A loop that runs once or not at all: under ``vmap`` a branch would compute the Jacobian always.
        return lax.while_loop(lambda carry: carry[1], new, (inverse, is_new))[0]

    def _corrected(self, last: QuasiNewtonStep, size: Array, is_new: Array, is_first: Array) -> QuasiNewtonStep:
        """Next correction, which is the first with this inverse or not, and the error after it."""
        residual = self.function(last.z)
        delta = applied(last.inverse, residual)
        z, square, residual_square = last.z - delta, delta @ delta, residual @ residual
        # The Jacobian was large where the inverse is from, and no longer is.
        is_outdated = ~is_new & (residual_square > OUTDATED_RATIO**2 * square)
        square = jnp.where(is_new, square, jnp.maximum(square, residual_square))
        scale, infinite = _scale(z, size), jnp.asarray(jnp.inf, z.dtype)
        ratio = jnp.where(is_outdated, infinite, square / last.square)
        stagnant = STAGNANT**2 * scale
        noise = stagnant if self.rounding is None else jnp.maximum(stagnant, (2 * self.rounding) ** 2)
        inverse = last.inverse
        if _is_improved(z):
            improved = functools.partial(with_secant, inverse, residual - last.residual, delta)
            inverse = lax.cond(~is_first & (square > noise), improved, lambda: inverse)
        # A first correction with a new Jacobian is always taken; with a kept one its contraction factor is assumed.
        of_first = jnp.where(is_new, jnp.minimum(ratio, STAGNATION_RATIO**2), TRUST**2)
        ratio = jnp.where(is_first, of_first, ratio)
        error = square * jnp.maximum(ratio, last.ratio)
        error = jnp.where((square < stagnant) & (ratio >= _slow(z) ** 2), 0.0, error)
        if not _is_improved(z):
            stagnates = ratio * last.ratio >= STAGNATION_RATIO**4
            error = jnp.where((square < NOISE**2 * scale) & stagnates, 0.0, error)
        if self.rounding is not None:
            error = jnp.where((square < noise) & (ratio >= STAGNATION_RATIO**2), 0.0, error)
        needs_another = is_first & ~is_new & (error > ROUNDING**2 * scale)
        error = jnp.where(is_outdated | needs_another, infinite, error)
        estimate = Estimate(error, self.limits.allowed**2 * scale, last.estimate.iterations + 1)
        value = residual if _is_improved(z) else last.residual
        return QuasiNewtonStep(last.z, z, square, ratio, inverse, value, estimate)

    def _is_fast(self, last: QuasiNewtonStep) -> Array:
        """True if another correction with this inverse is worth it."""
        fast = last.ratio < _slow(last.z) ** 2
        if not _is_improved(last.z):  # a new Jacobian is of no use if this is rounding, which the next one shows
            noise = (NOISE / self.limits.allowed) ** 2 * last.estimate.allowed
            fast |= (last.square < noise) & (last.ratio < jnp.inf)
        if self.rounding is not None:  # a new Jacobian does not help corrections that approach rounding
            fast |= (last.ratio < STAGNATION_RATIO**2) & (last.square < (2 * self.rounding) ** 2)
        return self.limits.go_on(last.estimate) & fast


def _is_improved(z: Array) -> bool:
    """True if the inverse Jacobian has Broyden updates: for few unknowns."""
    return z.size <= FEW


def _slow(z: Array) -> float:
    """Contraction factor above which the inverse is recomputed: for many unknowns that costs more than n residuals."""
    return SLOW if _is_improved(z) else 3 * SLOW


def _scale(z: Array, size: Array) -> Array:
    """Squared sum of |z| and the size of the start, which are similar."""
    return 2 * (z @ z + size)
