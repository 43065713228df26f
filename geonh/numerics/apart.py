"""Pieces of a program that are compiled each for itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax


def apart(number: Array, function: Callable, *args: Any) -> Any:
    """``function(*args)``, in a trace in a branch of its own, taken unless ``number`` is nan; then all is nan.

    XLA's fusion computes a shared value again in each of its users, whose numbers multiply along a chain; it does not
    look across a branch. So a long chain is cut where few values pass: a residual, the rates of one stage.

    Parameters
    ----------
    number : array, shape=[]
        Any float of the program that is never nan, and on which the result's being affine may depend.
    function : callable
        Of ``args``, with float results.
    """
    if not isinstance(number, jax.core.Tracer):
        return function(*args)
    shapes = jax.eval_shape(function, *args)
    nothing = lambda *_: jax.tree.map(lambda s: jnp.full(s.shape, jnp.nan, s.dtype), shapes)  # noqa: E731
    return lax.cond(number == number, function, nothing, *args)
