"""Tracing options: in forward-only programs no derivative rules are prepared, and no function is traced twice."""

from __future__ import annotations

import functools
import gc
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any, TypeVar, cast

import equinox as eqx
import jax
import numpy as np

from geonh.arguments.purity import is_pure, refuse_changing
from geonh.engine.captured import captured_variables, inspected_once
from geonh.engine.internals import hashable_combine, hashable_partition

Function = TypeVar("Function", bound=Callable)

_forward: Any = jax.make_user_context(False)


@contextmanager
def forward_only() -> Iterator[None]:
    """Context of traces that are not differentiated; ``jit`` caches of these traces are not used elsewhere.

    The trace, and so every bit of the result, is the same if the user has disabled ``jit``.
    """
    with _forward(True), jax.disable_jit(False), inspected_once():
        yield


def is_forward_only() -> bool:
    """True if the program being traced is not differentiated."""
    return bool(_forward.value)


_lock = threading.Lock()
_collected: list[bool] = []
"""For each of the contexts ``uncollected``, whether garbage was collected before."""


@contextmanager
def uncollected() -> Iterator[None]:
    """Context without automatic garbage collection, of all threads.

    A program is written as many small objects, nearly all of which are used until the end: collections, which look at
    each of them and at all traces of JAX, find nothing and would take a fifth of the time.
    """
    with _lock:
        _collected.append(gc.isenabled())
        gc.disable()
    try:
        yield
    finally:
        with _lock:
            before = _collected.pop()  # at last that of the first context, whichever thread ends last
            if before and not _collected:
                gc.enable()


def once(function: Function) -> Function:
    """Return the function, traced only once in a forward-only program, however often it is called."""
    return cast(Function, jax.jit(function)) if is_forward_only() else function


def traced_once(method: Function) -> Function:
    """Decorator for an equinox method that is costly to trace: in a forward-only program it is traced once."""

    signature = inspect.signature(method)

    @functools.wraps(method)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not is_forward_only():
            return method(*args, **kwargs)
        args = signature.bind(*args, **kwargs).args if kwargs else args
        arrays, static = hashable_partition(args, eqx.is_array)
        return _jitted_method(method, static, captured_variables(static))(arrays)

    return cast(Function, wrapper)


TRACES = 96
"""Maximum number of user functions, and of methods of systems, whose traces are kept alive in JAX's cache."""


@functools.lru_cache(maxsize=TRACES)
def _jitted_method(method: Callable, static: Any, _: tuple) -> Callable:
    return jax.jit(lambda arrays: method(*hashable_combine(arrays, static)))


def call_traced(function: Callable, *args: Any) -> Any:
    """``function(*args)`` for a user's function, which is called many times in a step but traced once.

    Raises
    ------
    ChangingError
        If it does not depend on its arguments alone.
    """
    arrays = all(isinstance(x, jax.Array | np.ndarray | np.generic | float | int) for x in jax.tree.leaves(args))
    if not arrays or isinstance(function, eqx.Module):
        return function(*args)
    if not is_forward_only() or not (isinstance(function, FunctionType) or is_pure(function)):
        refuse_changing(function, args)
        return function(*args)
    jitted = _jitted(function, captured_variables(function))
    refuse_changing(function, args, lambda *args: jitted.trace(*args).jaxpr)
    try:
        return jitted(*args)
    except TypeError as error:
        if "is not a valid JAX type" not in str(error):
            raise
        return function(*args)  # non-numbers are refused by the caller


@functools.lru_cache(maxsize=TRACES)  # a new wrapper would look up the trace again, which is slow
def _jitted(function: Callable, _: tuple) -> Any:
    return jax.jit(lambda *args: function(*args))
