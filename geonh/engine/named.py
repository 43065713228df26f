"""Small dense algebra as single operations of a trace.

Traced as they are, elimination and its kin are thousands of equations on scalars. ``named`` makes of such a function
one equation: the native engine writes it its own way, and wherever else it is needed (under a user's ``jit``, ``grad``,
``vmap``) the function itself is traced in its place.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

functions: dict[Any, Callable] = {}
"""What operations of the library compute, in ``jax.numpy``, by their primitives."""


class Named:
    """A function of arrays that returns one array, as an operation; its keywords are numbers that do not change.

    Attributes
    ----------
    primitive : Primitive
        By which it is known in a jaxpr.
    function : callable
        What it computes, in ``jax.numpy``.
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
