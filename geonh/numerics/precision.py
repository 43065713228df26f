"""Double precision without touching anybody's JAX configuration.

Everything in geonh is float64. Public entry points run inside ``float64()`` and hand NumPy arrays out; code under a
user's own ``jit``, ``grad`` or ``vmap`` needs a trace in double precision, and ``require_float64`` says so.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
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
        _refuse_single(value, name)
        _refuse_other_kinds(value, name)
        try:
            array = np.array(value, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise TypeError(f"{name} must be numeric, got {_shortly(value)}") from error
        if not np.all(np.isfinite(array)):
            raise ValueError(f"{name} has entries that are not finite: {array}")
    if shape is not None and tuple(array.shape) != shape:
        raise ValueError(f"{name} must have shape {shape}, got {tuple(array.shape)}")
    return array


def _refuse_other_kinds(value: Any, name: str) -> None:
    """Raise TypeError for what NumPy would turn into floats in silence: complex numbers, dates, text, masks."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array; fill or drop the masked entries first")
    try:
        kind = np.asarray(value).dtype.kind
    except ValueError as error:  # lists of unequal lengths
        raise ValueError(f"{name} is a nested list of unequal lengths: {_shortly(value)}") from error
    kinds = {"c": "complex", "M": "a date", "m": "a duration", "U": "text", "S": "text"}
    if kind in kinds:
        raise TypeError(f"{name} must be real numbers, got {kinds[kind]}: {_shortly(value)}")


def _shortly(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 80 else f"{text[:77]}…"


def _refuse_single(value: Any, name: str) -> None:
    dtype = getattr(value, "dtype", None)
    if dtype is not None and np.issubdtype(dtype, np.inexact) and np.dtype(dtype).itemsize < 8:
        raise TypeError(
            f"{name} is {np.dtype(dtype).name}, its digits are lost already; pass Python floats or NumPy float64 "
            "arrays (JAX makes float32 arrays unless 64-bit types are enabled)"
        )


def _outside(leaf: Any) -> Any:
    """A NumPy array in place of a JAX array that is not being traced."""
    return np.asarray(leaf) if isinstance(leaf, jax.Array) and not is_traced(leaf) else leaf


def _inside_and_out(function: Callable, args: tuple, kwargs: dict) -> Any:
    """Call in double precision with NumPy arrays out, single-precision arguments refused."""
    for leaf in jax.tree.leaves((args, kwargs)):
        _refuse_single(leaf, f"an argument of {function.__qualname__}")
    with float64():
        return jax.tree.map(_outside, function(*args, **kwargs))


def in_float64(function: Callable[Args, Out]) -> Callable[Args, Out]:
    """Decorate a public function: double precision inside, NumPy arrays out, unless it is being traced."""

    @functools.wraps(function)
    def wrapper(*args: Args.args, **kwargs: Args.kwargs) -> Out:
        if is_traced(args, kwargs):
            require_float64(function.__qualname__)
            return function(*args, **kwargs)
        return _inside_and_out(function, args, kwargs)

    return wrapper


class Precise(eqx.Module):
    """A mathematical object whose public methods compute in double precision wherever they are called.

    Lists of numbers become arrays. Where JAX has 64-bit types, a method then runs as it is. Elsewhere it runs inside
    ``float64()``, gives NumPy arrays, and refuses single-precision input and traces. Subclasses, a user's too, need
    do nothing for it.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, method in list(vars(cls).items()):
            if inspect.isfunction(method) and (name == "__call__" or not name.startswith("_")):
                setattr(cls, name, _guarded(method))


def _guarded(method: Callable) -> Callable:
    @functools.wraps(method)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if jax.config.jax_enable_x64:  # type: ignore[attr-defined]
            arrays = (jnp.asarray(a, dtype=float) if isinstance(a, list) else a for a in args)
            return method(self, *arrays, **kwargs)
        if is_traced(args, kwargs):
            require_float64(method.__qualname__)
        return _inside_and_out(wrapper, (self, *args), kwargs)

    return wrapper
