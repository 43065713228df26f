"""Small dense linear algebra as single JAX primitives.

Traced inline, an elimination is thousands of scalar equations. ``Named`` turns such a function into one equation: the
native engine has a lowering for it, and wherever else it is needed (under a user's ``jit``, ``grad``, ``vmap``) the
function itself is traced.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive

from geonh.engine.internals import ad, batching, mlir

functions: dict[Any, Callable] = {}
"""Implementations in ``jax.numpy`` of the library's primitives."""


class Named:
    """Function of arrays that returns one array, as a primitive; its keyword arguments are static.

    Attributes
    ----------
    primitive : Primitive
        Primitive of the function in a jaxpr.
    function : callable
        Implementation in ``jax.numpy``.
    """

    def __init__(self, function: Callable[..., jax.Array]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._shapes: dict[tuple, Any] = {}
        self.primitive = primitive = Primitive(f"geonh_{function.__name__.strip('_')}")
        functions[primitive] = function
        primitive.def_impl(lambda *args, **options: jax.jit(function, static_argnames=tuple(options))(*args, **options))
        primitive.def_abstract_eval(self._shape)
        mlir.register_lowering(primitive, mlir.lower_fun(function, multiple_results=False))
        ad.primitive_jvps[primitive] = self._jvp
        batching.primitive_batchers[primitive] = self._batched

    def __call__(self, *args: Any, **options: Any) -> jax.Array:
        return self.primitive.bind(*args, **options)

    def _shape(self, *avals: Any, **options: Any) -> Any:
        key = (*((a.shape, a.dtype) for a in avals), *options.items())
        if key not in self._shapes:
            out = jax.eval_shape(functools.partial(self.function, **options), *avals)
            self._shapes[key] = jax.core.ShapedArray(out.shape, out.dtype)
        return self._shapes[key]

    def _jvp(self, primals: tuple, tangents: tuple, **options: Any) -> tuple:
        return jax.jvp(functools.partial(self.function, **options), primals, tuple(map(ad.instantiate_zeros, tangents)))

    def _batched(self, args: tuple, axes: tuple, **options: Any) -> tuple:
        mapped = jax.vmap(functools.partial(self.function, **options), tuple(axes))
        return mapped(*args), 0


@Named
def differentiated_as(value: jax.Array, other: jax.Array) -> jax.Array:
    """``value``, with the derivative of ``other``, which equals it but for rounding and is not computed otherwise."""
    return value


def _jvp_of_other(primals: tuple, tangents: tuple) -> tuple:
    return differentiated_as(*primals), ad.instantiate_zeros(tangents[1])


ad.primitive_jvps[differentiated_as.primitive] = _jvp_of_other


@Named
def constant_to_first_order(value: jax.Array) -> jax.Array:
    """``value``, which derivatives take to be constant, but derivatives of these do not: factors of what vanishes."""
    return value


def _jvp_of_constant(primals: tuple, tangents: tuple) -> tuple:
    return primals[0], jnp.zeros_like(primals[0])


ad.primitive_jvps[constant_to_first_order.primitive] = _jvp_of_constant
