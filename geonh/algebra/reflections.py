"""Null space of the rows of a matrix in memory, by Householder's reflections, and solutions in it.

μ = LQᵀ with L lower triangular; Q = H₀H₁… of reflections Hₖ = 1 − βₖvₖvₖᵀ, vₖ zero before entry k. All arrays are
padded with zeros to whole vectors, with lanes too, so that a member in a lane has the bits of its single run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias

from geonh.algebra import in_memory
from geonh.engine.lowering import WIDTH, Emitter, Entry, Memory, Rows, called

Piece: TypeAlias = tuple[Entry, int]
"""First entry and length of a part of a row."""


class Factors(NamedTuple):
    """v, shape=[m, n]; β and 1/Lₖₖ, shape=[m]; rows with those of L before the diagonal, and of Lᵀ after it, of
    shape=[m, m], with other numbers in place of zeros; all padded.
    """

    vectors: Memory
    scales: Memory
    inverses: Memory
    lower: Memory
    upper: Memory


def padded(n: int) -> int:
    """Length of rows of n numbers, in whole vectors."""
    return -(-n // WIDTH) * WIDTH


class Vector:
    """Vectors of numbers from entry ``start`` on of a padded row."""

    def __init__(self, rows: Rows, place: Callable[[int], str], start: int, end: int) -> None:
        width = 1 if rows.em.lanes > 1 else WIDTH
        self.rows, self.place, self.width, self.places = rows, place, width, range(start, end, width)

    def loaded(self) -> list[str]:
        return [self.rows.load(self.place(at), self.width) for at in self.places]

    def add(self, factor: str, row: list[str], now: list[str] | None = None) -> None:
        """Add a multiple of a row, to what is there ``now``."""
        width, all_of = self.width, self.rows.all(factor, self.width)
        for at, x, y in zip(self.places, row, self.loaded() if now is None else now, strict=True):
            self.rows.store(self.rows.multiply_add(width, all_of, x, y), self.place(at), width)

    def copy(self, row: list[str]) -> None:
        for at, x in zip(self.places, row, strict=True):
            self.rows.store(x, self.place(at), self.width)

    def clear(self) -> None:
        self.copy([self.rows.zero(self.width)] * len(self.places))


def factors(em: Emitter, mu: Memory) -> Factors:
    """Reflections that make μ, shape=[m, n], lower triangular."""
    m, n = mu.shape
    length, height = padded(n), padded(m)

    def write(rows: Rows) -> None:
        work, sums = em.buffer((length, height), "d").pointer, em.buffer((height,), "d").pointer
        place, total = partial(rows.address, work, height), partial(rows.address, sums, 1)  # of μᵀ
        vector, lower = partial(rows.address, "%r0", length), partial(rows.address, "%r3", height)
        scale, inverse = partial(rows.address, "%r1", 1), partial(rows.address, "%r2", 1)
        upper = partial(rows.address, "%r4", height)

        def reflect(start: int, k: str) -> None:
            together = rows.columns(start, height)
            together(lambda columns: _summed(rows, place, k, n, columns, total))
            corner, square = rows.load(place(k, k)), rows.load(total(k))
            size = em.intrinsic("sqrt", "d", square)
            head = em.select(em.compare("gt", "d", corner, 0.0), em.neg(size), size, "d")
            first, minus_head = str(em.sub(corner, head)), str(em.neg(head))
            beta = em.div(1.0, em.add(square, em.mul(em.intrinsic("fabs", "d", corner), size)))
            rows.store(str(beta), scale(k))
            rows.store(str(em.div(1.0, head)), inverse(k))
            rows.store(first, place(k, k))
            minus = str(em.neg(beta))

            def update(columns: list[Piece]) -> None:
                """Subtract from columns of μᵀ after the k-th; their entries in row k, of L, become 0."""
                factors = []
                for at, width in columns:
                    here = rows.load(place(k, at), width)
                    along = rows.multiply_add(width, rows.all(minus_head, width), here, rows.load(total(at), width))
                    factor = rows.apply("fmul", width, rows.all(minus, width), along)
                    factors.append(rows.beyond(k, at, factor, width) if at == start or rows.wide else factor)

                def row(j: str) -> None:
                    coefficient = rows.load(place(j, k))
                    for (at, width), factor in zip(columns, factors, strict=True):
                        now, x = place(j, at), rows.all(coefficient, width)
                        rows.store(rows.multiply_add(width, x, factor, rows.load(now, width)), now, width)

                rows.loop(k, n, row)
                for at, width in columns:
                    x = rows.load(place(k, at), width)
                    rows.store(x, upper(k, at), width)
                    rows.store(rows.upto(k, at, x, width), place(k, at), width)

            together(update)

        rows.loop(0, length, lambda j: Vector(rows, partial(place, j), 0, height).clear())
        rows.transpose(partial(rows.address, "%a0", n), place, m, n)
        rows.loop(0, m, lambda k: Vector(rows, partial(lower, k), 0, height).clear())
        for at, end in rows.blocks(m):
            rows.loop(at, end, partial(reflect, at))
        rows.loop(0, m, lambda k: Vector(rows, partial(vector, k), 0, length).clear())
        rows.transpose(place, vector, n, m)
        rows.transpose(upper, lower, m, m)

    shapes = [((m, length), "d"), ((m,), "d"), ((m,), "d"), ((m, height), "d"), ((m, height), "d")]
    return Factors(*called(em, f"reflections.{m}.{n}", [mu], shapes, write))


def _summed(
    rows: Rows, place: Callable[..., str], k: str, n: int, columns: list[Piece], total: Callable[..., str]
) -> None:
    """Write the products of column k with others, from row k to the end, one row after another."""
    sums = [rows.em.buffer((width,), "d").pointer for _, width in columns]
    for (_, width), here in zip(columns, sums, strict=True):
        rows.store(rows.zero(width), here, width)

    def add(j: str) -> None:
        coefficient = rows.load(place(j, k))
        for (at, width), here in zip(columns, sums, strict=True):
            x, y = rows.all(coefficient, width), rows.load(place(j, at), width)
            rows.store(rows.multiply_add(width, x, y, rows.load(here, width)), here, width)

    rows.loop(k, n, add)
    for (at, width), here in zip(columns, sums, strict=True):
        rows.store(rows.load(here, width), total(at), width)


def null_space(em: Emitter, F: Factors, n: int) -> Memory:
    """Orthonormal rows orthogonal to those of μ, shape=[n − m, n], padded."""
    m, length = F.vectors.shape

    def write(rows: Rows) -> None:
        place = partial(rows.address, "%r0", length)

        def begin(j: str) -> None:
            Vector(rows, partial(place, j), 0, length).clear()
            rows.store(em.operand(1.0, "d", rows.wide), place(j, rows.new(f"add nsw i64 {j}, {m}")))

        rows.loop(0, n - m, begin)
        _reflected(rows, place, n - m, m, length, backwards=True)

    return called(em, f"null_space.{m}.{n}", [F.vectors, F.scales], [((n - m, length), "d")], write)[0]


def free_motions(em: Emitter, mu: Memory, right: Memory) -> Memory:
    """Rows of ``null_space`` and of ``least``, shape=[n − m + 1, n]."""
    (m, n), F = mu.shape, factors(em, mu)
    Z, x = null_space(em, F, n), least(em, F, n, right)
    r, length = Z.shape

    def write(rows: Rows) -> None:
        def copied(source: str, j: Entry, i: Entry) -> None:
            for at, width in rows.pieces(n):
                rows.store(rows.load(rows.address(source, length, i, at), width), rows.address("%r0", n, j, at), width)

        rows.loop(0, r, lambda j: copied("%a0", j, j))
        copied("%a1", r, 0)

    return called(em, f"free_motions.{m}.{n}", [Z, x], [((r + 1, n), "d")], write)[0]


def oriented_null_space(em: Emitter, mu: Memory) -> Memory:
    """``null_space``, shape=[n − m, n], with det[μ; Z] > 0: each reflection changes the sign, and each Lₖₖ < 0."""
    (m, n), F = mu.shape, factors(em, mu)
    Z = null_space(em, F, n)
    r, length = Z.shape

    def write(rows: Rows) -> None:
        sign = rows.address(em.buffer((1,), "d").pointer, 1, 0)
        rows.store(em.operand(1.0, "d", rows.wide), sign)

        def turn(k: str) -> None:
            now, inverse = rows.load(sign), rows.load(rows.address("%a0", 1, k))
            rows.store(str(em.select(em.compare("gt", "d", inverse, 0.0), em.neg(now), now, "d")), sign)

        def copied(j: Entry, factor: str = "") -> None:
            for at, width in rows.pieces(n):
                x = rows.load(rows.address("%a1", length, j, at), width)
                x = rows.apply("fmul", width, rows.all(factor, width), x) if factor else x
                rows.store(x, rows.address("%r0", n, j, at), width)

        rows.loop(0, m, turn)
        copied(0, rows.load(sign))
        rows.loop(1, r, copied)

    return called(em, f"oriented.{m}.{n}", [F.inverses, Z], [((r, n), "d")], write)[0]


def _reflected(
    rows: Rows, place: Callable[[str, int], str], count: int, m: int, length: int, *, backwards: bool
) -> None:
    """Apply all reflections to padded rows, H₀ first or last; their vectors are ``%a0``, scales ``%a1``."""

    def reflect(start: int, k: str) -> None:
        v = Vector(rows, partial(rows.address, "%a0", length, k), start, length).loaded()
        minus = rows.apply("fneg", 1, rows.load(rows.address("%a1", 1, k)))

        def one(j: str) -> None:
            row = Vector(rows, partial(place, j), start, length)
            now = row.loaded()
            row.add(rows.apply("fmul", 1, minus, rows.product(v, now)), v, now)

        rows.loop(0, count, one)

    for at, end in reversed(rows.blocks(m)) if backwards else rows.blocks(m):
        first, last, step = (end - 1, at - 1, -1) if backwards else (at, end, 1)
        rows.loop(first, last, partial(reflect, at), step)


def least(em: Emitter, F: Factors, n: int, right: Memory) -> Memory:
    """μ⁺b, padded: the least solution of μx = b."""
    m, length = F.vectors.shape
    height = padded(m)

    def write(rows: Rows) -> None:
        y, x = partial(rows.address, em.buffer((height,), "d").pointer, 1), partial(rows.address, "%r0", 1)
        Vector(rows, y, 0, height).clear()
        rows.loop(0, m, lambda i: rows.store(rows.load(rows.address("%a4", 1, i)), y(i)))

        def substitute(start: int, k: str) -> None:
            entry = rows.apply("fmul", 1, rows.load(y(k)), rows.load(rows.address("%a2", 1, k)))
            row = Vector(rows, partial(rows.address, "%a3", height, k), start, height).loaded()
            Vector(rows, y, start, height).add(rows.apply("fneg", 1, entry), row)  # only what follows is read again
            rows.store(entry, x(k))

        Vector(rows, x, 0, length).clear()
        for at, end in rows.blocks(m):
            rows.loop(at, end, partial(substitute, at))
        _reflected(rows, lambda j, at: x(at), 1, m, length, backwards=True)

    args = [F.vectors, F.scales, F.inverses, F.upper, right]
    return called(em, f"least.{m}.{n}", args, [((length,), "d")], write)[0]


def multipliers(em: Emitter, mu: Memory, force: Memory) -> Memory:
    """λ, shape=[m], with μᵀλ = force in the span of the rows."""
    (m, n), F = mu.shape, factors(em, mu)
    length, height = padded(n), padded(m)

    def write(rows: Rows) -> None:
        x = partial(rows.address, em.buffer((length,), "d").pointer, 1)
        Vector(rows, x, 0, length).clear()
        rows.loop(0, n, lambda i: rows.store(rows.load(rows.address("%a4", 1, i)), x(i)))
        _reflected(rows, lambda j, at: x(at), 1, m, length, backwards=False)

        def substitute(end: int, k: str) -> None:
            entry = rows.apply("fmul", 1, rows.load(x(k)), rows.load(rows.address("%a2", 1, k)))
            row = Vector(rows, partial(rows.address, "%a3", height, k), 0, end).loaded()
            Vector(rows, x, 0, end).add(rows.apply("fneg", 1, entry), row)
            rows.store(entry, rows.address("%r0", 1, k))

        for at, end in reversed(rows.blocks(m)):
            rows.loop(end - 1, at - 1, partial(substitute, padded(end)), -1)

    args = [F.vectors, F.scales, F.inverses, F.lower, force]
    return called(em, f"multipliers.{m}.{n}", args, [((m,), "d")], write)[0]


def constrained(em: Emitter, M: Memory, mu: Memory, force: Memory, right: Memory) -> Memory:
    """x, shape=[n], with Mx − μᵀλ = force, μx = right: (ZMZᵀ)a = Z(force − Mμ⁺right)."""
    (m, n), F = mu.shape, factors(em, mu)
    r, length = n - m, padded(n)
    Z, x = null_space(em, F, n), least(em, F, n, right)
    if r == 0:
        return _combined(em, x, Z, None, n)

    def write(rows: Rows) -> None:
        space = partial(rows.address, "%a1", length)
        image = partial(rows.address, em.buffer((length,), "d").pointer, 1)
        Vector(rows, image, 0, length).clear()

        def basis(j: str) -> None:
            _times(rows, partial(rows.address, "%a0", n), n, lambda i: space(j, i), image)
            product = Vector(rows, image, 0, length).loaded()

            def entry(i: str) -> None:
                row = Vector(rows, partial(space, i), 0, length).loaded()
                rows.store(rows.product(row, product), rows.address("%r0", r, i, j))

            rows.loop(0, rows.new(f"add nsw i64 {j}, 1"), entry)  # the upper triangle

        def side(j: str) -> None:
            row = Vector(rows, partial(space, j), 0, length).loaded()
            rows.store(rows.product(row, missing), rows.address("%r1", 1, j))

        rows.loop(0, r, basis)
        _times(rows, partial(rows.address, "%a0", n), n, partial(rows.address, "%a2", 1), image)
        for at, width in rows.pieces(n):
            given, taken = rows.load(rows.address("%a3", 1, at), width), rows.load(image(at), width)
            rows.store(rows.apply("fsub", width, given, taken), image(at), width)
        missing = Vector(rows, image, 0, length).loaded()
        rows.loop(0, r, side)

    matrix, column = called(em, f"reduced.{m}.{n}", [M, Z, x, force], [((r, r), "d"), ((r, 1), "d")], write)
    return _combined(em, x, Z, in_memory.solution(em, matrix, column, symmetric=True), n)


def _times(
    rows: Rows,
    matrix: Callable[..., str],
    n: int,
    coefficient: Callable[[int], str],
    out: Callable[[int], str],
) -> None:
    """Write Σ cᵢAᵢ, of the n rows of a matrix, shape=[n, n], which is Ac where it is symmetric."""
    numbers = [rows.load(coefficient(i)) for i in range(n)]

    def column(pieces: list[tuple], at_of: Callable) -> None:
        sums: list[str] = []
        for i, number in enumerate(numbers):
            for p, (at, width) in enumerate(pieces):
                x, c = rows.load(matrix(i, at_of(at)), width), rows.all(number, width)
                sums[p : p + 1] = [
                    rows.apply("fmul", width, c, x) if not i else rows.multiply_add(width, c, x, sums[p])
                ]
        for (at, width), total in zip(pieces, sums, strict=True):
            rows.store(total, out(at_of(at)), width)

    if rows.em.lanes == 1:
        column(rows.pieces(n), lambda at: at)
    else:
        rows.loop(0, n, lambda at: column([(at, 1)], lambda at: at))


def _combined(em: Emitter, x: Memory, Z: Memory, a: Memory | None, n: int) -> Memory:
    """x + Zᵀa, shape=[n]."""
    r, length = Z.shape

    def write(rows: Rows) -> None:
        total = Vector(rows, partial(rows.address, em.buffer((length,), "d").pointer, 1), 0, length)
        total.copy(Vector(rows, partial(rows.address, "%a0", 1), 0, length).loaded())

        def add(j: str) -> None:
            row = Vector(rows, partial(rows.address, "%a1", length, j), 0, length).loaded()
            total.add(rows.load(rows.address("%a2", 1, j)), row)

        if a is not None:
            rows.loop(0, r, add)
        for at, width in rows.pieces(n):
            rows.store(rows.load(total.place(at), width), rows.address("%r0", 1, at), width)

    args = [x, Z] if a is None else [x, Z, a]
    return called(em, f"combined.{r}.{n}", args, [((n,), "d")], write)[0]


def shifted(em: Emitter, mu: Memory, along: Memory, x: Memory, right: Memory) -> Memory:
    """x + Nᵀκ, shape=[n], with μ(x + Nᵀκ) = right: Y(μ⁺right + Zᵀa − x) = 0 for the null space Y of N.

    Corrected once by what is left of each row, so that its rounding is that of its own entries.
    """
    (m, n), F = mu.shape, factors(em, mu)
    r = n - m
    Z, start = null_space(em, F, n), least(em, F, n, right)
    if r == 0:
        found = _combined(em, start, Z, None, n)
    elif along.pointer == mu.pointer:
        found = _combined(em, start, Z, _coordinates(em, Z, start, x, n), n)
    else:
        Y = null_space(em, factors(em, along), n)
        matrix, column = _crossed(em, Y, Z, _coordinates(em, Y, start, x, n), n)
        found = _combined(em, start, Z, in_memory.solution(em, matrix, column, symmetric=True), n)
    return _sum(em, found, least(em, F, n, _missing(em, mu, found, right)))


def _missing(em: Emitter, mu: Memory, x: Memory, right: Memory) -> Memory:
    """right − μx, shape=[m]."""
    m, n = mu.shape

    def write(rows: Rows) -> None:
        def row(i: str) -> None:
            left = rows.load(rows.address("%a2", 1, i))
            for j in range(n):
                entry = rows.apply("fneg", 1, rows.load(rows.address("%a0", n, i, j)))
                left = rows.multiply_add(1, entry, rows.load(rows.address("%a1", 1, j)), left)
            rows.store(left, rows.address("%r0", 1, i))

        rows.loop(0, m, row)

    return called(em, f"missing.{m}.{n}", [mu, x, right], [((m,), "d")], write)[0]


def _sum(em: Emitter, x: Memory, y: Memory) -> Memory:
    """x + y, shape=[n], of y that may be padded."""
    (n,) = x.shape

    def write(rows: Rows) -> None:
        for at, width in rows.pieces(n):
            first, second = (rows.load(rows.address(name, 1, at), width) for name in ("%a0", "%a1"))
            rows.store(rows.apply("fadd", width, first, second), rows.address("%r0", 1, at), width)

    return called(em, f"sum.{n}", [x, y], [((n,), "d")], write)[0]


def _coordinates(em: Emitter, Y: Memory, start: Memory, x: Memory, n: int) -> Memory:
    """Y(x − start), shape=[r]."""
    r, length = Y.shape

    def write(rows: Rows) -> None:
        change = partial(rows.address, em.buffer((length,), "d").pointer, 1)
        Vector(rows, change, 0, length).clear()
        for at, width in rows.pieces(n):
            left, right = (rows.load(rows.address(name, 1, at), width) for name in ("%a2", "%a1"))
            rows.store(rows.apply("fsub", width, left, right), change(at), width)
        difference = Vector(rows, change, 0, length).loaded()

        def entry(j: str) -> None:
            row = Vector(rows, partial(rows.address, "%a0", length, j), 0, length).loaded()
            rows.store(rows.product(row, difference), rows.address("%r0", 1, j))

        rows.loop(0, r, entry)

    return called(em, f"coordinates.{r}.{n}", [Y, start, x], [((r,), "d")], write)[0]


def _crossed(em: Emitter, Y: Memory, Z: Memory, right: Memory, n: int) -> list[Memory]:
    """BᵀB and Bᵀ right for B = YZᵀ, which is near an orthogonal matrix, not always near 1."""
    r, length = Y.shape
    height = padded(r)

    def write(rows: Rows) -> None:
        cross = partial(rows.address, em.buffer((r + 1, height), "d").pointer, height)  # rows of Bᵀ, and the right side

        def clear(i: str) -> None:
            Vector(rows, partial(cross, i), 0, height).clear()

        def row(j: str) -> None:
            z = Vector(rows, partial(rows.address, "%a1", length, j), 0, length).loaded()

            def entry(i: str) -> None:
                y = Vector(rows, partial(rows.address, "%a0", length, i), 0, length).loaded()
                rows.store(rows.product(y, z), cross(j, i))

            rows.loop(0, r, entry)

        def product(i: str) -> None:
            first = Vector(rows, partial(cross, i), 0, height).loaded()

            def entry(j: str) -> None:
                second = Vector(rows, partial(cross, j), 0, height).loaded()
                rows.store(rows.product(first, second), rows.address("%r0", r, i, j))

            rows.loop(i, r, entry)
            rows.store(
                rows.product(first, Vector(rows, partial(cross, r), 0, height).loaded()), rows.address("%r1", 1, i)
            )

        rows.loop(0, r + 1, clear)
        rows.loop(0, r, row)
        rows.loop(0, r, lambda i: rows.store(rows.load(rows.address("%a2", 1, i)), cross(r, i)))
        rows.loop(0, r, product)

    return called(em, f"crossed.{r}.{n}", [Y, Z, right], [((r, r), "d"), ((r, 1), "d")], write)
