"""Captured variables of functions: a trace holds them as constants, so their values are part of its cache key."""

from __future__ import annotations

import argparse
import contextlib
import dis
import functools
import sys
import sysconfig
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, MappingProxyType, MethodType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import jax
import numpy as np

SMALL = 64
"""Maximum size of an array that is identified by its values."""
LARGE = 10_000
"""Maximum size of a NumPy array that is identified by a digest; larger ones are identified by object identity."""
VISITED = 500
"""Maximum number of functions, objects and entries of lists and dicts that one inspection visits."""


def captured_variables(tree: Any) -> tuple:
    """Captured variables of the functions among the leaves, from closures, modules and objects there; hashable.

    They are numbers, strings, arrays, lists and dicts of them, attributes, and captured variables of other functions,
    but not globals of libraries. A trace holds them as constants; if they have changed, the function is traced again.
    """
    with inspected_once():
        return tuple(_captured_variables(leaf) for leaf in jax.tree.leaves(tree) if callable(leaf))


def _captured_variables(function: Any) -> Any:
    if _cache.keys is None:
        return _Inspection().key(function)
    if id(function) not in _cache.keys:
        _cache.keys[id(function)] = function, _Inspection().key(function)
    return _cache.keys[id(function)][1]


class _Cache(threading.local):
    """Thread-local cache of captured variables, by function id, with the functions."""

    keys: dict[int, tuple[Any, Any]] | None = None


_cache = _Cache()


@contextlib.contextmanager
def inspected_once() -> Iterator[None]:
    """Context (such as the trace of a program) in which a function is inspected once, even if its captures change."""
    outermost = _cache.keys is None
    _cache.keys = {} if outermost else _cache.keys
    try:
        yield
    finally:
        _cache.keys = None if outermost else _cache.keys


class _ByIdentity:
    """Wrapper of an object that compares by identity."""

    def __init__(self, wrapped: Any) -> None:
        self.wrapped = wrapped

    def __hash__(self) -> int:
        return id(self.wrapped)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and self.wrapped is other.wrapped


class _Inspection:
    """Inspection of the variables that a function captures; visits each object once."""

    def __init__(self) -> None:
        self.remaining = VISITED
        self.visited: dict[Any, tuple[int, Any]] = {}
        self.written: frozenset[str] = frozenset()
        """Attributes that the functions set themselves, such as counters."""
        self.classes = 0
        """Nesting depth in classes, whose methods are not all called."""

    def key(self, x: Any, names: tuple[str, ...] = ()) -> Any:
        """Hashable key of ``x``, for a module of the attributes of those names; else its object identity."""
        try:
            return self._key(x, names)
        except Exception:  # objects that cannot be inspected
            return _ByIdentity(x)

    def _key(self, x: Any, names: tuple[str, ...]) -> Any:
        kind = type(x)
        if kind is float:
            return kind, x.hex()
        if x is None or kind in (bool, int, str, bytes):
            return kind, x
        if isinstance(x, np.generic):
            return x.dtype.str, x.tobytes()
        if isinstance(x, np.ndarray | jax.Array):
            return _array_key(x)
        mark = id(x), names * isinstance(x, ModuleType)
        if mark in self.visited:
            return self.visited[mark][0]
        self.visited[mark] = len(self.visited), x
        self.remaining -= 1
        if self.remaining < 0:
            return _ByIdentity(x)
        if isinstance(x, ModuleType):
            return None if _is_fixed(x.__name__) else self._items({n: vars(x)[n] for n in names if n in vars(x)}, names)
        if isinstance(x, FunctionType):
            return x.__code__, self._captured_by(x), self._items(vars(x))
        if isinstance(x, MethodType):
            return self.key(x.__func__), self.key(x.__self__)
        if isinstance(x, staticmethod | classmethod):
            return self.key(x.__func__)
        if isinstance(x, property):
            return self.key(x.fget)
        if isinstance(x, functools.partial):
            return tuple(map(self.key, (x.func, x.args, x.keywords)))
        if isinstance(x, tuple | list):
            return (kind, *map(self.key, x)) if self._may_visit(x) else _ByIdentity(x)
        if isinstance(x, dict | MappingProxyType):
            return (kind, *map(self.key, x), *map(self.key, x.values())) if self._may_visit(x) else _ByIdentity(x)
        return self._object_key(x)

    def _may_visit(self, x: Any) -> bool:
        self.remaining -= len(x)
        return self.remaining >= 0

    def _items(self, variables: dict[str, Any], names: tuple[str, ...] = ()) -> tuple:
        return tuple((name, self.key(value, names)) for name, value in variables.items() if name not in self.written)

    def _object_key(self, x: Any) -> Any:
        """Attributes and class of an object that is not a library's; for wrappers, the wrapped function."""
        if isinstance(x, type):
            return self._class_key(x)
        if _is_fixed(type(x).__module__) and not isinstance(x, SimpleNamespace | argparse.Namespace):
            inside = getattr(x, "__wrapped__", getattr(x, "fun", None)) if callable(x) else None
            return _ByIdentity(x) if inside is None else self.key(inside)
        call = getattr(type(x), "__call__", None)  # noqa: B004
        if isinstance(call, FunctionType) and len(self.visited) == 1:
            self.written |= _names(call.__code__).set_attributes
        declared = (getattr(one, "__slots__", ()) for one in type(x).__mro__)
        slots = [n for names in declared for n in ((names,) if isinstance(names, str) else names) if hasattr(x, n)]
        attributes = {n: getattr(x, n) for n in slots if n != "__dict__"} | getattr(x, "__dict__", {})
        return self.key(type(x)), self._items(attributes) if attributes else _ByIdentity(x)

    def _class_key(self, x: type) -> Any:
        classes = [] if _is_fixed(x.__module__) else [one for one in x.__mro__ if not _is_fixed(one.__module__)]
        written, self.written = self.written, frozenset()  # other code may set what methods set
        members = [
            {n: y for n, y in vars(one).items() if n[:2] != "__" or isinstance(y, FunctionType)} for one in classes
        ]
        self.classes += 1
        contents = tuple(map(self._items, members))
        self.classes -= 1
        self.written = written
        return contents or _ByIdentity(x)

    def _captured_by(self, function: FunctionType) -> tuple:
        """Variables that a function captures and does not assign: from its module, its closure and its defaults."""
        code, module = function.__code__, function.__globals__
        names = _names(code)
        fixed = _is_fixed(function.__module__, installed=len(self.visited) > 1)  # except for the user's own function
        captured = {} if fixed else {name: module[name] for name in names.all if name in module}
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
            with contextlib.suppress(ValueError):  # empty cell
                captured[name] = cell.cell_contents
        if not self.classes:
            self.written |= names.set_attributes
        defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        captured |= {f"({i})": x for i, x in enumerate(defaults)}
        return tuple((name, self.key(x, names.all)) for name, x in captured.items() if name not in names.set_outside)


