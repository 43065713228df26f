"""Validators of user input: float64 numbers, counts, flags, names; errors name the argument and the remedy."""

from __future__ import annotations

import datetime
import decimal
import difflib
import numbers
from collections.abc import Iterable
from itertools import islice
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from geonh.arguments.precision import TracedError, is_traced, require_float64

MOST = 100_000
"""Largest number of objects in an argument that lists them."""
_FLOAT64 = np.dtype(np.float64)
_KINDS = {"c": "complex numbers", "M": "dates", "m": "durations", "U": "text", "S": "text", "b": "truth values"}


def as_float64(value: Any, name: str, shape: tuple[int, ...] | None = None, *, finite: bool = True) -> Any:
    """Convert input to float64; traced values stay traced. Unless ``finite``, nan and inf are accepted. Raises
    TypeError if the value is in single precision already, or not of real numbers: nothing is cast silently; ValueError
    if it does not have the given shape, or is not finite and must be.
    """
    ready = _ready(value)
    if ready is not None and shape in (None, ready.shape) and (not finite or np.isfinite(ready).all()):
        return np.array(ready)
    traced = is_traced(**{name: value})
    for leaf in jax.tree.leaves(value):
        refuse_single(leaf, name)
    if isinstance(value, np.ndarray) and shape not in (None, value.shape):  # before a large one is copied
        raise ValueError(f"{name} must have shape {shape}, got {value.shape}")
    if traced:
        require_float64(name)
        array = _traced(value, name)
    else:
        array = _converted(value, name)
        if finite and not np.all(np.isfinite(array)):
            where = np.argwhere(~np.isfinite(array))[0].tolist()
            what = f"has entries that are not finite, the first at {where}: {shortly(array.tolist())}"
            raise ValueError(f"{name} {what if array.ndim else f'must be finite, got {array}'}")
    if shape is not None and tuple(array.shape) != shape:
        raise ValueError(f"{name} must have shape {shape}, got {tuple(array.shape)}")
    return array


def _ready(value: Any) -> Any:
    """Array of a value whose shape alone is to be checked: a float, a list of them, a float64 array; else None."""
    kind = type(value)
    if kind is np.ndarray:
        return value if value.dtype is _FLOAT64 else None
    if kind is float or kind is np.float64:
        return np.asarray(value)
    listed = kind is list or kind is tuple
    return np.asarray(value) if listed and value and all(type(entry) is float for entry in value) else None


def _are_arrays(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(part, np.ndarray) for part in value)


def is_whole(value: Any) -> bool:
    """True if a value is an integer; bool does not count, nor does a duration, which NumPy counts among integers."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def entries(value: Any) -> list | None:
    """Entries of a list or another iterable, but not of text; else None."""
    try:
        found = None if isinstance(value, str | bytes) else list(islice(value, MOST + 1))
    except Exception:  # objects that are iterable in name only: a sparse matrix, a memory view of two axes
        return None
    return found if found is None or len(found) <= MOST else None  # an iterator may have no end


def as_count(value: Any, name: str, least: int = 1) -> int:
    """Validate an integer of at least ``least``, returned as an int; ValueError if it is not an integer (a bool is
    not), is less than ``least``, or not below 2^53.
    """
    is_integer = is_whole(value)
    if not is_integer or not least <= value < 2**53:
        kind = "a positive integer" if least == 1 else f"an integer, at least {least}"
        known = "; under jit it must be static" if is_traced(**{name: value}) else ""
        bound = " below 2^53" if is_integer and value >= 2**53 else ""
        raise ValueError(f"{name} must be {kind}{bound}, got {shortly(value)}{known}")
    return int(value)


def as_positive(value: Any, name: str, shape: tuple[int, ...] | None = None) -> Any:
    """Validate positive numbers of a shape, as float64; traced ones are not compared. Raises TypeError or ValueError if
    they are not numbers, of another shape, or not positive.
    """
    array = as_float64(value, name, shape)
    if not is_traced(array) and not np.all(array > 0):
        raise ValueError(f"{name} must be positive, got {value}")
    return array


def as_constant(
    value: Any, name: str, shape: tuple[int, ...] | None = (), *, positive: bool = False, finite: bool = True
) -> Any:
    """Convert numbers that a trace must know, and are not traced themselves, to float64. Raises TypeError or ValueError
    if they are traced; else as of ``as_float64``, or ``as_positive``.
    """
    if is_traced(**{name: value}):
        raise TracedError(f"{name} is traced, and must be known: it is a constant of compiled programs")
    return as_positive(value, name, shape) if positive else as_float64(value, name, shape, finite=finite)


def as_part(value: Any, name: str) -> float:
    """Validate a number in (0, 1), such as a relative tolerance; TypeError or ValueError if it is not one."""
    number = float(as_constant(value, name))
    if not 0 < number < 1:
        raise ValueError(f"{name} must lie in (0, 1), got {shortly(value)}")
    return number


def as_flag(value: Any, name: str) -> bool:
    """Validate a bool; TypeError if it is not one."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {shortly(value)}")
    return bool(value)


