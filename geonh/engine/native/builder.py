"""Builder of LLVM functions as text, instruction by instruction.

The text of an instruction is its key: common subexpressions are emitted once, within a function and where the first one
dominates (``scope``). With W lanes a value is a vector of W numbers if it may vary by lane, else a scalar.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from geonh.engine.native.liveness import most_alive
from geonh.engine.native.values import (
    DTYPES,
    TYPES,
    Entry,
    is_wide,
    literal,
)

PREFIX = "geonh_"
"""Prefix of the names of C functions, so that LLVM makes no assumptions about them."""
LONGEST = 1000
"""Approximate maximum number of lines of a block: LLVM takes time quadratic in it."""


class Function:
    """LLVM function under construction."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self.known: dict[Hashable, Any] = {}  # names of results by instructions, results of calls by their arguments
        self.scoped: list[Hashable] = []
        self.products: dict[str, tuple[Entry, Entry]] = {}
        self.block = "entry"
        self.begun = 0  # line number at which the block begins
        self.mask: str | None = None
        self.n_names = 0

    def name(self, wide: bool = False) -> str:
        self.n_names += 1
        return f"%{'v' if wide else 'u'}{self.n_names}"

    def label(self) -> str:
        self.n_names += 1
        return f"b{self.n_names}"

    @property
    def body(self) -> str:
        return "entry:\n" + "\n".join([*self.allocas, *self.lines])


