"""Arrays in memory: buffers, constant tables, loads and stores by lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from geonh.engine.native.builder import Builder
from geonh.engine.native.values import (
    DTYPES,
    STRAIGHT,
    Entry,
    Memory,
    NotLowered,
    Value,
    is_wide,
    kind_of,
    known,
    literal,
    pack,
    zeros,
)

APART = 4096
"""Largest array in memory that is unpacked entry by entry."""

INLINE = 2**15
"""Maximum number of bytes copied without a call."""

LINE = 64
"""Size of a cache line of the CPU in bytes, or a divisor of it."""


class Storage(Builder):
    """Builder with memory operations."""

    def __init__(self, lanes: int = 1, *, fma: bool = True) -> None:
        super().__init__(lanes, fma=fma)
        self._tables: dict[tuple, str] = {}

    def buffer(self, shape: Sequence[int], kind: str, *, wide: bool = True) -> Memory:
        """Allocate a stack buffer of the function, to be written once in each pass; of numbers by lane if ``wide``."""
        pointer, wide = self.function.name(), wide and self.lanes > 1
        n = max(int(np.prod(shape, dtype=int)), 1)
        self.stored += n * DTYPES[kind].itemsize * (self.lanes if wide else 1) + LINE
        self.function.allocas.append(f"{pointer} = alloca [{n} x {self._stored(kind, wide)}], align 64")
        return Memory(pointer, tuple(shape), kind, wide, pointer)

    def table(self, array: np.ndarray, kind: str) -> Memory:
        """Emit a constant array."""
        key = (array.tobytes(), kind)
        if key not in self._tables:
            self._tables[key] = name = f"@t{len(self._tables)}"
            t = self._stored(kind, False)
            entries = ", ".join(f"{t} {int(x) if kind == 'b' else literal(x, kind)}" for x in array.ravel().tolist())
            self.definitions.append(
                f"{name} = private unnamed_addr constant [{array.size} x {t}] [{entries}], align 64"
            )
        return Memory(self._tables[key], array.shape, kind, False, self._tables[key])

    def _stored(self, kind: str, wide: bool) -> str:
        return self.type("i8" if kind == "b" else kind, wide)

    def address(self, memory: Memory, index: Entry) -> str:
        if index == 0:
            return memory.pointer
        t = self._stored(memory.kind, memory.wide)
        return self.emit(f"getelementptr inbounds {t}, ptr {memory.pointer}, i64 {index}")

    def load(self, memory: Memory, index: Entry) -> str:
        """Load the entry at a flat index within bounds."""
        if is_wide(index):
            return self.from_lanes([self._load_lane(memory, index, i) for i in range(self.lanes)], memory.kind)
        t = self._stored(memory.kind, memory.wide)
        name = self.emit(f"load {t}, ptr {self.address(memory, index)}, align {self._align(memory.kind)}", memory.wide)
        return self.cast("trunc", name, "i8", "b") if memory.kind == "b" else name

    def _load_lane(self, memory: Memory, index: Entry, lane: int) -> str:
        flat = Memory(memory.pointer, (), memory.kind, False)
        return self.load(flat, self._lane_index(memory, index, lane))

    def _lane_index(self, memory: Memory, index: Entry, lane: int) -> Entry:
        i = self.lane(index, "i64", lane)
        if not memory.wide:
            return i
        return self.emit(f"add i64 {self.emit(f'mul i64 {i}, {self.lanes}')}, {lane}")

    def store(self, entry: Entry, memory: Memory, index: Entry = 0, *, past: bool = False) -> None:
        """Store an entry at a flat index; ``past``: a nontemporal vector store to memory aligned to a cache line."""
        if is_wide(index):
            flat = Memory(memory.pointer, (), memory.kind, False)
            for lane in range(self.lanes):
                self.store(self.lane(entry, memory.kind, lane), flat, self._lane_index(memory, index, lane))
            return
        kind, wide = memory.kind, memory.wide
        text = self.operand(entry, kind, wide)
        if kind == "b":
            text = self.emit(f"zext {self.type('b', wide)} {text} to {self.type('i8', wide)}", wide)
        t = self._stored(kind, wide)
        size = self._align(kind) * (self.lanes if past else 1)
        how = f"{min(size & -size, LINE)}, !nontemporal !1" if past else f"{size}"
        self.line(f"store {t} {text}, ptr {self.address(memory, index)}, align {how}")

    def load_row(self, memory: Memory, index: Entry) -> str:
        """Load consecutive entries of double precision, one for each lane, of an array of a program of one member."""
        place = self.address(memory, index)
        return self.emit(f"load {self.type('d', True)}, ptr {place}, align 8", True)

    def store_row(self, entry: Entry, memory: Memory, index: Entry) -> None:
        """Store consecutive entries of double precision, as ``load_row``; of the lanes of an array that has them."""
        wide = self.lanes > 1
        self.line(
            f"store {self.type('d', wide)} {self.operand(entry, 'd', wide)}, ptr {self.address(memory, index)}, align 8"
        )

    def _align(self, kind: str) -> int:
        return DTYPES[kind].itemsize

    def entries(self, value: Value) -> np.ndarray:
        """Unpack a value into entries."""
        if not isinstance(value, Memory):
            return value
        if value.size > APART:
            raise NotLowered(f"an array of {value.size} entries taken apart")
        return pack([self.load(value, i) for i in range(value.size)], value.shape)

    def memory(self, value: Value, kind: str, *, wide: bool = True) -> Memory:
        """Put a value into memory; unless ``wide``, its numbers once where they are those of all lanes."""
        if isinstance(value, Memory):
            return value
        flat = value.ravel().tolist()
        if known(*flat):
            return self.table(np.array(flat, DTYPES[kind]).reshape(value.shape), kind)
        wide, is_zero = self.lanes > 1 and (wide or any(map(is_wide, flat))), zeros(value)
        key = f"memory {kind} {self.lanes if wide else 1} {flat!r}"
        pointer = self.function.known.get(key)
        if pointer is None:
            new = self.buffer(value.shape, kind, wide=wide)
            is_written = ~is_zero
            if is_zero.sum() > max(STRAIGHT, len(flat) // 2):
                self.clear(new)
            else:
                is_written[:] = True
            for i in np.flatnonzero(is_written).tolist():
                self.pause()
                self.store(flat[i], new, i)
            pointer = self.function.known[key] = new.pointer
            self.function.scoped.append(key)
        return Memory(pointer, value.shape, kind, wide, pointer, is_zero)

    def clear(self, memory: Memory) -> None:
        """Set all bytes of a buffer to zero, row by row."""
        length = memory.shape[-1]
        n_bytes = length * DTYPES[memory.kind].itemsize * (self.lanes if memory.wide else 1)
        self.declare("declare void @llvm.memset.inline.p0.i64(ptr, i8, i64, i1)")

        def row(i: str) -> None:
            place = self.address(memory, self.emit(f"mul i64 {i}, {length}"))
            self.line(f"call void @llvm.memset.inline.p0.i64(ptr {place}, i8 0, i64 {n_bytes}, i1 false)")

        self.for_each(memory.size // length, row)

    def copy(self, target: Memory, value: Value, mask: str | None = None) -> None:
        """Copy a value into a buffer, with ``mask`` only in its lanes."""
        if isinstance(value, Memory) and value.pointer == target.pointer:
            return
        if isinstance(value, Memory) and mask is None and value.wide == target.wide:
            n_bytes = value.size * DTYPES[value.kind].itemsize * (self.lanes if value.wide else 1)
            name = f"@llvm.memcpy{'.inline' if n_bytes <= INLINE else ''}.p0.p0.i64"
            self.declare(f"declare void {name}(ptr, ptr, i64, i1)")
            self.line(f"call void {name}(ptr {target.pointer}, ptr {value.pointer}, i64 {n_bytes}, i1 false)")
            return

        def write(entry: Entry, i: Entry) -> None:
            if mask is not None:
                t = self.type(target.kind, True)
                new = self.operand(entry, target.kind, True)
                with self.scope():  # the present value must not be reused after the store
                    old = self.load(target, i)
                entry = self.emit(f"select {self.type('b', True)} {mask}, {t} {new}, {t} {old}", True)
            self.store(entry, target, i)

        if isinstance(value, Memory):
            self.for_each(value.size, lambda i: write(self.load(value, i), i))
        else:
            for i, x in enumerate(value.ravel().tolist()):
                self.pause()
                write(x, i)

    def place(self, aval: Any) -> Memory:
        """Allocate a buffer for an abstract array."""
        return self.buffer(aval.shape, kind_of(aval))
