"""Double precision without changes to the user's JAX configuration.

Everything in geonh is float64. Public entry points run inside ``float64()`` and return NumPy arrays; code under a
user's own ``jit``, ``grad`` or ``vmap`` must be traced in double precision, and ``require_float64`` checks that.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import jax
import numpy as np

_KNOWN = {np.ndarray, np.float64, float, int, bool, str, type(None)}
"""Types of values that are no tracers, and contain none."""


class _Tracing(threading.local):
    """Thread-local flag: set if the function being traced asked whether it is traced; its trace is then not reused."""

    asked = False


tracing = _Tracing()


@contextmanager
def float64() -> Iterator[None]:
    """Context in which JAX computes in double precision, with type promotion as in NumPy.

    Thread-local, and undone on exit: ``with gn.float64(): ...``.

    Returns
    -------
    context manager
    """
    if is_float64():
        yield
        return
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def is_float64() -> bool:
    """True if JAX is configured as by ``float64``."""
    config: Any = jax.config
    return (
        config.jax_enable_x64
        and config.jax_numpy_dtype_promotion == "standard"
        and config.jax_numpy_rank_promotion == "allow"
    )


def is_traced(*trees: Any, **named: Any) -> bool:
    """``has_tracers``; if true the caller is marked, since it validates concrete values only."""
    traced = has_tracers(*trees, **named)
    if traced:
        tracing.asked = True
    return traced


def has_tracers(*trees: Any, **named: Any) -> bool:
    """True if any leaf of the arguments is a JAX tracer; errors call those that are given by name so. Raises
    ValueError, naming the argument, for a list that contains itself, and a mapping with keys that have no order.
    """
    found = False
    for name, tree in chain((("an argument", tree) for tree in trees), named.items()):
        if type(tree) in _KNOWN:
            continue
        try:
            found = any(map(_is_tracer, jax.tree.leaves(tree))) or found
        except (RecursionError, SystemError) as error:
            raise ValueError(f"{name} contains itself, or is nested too deeply") from error
        except ValueError as error:
            raise ValueError(f"{name} must have keys of one type, which can be sorted: {error}") from error
    return found


def _is_tracer(leaf: Any) -> bool:
    return type(leaf) not in _KNOWN and isinstance(leaf, jax.core.Tracer)


def refuse_traced(advice: str, **named: Any) -> None:
    """Raise TypeError for arguments with tracers, by their names, with what to do."""
    traced = [name for name, value in named.items() if type(value) not in _KNOWN and is_traced(**{name: value})]
    if traced:
        raise TypeError(f"{', '.join(traced)} must not be traced: {advice}")


class TracedError(TypeError):
    """A number that must be known is traced."""


UNTRACEABLE = (
    TracedError,
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)
"""Errors where the value of a tracer is needed, those of JAX too."""


def require_float64(name: str) -> None:
    """Raise unless JAX traces in double precision; RuntimeError inside a trace made without 64-bit types, where float32
    would be used silently.
    """
    if not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        raise RuntimeError(
            f"{name} is traced in single precision; enclose your jit, grad or vmap call in `with geonh.float64():` "
            'or call jax.config.update("jax_enable_x64", True) first'
        )
