"""Elimination without pivoting of matrices in memory, by rows: one function for each dimension, emitted once."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from geonh.engine.lowering import WIDTH, Emitter, Memory, Rows, called


def inverse(em: Emitter, A: Memory) -> Memory:
    """A⁻¹, shape=[n, n], by Gauss-Jordan elimination in place."""
    n = A.shape[0]

    def write(rows: Rows) -> None:
        place = partial(rows.address, "%r0", n)

        def copied(i: str) -> None:
            for at, width in rows.pieces(n):
                rows.store(rows.load(rows.address("%a0", n, i, at), width), place(i, at), width)

        def eliminated_by(k: str) -> None:
            corner = place(k, k)
            pivot = rows.inverse(rows.load(corner))
            for at, width in rows.pieces(n):
                here = place(k, at)
                rows.store(rows.apply("fmul", width, rows.load(here, width), rows.all(pivot, width)), here, width)

            def other(i: str) -> None:
                here, following = em.function.label(), em.function.label()
                em.branch(rows.new(f"icmp eq i64 {i}, {k}"), following, here)
                em.begin(here)
                foot = place(i, k)
                factor = rows.apply("fneg", 1, rows.load(foot))
                for at, width in rows.pieces(n):
                    target, row = place(i, at), rows.load(place(k, at), width)
                    new = rows.multiply_add(width, rows.all(factor, width), row, rows.load(target, width))
                    rows.store(new, target, width)
                rows.store(rows.apply("fmul", 1, factor, pivot), foot)
                em.jump(following)
                em.begin(following)

            em.for_each(n, other)
            rows.store(pivot, corner)

        em.for_each(n, copied)
        em.for_each(n, eliminated_by)

    return called(em, f"inverse.{n}", [A], [((n, n), "d")], write)[0]


class Eliminated(NamedTuple):
    """Pointers to what an elimination leaves: the rows, factors L with A = LDLᵀ, and inverse pivots."""

    rows: str
    factors: str
    inverses: str


def _eliminate(rows: Rows, n: int, k: int, *, symmetric: bool) -> Eliminated:
    """Emit the elimination of [A | B], shapes [n, n] and [n, k] of the first two arguments, without pivoting.

    Row i of a symmetric matrix is used from the vector with its diagonal entry on; factors are those of symmetric ones.
    """
    width, length, padded = rows.sizes(n, k)
    work, L, inverses = (rows.em.buffer(shape, "d").pointer for shape in ((n, length), (n, padded), (n, 1)))
    place, factor_at = partial(rows.address, work, length), partial(rows.address, L, padded)

    def copied(start: int, i: str) -> None:
        for source, m, first in (("%a0", n, 0), ("%a1", k, n)):
            for at, w in rows.pieces(m):
                rows.store(rows.load(rows.address(source, m, i, at), w), place(i, first + at), w)
        for at in range(start, min(start + WIDTH, padded), width):  # L is strictly lower triangular
            rows.store(rows.zero(width), factor_at(i, at), width)

    def below(start: int, pivot: str) -> None:
        """Eliminate below a pivot, in the vectors from ``start`` on."""
        inverse = rows.inverse(rows.load(place(pivot, pivot)))
        rows.store(inverse, rows.address(inverses, 1, pivot))
        row = {at: rows.load(place(pivot, at), width) for at in range(start, length, width)}
        after = rows.new(f"add nsw i64 {pivot}, 1")

        def update(first: int, i: str) -> None:
            entry = rows.load(place(pivot, i) if symmetric else place(i, pivot))
            factor = rows.apply("fmul", 1, entry, inverse)
            if symmetric:
                rows.store(factor, factor_at(i, pivot))
            minus = rows.all(rows.apply("fneg", 1, factor), width)
            for at in range(first, length, width):
                here = place(i, at)
                rows.store(rows.multiply_add(width, minus, row[at], rows.load(here, width)), here, width)

        for at, end in rows.blocks(n):
            if at >= start:
                rows.loop(after if at == start else at, end, partial(update, at if symmetric else start))

    for at, end in rows.blocks(n):
        rows.loop(at, end, partial(copied, at))
    for at, end in rows.blocks(n):
        rows.loop(at, end, partial(below, at))
    return Eliminated(work, L, inverses)


def pivots(em: Emitter, A: Memory) -> Memory:
    """Pivots of a symmetric matrix, shape=[n]."""
    n = A.shape[0]

    def write(rows: Rows) -> None:
        length, work = rows.sizes(n, 0)[1], _eliminate(rows, n, 0, symmetric=True).rows
        rows.loop(0, n, lambda i: rows.store(rows.load(rows.address(work, length, i, i)), rows.address("%r0", 1, i)))

    return called(em, f"pivots.{n}", [A], [((n,), "d")], write)[0]


def solution(em: Emitter, A: Memory, B: Memory, *, symmetric: bool) -> Memory:
    """A⁻¹B, shapes [n, n] and [n, k], by elimination without pivoting; by rows of L where A is symmetric."""
    n, k = B.shape

    def write(rows: Rows) -> None:
        width, length, padded = rows.sizes(n, k)
        work, L, inverses = _eliminate(rows, n, k, symmetric=symmetric)
        place, factor_at = partial(rows.address, work, length), partial(rows.address, L, padded)

        def scaled(i: str) -> None:
            factor = rows.load(rows.address(inverses, 1, i))
            for at, w in rows.pieces(k):
                here = place(i, n + at)
                rows.store(rows.apply("fmul", w, rows.load(here, w), rows.all(factor, w)), here, w)

        def substitute(j: str) -> None:
            """Subtract what the others have of unknown j, the last that is not yet known."""
            if not symmetric:
                scaled(j)
            row_of_unknown = [rows.load(place(j, n + at), w) for at, w in rows.pieces(k)]

            def subtract(i: str) -> None:
                minus = rows.apply("fneg", 1, rows.load(factor_at(j, i) if symmetric else place(i, j)))
                for x, (at, w) in zip(row_of_unknown, rows.pieces(k), strict=True):
                    here = place(i, n + at)
                    rows.store(rows.multiply_add(w, rows.all(minus, w), x, rows.load(here, w)), here, w)

            rows.loop(0, j, subtract)

        def substitute_by_rows(x: str, end: int, j: str) -> None:
            minus = rows.all(rows.apply("fneg", 1, rows.load(rows.address(x, 1, j))), width)
            for at in range(0, end, width):
                here = rows.address(x, 1, at)
                factors = rows.load(factor_at(j, at), width)
                rows.store(rows.multiply_add(width, minus, factors, rows.load(here, width)), here, width)

        def returned(i: str) -> None:
            for at, w in rows.pieces(k):
                rows.store(rows.load(place(i, n + at), w), rows.address("%r0", k, i, at), w)

        if symmetric:
            rows.loop(0, n, scaled)
        if not symmetric or k > 1:
            rows.loop(n - 1, -1, substitute, -1)
            rows.loop(0, n, returned)
            return
        x = em.buffer((padded,), "d").pointer
        rows.loop(0, n, lambda i: rows.store(rows.load(place(i, n)), rows.address(x, 1, i)))
        for at, end in reversed(rows.blocks(n)):
            rows.loop(end - 1, at - 1, partial(substitute_by_rows, x, min(at + WIDTH, padded)), -1)
        rows.loop(0, n, lambda i: rows.store(rows.load(rows.address(x, 1, i)), rows.address("%r0", 1, i)))

    return called(em, f"solution.{n}.{k}.{symmetric:d}", [A, B], [((n, k), "d")], write)[0]


def orthogonalized(em: Emitter, A: Memory) -> Memory:
    """Rows of A, shape=[m, n], orthogonalized, with their combinations of the given rows and their squared lengths.

    Scalar products are sums over the lanes of a vector, then over vectors; the lanes are added in pairs.
    """
    m, n = A.shape
    total = n + m + 1

    def write(rows: Rows) -> None:
        place = partial(rows.address, "%r0", total)
        one = em.operand(1.0, "d", rows.wide)

        def begin(i: str) -> None:
            for at, width in rows.pieces(n):
                rows.store(rows.load(rows.address("%a0", n, i, at), width), place(i, at), width)
            for at, width in rows.pieces(m + 1):
                rows.store(rows.zero(width), place(i, n + at), width)
            rows.store(one, rows.new(f"getelementptr {rows.one}, ptr {place(i, n)}, i64 {i}"))

        def subtract(k: str) -> None:
            square = rows.dot(partial(place, k), partial(place, k), n)
            rows.store(square, place(k, n + m))
            inverse = rows.inverse(square)

            def update(i: str) -> None:
                factor = rows.apply("fmul", 1, rows.dot(partial(place, i), partial(place, k), n), inverse)
                minus = rows.apply("fneg", 1, factor)
                for at, width in rows.pieces(n + m):
                    here, x = place(i, at), rows.load(place(k, at), width)
                    new = rows.multiply_add(width, rows.all(minus, width), x, rows.load(here, width))
                    rows.store(new, here, width)

            rows.loop(rows.new(f"add nsw i64 {k}, 1"), m, update)

        rows.loop(0, m, begin)
        rows.loop(0, m, subtract)

    return called(em, f"orthogonalized.{m}.{n}", [A], [((m, total), "d")], write)[0]


def conjugated(em: Emitter, A: Memory, images: Memory) -> Memory:
    """Rows of A orthogonalized in a metric under which they have these images, shape=[m, n], and their images, as
    rows of shape=[m, 2n].
    """
    m, n = A.shape

    def write(rows: Rows) -> None:
        place = partial(rows.address, "%r0", 2 * n)

        def begin(i: str) -> None:
            for source, first in (("%a0", 0), ("%a1", n)):
                for at, width in rows.pieces(n):
                    rows.store(rows.load(rows.address(source, n, i, at), width), place(i, first + at), width)

        def subtract(k: str) -> None:
            def along(i: str) -> str:
                return rows.dot(partial(place, i), lambda at: place(k, n + at), n)

            inverse = rows.inverse(along(k))
            row = {at: rows.load(place(k, at), width) for at, width in rows.pieces(2 * n)}

            def update(i: str) -> None:
                minus = rows.apply("fneg", 1, rows.apply("fmul", 1, along(i), inverse))
                for at, width in rows.pieces(2 * n):
                    here = place(i, at)
                    new = rows.multiply_add(width, rows.all(minus, width), row[at], rows.load(here, width))
                    rows.store(new, here, width)

            rows.loop(rows.new(f"add nsw i64 {k}, 1"), m, update)

        rows.loop(0, m, begin)
        rows.loop(0, m, subtract)

    return called(em, f"conjugated.{m}.{n}", [A, images], [((m, 2 * n), "d")], write)[0]


def applied(em: Emitter, inverse: Memory, b: Memory) -> Memory:
    """Product of a transposed matrix, shape=[n, n], with a vector, shape=[n], summed row by row."""
    n = b.size

    def write(rows: Rows) -> None:
        def begin(i: str) -> None:
            rows.store(rows.zero(1), rows.address("%r0", 1, i))

        def add(i: str) -> None:
            factor = rows.load(rows.address("%a1", 1, i))
            for at, w in rows.pieces(n):
                here = rows.address("%r0", 1, at)
                row = rows.load(rows.address("%a0", n, i, at), w)
                rows.store(rows.multiply_add(w, rows.all(factor, w), row, rows.load(here, w)), here, w)

        rows.loop(0, n, begin)
        rows.loop(0, n, add)

    return called(em, f"applied.{n}", [inverse, b], [((n,), "d")], write)[0]
