"""What a trace is for: in a program that is only run, no derivative is prepared, and nothing is traced twice."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any, TypeVar, cast

import equinox as eqx
import equinox.internal as eqxi
import jax
import numpy as np

from geonh.arguments.purity import refuse_changing
from geonh.engine.captured import around, looked_at_once

Function = TypeVar("Function", bound=Callable)

_forward: Any = jax.make_user_context(False)


@contextmanager
def forward_only() -> Iterator[None]:
    """Context of traces that nobody differentiates; what ``jit`` traced in it is not taken elsewhere.

    The trace, and so every bit, is the same where a user has switched ``jit`` off.
    """
    with _forward(True), jax.disable_jit(False), looked_at_once():
        yield


def is_forward_only() -> bool:
    """Whether the trace being made is of a program that is only run."""
    return bool(_forward.value)


def once(function: Function) -> Function:
    """The function, traced a single time in such a program however often it is called."""
    return cast(Function, jax.jit(function)) if is_forward_only() else function


def traced_once(method: Function) -> Function:
    """Decorate a method of an equinox module that is costly to trace: in such a program one trace serves all calls."""

    @functools.wraps(method)
    def wrapper(*args: Any) -> Any:
        if not is_forward_only():
            return method(*args)
        arrays, static = eqxi.hashable_partition(args, eqx.is_array)
        return _method(method, static, around(static))(arrays)

    return cast(Function, wrapper)


KEPT = 96
"""Functions of users, and methods of systems, of which JAX keeps the traces: it does as long as these are there."""


@functools.lru_cache(maxsize=KEPT)
def _method(method: Callable, static: Any, _: tuple) -> Callable:
    return jax.jit(lambda arrays: method(*eqxi.hashable_combine(arrays, static)))


def called(function: Callable, *args: Any) -> Any:
    """``function(*args)``; of a user's function, which is called many times in a step, one trace serves all calls.

    Raises
    ------
    ChangingError
        If it does not depend on the arguments alone.
    """
    arrays = all(isinstance(x, jax.Array | np.ndarray | np.generic | float | int) for x in jax.tree.leaves(args))
    if not arrays or isinstance(function, eqx.Module):
        return function(*args)
    if not is_forward_only() or not isinstance(function, FunctionType):
        refuse_changing(function, args)
        return function(*args)
    jitted = _jitted(function, around(function))
    refuse_changing(function, args, lambda *args: jitted.trace(*args).jaxpr)
    try:
        return jitted(*args)
    except TypeError as error:
        if "is not a valid JAX type" not in str(error):
            raise
        return function(*args)  # what is no number is for the caller to judge


@functools.lru_cache(maxsize=KEPT)  # each wrapper looks for the trace anew, which takes time
def _jitted(function: Callable, _: tuple) -> Any:
    return jax.jit(lambda *args: function(*args))