def _array_key(x: Any) -> Any:
    if isinstance(x, jax.core.Tracer):
        return None
    if getattr(x.dtype, "hasobject", True):  # JAX arrays have other types, such as keys, but no objects
        return _ByIdentity(x)
    if x.size <= SMALL:
        return x.shape, x.dtype.str, np.asarray(x).tobytes()
    if isinstance(x, np.ndarray) and x.size <= LARGE:
        return x.shape, x.dtype.str, hash(x.tobytes())
    return _ByIdentity(x)


@functools.lru_cache(maxsize=1024)
def _is_fixed(module: str | None, installed: bool = True) -> bool:
    """True for modules that do not change: geonh's, Python's, or (optionally) ``installed`` ones."""
    package = (module or "").split(".")[0]
    imported = sys.modules.get(package)
    path = getattr(imported, "__file__", None) or next(iter(getattr(imported, "__path__", ())), None)
    if package == "__main__" or package not in sys.modules:
        return False
    if package == __name__.split(".")[0]:
        return True
    if path is None:  # not from a file
        return package in sys.builtin_module_names
    inside = any(folder in Path(path).parts for folder in ("site-packages", "dist-packages"))
    return (inside and installed) or (not inside and path.startswith(sysconfig.get_path("stdlib")))


class _Names(NamedTuple):
    """Names in code and nested functions: globals and attributes that it reads, and those that it assigns."""

    all: tuple[str, ...]
    set_outside: frozenset[str]
    set_attributes: frozenset[str]


@functools.lru_cache(maxsize=1024)
def _names(code: CodeType) -> _Names:
    names = dict.fromkeys(name for one in _codes(code) for name in one.co_names)
    steps = [step for one in _codes(code) for step in dis.get_instructions(one)]

    def of(instruction: str) -> frozenset[str]:
        return frozenset(str(step.argval) for step in steps if step.opname == instruction)

    outside = of("STORE_GLOBAL") | of("STORE_DEREF").intersection(code.co_freevars)
    return _Names(tuple(names), outside, of("STORE_ATTR"))


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Code object and those of nested functions."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _codes(const)
