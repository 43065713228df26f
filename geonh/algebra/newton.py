r"""Newton's method: the only nonlinear solver of the library.

Solves r(z) = 0 for z of shape=[n], n small, with the Jacobian by forward mode, in a loop that stops when the error is
at rounding level. A correction of relative size δ₁ with a fresh Jacobian leaves an error of about δ₁², and later ones
with the same Jacobian one of δ_k²/δ_{k−1}. With a guess as good as an integrator's two corrections with one Jacobian
are enough; where they shrink slowly it is recomputed. That is best for few unknowns and a cheap residual. Otherwise a
Jacobian costs more than many residuals, so its inverse is kept while the corrections shrink fast: from one to the next,
and with ``follow`` from step to step. For few unknowns each correction after the first improves it by a Broyden update,
so that it follows the Jacobian where the solution moves; for many that costs more than it gains. The error after the
k-th correction is then estimated as δ_k times the larger of δ_k/δ_{k−1} and δ_{k−1}/δ_{k−2} (where one unknown drives
another the two alternate). An inverse kept from where an equation was stiff misses errors where it no longer is: the
correction is small, but the residual stays large. With a kept inverse δ is therefore the larger of correction and
residual, which must be in the units of z, with a Jacobian near 1. There is no pivoting: a vanishing pivot is a failure.
Jacobians come from automatic differentiation: finite differences would need the scale of each unknown, and hence its
units.

Far from the root, ``descend`` damps Newton's method: of a correction δ with Jδ = r(z) it takes sδ, s = 1, ½, ¼, …, with
the largest s for which r is finite at z − sδ and |J⁻¹r(z − sδ)| ≤ (1 − s/4)|δ| (Deuflhard's natural monotonicity test:
it needs no scale of r, and r(z − sδ) = (1 − s)r(z) + O(s²) passes it for small s); until the next correction is at most
a quarter of such a step. The distance to the boundary of the domain of r may be far smaller than z, so that no
correction is accepted as the last for being small relative to z: the next one decides.

If the Jacobian does not depend on z, which is detected at trace time, the equation is solved once and the calling
method is explicit. The solution is differentiated by the implicit function theorem, so the result may be
differentiated any number of times.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array, lax

from geonh.algebra.corrections import applied, correction, inverted, with_secant
from geonh.algebra.linear import solve
from geonh.arguments.signatures import judged
from geonh.arguments.validators import as_count, as_float64
from geonh.engine import SIDE_BY_SIDE, forward_only, is_affine, jacobian, once

KEEP = 6
"""Number of unknowns above which the inverse Jacobian is kept even for a cheap residual, without Broyden updates."""
MANY = 40
"""Number of unknowns above which the identity is the first inverse Jacobian of equations whose Jacobian is near 1."""
SLOW = 0.1
"""Contraction factor of the corrections below which the inverse Jacobian is kept (three times that above ``KEEP``)."""
TRUST = 0.015
"""Contraction factor assumed for the first correction with a kept Jacobian, and a lower bound for that of the second:
if the unknowns move along a line, Broyden updates make the first correction almost exact in that direction only."""
ROUNDING = 3e-17
"""Relative error below which it counts as rounding (errors of one sign accumulate over the steps, as energies show)."""
STAGNANT = 1e-14
"""Relative size below which a correction that is not smaller than the one before counts as rounding."""
HALF = 1e-8
"""Half of the digits: size of rounding in an ill-conditioned equation, as for p = v/√(1 + v²) near p = 1."""
OUTDATED_RATIO = 10.0
"""Ratio of residual to correction above which a kept inverse Jacobian is recomputed."""
STAGNATION_RATIO = 0.5
"""Ratio of a correction to the one before above which the iteration stagnates."""
SHORTEST = 2.0**-48
"""Smallest damping factor tried by the line search."""
NEAR = 0.25
"""Ratio of the next correction with the same Jacobian to the step taken below which the solution is near."""


class Progress(NamedTuple):
    """Progress of an iteration. Sizes and errors are squared, to avoid square roots.

    Attributes
    ----------
    restarted : bool
        True if the iteration was restarted from the other start, or there is none.
    error : float
        Estimated error of the last iterate, squared; infinite before the first estimate.
    allowed : float
        Largest error allowed, squared.
    iterations : int
        Number of corrections so far.
    """

    restarted: Array
    error: Array
    allowed: Array
    iterations: Array


class Corrected(NamedTuple):
    """Correction with its own Jacobian, or that of the correction before: z, the correction to subtract, its squared
    length, error and allowed error, whether the Jacobian may be used again, and the number of corrections."""

    z: Array
    correction: Array
    square: Array
    error: Array
    allowed: Array
    reusable: Array
    iterations: Array


class TrialStep(NamedTuple):
    """Trial step of the line search: its end point, whether that is near the root, the next damping factor, whether the
    residual is smaller there."""

    z: Array
    is_near: Array
    part: Array
    is_smaller: Array


class QuasiNewtonStep(NamedTuple):
    """Corrections with one kept inverse Jacobian.

    Attributes
    ----------
    before, z : array, shape=[n]
        The iterate before the last correction, and after it.
    error, allowed : float
        As in ``Progress``.
    square : float
        Squared size of the last correction or residual, the larger of the two.
    ratio : float
        Ratio of that to the one before, or more; zero before the first.
    iterations : int
        Number of corrections so far.
    inverse : array, shape=[n, n]
        Inverse Jacobian, with Broyden updates.
    residual : array, shape=[n], or [0] where the inverse is not improved
        Residual at the iterate before the last.
    """

    before: Array
    z: Array
    error: Array
    allowed: Array
    square: Array
    ratio: Array
    iterations: Array
    inverse: Array
    residual: Array


class QuasiNewton(NamedTuple):
    """Iteration with a kept inverse Jacobian: first and last iterate, whether the last is better, the inverse, and
    whether it must be recomputed."""

    start: Array
    z: Array
    better: Array
    inverse: Array
    renew: Array
    progress: Progress


class Newton(eqx.Module):
    """Newton's method; the Jacobian is kept and updated where that is cheaper.

    Parameters
    ----------
    tol : float
        The relative error of the solution is below its square, as far as rounding allows; less than 1e-3.
    max_iterations : int
        Maximum number of corrections; reaching it is a failure.

    Raises
    ------
    TypeError
        If ``tol`` is not a number.
    ValueError
        If ``tol`` is not in (0, 1e-3), or ``max_iterations`` is not a positive integer.
    """

    tol: float = eqx.field(static=True, default=1e-9)
    max_iterations: int = eqx.field(static=True, default=30, converter=lambda bound: as_count(bound, "max_iterations"))

    def __check_init__(self) -> None:
        if not 0 < as_float64(self.tol, "tol", ()) < 1e-3:
            raise ValueError(f"tol must lie in (0, 1e-3), got {self.tol}")

    def solve(
        self,
        residual: Callable[[Array], Array],
        guess: Array,
        floor: float | Array = 1e-14,
        rounding: float | Array | None = None,
    ) -> tuple[Array, Array]:
        """Root of ``residual`` near ``guess``.

        Parameters
        ----------
        residual : callable
            r(z), shape=[n] to shape=[n].
        guess : array, shape=[n]
            Initial guess; no derivative flows through it.
        floor : float
            Size of z below which it counts as zero.
        rounding : float, optional
            Size of a correction that counts as rounding if the corrections stagnate.

        Returns
        -------
        root : array, shape=[n]
            The last iterate.
        converged : array of bool, shape=[]
            True if the estimated error met the tolerance.
        """

        return self.follow(residual, guess, no_inverse(guess.size, cheap=True), floor, rounding)[:2]

    def follow(
        self,
        residual: Callable[[Array], Array],
        guess: Array,
        inverse: Array,
        floor: float | Array = 1e-14,
        rounding: float | Array | None = None,
        near: Array | None = None,
    ) -> tuple[Array, Array, Array | None]:
        """``solve`` for equations that change little from call to call: one Jacobian is reused for many of them.

        Parameters
        ----------
        residual : callable
            r(z), shape=[n] to shape=[n].
        guess : array, shape=[n]
            Initial guess; no derivative flows through it.
        inverse : array, shape=[n, n] or [0, 0]
            Transposed inverse Jacobian of the call before; ``no_inverse(n)`` for the first. If empty, none is kept.
        floor : float
            Size of z below which it counts as zero.
        rounding : float, optional
            Size of a correction that counts as rounding if the corrections stagnate.
        near : array, shape=[n], optional
            Second initial guess, used if ``guess`` does not lead to a root.

        Returns
        -------
        root : array, shape=[n]
            The last iterate.
        converged : array of bool, shape=[]
            True if the estimated error met the tolerance.
        inverse : array, shape=[n, n] or [0, 0], or None
            Inverse for the next call; None for affine equations, which need neither guess nor inverse.
        """
        residual = once(residual)
        if is_affine(residual, guess):
            origin = jnp.zeros_like(guess)
            return -solve(jacobian(residual, origin), residual(origin)), jnp.asarray(True), None

        def iterate(
            function: Callable[[Array], Array], start: Array, inverse: Array, floor: Array, *others: Array | None
        ) -> tuple[Array, tuple[Array, Array]]:
            method = self._quasi_newton if inverse.size else self._newton
            z, converged, last_inverse = method(function, start, inverse, jnp.asarray(floor / self.tol), *others)
            return z, (converged.astype(start.dtype), last_inverse)

        begin = lax.stop_gradient((guess, inverse, jnp.asarray(floor), rounding, near))
        root, (converged, inverse) = implicit(iterate)(residual, *begin)
        return root, converged > 0.5, inverse

    def descend(
        self,
        residual: Callable[[Array], Array],
        guess: Array,
        left: Array,
        start: Array,
        floor: float | Array = 1e-14,
    ) -> tuple[Array, Array]:
        """``solve`` for a residual that may be far from linear and is not finite outside of some region, such as the
        gradient of a function that is convex there.

        Parameters
        ----------
        residual : callable
            r(z), shape=[n] to shape=[n].
        guess, left : array, shape=[n]
            ``start`` after one correction, and the remaining correction by the same Jacobian.
        start : array, shape=[n]
            A point where r is finite; no derivative flows through it.
        floor : float
            Size of z below which it counts as zero.

        Returns
        -------
        root : array, shape=[n]
            The last iterate.
        converged : array of bool, shape=[]
            True if the estimated error met the tolerance.
        """

        def iterate(function: Callable[[Array], Array], guess: Array, *more: Array) -> tuple[Array, Array]:
            z = self._damped(function, guess, *more[:2])
            z, converged, _ = self._newton(function, z, guess, more[2], HALF * _length(z), alone=False)
            return z, converged.astype(z.dtype)

        begin = lax.stop_gradient((guess, left, start, jnp.asarray(floor / self.tol)))
        root, converged = implicit(iterate)(once(residual), *begin)
        return root, converged > 0.5

    @property
    def _allowed(self) -> float:
        return max(self.tol**2, ROUNDING)

    def _unfinished(self, error: Array, allowed: Array, iterations: Array) -> Array:
        return (error > allowed) & (iterations < self.max_iterations)  # false for nan

    def _continues(self, at: Progress) -> Array:
        """True if the iteration goes on, or is to be restarted from the second guess."""
        return self._unfinished(*at[1:]) | ~(at.restarted | _is_root(at.error, at.allowed))

    def _newton(
        self,
        function: Callable[[Array], Array],
        start: Array,
        inverse: Array,
        floor: Array,
        rounding: Array | None = None,
        near: Array | None = None,
        *,
        alone: bool = True,
    ) -> tuple[Array, Array, Array]:
        """Root, whether it converged, and ``inverse``: one Jacobian, and corrections with it while they shrink fast.

        Sizes are squared, and a correction is subtracted where the next is computed: nothing waits for a square root, a
        quotient or a branch. ``alone`` allows a first correction that is small relative to z to be the last.
        """
        size = start @ start + floor * floor

        def attempt(carry: tuple[Array, Array, Progress]) -> tuple[Array, Array, Progress]:
            z, _, at = carry
            failed = ~self._unfinished(*at[1:])
            z = z if near is None else jnp.where(failed, near, z)
            A = jacobian(function, z)

            def correction_at(z: Array, before: Array | None, k: Array) -> Corrected:
                delta = correction(A, function(z))
                now, scale = delta @ delta, z @ z + size
                allowed = self._allowed**2 * scale * (float(alone) * scale if before is None else before)
                reusable = jnp.asarray(True) if before is None else now < SLOW**2 * before
                if rounding is not None and before is not None:
                    stagnates = ~reusable & (now >= STAGNATION_RATIO**2 * before) & (now <= rounding**2)
                    allowed = jnp.where(stagnates, now * now, allowed)
                return Corrected(z, delta, now, now * now, allowed, reusable, k + 1)

            def again(last: Corrected) -> Corrected:
                return correction_at(last.z - last.correction, last.square, last.iterations)

            def is_fast(last: Corrected) -> Array:
                return self._unfinished(last.error, last.allowed, last.iterations) & last.reusable

            last = lax.while_loop(is_fast, again, correction_at(z, None, jnp.where(failed, 0, at.iterations)))
            progress = Progress(at.restarted | failed, last.error, last.allowed, last.iterations)
            return last.z, last.correction, progress

        first = start, start, _no_progress(start, near)
        z, delta, at = lax.while_loop(lambda carry: self._continues(carry[2]), attempt, first)
        return z - delta, _is_root(at.error, at.allowed), inverse

    def _damped(self, function: Callable[[Array], Array], guess: Array, left: Array, start: Array) -> Array:
        """Point near the root: the guess if it is near, else by damped corrections from the start; or nan."""
        way, one, no = guess - start, jnp.asarray(1.0), jnp.asarray(False)
        near = left @ left <= NEAR**2 * (way @ way)  # false for nan

        def attempt(carry: tuple[Array, ...]) -> tuple[Array, ...]:
            begin, _, k = carry
            A = jacobian(function, begin)
            delta = correction(A, function(begin))
            before = delta @ delta

            def correct(last: TrialStep) -> TrialStep:
                part = last.part
                z = begin - part * delta
                new = correction(A, function(z))
                now = new @ new
                return TrialStep(z, now <= (NEAR * part) ** 2 * before, part / 2, now <= (1 - part / 4) ** 2 * before)

            def is_too_long(last: TrialStep) -> Array:
                return ~last.is_smaller & (last.part > SHORTEST)

            last = lax.while_loop(is_too_long, correct, TrialStep(begin, no, one, no))
            there = before <= HALF**2 * (begin @ begin)  # if no damping factor helps, the rest is rounding
            z = jnp.where(last.is_smaller, last.z, jnp.where(there, begin, jnp.nan))
            return z, last.is_near | ~last.is_smaller, k + 1

        first: tuple[Array, ...] = (jnp.where(near, guess, start), near, jnp.asarray(0))
        z, near, _ = lax.while_loop(lambda carry: ~carry[1] & (carry[2] < self.max_iterations), attempt, first)
        return jnp.where(near, z, jnp.nan)

    def _quasi_newton(
        self,
        function: Callable[[Array], Array],
        start: Array,
        first_inverse: Array,
        floor: Array,
        rounding: Array | None = None,
        near: Array | None = None,
    ) -> tuple[Array, Array, Array]:
        """Root, whether it converged, and the last inverse Jacobian, recomputed if the corrections shrink too slowly.

        Sizes are squared. A correction is checked where it would be undone, so that the next need not wait for it.
        """
        size = start @ start + floor * floor
        few = start.size <= KEEP
        slow = SLOW if few else 3 * SLOW  # a new Jacobian costs more than n residuals
        infinite, zero = (jnp.asarray(x, start.dtype) for x in (jnp.inf, 0.0))

        def scale_at(z: Array) -> Array:  # squared sum of |z| and the size of the start, which are similar
            return 2 * (z @ z + size)

        def attempt(at: QuasiNewton) -> QuasiNewton:
            renew, (restarted, *estimate) = at.renew, at.progress
            failed = ~self._unfinished(*estimate)
            start, k = jnp.where(at.better, at.z, at.start), jnp.where(failed, 0, at.progress.iterations)
            start = start if near is None else jnp.where(failed, near, start)
            # A loop that runs once or not at all: under ``vmap`` a branch would compute the Jacobian always.
            new = lambda _: (inverted(jacobian(function, start, together=1).T), jnp.asarray(False))  # noqa: E731
            inverse = lax.while_loop(lambda carry: carry[1], new, (at.inverse, renew))[0]

            def correct(last: QuasiNewtonStep) -> QuasiNewtonStep:
                residual = function(last.z)
                delta = applied(last.inverse, residual)
                z, square, residual_square = last.z - delta, delta @ delta, residual @ residual
                outdated = ~renew & (
                    residual_square > OUTDATED_RATIO**2 * square
                )  # the Jacobian was large, and no longer is
                square = jnp.where(renew, square, jnp.maximum(square, residual_square))
                first, scale = last.ratio == 0.0, scale_at(z)
                ratio = jnp.where(outdated, infinite, square / last.square)
                stagnant = STAGNANT**2 * scale
                noise = stagnant if rounding is None else jnp.maximum(stagnant, (2 * rounding) ** 2)
                inverse = last.inverse
                if few:
                    improved = functools.partial(with_secant, inverse, residual - last.residual, delta)
                    inverse = lax.cond(~first & (square > noise), improved, lambda: inverse)
                # A correction with a new Jacobian is always taken.
                ratio = jnp.where(first, jnp.where(renew, jnp.minimum(ratio, STAGNATION_RATIO**2), TRUST**2), ratio)
                error = square * jnp.maximum(ratio, last.ratio)
                error = jnp.where((square < stagnant) & (ratio >= slow**2), 0.0, error)
                if rounding is not None:
                    error = jnp.where((square < noise) & (ratio >= STAGNATION_RATIO**2), 0.0, error)
                error = jnp.where(outdated | (first & ~renew & (error > ROUNDING**2 * scale)), infinite, error)
                allowed, value = self._allowed**2 * scale, residual if few else last.residual
                return QuasiNewtonStep(last.z, z, error, allowed, square, ratio, last.iterations + 1, inverse, value)

            def is_fast(last: QuasiNewtonStep) -> Array:
                fast = last.ratio < slow**2
                if rounding is not None:  # a new Jacobian does not help corrections that approach rounding
                    fast |= (last.ratio < STAGNATION_RATIO**2) & (last.square < (2 * rounding) ** 2)
                return self._unfinished(last.error, last.allowed, last.iterations) & fast

            value = start[: start.size * few]
            begin = QuasiNewtonStep(start, start, infinite, zero, scale_at(start), zero, k, inverse, value)
            last = lax.while_loop(is_fast, correct, begin)
            z = lax.cond((last.ratio < 1) | ~(last.error > 0), lambda: last.z, lambda: last.before)
            error = jnp.where(jnp.isnan(last.error) & ~renew, infinite, last.error)
            progress = Progress(restarted | failed, error, last.allowed, last.iterations)
            better = renew | (last.ratio < 1) | ~self._unfinished(*progress[1:])
            return QuasiNewton(start, z, better, last.inverse, jnp.asarray(True), progress)

        unknown = jnp.max(jnp.abs(first_inverse[0])) == 0.0
        first = QuasiNewton(start, start, jnp.asarray(False), first_inverse, unknown, _no_progress(start, near))
        at = lax.while_loop(lambda at: self._continues(at.progress), attempt, first)
        return at.z, _is_root(at.progress.error, at.progress.allowed), at.inverse


def implicit(iterate: Callable[..., tuple[Array, Any]]) -> Callable[..., tuple[Array, Any]]:
    """Wrap an iteration, of a residual and its initial values to (root, auxiliary), to differentiate its root.

    Its derivative is that of the implicit function theorem, ṙ + (∂r/∂z)ż = 0: one Jacobian, one solve, transposed in
    reverse mode.
    """

    def differentiable(residual: Callable[[Array], Array], *begin: Array) -> tuple[Array, Any]:
        closed = jax.make_jaxpr(residual)(begin[0])

        def at(consts: list[Array], z: Array) -> Array:
            return jax.core.eval_jaxpr(closed.jaxpr, consts, z)[0]

        @jax.custom_jvp
        def root(consts: list[Array], *begin: Array) -> tuple[Array, Any]:
            with forward_only():
                return iterate(functools.partial(at, consts), *begin)

        @root.defjvp
        def rule(primals: tuple, tangents: tuple) -> tuple:
            consts, (z, more) = primals[0], root(*primals)
            moved = jax.jvp(lambda consts: at(consts, z), (consts,), (tangents[0],))[1]
            with forward_only():
                slope = jacobian(functools.partial(at, consts), z, together=SIDE_BY_SIDE * (z.size > KEEP))
            return (z, more), (-solve(slope, moved), jax.tree.map(jnp.zeros_like, more))

        return root(closed.consts, *begin)

    return differentiable


def make_newton(newton: Newton | None) -> Newton:
    """Return the user's solver, or the default for None; anything else is refused where a method is constructed."""
    return Newton() if newton is None else newton


