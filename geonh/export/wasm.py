"""WebAssembly modules from object code, without a linker.

An object file of LLVM for ``wasm32`` is a module already, but for its exports: its functions and data have their final
numbers and addresses, since it is all there is. What it imports of a memory, a stack pointer and a table becomes its
own, so that functions of ``Math`` are all that is left to import. The layout of the memory: data from 0, the stack
above them, then the vectors of the caller, from the exported global ``heap`` on.

The format is that of the WebAssembly core specification, and of its tool conventions for object files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from geonh.engine import ObjectCode, Target

TARGET = Target("wasm32-unknown-unknown", "", "+bulk-memory,+sign-ext,+nontrapping-fptoint,+mutable-globals,+simd128")
"""Features that browsers have had since 2023."""
PAGE = 2**16
"""Bytes of a page of memory."""
HEADER = b"\0asm\1\0\0\0"
_CUSTOM, _IMPORT, _TABLE, _MEMORY, _GLOBAL, _EXPORT, _DATA = 0, 2, 4, 5, 6, 7, 11
_ORDER = {n: place for place, n in enumerate((1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 10, 11))}
_FUNCTION_SYMBOL, _DATA_SYMBOL, _SECTION_SYMBOL = 0, 1, 3
_I32, _IS_MUTABLE = 0x7F, 1


class Module(NamedTuple):
    """WebAssembly module, and the functions of ``Math`` that it imports from "env"."""

    code: bytes
    imports: tuple[str, ...]


def module_of(code: ObjectCode, functions: Sequence[str]) -> Module:
    """Module with these functions of object code, which is for ``TARGET``, and ``memory`` and ``heap``."""
    sections = {number: body for number, body in _sections(code.code) if number != _CUSTOM}
    linking = next(body for number, body in _sections(code.code) if number == _CUSTOM and body[1:8] == b"linking")
    imports, names = _imports(sections[_IMPORT])
    stack = _up(2 * code.stack + 2**14, 16)
    top = _up(_end_of_data(sections.get(_DATA)), 16) + stack
    constant = bytes([0x41]) + _signed(top) + bytes([0x0B])  # i32.const top, end
    sections[_IMPORT] = imports
    sections[_MEMORY] = _vector([b"\0" + _unsigned(top // PAGE + 2)])
    sections[_GLOBAL] = _vector([bytes([_I32, _IS_MUTABLE]) + constant, bytes([_I32, 0]) + constant])
    numbers = _numbers_of_functions(linking)
    exports = [_text(name) + bytes([0]) + _unsigned(numbers[name]) for name in functions]
    exports += [_text("memory") + bytes([2, 0]), _text("heap") + bytes([3, 1])]
    sections[_EXPORT] = _vector(exports)
    ordered = sorted(sections, key=_ORDER.__getitem__)
    body = b"".join(bytes([number]) + _unsigned(len(sections[number])) + sections[number] for number in ordered)
    return Module(HEADER + body, names)


class _Reader:
    """Reader of bytes."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def unsigned(self) -> int:
        """Number in LEB128."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def bytes(self) -> bytes:
        """Bytes after the number of them."""
        length = self.unsigned()
        self.at += length
        return self.data[self.at - length : self.at]

    def limits(self) -> None:
        """Skip the limits of a table or a memory."""
        flags = self.unsigned()
        self.unsigned()
        if flags & 1:
            self.unsigned()


def _sections(data: bytes) -> Iterator[tuple[int, bytes]]:
    reader = _Reader(data, len(HEADER))
    while reader.at < len(data):
        number = reader.byte()
        yield number, reader.bytes()


def _imports(section: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Import section with functions alone, and their names."""
    reader, kept, names = _Reader(section), [], []
    for _ in range(reader.unsigned()):
        begun = reader.at
        reader.bytes()
        name, kind = reader.bytes().decode(), reader.byte()
        if kind == 0:
            reader.unsigned()
            kept.append(section[begun : reader.at])
            names.append(name)
        elif kind == 1:
            raise NotImplementedError("code that calls functions through a table")
        elif kind == 2:
            reader.limits()
        else:
            reader.at += 2  # the stack pointer is the only global
    return _vector(kept), tuple(names)


def _numbers_of_functions(linking: bytes) -> dict[str, int]:
    """Numbers of the functions that object code defines, from its symbol table."""
    reader, numbers = _Reader(linking, len("\7linking")), {}
    reader.unsigned()  # version
    while reader.at < len(linking):
        kind, part = reader.byte(), _Reader(reader.bytes())
        for _ in range(part.unsigned() if kind == 8 else 0):
            symbol, flags = part.byte(), part.unsigned()
            is_undefined, is_named = bool(flags & 0x10), not flags & 0x10 or bool(flags & 0x40)
            if symbol == _DATA_SYMBOL:
                part.bytes()
                for _ in range(0 if is_undefined else 3):
                    part.unsigned()
            elif symbol == _SECTION_SYMBOL:
                part.unsigned()
            else:
                number = part.unsigned()
                name = part.bytes().decode() if is_named else ""
                if symbol == _FUNCTION_SYMBOL and not is_undefined:
                    numbers[name] = number
    return numbers


def _end_of_data(section: bytes | None) -> int:
    """Address behind the last datum."""
    if section is None:
        return 0
    reader, end = _Reader(section), 0
    for _ in range(reader.unsigned()):
        reader.unsigned()  # active, memory 0
        reader.byte()  # i32.const
        address = reader.unsigned()  # below 2^31, and padded: the same as signed
        reader.byte()  # end
        end = max(end, address + len(reader.bytes()))
    return end


def _up(n: int, step: int) -> int:
    return -(-n // step) * step


def _unsigned(n: int) -> bytes:
    out = b""
    while True:
        byte, n = n & 127, n >> 7
        out += bytes([byte | (128 if n else 0)])
        if not n:
            return out


def _signed(n: int) -> bytes:
    """LEB128 of a number that is not negative, as signed."""
    out = b""
    while True:
        byte, n = n & 127, n >> 7
        last = not n and byte < 64
        out += bytes([byte | (0 if last else 128)])
        if last:
            return out


def _text(name: str) -> bytes:
    return _unsigned(len(name.encode())) + name.encode()


def _vector(items: Sequence[bytes]) -> bytes:
    return _unsigned(len(items)) + b"".join(items)