class Builder:
    """Builder of instructions in the current ``function``.

    Parameters
    ----------
    lanes : int
        Number of members computed in SIMD lanes.
    fma : bool
        True if the CPU has fused multiply-add; sums of products then use it.
    """

    def __init__(self, lanes: int = 1, *, fma: bool = True) -> None:
        self.fused, self.stored, self.widest = fma, 0, 1
        self._write_for(lanes)
        self.function = Function()
        self.declarations: dict[str, None] = {}
        self.definitions: list[str] = []
        self.functions: dict[str, str] = {}
        self.externals: dict[str, None] = {}

    def _write_for(self, lanes: int) -> None:
        self.lanes, self.widest = lanes, max(self.widest, lanes)
        self._types = {False: TYPES, True: {kind: f"<{lanes} x {t}>" for kind, t in TYPES.items()}}
        self._literals: dict[tuple, str] = {}
        self._intrinsics: dict[tuple[str, str, bool], str] = {}

    @contextlib.contextmanager
    def side_by_side(self, lanes: int) -> Iterator[None]:
        """Context that emits for so many lanes in a program of one; its values are not reused afterwards."""
        before = self.lanes
        self._write_for(lanes)
        with self.scope():
            yield
        self._write_for(before)

    # instructions

    def type(self, kind: str, wide: bool = False) -> str:
        return self._types[wide][kind]

    def emit(self, text: str, wide: bool = False) -> str:
        """Emit an instruction without side effects, or reuse an earlier one; return the name of its result."""
        function = self.function
        name = function.known.get(text)
        if name is None:
            name = function.known[text] = function.name(wide)
            function.scoped.append(text)
            function.lines.append(f"{name} = {text}")
        return name

    def remember(self, key: Hashable, value: Any) -> None:
        """Cache ``value`` under a key, which is not a text, in the current scope."""
        self.function.known[key] = value
        self.function.scoped.append(key)

    def line(self, text: str) -> None:
        self.function.lines.append(text)

    def reserve(self) -> int:
        """Reserve a line to be filled later, and return its number."""
        self.function.lines.append("")
        return len(self.function.lines) - 1

    def operand(self, entry: Entry, kind: str, wide: bool = False) -> str:
        """Text of an operand, broadcast to all lanes if necessary."""
        if isinstance(entry, str):
            if not wide or entry[1] == "v":
                return entry
            vector = self.type(kind, True)
            one = self.emit(f"insertelement {vector} poison, {self.type(kind)} {entry}, i64 0", True)
            return self.emit(
                f"shufflevector {vector} {one}, {vector} poison, <{self.lanes} x i32> zeroinitializer", True
            )
        key = (entry, type(entry), str(entry), kind, wide)  # the text distinguishes −0 from 0
        text = self._literals.get(key)
        if text is None:
            text = literal(entry, kind)
            text = self._literals[key] = f"splat ({self.type(kind)} {text})" if wide else text
        return text

    def apply(self, opcode: str, kind: str, *args: Entry) -> str:
        """Emit an instruction on operands of one type, and return its result."""
        wide = self.lanes > 1 and any(map(is_wide, args))
        operands = ", ".join([x if not wide and isinstance(x, str) else self.operand(x, kind, wide) for x in args])
        return self.emit(f"{opcode} {self._types[wide][kind]} {operands}", wide)

    def cast(self, opcode: str, entry: str, before: str, after: str) -> str:
        wide = is_wide(entry)
        return self.emit(f"{opcode} {self.type(before, wide)} {entry} to {self.type(after, wide)}", wide)

    def intrinsic(self, name: str, kind: str, *args: Entry, flags: str = "", more: str = "") -> str:
        """Call LLVM intrinsic ``name`` on operands of one type, with optional constants ``more``."""
        wide = self.lanes > 1 and any(map(is_wide, args))
        t = self._types[wide][kind]
        full = self._intrinsics.get((name, kind, wide))
        if full is None:
            suffix = "f64" if kind == "d" else f"i{DTYPES[kind].itemsize * 8}"
            full = self._intrinsics[name, kind, wide] = f"@llvm.{name}.{f'v{self.lanes}' if wide else ''}{suffix}"
            self.declare(f"declare {t} {full}({', '.join([t] * len(args) + ['i1'] * bool(more))})")
        operands = f", {t} ".join([x if not wide and isinstance(x, str) else self.operand(x, kind, wide) for x in args])
        return self.emit(f"call {flags}{t} {full}({t} {operands}{more})", wide)

    def external(self, name: str, *args: Entry) -> str:
        """Call a pure C function of doubles, for lanes sequentially."""
        self.externals[name] = None
        self.declare(f"declare double @{PREFIX}{name}({', '.join(['double'] * len(args))}) #1")

        def call(entries: Sequence[Entry]) -> str:
            operands = ", ".join("double " + self.operand(x, "d") for x in entries)
            return self.emit(f"call double @{PREFIX}{name}({operands}) #1")

        if not any(map(is_wide, args)):
            return call(args)
        return self.from_lanes([call([self.lane(x, "d", i) for x in args]) for i in range(self.lanes)], "d")

    def lane(self, entry: Entry, kind: str, i: int) -> Entry:
        """Extract the value in lane i."""
        if not is_wide(entry):
            return entry
        return self.emit(f"extractelement {self.type(kind, True)} {entry}, i64 {i}")

    def from_lanes(self, entries: Sequence[Entry], kind: str) -> str:
        """Assemble a vector from the values of the lanes."""
        vector, name = self.type(kind, True), "poison"
        for i, x in enumerate(entries):
            name = self.emit(f"insertelement {vector} {name}, {self.type(kind)} {self.operand(x, kind)}, i64 {i}", True)
        return name

    def any_lane(self, condition: Entry) -> Entry:
        """Condition that holds if it does in any lane."""
        if not is_wide(condition):
            return condition
        vector, name = self.type("b", True), f"@llvm.vector.reduce.or.v{self.lanes}i1"
        self.declare(f"declare i1 {name}({vector})")
        return self.emit(f"call i1 {name}({vector} {condition})")

    def declare(self, text: str) -> None:
        self.declarations[text] = None

    # blocks

    def begin(self, block: str) -> None:
        self.line(f"{block}:")
        self.function.block, self.function.begun = block, len(self.function.lines)

    def pause(self) -> None:
        """Begin a new block if this one is long."""
        if len(self.function.lines) - self.function.begun > LONGEST:
            following = self.function.label()
            self.jump(following)
            self.begin(following)

    def jump(self, block: str) -> None:
        self.line(f"br label %{block}")

    def branch(self, condition: Entry, yes: str, no: str, *, seldom: bool = False) -> None:
        """Branch to one of two blocks; ``seldom`` marks the first as unlikely, so that LLVM does not use a select."""
        weights = ", !prof !0" if seldom else ""
        self.line(f"br i1 {self.operand(condition, 'b')}, label %{yes}, label %{no}{weights}")

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Scope of common subexpressions: values computed within are not reused afterwards."""
        function = self.function
        n = len(function.scoped)
        yield
        for key in function.scoped[n:]:
            function.known.pop(key, None)
        del function.scoped[n:]

    def for_each(self, n: int | str, body: Callable[[str], None]) -> None:
        """Emit a loop over i = 0 … n − 1 without a carry."""
        if n == 0:
            return
        function = self.function
        before, head, end = function.block, function.label(), function.label()
        self.jump(head)
        self.begin(head)
        with self.scope():
            i, following, phi = function.name(), function.name(), self.reserve()
            body(i)
            self.line(f"{following} = add nuw nsw i64 {i}, 1")
            function.lines[phi] = f"{i} = phi i64 [0, %{before}], [{following}, %{function.block}]"
            self.branch(self.emit(f"icmp slt i64 {following}, {n}"), head, end)
        self.begin(end)

    @property
    def stack(self) -> int:
        """Bytes of stack that the program uses, to a factor of 2: for buffers, and for values not in registers."""
        one, wide = (sum(f.count(f"\n%{kind}") for f in self.functions.values()) for kind in "uv")
        return self.stored + 8 * (one + self.widest * wide)

    @property
    def frame(self) -> int:
        """Bytes of stack of optimised code, to a factor of 2: values that are not needed at once share their places."""
        return self.stored + sum(most_alive(f, self.widest) for f in self.functions.values())

    @property
    def text(self) -> str:
        """LLVM text of the program so far."""
        attributes = 'attributes #0 = { nounwind alignstack=64 "prefer-vector-width"="512" }'
        pure = "attributes #1 = { nounwind willreturn memory(none) }"
        notes = '!0 = !{!"branch_weights", i32 1, i32 1000}\n!1 = !{i32 1}'
        functions = self.functions.values()
        return "\n".join([*self.declarations, *self.definitions, *functions, attributes, pure, notes, ""])
