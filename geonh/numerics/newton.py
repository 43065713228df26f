r"""The one Newton iteration of the library.

Solves r(z) = 0 for z of shape=[n], n small, with the Jacobian by forward mode and elimination unrolled at trace time,
in a loop that stops when the last correction is small. Convergence is quadratic, so a correction of relative size
``tol`` leaves an error of about its square, at rounding level. Where the Jacobian does not depend on z, which is seen
at trace time, the equation is solved once and the method that asked is explicit. The derivative of the solution is
that of the implicit function, so the result may be differentiated any number of times.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.interpreters.partial_eval import dce_jaxpr

from geonh.numerics.linear import solve


class Newton(eqx.Module):
    """Newton's method.

    Parameters
    ----------
    tol : float
        Relative size of the last correction.
    max_iterations : int
        Bound; reaching it is a failure.
    """

    tol: float = eqx.field(static=True, default=1e-9)
    max_iterations: int = eqx.field(static=True, default=30)

    def __check_init__(self) -> None:
        if not 0 < self.tol < 1e-3:
            raise ValueError(f"tol must lie in (0, 1e-3), got {self.tol}")
        if self.max_iterations < 1:
            raise ValueError(f"max_iterations must be at least 1, got {self.max_iterations}")

    def solve(
        self, residual: Callable[[Array], Array], guess: Array, floor: float | Array = 1e-14
    ) -> tuple[Array, Array]:
        """Root of ``residual`` near ``guess``.

        Parameters
        ----------
        residual : callable
            r(z), shape=[n] to shape=[n].
        guess : array, shape=[n]
            Where to start; no derivative flows through it.
        floor : float
            Size of z that counts as zero.

        Returns
        -------
        root : array, shape=[n]
        converged : array, bool
            Whether the last correction met the tolerance.
        """

        if _is_affine(residual, guess):
            origin = jnp.zeros_like(guess)
            return -solve(jax.jacfwd(residual)(origin), residual(origin)), jnp.asarray(True)

        def iterate(function: Callable[[Array], Array], start: Array) -> tuple[Array, Array]:
            jacobian = jax.jacfwd(function)
            start_size = jnp.max(jnp.abs(start))

            def running(carry: tuple[Array, Array, Array]) -> Array:
                _, correction, k = carry
                return (correction > 1.0) & (k < self.max_iterations)

            def correct(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
                z, _, k = carry
                delta = solve(jacobian(z), function(z))
                z = z - delta
                scale = self.tol * (jnp.max(jnp.abs(z)) + start_size) + floor
                return z, jnp.max(jnp.abs(delta)) / scale, k + 1

            first = (start, jnp.asarray(jnp.inf, dtype=start.dtype), jnp.asarray(0))
            z, correction, _ = lax.while_loop(running, correct, first)
            return z, (correction <= 1.0).astype(start.dtype)

        def tangent_solve(linear: Callable[[Array], Array], rhs: Array) -> Array:
            return solve(jax.jacfwd(linear)(jnp.zeros_like(rhs)), rhs)

        root, converged = lax.custom_root(residual, lax.stop_gradient(guess), iterate, tangent_solve, has_aux=True)
        return root, converged > 0.5


def _is_affine(residual: Callable[[Array], Array], at: Array) -> bool:
    """Whether the traced Jacobian does not use its argument."""
    jaxpr = jax.make_jaxpr(jax.jacfwd(residual))(at).jaxpr
    return not any(dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))[1])
