"""Double precision without changes to the user's JAX configuration.

Everything in geonh is float64. Public entry points run inside ``float64()`` and return NumPy arrays; code under a
user's own ``jit``, ``grad`` or ``vmap`` must be traced in double precision, and ``require_float64`` checks that.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax


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


def is_traced(*trees: Any) -> bool:
    """True if any leaf is a JAX tracer; the caller is then marked, since it validates concrete values only."""
    traced = has_tracers(*trees)
    if traced:
        tracing.asked = True
    return traced


def has_tracers(*trees: Any) -> bool:
    """True if any leaf is a JAX tracer; ValueError for a list that contains itself."""
    try:
        leaves = [leaf for tree in trees for leaf in jax.tree.leaves(tree)]
    except (RecursionError, SystemError) as error:
        raise ValueError("an argument contains itself, or is nested too deeply") from error
    return any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)


def require_float64(name: str) -> None:
    """Raise unless JAX traces in double precision.

    Raises
    ------
    RuntimeError
        Inside a trace made without 64-bit types, where float32 would be used silently.
    """
    if not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        raise RuntimeError(
            f"{name} is traced in single precision; enclose your jit, grad or vmap call in `with geonh.float64():` "
            'or call jax.config.update("jax_enable_x64", True) first'
        )
