"""How the scalar evaluation holds a value: entry by entry, or whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import lax

WHOLE = 600
"""Arrays with more entries than this stay arrays,"""
RANK = 5
"""and so do those of this rank or more, which is how a caller asks for it."""


def is_constant(entry: Any) -> bool:
    return isinstance(entry, np.generic)


def is_whole(aval: Any) -> bool:
    plain = hasattr(aval, "shape") and not jax.dtypes.issubdtype(aval.dtype, jax.dtypes.extended)
    return not plain or aval.size > WHOLE or aval.ndim >= RANK


def pack(entries: Sequence, shape: Sequence[int]) -> np.ndarray:
    """Object array of the entries; NumPy is kept from looking into them."""
    out = np.empty(len(entries), dtype=object)
    for i, entry in enumerate(entries):
        out[i] = entry
    return out.reshape(shape)


def entries_of(array: Any) -> Any:
    """The entries of an array, or the array itself if it stays whole."""
    if is_whole(jax.typeof(array)):
        return array
    if not isinstance(array, jax.core.Tracer):
        array = np.asarray(array)
        return pack([array.dtype.type(x) for x in array.flat], array.shape)
    if array.ndim == 0:
        return pack([array], ())
    flat = lax.reshape(array, (array.size,))
    return pack([lax.squeeze(lax.slice(flat, (i,), (i + 1,)), (0,)) for i in range(array.size)], array.shape)


def array_of(value: Any, aval: Any) -> Any:
    """The array, as NumPy's if it is known."""
    if is_whole(aval):
        return value
    entries = value.ravel()
    if all(map(is_constant, entries)):
        return np.array(list(entries), dtype=aval.dtype).reshape(aval.shape)
    entries = [strong(x, aval.dtype) for x in entries]
    if aval.ndim == 0:
        return entries[0]
    return lax.reshape(lax.concatenate([lax.reshape(x, (1,)) for x in entries], 0), aval.shape)


def strong(entry: Any, dtype: Any) -> Any:
    """A JAX scalar without weak type, so that a loop's carry keeps its type."""
    return np.asarray(entry, dtype) if is_constant(entry) else lax.convert_element_type(entry, dtype)


def flatten(values: Sequence, avals: Sequence) -> tuple:
    """One flat tuple of JAX scalars (and whole arrays): how loops carry values."""
    flat: list = []
    for value, aval in zip(values, avals, strict=True):
        flat += [value] if is_whole(aval) else [strong(x, aval.dtype) for x in value.ravel()]
    return tuple(flat)


def literal_of(literal: Any) -> np.ndarray:
    return np.asarray(literal.val, literal.aval.dtype)


def unflatten(flat: Sequence, avals: Sequence) -> list:
    entries, values = iter(flat), []
    for aval in avals:
        whole = is_whole(aval)
        values.append(next(entries) if whole else pack([next(entries) for _ in range(aval.size)], aval.shape))
    return values
