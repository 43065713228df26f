"""What a trace is for: in a program that is only run, no derivative is prepared, and nothing is traced twice."""

from __future__ import annotations

import contextlib
import functools
import sys
import sysconfig
import threading
from collections import ChainMap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, TypeVar, cast

import equinox as eqx
import equinox.internal as eqxi
import jax
import numpy as np

Function = TypeVar("Function", bound=Callable)

_forward: Any = jax.make_user_context(False)


class _Known(threading.local):
    """What functions read around them, by their ids, while a program is traced here; they may change it meanwhile."""

    seen: dict[int, tuple[Any, Any]] | None = None


_known = _Known()


@contextmanager
def forward_only() -> Iterator[None]:
    """Context of traces that nobody differentiates; what ``jit`` traced in it is not taken elsewhere.

    The trace, and so every bit, is the same where a user has switched ``jit`` off.
    """
    outermost = _known.seen is None
    _known.seen = {} if outermost else _known.seen
    try:
        with _forward(True), jax.disable_jit(False):
            yield
    finally:
        _known.seen = None if outermost else _known.seen


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
"""Entries, at most, of an array that is known by its values;"""
LARGE = 10_000
"""and of one of NumPy that is known by a digest: beyond, it is another array only if it is another object."""
LISTED = 200
"""Entries, at most, of a list or dict that is looked at, with those of the lists and dicts in it."""
DEPTH = 3
"""Functions that call each other, and objects within objects, at most, which are looked at."""


def around(tree: Any) -> tuple:
    """What the functions among the leaves read from their closures and modules, and from objects there; hashable.

    Numbers, texts, arrays, lists and dicts of them, attributes, and what other functions read, but for globals of
    libraries. A trace takes them as they are; where they have changed, it is another trace.
    """
    return tuple(_around(leaf) for leaf in jax.tree.leaves(tree) if callable(leaf))


def _around(function: Any) -> Any:
    if _known.seen is None:
        return _seen(function, (), DEPTH + 1)
    if id(function) not in _known.seen:
        _known.seen[id(function)] = function, _seen(function, (), DEPTH + 1)
    return _known.seen[id(function)][1]


class _Only:
    """An object, equal to itself only."""

    def __init__(self, whole: Any) -> None:
        self.whole = whole

    def __hash__(self) -> int:
        return id(self.whole)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Only) and self.whole is other.whole


def _seen(x: Any, names: tuple[str, ...], depth: int, listed: int = LISTED) -> Any:
    """What a function sees in ``x``, of whose attributes it reads those names; hashable, None if nothing."""
    if isinstance(x, bool | int | float | complex | str | np.generic):
        return type(x), repr(x)
    if isinstance(x, np.ndarray | jax.Array):
        return _seen_in_array(x)
    if depth == 0:
        return None
    if isinstance(x, FunctionType):
        return x.__code__, _read_by(x, depth - 1)
    if isinstance(x, MethodType):
        return _seen(x.__func__, names, depth), _seen(x.__self__, (getattr(x.__func__, "__name__", ""),), depth - 1)
    if isinstance(x, functools.partial):
        return tuple(_seen(part, names, depth - 1) for part in (x.func, x.args, x.keywords))
    if isinstance(x, ModuleType) and _is_fixed(x.__name__):
        return None
    if isinstance(x, tuple | list | dict):
        keys, parts = zip(*x.items(), strict=True) if isinstance(x, dict) and x else ((), tuple(x))
        if len(parts) > listed:
            return None
        inside = functools.partial(_seen, names=names, depth=depth - 1, listed=listed // max(len(parts), 1))
        return (
            type(x),
            *(repr(key) if isinstance(key, str | int | float) else type(key) for key in keys),
            *map(inside, parts),
        )
    return tuple((name, _seen(value, names, depth - 1)) for name, value in _attributes(x, names).items())


def _attributes(x: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Attributes of those names of a module, a class or an object, and those that methods among them read."""
    classes = x.__mro__ if isinstance(x, type) else type(x).__mro__
    known = ChainMap(*(getattr(owner, "__dict__", {}) for owner in (x, *classes)))

    def of(names: tuple[str, ...]) -> dict[str, Any]:
        return {name: known[name] for name in names if name in known}

    found = of((*names, "__call__"))
    methods = [value for value in found.values() if isinstance(value, FunctionType)]
    return found | of(tuple(name for method in methods for name in _names(method.__code__)))


def _seen_in_array(x: Any) -> Any:
    if isinstance(x, jax.core.Tracer) or getattr(x.dtype, "kind", "O") not in "fiubc":
        return None
    if x.size <= SMALL:
        return x.shape, x.dtype.str, np.asarray(x).tobytes()
    return (x.shape, hash(x.tobytes())) if isinstance(x, np.ndarray) and x.size <= LARGE else _Only(x)


def _read_by(function: FunctionType, depth: int) -> tuple:
    """What a function reads: from its module, its closure and its defaults."""
    names = _names(function.__code__)
    module = {} if _is_fixed(function.__module__, depth < DEPTH) else function.__globals__
    found = {name: module[name] for name in names if name in module}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        with contextlib.suppress(ValueError):  # empty
            found[name] = cell.cell_contents
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    found |= {f"({i})": x for i, x in enumerate(defaults)}
    return tuple((name, _seen(x, names, depth)) for name, x in found.items() if x is not function)


@functools.lru_cache(maxsize=1024)
def _is_fixed(module: str | None, installed: bool = True) -> bool:
    """Whether nobody changes a module: geonh's, Python's, or one that is ``installed``, where that counts."""
    package = (module or "").split(".")[0]
    path = getattr(sys.modules.get(package), "__file__", None) or ""
    folders = [sysconfig.get_path(kind) for kind in ("purelib", "platlib")]
    return (
        package == __name__.split(".")[0]
        or package in sys.stdlib_module_names - {"__main__"}
        or (installed and path.startswith(tuple(folders)))
    )


@functools.lru_cache(maxsize=1024)
def _names(code: CodeType) -> tuple[str, ...]:
    """Of globals and attributes, as far as code tells, in functions within it too."""
    inner = (name for const in code.co_consts if isinstance(const, CodeType) for name in _names(const))
    return tuple(dict.fromkeys((*code.co_names, *inner)))
