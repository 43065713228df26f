"""Double precision without touching anybody's JAX configuration.

Everything in geonh is float64. Public entry points run inside ``float64()`` and hand NumPy arrays out; code under a
user's own ``jit``, ``grad`` or ``vmap`` needs a trace in double precision, and ``require_float64`` says so.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar

import jax
import numpy as np

Args = ParamSpec("Args")
Out = TypeVar("Out")


def float64() -> AbstractContextManager:
    """Context in which JAX computes in double precision; thread-local, and undone on exit."""
    return jax.enable_x64(True)


def is_traced(*trees: Any) -> bool:
    """Whether any leaf is being traced by a JAX transformation."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(trees))


def require_float64(name: str) -> None:
    """Raise unless JAX is tracing in double precision.

    Raises
    ------
    RuntimeError
        Inside a trace made without 64-bit types, where float32 would be silent.
    """
    if not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        raise RuntimeError(
            f"{name} is traced in single precision; enclose your jit, grad or vmap call in `with geonh.float64():` "
            'or call jax.config.update("jax_enable_x64", True) first'
        )


def as_float64(value: Any, name: str, shape: tuple[int, ...] | None = None) -> Any:
    """Convert input to float64, leaving traced values as they are.

    Raises
    ------
    TypeError
        If the value is in single precision already, or not numeric.
    ValueError
        If it has not the given shape, or is not finite.
    """
    if is_traced(value):
        require_float64(name)
        array = value
    else:
        dtype = getattr(value, "dtype", None)
        if dtype is not None and np.issubdtype(dtype, np.inexact) and np.dtype(dtype).itemsize < 8:
            raise TypeError(
                f"{name} is {np.dtype(dtype).name}, its digits are lost already; pass Python floats or NumPy float64 "
                "arrays (JAX makes float32 arrays unless 64-bit types are enabled)"
            )
        try:
            array = np.array(value, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name} must be numeric, got {value!r}") from error
        if not np.all(np.isfinite(array)):
            raise ValueError(f"{name} has entries that are not finite: {array}")
    if shape is not None and tuple(array.shape) != shape:
        raise ValueError(f"{name} must have shape {shape}, got {tuple(array.shape)}")
    return array


def _outside(leaf: Any) -> Any:
    """A NumPy array in place of a JAX array that is not being traced."""
    return np.asarray(leaf) if isinstance(leaf, jax.Array) and not is_traced(leaf) else leaf


def in_float64(function: Callable[Args, Out]) -> Callable[Args, Out]:
    """Decorate a public function: double precision inside, NumPy arrays out, unless it is being traced."""

    @functools.wraps(function)
    def wrapper(*args: Args.args, **kwargs: Args.kwargs) -> Out:
        if is_traced(args, kwargs):
            require_float64(function.__qualname__)
            return function(*args, **kwargs)
        with float64():
            return jax.tree.map(_outside, function(*args, **kwargs))

    return wrapper
