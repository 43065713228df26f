"""What a trace is for: in a program that is only run, no derivative is prepared, and nothing is traced twice."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any, TypeVar, cast

import equinox as eqx
import equinox.internal as eqxi
import jax
import numpy as np

Function = TypeVar("Function", bound=Callable)

_forward: Any = jax.make_user_context(False)


@contextmanager
def forward_only() -> Iterator[None]:
    """Context of traces that nobody differentiates; what ``jit`` traced in it is not taken elsewhere.

    The trace, and so every bit, is the same where a user has switched ``jit`` off.
    """
    with _forward(True), jax.disable_jit(False):
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
    """``function(*args)``; of a user's function, which is called many times in a step, one trace serves all calls."""
    if not is_forward_only() or not isinstance(function, FunctionType):
        return function(*args)
    arrays = all(isinstance(x, jax.Array | np.ndarray | np.generic | float | int) for x in jax.tree.leaves(args))
    try:
        return _jitted(function, around(function))(*args) if arrays else function(*args)
    except TypeError as error:
        if "is not a valid JAX type" not in str(error):
            raise
        return function(*args)  # what is no number is for the caller to judge


@functools.lru_cache(maxsize=KEPT)  # each wrapper looks for the trace anew, which takes time
def _jitted(function: Callable, _: tuple) -> Callable:
    return jax.jit(lambda *args: function(*args))


# --- what a function reads around it -------------------------------------------------------------------------
SMALL = 64
"""Entries, at most, of an array that is compared."""
DEPTH = 3
"""Functions that call each other, at most, which are looked at."""


def around(tree: Any) -> tuple:
    """Numbers, texts, small arrays and code that the functions among the leaves read from their closures and modules.

    A trace takes them as they are; where they have changed, it is another trace.
    """
    functions = [leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, FunctionType)]
    return tuple(found for function in functions for found in _read_by(function, DEPTH))


def _read_by(function: FunctionType, depth: int, module: dict[str, Any] | None = None) -> list[tuple]:
    """What a function reads, and those that it calls; of a module only that of the first."""
    module = function.__globals__ if module is None else module
    names = _names(function.__code__) if function.__globals__ is module else ()
    found = {name: module[name] for name in names if name in module}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        with contextlib.suppress(ValueError):  # empty
            found[name] = cell.cell_contents
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    found |= {f"({i})": x for i, x in enumerate(defaults)}
    read: list[tuple] = []
    for name, x in found.items():
        if all(map(_is_number, x)) if isinstance(x, tuple | list) and len(x) <= SMALL else _is_number(x):
            read.append((name, type(x), repr(x)))
        elif isinstance(x, np.ndarray | jax.Array) and _is_small(x):
            read.append((name, x.shape, x.dtype.str, np.asarray(x).tobytes()))
        elif isinstance(x, FunctionType) and x is not function and depth > 1:
            read.append((name, x.__code__))
            read += _read_by(x, depth - 1, module)
    return read


def _is_number(x: Any) -> bool:
    return isinstance(x, bool | int | float | complex | str | np.generic)


def _is_small(x: Any) -> bool:
    return not isinstance(x, jax.core.Tracer) and x.size <= SMALL and getattr(x.dtype, "kind", "O") in "fiubc"


@functools.lru_cache(maxsize=1024)
def _names(code: CodeType) -> tuple[str, ...]:
    """Of globals, as far as code tells, in functions within it too."""
    inner = (name for const in code.co_consts if isinstance(const, CodeType) for name in _names(const))
    return tuple(dict.fromkeys((*code.co_names, *inner)))
