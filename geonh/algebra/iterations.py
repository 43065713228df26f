r"""Newton's iteration with a Jacobian at its start: full corrections near a root, damped ones far from it.

A correction of relative size δ₁ with a fresh Jacobian leaves an error of about δ₁², and later ones with the same
Jacobian one of δ_k²/δ_{k−1}. With a guess as good as an integrator's two corrections with one Jacobian are enough;
where they shrink slowly it is recomputed.

A damped iteration takes sδ of a correction δ with Jδ = r(z), s = 1, ½, ¼, …, with the largest s for which r is finite
at z − sδ and |J⁻¹r(z − sδ)| ≤ (1 − s/4)|δ| (Deuflhard's natural monotonicity test: it needs no scale of r, and
r(z − sδ) = (1 − s)r(z) + O(s²) passes it for small s); until the next correction is at most a quarter of such a step.

Source: Deuflhard, *Newton Methods for Nonlinear Problems* (2004), §3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from geonh.algebra.corrections import correction
from geonh.engine import jacobian

SLOW = 0.1
"""Contraction factor of the corrections below which a Jacobian serves again."""
ROUNDING = 3e-17
"""Relative error below which it counts as rounding (errors of one sign accumulate over the steps, as energies show)."""
HALF = 1e-8
"""Half of the digits: size of rounding in an ill-conditioned equation, as for p = v/√(1 + v²) near p = 1."""
STAGNATION_RATIO = 0.5
"""Ratio of a correction to the one before above which the iteration stagnates."""
SHORTEST = 2.0**-48
"""Smallest damping factor tried by the line search."""
NEAR = 0.25
"""Ratio of the next correction with the same Jacobian to the step taken below which the solution is near."""


class Estimate(NamedTuple):
    """Error of the last iterate. Sizes and errors are squared, to avoid square roots.

    Attributes
    ----------
    error : float
        Estimated error, squared; infinite before the first estimate.
    allowed : float
        Largest error allowed, squared.
    iterations : int
        Number of corrections so far.
    """

    error: Array
    allowed: Array
    iterations: Array

    @property
    def is_root(self) -> Array:
        """True if the error is small enough; false for nan."""
        return (self.error <= self.allowed) & (self.allowed < jnp.inf)


class Progress(NamedTuple):
    """Progress of an iteration: True if it was restarted from the second guess, or there is none; and the error."""

    restarted: Array
    estimate: Estimate

    @classmethod
    def none(cls, start: Array, near: Array | None) -> Progress:
        """Progress before the first correction."""
        unknown = jnp.asarray(jnp.inf, start.dtype), jnp.zeros((), start.dtype), jnp.asarray(0)
        return cls(jnp.asarray(near is None), Estimate(*unknown))


class Limits(NamedTuple):
    """Limits of an iteration: the tolerance of ``Newton``, and the maximum number of corrections."""

    tol: float
    max_iterations: int

    @property
    def allowed(self) -> float:
        """Largest relative error allowed."""
        return max(self.tol**2, ROUNDING)

    def go_on(self, estimate: Estimate) -> Array:
        """True if another correction is to be made with this start; false for nan."""
        return (estimate.error > estimate.allowed) & (estimate.iterations < self.max_iterations)

    def try_again(self, progress: Progress) -> Array:
        """True if the iteration goes on, or is to be restarted from the second guess."""
        return self.go_on(progress.estimate) | ~(progress.restarted | progress.estimate.is_root)


class Correction(NamedTuple):
    """Correction with its own Jacobian, or that of the correction before: z, the correction to subtract, its squared
    length, whether the Jacobian may be used again, and the error."""

    z: Array
    delta: Array
    square: Array
    reusable: Array
    estimate: Estimate


class Iterate(NamedTuple):
    """Iterate, the correction to subtract from it, and the progress."""

    z: Array
    delta: Array
    progress: Progress


@dataclass(frozen=True)
class NewtonIteration:
    """Iteration with one Jacobian, and corrections with it while they shrink fast.

    Sizes are squared, and a correction is subtracted where the next is computed: nothing waits for a square root, a
    quotient or a branch.

    Parameters
    ----------
    function : callable
        Residual, shape=[n] to shape=[n].
    limits : Limits
    floor : float
        Size of z below which it counts as zero, divided by the tolerance.
    rounding : float, optional
        Size of a correction that counts as rounding if the corrections stagnate.
    near : array, shape=[n], optional
        Second guess.
    alone : bool
        True if a first correction that is small relative to z may be the last.
    """

    function: Callable[[Array], Array]
    limits: Limits
    floor: Array
    rounding: Array | None = None
    near: Array | None = None
    alone: bool = True

    def root(self, start: Array) -> tuple[Array, Array]:
        """Last iterate, shape=[n], and True if it converged."""
        size = start @ start + self.floor * self.floor

        def attempt(at: Iterate) -> Iterate:
            return self._with_new_jacobian(at, size)

        first = Iterate(start, start, Progress.none(start, self.near))
        z, delta, progress = lax.while_loop(lambda at: self.limits.try_again(at.progress), attempt, first)
        return z - delta, progress.estimate.is_root

    def _with_new_jacobian(self, at: Iterate, size: Array) -> Iterate:
        """Corrections with the Jacobian at an iterate, or at the second guess."""
        restarted, estimate = at.progress
        failed = ~self.limits.go_on(estimate)
        z = at.z if self.near is None else jnp.where(failed, self.near, at.z)
        A = jacobian(self.function, z)

        def again(last: Correction) -> Correction:
            return self._corrected(A, last.z - last.delta, size, last.square, last.estimate.iterations)

        def is_fast(last: Correction) -> Array:
            return self.limits.go_on(last.estimate) & last.reusable

        first = self._corrected(A, z, size, None, jnp.where(failed, 0, estimate.iterations))
        last = lax.while_loop(is_fast, again, first)
        return Iterate(last.z, last.delta, Progress(restarted | failed, last.estimate))

    def _corrected(self, A: Array, z: Array, size: Array, before: Array | None, iterations: Array) -> Correction:
        """Correction at z with the Jacobian A; ``before`` is the squared length of the one before with it, if any."""
        delta = correction(A, self.function(z))
        square, scale = delta @ delta, z @ z + size
        allowed = self.limits.allowed**2 * scale * (float(self.alone) * scale if before is None else before)
        reusable = jnp.asarray(True) if before is None else square < SLOW**2 * before
        if self.rounding is not None and before is not None:
            stagnates = ~reusable & (square >= STAGNATION_RATIO**2 * before) & (square <= self.rounding**2)
            allowed = jnp.where(stagnates, square * square, allowed)
        return Correction(z, delta, square, reusable, Estimate(square * square, allowed, iterations + 1))


class TrialStep(NamedTuple):
    """Trial step of the line search: its end point, whether that is near the root, the next damping factor, whether the
    residual is smaller there."""

    z: Array
    is_near: Array
    part: Array
    is_smaller: Array


class Approach(NamedTuple):
    """Point of a damped iteration, whether it ends there, and the number of steps."""

    z: Array
    ended: Array
    n_steps: Array


def damped(function: Callable[[Array], Array], limits: Limits, guess: Array, left: Array, start: Array) -> Array:
    """Point near the root, shape=[n]: the guess if it is near, else by damped corrections from the start; or nan.

    Parameters
    ----------
    function : callable
        Residual, shape=[n] to shape=[n], finite at the start.
    limits : Limits
    guess, left : array, shape=[n]
        ``start`` after one correction, and the remaining correction by the same Jacobian.
    start : array, shape=[n]
    """
    way, one, no = guess - start, jnp.asarray(1.0), jnp.asarray(False)
    near = left @ left <= NEAR**2 * (way @ way)  # false for nan

    def step(at: Approach) -> Approach:
        begin = at.z
        A = jacobian(function, begin)
        delta = correction(A, function(begin))
        before = delta @ delta

        def shorten(last: TrialStep) -> TrialStep:
            part = last.part
            z = begin - part * delta
            new = correction(A, function(z))
            now = new @ new
            return TrialStep(z, now <= (NEAR * part) ** 2 * before, part / 2, now <= (1 - part / 4) ** 2 * before)

        def is_too_long(last: TrialStep) -> Array:
            return ~last.is_smaller & (last.part > SHORTEST)

        last = lax.while_loop(is_too_long, shorten, TrialStep(begin, no, one, no))
        there = before <= HALF**2 * (begin @ begin)  # if no damping factor helps, the rest is rounding
        z = jnp.where(last.is_smaller, last.z, jnp.where(there, begin, jnp.nan))
        return Approach(z, last.is_near | ~last.is_smaller, at.n_steps + 1)

    first = Approach(jnp.where(near, guess, start), near, jnp.asarray(0))
    at = lax.while_loop(lambda at: ~at.ended & (at.n_steps < limits.max_iterations), step, first)
    return jnp.where(at.ended, at.z, jnp.nan)
