"""How the emitter holds a value: small arrays entry by entry, others in memory.

An entry is a Python number, known when the program is written, or the name of an LLVM value (``str``). Names begin
with ``%u`` where one value serves all lanes and with ``%v`` where each lane has its own; with a single lane all are
``%u``.
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
"""A known number, or the name of a value."""

STRAIGHT = 512
"""Arrays with more entries than this are in memory, and what is done to them is a loop."""


class NotLowered(Exception):
    """The engine has no code for this; the caller takes another path and says the reason, ``args[0]``."""


@dataclass(frozen=True, eq=False)
class Memory:
    """An array in memory, row-major, that does not change while a value refers to it.

    Attributes
    ----------
    pointer : str
        Of the first entry.
    shape : tuple of int
    kind : str
        Of the entries, as by ``kind_of``.
    wide : bool
        Whether each entry is a vector with one number for each lane.
    root : str
        Pointer of the array of which this is a part.
    """

    pointer: str
    shape: tuple[int, ...]
    kind: str
    wide: bool
    root: str = ""

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def reshape(self, shape: Sequence[int]) -> Memory:
        return Memory(self.pointer, tuple(shape), self.kind, self.wide, self.root)


Value: TypeAlias = "np.ndarray | Memory"
"""An object array of entries, or memory."""

TYPES = {"d": "double", "b": "i1", **{f"{s}{n}": f"i{n}" for s in "iu" for n in (8, 16, 32, 64)}}
"""LLVM's type of each kind of number: double precision, bool, signed and unsigned integers."""
DTYPES = {
    "d": np.dtype(np.float64),
    "b": np.dtype(np.bool_),
    **{f"{s}{n}": np.dtype(f"{word}{n}") for s, word in (("i", "int"), ("u", "uint")) for n in (8, 16, 32, 64)},
}
_KINDS = {dtype: kind for kind, dtype in DTYPES.items()}


def kind_of(aval: Any) -> str:
    """Kind of the entries of an abstract array.

    Raises
    ------
    NotLowered
        For single precision, complex numbers, random keys.
    """
    dtype = getattr(aval, "dtype", None)
    kind = _KINDS.get(dtype)  # type: ignore[arg-type]
    if kind is not None:
        return kind
    if dtype is None or jax.dtypes.issubdtype(dtype, jax.dtypes.extended) or np.dtype(dtype) not in _KINDS:
        raise NotLowered(f"values of type {dtype}")
    return _KINDS[np.dtype(dtype)]


def pack(entries: Sequence[Entry], shape: Sequence[int]) -> np.ndarray:
    """Object array of the entries; NumPy is kept from looking into them."""
    out = np.empty(len(entries), dtype=object)
    out[:] = entries
    return out.reshape(shape)


def spread(entries: np.ndarray, shape: tuple[int, ...]) -> list:
    """The entries of an array broadcast to a shape, in a row."""
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
    """Whether all entries are numbers."""
    return not any(isinstance(x, str) for x in entries)


def is_wide(entry: Entry) -> bool:
    """Whether each lane has its own value."""
    return isinstance(entry, str) and entry[1] == "v"


def same(x: Entry, y: Entry) -> bool:
    """Whether two entries are the same value, to the bit."""
    if type(x) is not type(y):
        return False
    return _bits(x) == _bits(y) if isinstance(x, float) and isinstance(y, float) else x == y


def literal(number: Entry, kind: str) -> str:
    """LLVM's text of a known number."""
    if kind == "d":
        return "0x" + _bits(float(number)).hex().upper()
    return ("true" if number else "false") if kind == "b" else str(int(number))


def _bits(number: float) -> bytes:
    return struct.pack(">d", number)
