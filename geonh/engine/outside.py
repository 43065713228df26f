"""Public methods called outside of a trace: traced once for each structure, and evaluated in NumPy.

So a first call compiles nothing, and later calls skip the method's Python code. A method runs directly if it needs
concrete values (it calls ``is_traced``, or branches on them), takes a function, returns more than arrays, or needs no
JAX for its arguments; so do methods of objects with mutable functions (partial functions, objects with attributes). The
captured variables of a user's function are compared on each call.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.extend.core import get_opaque_trace_state

from geonh.arguments.precision import tracing
from geonh.engine.captured import around
from geonh.engine.interpreted import interpret
from geonh.engine.tracing import forward_only

CALLS = 256
"""Maximum number of traces kept."""
SHORT = 20
"""Maximum number of equations of a method that may run on NumPy arrays without JAX."""
_CLEAN = get_opaque_trace_state()


class _Changing(TypeError):
    """Error for an object that cannot be part of a cache key."""


def call_in_numpy(method: Callable, args: tuple, kwargs: dict, *, kept: bool = True) -> Any:
    """``method(*args, **kwargs)``, of an object and arrays; if ``kept``, the trace is cached for the next call."""
    config: Any = jax.config
    if get_opaque_trace_state() != _CLEAN or config.jax_debug_nans or config.jax_debug_infs:
        return method(*args, **kwargs)
    try:
        if any(map(callable, jax.tree.leaves((args[1:], kwargs)))):
            raise _Changing("a function")
        leaves, structure = jax.tree.flatten((args, kwargs))
        static = tuple(None if _is_number(x) else _key(x) for x in leaves)
        arrays = [x for x, key in zip(leaves, static, strict=True) if key is None]
        types = tuple((np.shape(x), getattr(x, "dtype", np.dtype(float))) for x in arrays)
        by_jax = any(isinstance(x, jax.Array) for x in arrays)
        trace = _traced if kept else _traced.__wrapped__
        traced = trace(method, structure, static, types, by_jax, kept)
        # JAX may reuse the memory of its arguments, hence the copies.
        found = traced and list(map(np.array, interpret(traced[0], arrays)))
    except Exception:  # the direct call raises the error
        traced = None
    if not traced:
        return _apart(method(*args, **kwargs), (args, kwargs))
    return jax.tree.unflatten(traced[1], jax.device_put(found))


def _apart(found: Any, given: Any) -> Any:
    """Copy NumPy results that share memory with the arguments."""
    if type(found) is tuple:
        return tuple(_apart(part, given) for part in found)
    if not isinstance(found, np.ndarray):
        return found
    shared = any(np.may_share_memory(found, x) for x in jax.tree.leaves(given) if isinstance(x, np.ndarray))
    return found.copy() if shared else found


def _is_number(x: Any) -> bool:
    """True if a leaf is an argument of the trace: an array of numbers, or a float."""
    if isinstance(x, float):
        return True
    if not isinstance(x, np.ndarray | np.generic | jax.Array):
        return False
    if isinstance(x, np.ma.MaskedArray) or not isinstance(x.dtype, np.dtype) or x.dtype.kind not in "fiub":
        raise _Changing("an array of something else")
    if not x.dtype.isnative:
        raise _Changing("an array of another machine")
    return True


class _Same:
    """Leaf that compares by identity, and its captured variables."""

    def __init__(self, leaf: Any) -> None:
        self.leaf, self.around = leaf, around(leaf)

    def __hash__(self) -> int:
        return hash((id(self.leaf), self.around))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.leaf is other.leaf and self.around == other.around


def _key(leaf: Any) -> Any:
    """Cache key of a leaf that is not a number."""
    frozen = dataclasses.is_dataclass(leaf) and type(leaf).__hash__ is not None  # immutable
    if callable(leaf) and not isinstance(leaf, FunctionType | type) and not frozen:
        raise _Changing("a function that may change")
    return _Same(leaf) if callable(leaf) else (type(leaf), leaf)


def _leaf(key: Any) -> Any:
    return key.leaf if isinstance(key, _Same) else key[1]


@functools.lru_cache(maxsize=CALLS)
def _traced(
    method: Callable, structure: Any, static: tuple, types: tuple, by_jax: bool, kept: bool
) -> tuple[Any, Any] | None:
    """Jaxpr of a method and structure of its results; None if it must run directly.

    If not ``kept``, the traces of functions that it calls are not kept either.
    """
    simple = True

    def called(arrays: Any) -> Any:
        left = iter(arrays)
        args, kwargs = jax.tree.unflatten(structure, [next(left) if key is None else _leaf(key) for key in static])
        return method(*args, **kwargs)

    def flat(*arrays: Any) -> Any:
        nonlocal simple
        found = called(arrays)
        leaves = jax.tree.leaves(found, is_leaf=lambda x: isinstance(x, eqx.Module))
        simple = any(isinstance(x, jax.core.Tracer) for x in leaves) and all(
            isinstance(x, jax.core.Tracer | jax.Array | np.ndarray) for x in leaves
        )
        return found if simple else ()

    before, tracing.asked = tracing.asked, False
    try:
        with forward_only() if kept else contextlib.nullcontext():
            closed, results = jax.make_jaxpr(flat, return_shape=True)(*(jax.ShapeDtypeStruct(*t) for t in types))
            asked = tracing.asked
            if not by_jax and len(closed.jaxpr.eqns) <= SHORT:  # without JAX, NumPy arrays lead to no equations
                some = [np.ones(shape, dtype) for shape, dtype in types]
                asked |= not jax.make_jaxpr(lambda: called(some))().jaxpr.eqns
    except Exception:  # the direct call raises the error, for its own arguments
        return None
    finally:
        tracing.asked = before
    return None if asked or not simple or closed.effects else (closed, jax.tree.structure(results))