def _no_progress(start: Array, near: Array | None) -> Progress:
    """Progress before the first correction; it cannot be restarted without another start."""
    return Progress(
        jnp.asarray(near is None), jnp.asarray(jnp.inf, start.dtype), jnp.zeros((), start.dtype), jnp.asarray(0)
    )


def _is_root(error: Array, allowed: Array) -> Array:
    return (error <= allowed) & (allowed < jnp.inf)


def _length(z: Array) -> Array:
    return jnp.sqrt(jnp.sum(z * z))


@judged
def no_inverse(n: int, *, cheap: bool = False) -> Array:
    """Initial inverse Jacobian of ``Newton.follow`` for n unknowns (nothing known).

    Parameters
    ----------
    n : int
        Number of unknowns.
    cheap : bool
        True if the residual is cheap to evaluate.

    Returns
    -------
    array, shape=[n, n] or [0, 0]
        Zeros, for the transposed inverse, faster to apply; empty, so that each correction has its own Jacobian,
        for up to ``KEEP`` = 6 unknowns of a residual that is ``cheap``.

    Raises
    ------
    TypeError, ValueError
        If ``n`` is not an integer ≥ 0, or ``cheap`` is not a bool.
    """
    n = as_count(n, "n", 0)
    return jnp.zeros((0, 0) if n == 0 or (cheap and n <= KEEP) else (n, n))


def near_identity(n: int) -> Array:
    """Initial inverse Jacobian of ``Newton.follow`` for n unknowns and a residual whose Jacobian is near 1.

    Parameters
    ----------
    n : int
        Number of unknowns.

    Returns
    -------
    array, shape=[n, n]
        The identity for more than ``MANY`` = 40 unknowns: a fixed-point iteration, so that a Jacobian, as expensive as
        n residuals, is computed only where that contracts too slowly; else ``no_inverse(n)``.
    """
    return jnp.eye(n) if n > MANY else no_inverse(n)
