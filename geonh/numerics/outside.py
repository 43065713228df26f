"""Public methods that are called outside of a trace: traced once for a structure, and computed in NumPy.

So a first call compiles nothing, and a later one does not go through a method's Python again. A method that must see
the numbers of its arguments (it asks ``is_traced``, or branches on them), that takes a function, or whose result is
more than arrays, runs as it is.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.extend.core import get_opaque_trace_state

from geonh.numerics.interpreted import interpret
from geonh.numerics.tracing import forward_only

CALLS = 256
"""Traces that are kept."""
_CLEAN = get_opaque_trace_state()


class _Tracing(threading.local):
    """Whether a method that is being traced here asked for what a trace does not know."""

    asked = False


_tracing = _Tracing()


def trace_was_asked() -> None:
    """Say that what is being computed depends on whether it is traced."""
    _tracing.asked = True


def evaluated(method: Callable, args: tuple, kwargs: dict) -> Any:
    """``method(*args, **kwargs)``, of an object and arrays."""
    if get_opaque_trace_state() != _CLEAN or any(map(callable, jax.tree.leaves((args[1:], kwargs)))):
        return method(*args, **kwargs)
    leaves, structure = jax.tree.flatten((args, kwargs))
    arrays = [x for x in leaves if isinstance(x, _NUMBERS)]
    static = tuple(None if isinstance(x, _NUMBERS) else (type(x), x) for x in leaves)
    types = tuple((np.shape(x), getattr(x, "dtype", np.dtype(float))) for x in arrays)
    try:
        traced = _traced(method, structure, static, types)
    except TypeError:  # something is not hashable
        traced = None
    if traced is None:
        return method(*args, **kwargs)
    closed, results = traced
    return jax.tree.unflatten(results, jax.device_put(interpret(closed, arrays)))


_NUMBERS = (np.ndarray, np.generic, jax.Array, float)


@functools.lru_cache(maxsize=CALLS)
def _traced(method: Callable, structure: Any, static: tuple, types: tuple) -> tuple[Any, Any] | None:
    """The jaxpr of a method and the structure of its results; None if it must run as it is."""
    simple = True

    def flat(*arrays: Any) -> Any:
        nonlocal simple
        left = iter(arrays)
        args, kwargs = jax.tree.unflatten(structure, [next(left) if x is None else x[1] for x in static])
        found = method(*args, **kwargs)
        leaves = jax.tree.leaves(found, is_leaf=lambda x: isinstance(x, eqx.Module))
        simple = any(isinstance(x, jax.core.Tracer) for x in leaves) and all(
            isinstance(x, jax.core.Tracer | jax.Array | np.ndarray) for x in leaves
        )
        return found if simple else ()

    before, _tracing.asked = _tracing.asked, False
    try:
        with forward_only():
            closed, results = jax.make_jaxpr(flat, return_shape=True)(*(jax.ShapeDtypeStruct(*t) for t in types))
        asked = _tracing.asked
    except Exception:  # as it runs, it tells why, of its own arguments
        return None
    finally:
        _tracing.asked = before
    return None if asked or not simple or closed.effects else (closed, jax.tree.structure(results))
