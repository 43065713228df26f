"""Derivatives of roots by the implicit function theorem."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from geonh.algebra.corrections import FEW, MANY
from geonh.algebra.iterations import ROUNDING
from geonh.algebra.linear import solve
from geonh.engine import SIDE_BY_SIDE, forward_only, jacobian

MOST = 12
"""Number of corrections of a linear equation after which a Jacobian is computed instead."""


def implicit(
    iterate: Callable[..., tuple[Array, Any]], inverse: Callable[[Any], Array] | None = None
) -> Callable[..., tuple[Array, Any]]:
    """Wrap an iteration, of a residual and its initial values to (root, auxiliary), to differentiate its root.

    Its derivative is that of the implicit function theorem, ṙ + (∂r/∂z)ż = 0: one Jacobian, one solve, transposed in
    reverse mode. There, for many unknowns, that solution is found by corrections with a rough inverse instead, each of
    which takes a product with the Jacobian; the Jacobian itself is computed only where they do not converge.

    Parameters
    ----------
    iterate : callable
        The iteration.
    inverse : callable, optional
        Transposed rough inverse of the Jacobian at the root, of auxiliary values; of shape [0, 0] if none is known.
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
            rough = None if inverse is None else inverse(more)

            def exact(b: Array, *, transposed: bool) -> Array:
                with forward_only():
                    slope = jacobian(functools.partial(at, consts), z, together=SIDE_BY_SIDE * (z.size > FEW))
                return solve(slope.T if transposed else slope, b)

            if rough is None or rough.size <= MANY**2:
                moved = jax.jvp(lambda consts: at(consts, z), (consts,), (tangents[0],))[1]
                z_dot = exact(moved, transposed=False)
            else:
                push = jax.linearize(at, consts, z)[1]
                z_dot = lax.custom_linear_solve(
                    functools.partial(push, jax.tree.map(jnp.zeros_like, tangents[0])),
                    push(tangents[0], jnp.zeros_like(z)),
                    lambda _, b: exact(b, transposed=False),
                    lambda product, b: _refined(product, rough, b, lambda: exact(b, transposed=True)),
                )
            return (z, more), (-z_dot, jax.tree.map(jnp.zeros_like, more))

        return root(closed.consts, *begin)

    return differentiable


class _Refined(NamedTuple):
    """Solution of a linear equation so far, its residual, the squared size of the last correction, the squared error
    that is left, and the number of corrections.
    """

    x: Array
    residual: Array
    square: Array
    error: Array
    n_corrections: Array


def _refined(product: Callable[[Array], Array], inverse: Array, b: Array, exact: Callable[[], Array]) -> Array:
    """Solution of A x = b by corrections with a rough inverse, or that of ``exact`` if these do not converge.

    The error after a correction is its size times the ratio to the one before, as in Newton's iteration.
    """
    infinite = jnp.asarray(jnp.inf, b.dtype)

    def correct(last: _Refined) -> _Refined:
        delta = inverse @ last.residual
        x, square = last.x + delta, delta @ delta
        ratio = jnp.where(last.n_corrections == 0, 1.0, square / last.square)
        error = square * jnp.minimum(ratio, 1.0)
        return _Refined(x, b - product(x), square, error, last.n_corrections + 1)

    def is_solution(last: _Refined) -> Array:
        return last.error <= ROUNDING**2 * (last.x @ last.x)

    def go_on(last: _Refined) -> Array:
        return ~is_solution(last) & (last.n_corrections < MOST)

    last = lax.while_loop(go_on, correct, _Refined(jnp.zeros_like(b), b, infinite, infinite, jnp.asarray(0)))
    # A loop that runs once or not at all: under ``vmap`` a branch would compute the Jacobian always.
    begin = last.x, ~is_solution(last)
    return lax.while_loop(lambda carry: carry[1], lambda _: (exact(), jnp.asarray(False)), begin)[0]
