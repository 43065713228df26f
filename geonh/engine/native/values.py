"""Representation of values in the emitter: small arrays entry by entry, others in memory.

An entry is a Python number, known at compile time, or the name of an LLVM value (``str``). Names begin with ``%u`` if
the value is uniform over all lanes and with ``%v`` if it varies by lane; with a single lane all are ``%u``.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import numpy as np

Entry: TypeAlias = str | float | int | bool
"""Known number, or name of an LLVM value."""

STRAIGHT = 256
"""Maximum number of entries of an array held entry by entry; larger ones are in memory, and processed in loops."""
WIDTH = 8
"""Number of entries of an array in memory that are processed in one vector."""


class NotLowered(Exception):
    """Error: the engine has no lowering; the caller falls back to another path and reports the reason, ``args[0]``."""


@dataclass(frozen=True, eq=False)
class Memory:
    """Array in memory, row-major, not modified while a value refers to it.

    Attributes
    ----------
    pointer : str
        Pointer to the first entry.
    shape : tuple of int
    kind : str
        Kind of the entries, as by ``kind_of``.
    wide : bool
        True if each entry is a vector with one number for each lane.
    root : str
        Pointer of the array that contains this one.
    zeros : array of bool, shape=[size], or None
        Entries that are known to be zero.
    """

    pointer: str
    shape: tuple[int, ...]
    kind: str
    wide: bool
    root: str = ""
    zeros: np.ndarray | None = None

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def reshape(self, shape: Sequence[int]) -> Memory:
        return Memory(self.pointer, tuple(shape), self.kind, self.wide, self.root, self.zeros)


Value: TypeAlias = "np.ndarray | Memory"
"""Object array of entries, or memory."""

TYPES = {"d": "double", "b": "i1", **{f"{s}{n}": f"i{n}" for s in "iu" for n in (8, 16, 32, 64)}}
"""LLVM type of each kind of number: double precision, bool, signed and unsigned integers."""
DTYPES = {
    "d": np.dtype(np.float64),
    "b": np.dtype(np.bool_),
    **{f"{s}{n}": np.dtype(f"{word}{n}") for s, word in (("i", "int"), ("u", "uint")) for n in (8, 16, 32, 64)},
}
_KINDS = {dtype: kind for kind, dtype in DTYPES.items()}


def kind_of(aval: Any) -> str:
    """Kind of the entries of an abstract array; NotLowered for single precision, complex numbers, random keys."""
    dtype = getattr(aval, "dtype", None)
    kind = _KINDS.get(dtype)  # type: ignore[arg-type]
    if kind is not None:
        return kind
    if dtype is None or jax.dtypes.issubdtype(dtype, jax.dtypes.extended) or np.dtype(dtype) not in _KINDS:
        raise NotLowered(f"values of type {dtype}")
    return _KINDS[np.dtype(dtype)]


def pack(entries: Sequence[Entry], shape: Sequence[int]) -> np.ndarray:
    """Object array of the entries, which NumPy does not inspect."""
    out = np.empty(len(entries), dtype=object)
    out[:] = entries
    return out.reshape(shape)


def number(entry: Entry) -> np.ndarray:
    """Object array of one entry, without axes."""
    out = np.empty((), dtype=object)
    out[()] = entry
    return out


def spread(entries: np.ndarray, shape: tuple[int, ...]) -> list:
    """Flat list of the entries of an array broadcast to a shape."""
    if entries.shape == shape:
        return entries.ravel().tolist()
    if entries.size == 1:
        return [entries.item()] * math.prod(shape)
    return np.broadcast_to(entries, shape).ravel().tolist()


def constants(array: Any) -> np.ndarray:
    """Entries of a known array, as Python numbers."""
    array = np.asarray(array)
    return pack(array.ravel().tolist(), array.shape)


def known(*entries: Entry) -> bool:
    """True if all entries are known numbers."""
    return not any(isinstance(x, str) for x in entries)


def zeros(value: Value) -> np.ndarray:
    """Entries that are known to be zero, all their bits, shape=[size]."""
    if isinstance(value, Memory):
        return np.zeros(value.size, bool) if value.zeros is None else value.zeros
    is_zero = [not isinstance(x, str) and x == 0 and math.copysign(1, x) > 0 for x in value.ravel().tolist()]
    return np.array(is_zero, bool)


def is_wide(entry: Entry) -> bool:
    """True if the entry varies by lane."""
    return isinstance(entry, str) and entry[1] == "v"


def same(x: Entry, y: Entry) -> bool:
    """True if two entries are the same value, bit for bit."""
    if type(x) is not type(y):
        return False
    return _bits(x) == _bits(y) if isinstance(x, float) and isinstance(y, float) else x == y


def literal(number: Entry, kind: str) -> str:
    """LLVM literal of a known number."""
    if kind == "d":
        return "0x" + _bits(float(number)).hex().upper()
    return ("true" if number else "false") if kind == "b" else str(int(number))


def _bits(number: float) -> bytes:
    return struct.pack(">d", number)