def as_text(value: Any, name: str) -> str:
    """Validate a str; TypeError if it is none."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, got {shortly(value)}")
    return str(value)


def as_names(value: Any, name: str) -> list[str]:
    """Validate a list of str. Raises TypeError if it is not one; a single str is not."""
    if not isinstance(value, list | tuple) or not all(isinstance(entry, str) for entry in value):
        raise TypeError(f"{name} must be a list of names, got {shortly(value)}")
    return list(value)


def one_of(value: Any, name: str, choices: Iterable) -> Any:
    """Return the value if it is one of the choices; ValueError if not, or for a bool among numbers."""
    known = list(choices)
    value = int(value) if isinstance(value, np.integer) and is_whole(value) else value
    if isinstance(value, bool) or not isinstance(value, int | str) or value not in known:
        raise ValueError(f"{name} must be one of {known}, got {shortly(value)}")
    return value


def shortly(value: Any) -> str:
    """Short representation of a value, on about one line, also for objects whose repr fails."""
    try:
        value = value.item() if type(value) is np.ndarray and value.ndim == 0 else value
        text = str(value)[:40] if isinstance(value, int) else repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) < 80 else f"{text[:77]}…"


def close(word: str, words: Iterable[str]) -> str:
    """Suggestion "; did you mean …?" of similar words, or "" if there are none."""
    pool = list(words)
    matches = difflib.get_close_matches(word.lower(), pool, n=3, cutoff=0.5)
    matches = matches or [w for w in pool if len(word) > 2 and word.lower() in w][:3]
    return f"; did you mean {' or '.join(matches)}?" if matches else ""


def _converted(value: Any, name: str) -> np.ndarray:
    """Convert a value that is not traced to a float64 array."""
    parts = jax.tree.leaves(value, is_leaf=lambda leaf: leaf is None) if isinstance(value, list | tuple) else [value]
    for cls in {type(part) for part in parts}:
        if issubclass(cls, np.ma.MaskedArray):
            raise TypeError(f"{name} is a masked array; fill or drop the masked entries first")
        if issubclass(cls, bool | np.bool_ | bytearray):  # which NumPy would accept as numbers in some lists
            words = "text" if issubclass(cls, bytearray) else "truth values"
            raise TypeError(f"{name} must be real numbers, got {words}: {shortly(value)}")
        if hasattr(cls, "to_value") or hasattr(cls, "to_base_units"):  # quantities of Astropy, of Pint
            raise TypeError(f"{name} has a unit, {shortly(value)}: give the numbers, in the units of the system (SI)")
    try:
        array = np.asarray(value)
    except ValueError as error:  # lists of unequal lengths
        how = "; np.concatenate makes one array of several" if _are_arrays(value) else ""
        raise ValueError(f"{name} is a nested list of unequal lengths: {shortly(value)}{how}") from error
    except Exception as error:  # random keys, data sets of xarray, arrays that cannot be copied to the host
        raise TypeError(f"{name} must be numeric, got {shortly(value)}") from error
    refuse_single(array, name)  # objects that were not arrays before: a tensor, a buffer
    kind = str(array.dtype.kind)
    if kind == "O":
        kind = next((_kind(entry) for entry in array.flat if _kind(entry)), "")
    if kind in _KINDS:
        raise TypeError(f"{name} must be real numbers, got {_KINDS[kind]}: {shortly(value)}")
    try:
        if kind == "V":
            raise TypeError("records")
        converted = np.array(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{name} must be numeric, got {shortly(value)}") from error
    with np.errstate(invalid="ignore"):
        if kind in ("i", "u") and not np.array_equal(converted.astype(array.dtype), array):
            raise TypeError(f"{name} has integers beyond 2^53 that float64 does not hold: {shortly(value)}")
    return converted


def _kind(entry: Any) -> str:
    """NumPy kind character of an entry of an object array, "V" if it is not a number; "" for real numbers."""
    if isinstance(entry, bool | np.bool_):
        return "b"
    if isinstance(entry, np.generic | np.ndarray) and entry.shape == ():
        return entry.dtype.kind if entry.dtype.kind in _KINDS else ""
    if isinstance(entry, numbers.Real | decimal.Decimal) or getattr(entry, "shape", None) == ():
        return ""
    return {
        str: "U",
        bytes: "S",
        complex: "c",
        datetime.datetime: "M",
        datetime.date: "M",
        datetime.timedelta: "m",
    }.get(type(entry), "V")


def _traced(value: Any, name: str) -> Any:
    """Convert a value that is traced, wholly or in part, to a float64 array."""
    array = jnp.asarray(value)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{name} must be real numbers, got {_KINDS.get(array.dtype.kind, array.dtype.name)}")
    return array.astype(float)


def is_rounded(dtype: Any) -> bool:
    """True for a floating-point type with fewer digits than float64, such as float32 or bfloat16."""
    return isinstance(dtype, np.dtype) and jnp.issubdtype(dtype, jnp.inexact) and dtype.itemsize < 8


def refuse_single(value: Any, name: str) -> None:
    dtype: Any = getattr(value, "dtype", None)
    if is_rounded(dtype):
        raise TypeError(
            f"{name} is {dtype.name}, its digits are lost already; pass Python floats or NumPy float64 "
            "arrays (JAX makes float32 arrays unless 64-bit types are enabled: trace within geonh.float64())"
        )


def refuse_infinite(value: Any, name: str) -> None:
    """Raise ValueError for nan and inf among the numbers of a pytree, as far as they are known."""
    for leaf in jax.tree.leaves(value):
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            raise TypeError(f"{name} must be real numbers, got a key of jax.random")
        if not is_traced(**{name: leaf}) and not np.all(np.isfinite(leaf)):
            raise ValueError(f"{name} must be finite, got {shortly(np.asarray(leaf).tolist())}")


def refuse_kinds(value: Any, name: str) -> None:
    """Raise TypeError for an array that is masked, or not of numbers or bools."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array; fill or drop the masked entries first")
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind in _KINDS and kind != "b":
        raise TypeError(f"{name} must be real numbers, got {_KINDS[kind]}: {shortly(value)}")
