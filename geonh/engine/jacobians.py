"""Jacobians as single JAX primitives.

Tracing a derivative in JAX takes several times as long as tracing the function. In a forward-only program a Jacobian is
one primitive that holds the jaxpr of the function: the native engine differentiates it during lowering
(``native/jacobian_columns.py``). Elsewhere it is ``jax.jacfwd``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax import Array
from jax.extend.core import ClosedJaxpr, Jaxpr, Primitive, jaxpr_as_fun

from geonh.engine.internals import ShapedArray, ad, batching, mlir
from geonh.engine.named import functions
from geonh.engine.tracing import is_forward_only

primitive = Primitive("geonh_jacobian")
"""Primitive with arguments ``(*constants, point)`` and the keyword parameters of ``_derived``."""
SIDE_BY_SIDE = 8
"""Number of columns computed in one vector."""


def jacobian(function: Callable[[Array], Array], point: Array, *, together: int = 0) -> Array:
    """Derivative of a function at a point, shape=[n] to shape=[m], as an array of shape=[m, n].

    ``together`` computes all columns by the same instructions, so many of them in each pass of a loop: one for a short
    program, ``SIDE_BY_SIDE`` for a fast one with many columns and few zeros among them.
    """
    if not is_forward_only():
        return jax.jacfwd(function)(point)
    traced = jax.make_jaxpr(function)(point)
    inner = traced.jaxpr
    jaxpr = Jaxpr((), [*inner.constvars, *inner.invars], inner.outvars, inner.eqns, inner.effects, inner.debug_info)
    return primitive.bind(*traced.consts, point, jaxpr=jaxpr, together=together)


def _derived(*args: Array, jaxpr: Jaxpr, together: int) -> Array:
    *constants, point = args
    function = jaxpr_as_fun(ClosedJaxpr(jaxpr, ()))
    return jax.jacfwd(lambda z: function(*constants, z)[0])(point)


def _shape(*avals: Any, jaxpr: Jaxpr, together: int) -> ShapedArray:
    out = jaxpr.outvars[0].aval
    return ShapedArray((*out.shape, *avals[-1].shape), out.dtype)  # type: ignore[attr-defined]


def _jvp(primals: tuple, tangents: tuple, **options: Any) -> tuple:
    return jax.jvp(lambda *args: _derived(*args, **options), primals, tuple(map(ad.instantiate_zeros, tangents)))


def _batched(args: tuple, axes: tuple, **options: Any) -> tuple:
    return jax.vmap(lambda *args: _derived(*args, **options), tuple(axes))(*args), 0


functions[primitive] = _derived
primitive.def_impl(lambda *args, **options: jax.jit(lambda *args: _derived(*args, **options))(*args))
primitive.def_abstract_eval(_shape)
mlir.register_lowering(primitive, mlir.lower_fun(_derived, multiple_results=False))
ad.primitive_jvps[primitive] = _jvp
batching.primitive_batchers[primitive] = _batched
