r"""The one Newton iteration of the library.

Solves r(z) = 0 for z of shape=[n], n small, with the Jacobian by forward mode and elimination unrolled at trace time,
in a loop that stops when the error is at rounding level. With corrections of relative size δ_k the error after the k-th
is estimated as δ_k·δ_k/δ_{k−1}, and after one with a new Jacobian, where convergence is quadratic, as δ_k². Above
``KEEP`` unknowns a Jacobian costs many residuals, so it is kept while the corrections shrink fast.

Where the Jacobian does not depend on z, which is seen at trace time, the equation is solved once and the method that
asked is explicit. The derivative of the solution is that of the implicit function, so the result may be differentiated
any number of times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.interpreters.partial_eval import dce_jaxpr

from geonh.numerics.linear import factor, solve, substitute

KEEP = 6
"""With more unknowns than this the Jacobian is kept from one correction to the next,"""
SLOW = 0.2
"""while a correction is smaller than the one before by this factor."""
ROUNDING = 1e-15
"""A relative correction below this is rounding."""


class Newton(eqx.Module):
    """Newton's method.

    Parameters
    ----------
    tol : float
        Relative error of the solution is below its square, as far as rounding allows.
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
            Whether the estimated error met the tolerance.
        """

        if _is_affine(residual, guess):
            origin = jnp.zeros_like(guess)
            return -solve(jax.jacfwd(residual)(origin), residual(origin)), jnp.asarray(True)

        def iterate(function: Callable[[Array], Array], start: Array) -> tuple[Array, Array]:
            size = jnp.max(jnp.abs(start)) + floor / self.tol

            def unfinished(error: Array, k: Array) -> Array:
                return (error > self.tol**2) & (k < self.max_iterations)  # false for nan

            def refresh(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
                factors = factor(_jacobian(function, carry[0]))

                def correct(carry: tuple[Array, ...]) -> tuple[Array, ...]:
                    z, _, before, ratio, k = carry
                    delta = substitute(factors, function(z))
                    z = z - delta
                    now = jnp.max(jnp.abs(delta)) / (jnp.max(jnp.abs(z)) + size)
                    ratio = jnp.where(before == 0.0, now, now / before)  # the first converges quadratically
                    return z, jnp.where(now <= ROUNDING, 0.0, now * ratio), now, ratio, k + 1

                z, _, k = carry
                zero = jnp.zeros((), start.dtype)
                found = correct((z, zero, zero, zero, k))
                if start.size > KEEP:
                    fast = lambda carry: unfinished(carry[1], carry[4]) & (carry[3] < SLOW)  # noqa: E731
                    found = lax.while_loop(fast, correct, found)
                return found[0], found[1], found[4]

            first = (start, jnp.asarray(jnp.inf, start.dtype), jnp.asarray(0))
            z, error, _ = lax.while_loop(lambda carry: unfinished(*carry[1:]), refresh, first)
            return z, (error <= self.tol**2).astype(start.dtype)

        def tangent_solve(linear: Callable[[Array], Array], rhs: Array) -> Array:
            return solve(jax.jacfwd(linear)(jnp.zeros_like(rhs)), rhs)

        root, converged = lax.custom_root(residual, lax.stop_gradient(guess), iterate, tangent_solve, has_aux=True)
        return root, converged > 0.5


@contextmanager
def rolled_jacobians() -> Iterator[None]:
    """Within, Jacobians that are kept are computed in a loop over columns: programs are shorter and a little slower."""
    token = _rolled.set(True)
    try:
        yield
    finally:
        _rolled.reset(token)


_rolled: ContextVar[bool] = ContextVar("rolled", default=False)


def _jacobian(function: Callable[[Array], Array], z: Array) -> Array:
    if z.size <= KEEP or not _rolled.get():
        return jax.jacfwd(function)(z)
    tangent = jax.linearize(function, z)[1]
    return lax.map(tangent, jnp.eye(z.size)).T


def _is_affine(residual: Callable[[Array], Array], at: Array) -> bool:
    """Whether the traced Jacobian does not use its argument."""
    jaxpr = jax.make_jaxpr(jax.jacfwd(residual))(at).jaxpr
    return not any(dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))[1])
