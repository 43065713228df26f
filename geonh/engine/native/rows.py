"""Functions on rows of numbers in memory, processed as vectors, each emitted once.

What is done to rows are loops, so that the code grows with the square of the number of vectors in a row and not with
the cube of a matrix's dimension. With lanes each number is a vector already; the order of operations on an entry is the
same, so that a member in a lane has the bits of its single run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from geonh.engine.native.builder import Function
from geonh.engine.native.emitter import Emitter
from geonh.engine.native.values import WIDTH, Entry, Memory


def pieces(n: int) -> list[tuple[int, int]]:
    """Split a row of n numbers into vectors: first index and length of each."""
    pieces, at = [], 0
    for width in (WIDTH, 4, 2, 1):
        while n - at >= width:
            pieces.append((at, width))
            at += width
    return pieces


def called(
    em: Emitter,
    name: str,
    args: list[Memory],
    results: Sequence[tuple[tuple[int, ...], str]],
    write: Callable[[Rows], None],
) -> list[Memory]:
    """Call the function of this name, emitted by ``write`` where it is new; shapes and kinds of its results are given.

    In it the arrays are ``%a0``, ``%a1``, …, and the results ``%r0``, ``%r1``, … The results of the same arguments are
    used again.
    """
    full, wide = f"@{name}.{em.lanes}", em.lanes > 1
    key = (full, *(memory.pointer for memory in args))
    if key in em.function.known:
        return em.function.known[key]
    buffers = [em.buffer(shape, kind) for shape, kind in results]
    for i, memory in enumerate(args):
        if memory.wide != wide:
            args[i] = em.buffer(memory.shape, memory.kind)
            em.copy(args[i], memory)
    if full not in em.functions:
        outer, em.function = em.function, Function()
        write(Rows(em))
        em.line("ret void")
        parameters = [f"ptr noalias %r{i}" for i in range(len(buffers))] + [
            f"ptr noalias %a{i}" for i in range(len(args))
        ]
        em.functions[full] = (
            f"define internal void {full}({', '.join(parameters)}) noinline #0 {{\n{em.function.body}\n}}"
        )
        em.function = outer
    em.line(f"call void {full}({', '.join(f'ptr {memory.pointer}' for memory in [*buffers, *args])})")
    em.remember(key, buffers)
    return buffers


class Rows:
    """Rows of numbers in memory, processed as vectors; with lanes each number is a vector already."""

    def __init__(self, em: Emitter) -> None:
        self.em = em
        self.wide = em.lanes > 1
        self.one = em.type("d", self.wide)

    def pieces(self, n: int) -> list[tuple[int, int]]:
        return pieces(n) if self.em.lanes == 1 else [(i, 1) for i in range(n)]

    def sizes(self, n: int, k: int) -> tuple[int, int, int]:
        """Entries of a vector, and the lengths of rows of n + k and of n numbers, padded to whole vectors."""
        width = WIDTH if self.em.lanes == 1 else 1
        return width, -(-(n + k) // width) * width, -(-n // width) * width

    @staticmethod
    def blocks(n: int) -> list[tuple[int, int]]:
        """Rows whose diagonal entries are in one vector: first and end."""
        return [(at, min(at + WIDTH, n)) for at in range(0, n, WIDTH)]

    def new(self, text: str, wide: bool = False) -> str:
        name = self.em.function.name(wide)
        self.em.line(f"{name} = {text}")
        return name

    def type(self, width: int) -> str:
        return self.one if width == 1 else f"<{width} x double>"

    def address(self, pointer: str, length: int, i: Entry, j: Entry = 0) -> str:
        """Address of entry j of row i, of rows of this length."""
        row = self.new(f"getelementptr [{length} x {self.one}], ptr {pointer}, i64 {i}")
        return self.new(f"getelementptr {self.one}, ptr {row}, i64 {j}")

    def load(self, place: str, width: int = 1) -> str:
        return self.new(f"load {self.type(width)}, ptr {place}, align 8", self.wide)

    def store(self, x: str, place: str, width: int = 1) -> None:
        self.em.line(f"store {self.type(width)} {x}, ptr {place}, align 8")

    def apply(self, opcode: str, width: int, *args: str) -> str:
        return self.new(f"{opcode} {self.type(width)} {', '.join(args)}", self.wide)

    def zero(self, width: int) -> str:
        return "0.0" if width == 1 and self.em.lanes == 1 else "zeroinitializer"

    def inverse(self, x: str) -> str:
        """1/x of one number."""
        return self.apply("fdiv", 1, self.em.operand(1.0, "d", self.wide), x)

    def all(self, x: str, width: int) -> str:
        """Broadcast one number to a vector."""
        if width == 1:
            return x
        t = self.type(width)
        first = self.new(f"insertelement {t} poison, double {x}, i64 0")
        return self.new(f"shufflevector {t} {first}, {t} poison, <{width} x i32> zeroinitializer")

    def multiply_add(self, width: int, x: str, y: str, z: str) -> str:
        """Fused x y + z."""
        t = self.type(width)
        if not self.em.fused:
            return self.apply("fadd", width, self.apply("fmul", width, x, y), z)
        numbers = self.em.lanes if self.wide else width
        name = f"@llvm.fma.{f'v{numbers}' if numbers > 1 else ''}f64"
        self.em.declare(f"declare {t} {name}({t}, {t}, {t})")
        return self.new(f"call {t} {name}({t} {x}, {t} {y}, {t} {z})", self.wide)

    def loop(self, first: Entry, end: Entry, body: Callable[[str], None], step: int = 1) -> None:
        """Emit a loop over i = first, first + step, … before ``end``, which may be empty."""
        em, function = self.em, self.em.function
        before, head, inside, after = function.block, function.label(), function.label(), function.label()
        em.jump(head)
        em.begin(head)
        i, following, phi = function.name(), function.name(), em.reserve()
        em.branch(self.new(f"icmp {'slt' if step > 0 else 'sgt'} i64 {i}, {end}"), inside, after)
        em.begin(inside)
        with em.scope():
            body(i)
        em.line(f"{following} = add nsw i64 {i}, {step}")
        function.lines[phi] = f"{i} = phi i64 [{first}, %{before}], [{following}, %{function.block}]"
        em.jump(head)
        em.begin(after)

    def dot(self, first: Callable[[int], str], second: Callable[[int], str], n: int) -> str:
        """Scalar product of n numbers, summed in as many parts as a vector has entries, which are added in pairs."""
        parts: list[str] = []
        if self.wide:
            for at in range(n):
                x, y = self.load(first(at)), self.load(second(at))
                new = at < WIDTH
                total = self.apply("fmul", 1, x, y) if new else self.multiply_add(1, x, y, parts[at % WIDTH])
                parts[at % WIDTH : at % WIDTH + 1] = [total]
        else:
            total = ""
            for at in range(0, n - n % WIDTH, WIDTH):
                x, y = self.load(first(at), WIDTH), self.load(second(at), WIDTH)
                total = self.multiply_add(WIDTH, x, y, total) if total else self.apply("fmul", WIDTH, x, y)
            if total:
                parts = [self.new(f"extractelement {self.type(WIDTH)} {total}, i64 {i}") for i in range(WIDTH)]
            for i in range(n % WIDTH):
                x, y = self.load(first(n - n % WIDTH + i)), self.load(second(n - n % WIDTH + i))
                parts[i : i + 1] = [self.multiply_add(1, x, y, parts[i]) if total else self.apply("fmul", 1, x, y)]
        while len(parts) > 1:
            half = (len(parts) + 1) // 2
            pairs = zip(parts[:half], parts[half:], strict=False)
            parts = [self.apply("fadd", 1, x, y) for x, y in pairs] + parts[len(parts) // 2 : half]
        return parts[0]

    def product(self, xs: Sequence[str], ys: Sequence[str]) -> str:
        """Scalar product of rows of whole vectors, summed as by ``dot``; with lanes entry by entry."""
        width, parts = 1 if self.wide else WIDTH, 1 if not self.wide else WIDTH
        sums: list[str] = []
        for at, (x, y) in enumerate(zip(xs, ys, strict=True)):
            new = at < parts
            total = self.apply("fmul", width, x, y) if new else self.multiply_add(width, x, y, sums[at % parts])
            sums[at % parts : at % parts + 1] = [total]
        if not self.wide:
            return self.halved(sums[0], WIDTH)
        while len(sums) > 1:
            half = len(sums) // 2
            sums = [self.apply("fadd", 1, x, y) for x, y in zip(sums[:half], sums[half:], strict=True)]
        return sums[0]

    def columns(self, start: int, end: int) -> Callable[[Callable[[list[tuple[Entry, int]]], None]], None]:
        """Function that applies another to these entries of rows in whole vectors, first index and length of each; with
        lanes to one entry after another, in a loop.
        """
        if not self.wide:
            return lambda body: body([(at, WIDTH) for at in range(start, end, WIDTH)])
        return lambda body: self.loop(start, end, lambda at: body([(at, 1)]))

    def beyond(self, k: Entry, at: Entry, x: str, width: int) -> str:
        """Vector whose first entry has the index ``at``, with zeros up to index k."""
        return self._where("sgt", k, at, x, width)

    def upto(self, k: Entry, at: Entry, x: str, width: int) -> str:
        """Vector whose first entry has the index ``at``, with zeros after index k."""
        return self._where("sle", k, at, x, width)

    def _where(self, relation: str, k: Entry, at: Entry, x: str, width: int) -> str:
        t = self.type(width)
        if width == 1:
            kept = self.new(f"icmp {relation} i64 {at}, {k}")
            return self.new(f"select i1 {kept}, {t} {x}, {t} {self.zero(1)}", self.wide)
        integers, numbers = f"<{width} x i64>", ", ".join(f"i64 {int(at) + i}" for i in range(width))
        first = self.new(f"insertelement {integers} poison, i64 {k}, i64 0")
        each = self.new(f"shufflevector {integers} {first}, {integers} poison, <{width} x i32> zeroinitializer")
        kept = self.new(f"icmp {relation} {integers} <{numbers}>, {each}")
        return self.new(f"select <{width} x i1> {kept}, {t} {x}, {t} zeroinitializer")

    def transpose(self, source: Callable[..., str], target: Callable[..., str], m: int, n: int) -> None:
        """Copy the transpose of an array, shape=[m, n], of which these are the places; in squares of whole vectors."""
        if self.wide or min(m, n) < WIDTH:
            self.loop(0, m, lambda i: self.loop(0, n, lambda j: self.store(self.load(source(i, j)), target(j, i))))
            return
        for i in (min(at, m - WIDTH) for at in range(0, m, WIDTH)):
            for j in (min(at, n - WIDTH) for at in range(0, n, WIDTH)):
                square = [self.load(source(i + k, j), WIDTH) for k in range(WIDTH)]
                for k, x in enumerate(self._transposed(square)):
                    self.store(x, target(j + k, i), WIDTH)

    def _transposed(self, square: list[str]) -> list[str]:
        """Transpose of as many vectors as each has entries: halves of two are exchanged, then quarters, …"""
        t, apart = self.type(WIDTH), WIDTH // 2
        while apart:
            new = list(square)
            for i in range(WIDTH):
                if i & apart:
                    continue
                pair = f"{t} {square[i]}, {t} {square[i + apart]}"
                for half in (0, 1):
                    picks = [
                        (WIDTH + j if half else WIDTH + j - apart) if j & apart else (j + apart if half else j)
                        for j in range(WIDTH)
                    ]
                    mask = ", ".join(f"i32 {j}" for j in picks)
                    new[i + half * apart] = self.new(f"shufflevector {pair}, <{WIDTH} x i32> <{mask}>")
            square, apart = new, apart // 2
        return square

    def halved(self, x: str, width: int) -> str:
        """Sum of the entries of a vector, whose halves are added until one is left."""
        while width > 1:
            half = width // 2
            parts = (
                [
                    self.new(
                        f"shufflevector {self.type(width)} {x}, {self.type(width)} poison, "
                        f"<{half} x i32> <{', '.join(f'i32 {i}' for i in range(first, first + half))}>"
                    )
                    for first in (0, half)
                ]
                if half > 1
                else [self.new(f"extractelement {self.type(width)} {x}, i64 {i}") for i in (0, 1)]
            )
            x, width = self.apply("fadd", half, *parts), half
        return x

    # parts of eliminations

    def copy(self, source: str, target: str, m: int, n: int) -> None:
        """Copy m rows of n numbers."""

        def row(i: str) -> None:
            for at, width in self.pieces(n):
                self.store(self.load(self.address(source, n, i, at), width), self.address(target, n, i, at), width)

        self.loop(0, m, row)

    def kept(self, entry: Entry, kind: str) -> Memory:
        """Put one number into memory, where loops may change it."""
        place = self.em.buffer((), kind)
        self.em.store(entry, place)
        return place

    def largest(self, place: Callable[[str], str], first: Entry, end: int) -> Entry:
        """Index, of kind i32, of the number largest in magnitude from ``first`` on."""
        em = self.em
        best, index = self.kept(-1.0, "d"), self.kept(0, "i32")

        def compare(i: str) -> None:
            size, before = em.intrinsic("fabs", "d", self.load(place(i))), em.load(best, 0)
            larger = em.compare("gt", "d", size, before)
            em.store(em.select(larger, em.convert(i, "i64", "i32"), em.load(index, 0), "i32"), index)
            em.store(em.select(larger, size, before, "d"), best)

        self.loop(first, end, compare)
        return em.load(index, 0)

    def exchange(self, condition: Entry, first: str, second: str, width: int) -> None:
        """Exchange two vectors in memory where the condition holds."""
        x, y = self.load(first, width), self.load(second, width)
        c = f"{self.em.type('b', self.wide)} {self.em.operand(condition, 'b', self.wide)}"
        t = self.type(width)
        self.store(self.new(f"select {c}, {t} {y}, {t} {x}"), first, width)
        self.store(self.new(f"select {c}, {t} {x}, {t} {y}"), second, width)

    def after(self, place: Callable[[str, Entry], str], k: str, n: int) -> str:
        """Pointer to a copy of row k with zeros up to its entry k."""
        row = self.em.buffer((n,), "d").pointer
        target = self.address
        self.loop(0, n, lambda j: self.store(self.zero(1), target(row, 1, j)))
        self.loop(self.new(f"add nsw i64 {k}, 1"), n, lambda j: self.store(self.load(place(k, j)), target(row, 1, j)))
        return row

    def subtract(self, factor: Entry, row: str, place: Callable[[int], str], n: int) -> None:
        """Subtract a multiple of a row from another one."""
        minus = str(self.em.neg(factor))
        for at, width in self.pieces(n):
            here, x = place(at), self.load(self.address(row, 1, at), width)
            self.store(self.multiply_add(width, self.all(minus, width), x, self.load(here, width)), here, width)
