"""Derivatives of roots by the implicit function theorem."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from geonh.algebra.corrections import FEW
from geonh.algebra.linear import solve
from geonh.engine import SIDE_BY_SIDE, forward_only, jacobian


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
                slope = jacobian(functools.partial(at, consts), z, together=SIDE_BY_SIDE * (z.size > FEW))
            return (z, more), (-solve(slope, moved), jax.tree.map(jnp.zeros_like, more))

        return root(closed.consts, *begin)

    return differentiable
