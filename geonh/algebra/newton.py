r"""Newton's method: the only nonlinear solver of the library.

Solves r(z) = 0 for z of shape=[n], n small, with the Jacobian by forward mode, in a loop that stops when the error is
at rounding level. For few unknowns and a cheap residual each Jacobian is fresh (``iterations.py``). Otherwise a
Jacobian costs more than many residuals, so its inverse is kept while the corrections shrink fast, from one to the next,
and with ``follow`` from step to step (``quasi_newton.py``). There is no pivoting: a vanishing pivot is a failure.
Jacobians come from automatic differentiation: finite differences would need the scale of each unknown, and hence its
units.

Far from the root, ``descend`` damps Newton's method. The distance to the boundary of the domain of r may be far smaller
than z, so that no correction is accepted as the last for being small relative to z: the next one decides.

If the Jacobian does not depend on z, which is detected at trace time, the equation is solved once and the calling
method is explicit. The solution is differentiated by the implicit function theorem (``implicit.py``), so the result may
be differentiated any number of times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import Array, lax

from geonh.algebra.corrections import FEW, MANY
from geonh.algebra.implicit import implicit
from geonh.algebra.iterations import HALF, Limits, NewtonIteration, damped
from geonh.algebra.linear import solve
from geonh.algebra.quasi_newton import QuasiNewtonIteration
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_constant, as_count
from geonh.engine import is_affine, jacobian, once


def _as_tolerance(tol: Any) -> float:
    """A float as it is, so that the default is recognised and left out of reprs; other numbers as a float."""
    return tol if type(tol) is float else float(as_constant(tol, "tol"))


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
    max_iterations: int = eqx.field(static=True, default=30)

    def __init__(self, tol: float = 1e-9, max_iterations: int = 30):
        self.tol, self.max_iterations = _as_tolerance(tol), as_count(max_iterations, "max_iterations")
        if not 0 < self.tol < 1e-3:
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
            function: Callable[[Array], Array],
            start: Array,
            inverse: Array,
            floor: Array,
            rounding: Array | None,
            near: Array | None,
        ) -> tuple[Array, tuple[Array, Array]]:
            given = function, self._limits, jnp.asarray(floor / self.tol), rounding, near
            if inverse.size:
                z, converged, last_inverse = QuasiNewtonIteration(*given).root(start, inverse)
            else:
                (z, converged), last_inverse = NewtonIteration(*given).root(start), inverse
            return z, (converged.astype(start.dtype), last_inverse)

        begin = lax.stop_gradient((guess, inverse, jnp.asarray(floor), rounding, near))
        root, (converged, inverse) = implicit(iterate, lambda more: more[1])(residual, *begin)
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

        def iterate(
            function: Callable[[Array], Array], guess: Array, left: Array, start: Array, floor: Array
        ) -> tuple[Array, Array]:
            z = damped(function, self._limits, guess, left, start)
            rounding = HALF * jnp.sqrt(jnp.sum(z * z))
            z, converged = NewtonIteration(function, self._limits, floor, rounding, guess, alone=False).root(z)
            return z, converged.astype(z.dtype)

        begin = lax.stop_gradient((guess, left, start, jnp.asarray(floor / self.tol)))
        root, converged = implicit(iterate)(once(residual), *begin)
        return root, converged > 0.5

    @property
    def _limits(self) -> Limits:
        return Limits(self.tol, self.max_iterations)


def make_newton(newton: Newton | None) -> Newton:
    """Return the user's solver, or the default for None; anything else is refused where a method is constructed."""
    return Newton() if newton is None else newton


@validated
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
        for up to ``FEW`` = 6 unknowns of a residual that is ``cheap``.

    Raises
    ------
    TypeError, ValueError
        If ``n`` is not an integer ≥ 0, or ``cheap`` is not a bool.
    """
    n = as_count(n, "n", 0)
    return jnp.zeros((0, 0) if n == 0 or (cheap and n <= FEW) else (n, n))


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
