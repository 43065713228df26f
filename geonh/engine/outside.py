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
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from geonh.arguments.precision import tracing
from geonh.engine.captured import captured_variables
from geonh.engine.internals import get_opaque_trace_state
from geonh.engine.interpreted import interpret
from geonh.engine.tracing import forward_only

CALLS = 256
"""Maximum number of traces kept."""
SHORT = 20
"""Maximum number of equations of a method that may run on NumPy arrays without JAX."""
_CLEAN = get_opaque_trace_state()


class _NotHashableError(TypeError):
    """Error for an object that cannot be part of a cache key."""


class _Call(NamedTuple):
    """Call of a method, without the numbers that it is given: the cache key of its trace.

    Attributes
    ----------
    method : callable
    structure : hashable
        Of the pytree (args, kwargs).
    static : tuple
        Key of each leaf; None for numbers, which are arguments of the trace.
    types : tuple
        Shape and dtype of the numbers.
    by_jax : bool
        True if some of them are arrays of JAX.
    kept : bool
        False if neither this trace nor those of functions that the method calls are to be kept.
    """

    method: Callable
    structure: Any
    static: tuple
    types: tuple
    by_jax: bool
    kept: bool

    @classmethod
    def of(cls, method: Callable, args: tuple, kwargs: dict, kept: bool) -> tuple[_Call, list[Any]]:
        """The call, and its numbers."""
        leaves, structure = jax.tree.flatten((args, kwargs))
        static = tuple(None if _is_number(x) else _key(x) for x in leaves)
        numbers = [x for x, key in zip(leaves, static, strict=True) if key is None]
        types = tuple((np.shape(x), getattr(x, "dtype", np.dtype(float))) for x in numbers)
        return cls(method, structure, static, types, any(isinstance(x, jax.Array) for x in numbers), kept), numbers

    def __call__(self, *numbers: Any) -> Any:
        """Result of the method for these numbers."""
        left = iter(numbers)
        leaves = [next(left) if key is None else _leaf(key) for key in self.static]
        args, kwargs = jax.tree.unflatten(self.structure, leaves)
        return self.method(*args, **kwargs)


class _Trace(NamedTuple):
    """Jaxpr of a call on its numbers, and structure of its results."""

    closed: Any
    structure: Any


def call_in_numpy(method: Callable, args: tuple, kwargs: dict, *, kept: bool = True) -> Any:
    """``method(*args, **kwargs)``, of an object and arrays; if ``kept``, the trace is cached for the next call."""
    config: Any = jax.config
    if get_opaque_trace_state() != _CLEAN or config.jax_debug_nans or config.jax_debug_infs:
        return method(*args, **kwargs)
    try:
        if any(map(callable, jax.tree.leaves((args[1:], kwargs)))):
            raise _NotHashableError("a function")
        call, numbers = _Call.of(method, args, kwargs, kept)
        trace = (_traced if kept else _traced.__wrapped__)(call)
        # JAX may reuse the memory of its arguments, hence the copies.
        results = trace and list(map(np.array, interpret(trace.closed, numbers)))
    except Exception:  # the direct call raises the error
        trace = None
    if not trace:
        return _copied_if_shared(method(*args, **kwargs), (args, kwargs))
    return jax.tree.unflatten(trace.structure, jax.device_put(results))


def _copied_if_shared(result: Any, given: Any) -> Any:
    """Copy NumPy results that share memory with the arguments."""
    if type(result) is tuple:
        return tuple(_copied_if_shared(part, given) for part in result)
    if not isinstance(result, np.ndarray):
        return result
    shared = any(np.may_share_memory(result, x) for x in jax.tree.leaves(given) if isinstance(x, np.ndarray))
    return result.copy() if shared else result


def _is_number(x: Any) -> bool:
    """True if a leaf is an argument of the trace: an array of numbers, or a float."""
    if isinstance(x, float):
        return True
    if not isinstance(x, np.ndarray | np.generic | jax.Array):
        return False
    if isinstance(x, np.ma.MaskedArray) or not isinstance(x.dtype, np.dtype) or x.dtype.kind not in "fiub":
        raise _NotHashableError("an array of something else")
    if not x.dtype.isnative:
        raise _NotHashableError("an array of another machine")
    return True


class _FunctionKey:
    """Leaf that compares by identity, and its captured variables."""

    def __init__(self, leaf: Any) -> None:
        self.leaf, self.captured = leaf, captured_variables(leaf)

    def __hash__(self) -> int:
        return hash((id(self.leaf), self.captured))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _FunctionKey) and self.leaf is other.leaf and self.captured == other.captured


def _key(leaf: Any) -> Any:
    """Cache key of a leaf that is not a number."""
    frozen = dataclasses.is_dataclass(leaf) and type(leaf).__hash__ is not None  # immutable
    if callable(leaf) and not isinstance(leaf, FunctionType | type) and not frozen:
        raise _NotHashableError("a function that may change")
    return _FunctionKey(leaf) if callable(leaf) else (type(leaf), leaf)


def _leaf(key: Any) -> Any:
    return key.leaf if isinstance(key, _FunctionKey) else key[1]


@functools.lru_cache(maxsize=CALLS)
def _traced(call: _Call) -> _Trace | None:
    """Trace of a call; None if it must run directly."""
    returns_arrays = True

    def function(*numbers: Any) -> Any:
        nonlocal returns_arrays
        result = call(*numbers)
        leaves = jax.tree.leaves(result, is_leaf=lambda x: isinstance(x, eqx.Module))
        returns_arrays = any(isinstance(x, jax.core.Tracer) for x in leaves) and all(
            isinstance(x, jax.core.Tracer | jax.Array | np.ndarray) for x in leaves
        )
        return result if returns_arrays else ()

    before, tracing.asked = tracing.asked, False
    try:
        with forward_only() if call.kept else contextlib.nullcontext():
            closed, results = jax.make_jaxpr(function, return_shape=True)(
                *(jax.ShapeDtypeStruct(*t) for t in call.types)
            )
            direct = tracing.asked or (len(closed.jaxpr.eqns) <= SHORT and _needs_no_jax(call))
    except Exception:  # the direct call raises the error, for its own arguments
        return None
    finally:
        tracing.asked = before
    return None if direct or not returns_arrays or closed.effects else _Trace(closed, jax.tree.structure(results))


def _needs_no_jax(call: _Call) -> bool:
    """True if the method computes on arrays of NumPy, as it was given them, without JAX."""
    some = [np.ones(shape, dtype) for shape, dtype in call.types]
    return not call.by_jax and not jax.make_jaxpr(lambda: call(*some))().jaxpr.eqns
