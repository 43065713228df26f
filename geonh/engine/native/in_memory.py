"""Decompositions of matrices in memory, by rows: one function for each shape, emitted once.

Rows are exchanged by selects, so that lanes may exchange different rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from geonh.engine.native.emitter import Emitter
from geonh.engine.native.rows import Rows, called
from geonh.engine.native.values import Entry, Memory


def lu(em: Emitter, A: Memory) -> list[Memory]:
    """LU decomposition with partial pivoting of A, shape=[m, n]: factors, exchanges of rows, and their permutation."""
    m, n = A.shape
    steps = min(m, n)

    def write(rows: Rows) -> None:
        place = partial(rows.address, "%r0", n)
        exchanges, order = (Memory(f"%r{i}", (m,), "i32", em.lanes > 1) for i in (1, 2))

        def eliminate(k: str) -> None:
            pivot = rows.kept(rows.largest(lambda i: place(i, k), k, m), "i32")
            em.store(em.load(pivot, 0), exchanges, k)
            after = rows.new(f"add nsw i64 {k}, 1")

            def exchange(i: str) -> None:
                here = em.compare("eq", "i32", em.load(pivot, 0), em.convert(i, "i64", "i32"))
                for at, width in rows.pieces(n):
                    rows.exchange(here, place(k, at), place(i, at), width)
                first, second = em.load(order, k), em.load(order, i)
                em.store(em.select(here, second, first, "i32"), order, k)
                em.store(em.select(here, first, second, "i32"), order, i)

            rows.loop(after, m, exchange)
            corner = rows.load(place(k, k))
            inverse = em.div(1.0, em.select(em.compare("eq", "d", corner, 0.0), 1.0, corner, "d"))
            row = rows.after(place, k, n)

            def update(i: str) -> None:
                factor = em.mul(rows.load(place(i, k)), inverse)
                rows.subtract(factor, row, partial(place, i), n)
                rows.store(str(factor), place(i, k))

            rows.loop(after, m, update)

        rows.copy("%a0", "%r0", m, n)
        em.for_each(m, lambda i: em.store(em.convert(i, "i64", "i32"), order, i))
        rows.loop(0, steps, eliminate)

    return called(em, f"lu.{m}.{n}", [A], [((m, n), "d"), ((steps,), "i32"), ((m,), "i32")], write)


def permutation(em: Emitter, exchanges: Memory, n: int) -> Memory:
    """Permutation of n rows that a sequence of exchanges makes."""

    def write(rows: Rows) -> None:
        given, order = (Memory(name, (n,), "i32", em.lanes > 1) for name in ("%a0", "%r0"))

        def exchange(k: str, i: str) -> None:
            here = em.compare("eq", "i32", em.load(given, k), em.convert(i, "i64", "i32"))
            first, second = em.load(order, k), em.load(order, i)
            em.store(em.select(here, second, first, "i32"), order, k)
            em.store(em.select(here, first, second, "i32"), order, i)

        em.for_each(n, lambda i: em.store(em.convert(i, "i64", "i32"), order, i))
        rows.loop(0, exchanges.size, lambda k: rows.loop(rows.new(f"add nsw i64 {k}, 1"), n, partial(exchange, k)))

    return called(em, f"permutation.{exchanges.size}.{n}", [exchanges], [((n,), "i32")], write)[0]


def cholesky(em: Emitter, A: Memory) -> Memory:
    """Lower Cholesky factor of a symmetric matrix, shape=[n, n], nan if it is not positive definite."""
    n = A.shape[0]

    def write(rows: Rows) -> None:
        work, good = em.buffer((n, n), "d").pointer, rows.kept(True, "b")
        place, result = partial(rows.address, work, n), partial(rows.address, "%r0", n)

        def eliminate(k: str) -> None:
            pivot = rows.load(place(k, k))
            em.store(em.both(em.load(good, 0), em.compare("gt", "d", pivot, 0.0)), good)
            root = em.intrinsic("sqrt", "d", pivot)
            rows.store(root, place(k, k))
            after, inverse = rows.new(f"add nsw i64 {k}, 1"), em.div(1.0, root)

            def scale(j: str) -> None:
                here = place(k, j)
                rows.store(str(em.mul(rows.load(here), inverse)), here)

            rows.loop(after, n, scale)
            row = rows.after(place, k, n)
            rows.loop(after, n, lambda i: rows.subtract(rows.load(place(k, i)), row, partial(place, i), n))

        def entry(i: str, j: str) -> None:
            below = em.compare("ge", "i64", i, j)
            value = em.select(em.load(good, 0), rows.load(place(j, i)), float("nan"), "d")
            rows.store(em.operand(em.select(below, value, 0.0, "d"), "d", em.lanes > 1), result(i, j))

        rows.copy("%a0", work, n, n)
        rows.loop(0, n, eliminate)
        rows.loop(0, n, lambda i: rows.loop(0, n, partial(entry, i)))

    return called(em, f"cholesky.{n}", [A], [((n, n), "d")], write)[0]


def substituted(em: Emitter, A: Memory, B: Memory, options: Mapping[str, Any]) -> Memory:
    """Solution of AX = B or XA = B, A triangular, with the parameters of JAX's ``triangular_solve``."""
    n, left, unit = A.shape[0], options["left_side"], options["unit_diagonal"]
    others, length = B.shape[1 if left else 0], B.shape[1]
    transposed = options["transpose_a"] == left  # X A = B is Aᵀ Xᵀ = Bᵀ
    lower = options["lower"] != transposed

    def write(rows: Rows) -> None:
        def coefficient(i: Entry, j: Entry) -> str:
            return rows.load(rows.address("%a0", n, j, i) if transposed else rows.address("%a0", n, i, j))

        def place(i: Entry, c: Entry) -> str:
            return rows.address("%r0", length, i, c) if left else rows.address("%r0", length, c, i)

        def unknown(i: str) -> None:
            def subtract(j: str) -> None:
                minus = rows.apply("fneg", 1, coefficient(i, j))

                def entry(c: str) -> None:
                    here = place(i, c)
                    rows.store(rows.multiply_add(1, minus, rows.load(place(j, c)), rows.load(here)), here)

                rows.loop(0, others, entry)

            first, end = (0, i) if lower else (rows.new(f"add nsw i64 {i}, 1"), n)
            rows.loop(first, end, subtract)
            if unit:
                return
            inverse = rows.inverse(coefficient(i, i))

            def scale(c: str) -> None:
                here = place(i, c)
                rows.store(rows.apply("fmul", 1, rows.load(here), inverse), here)

            rows.loop(0, others, scale)

        rows.copy("%a1", "%r0", *B.shape)
        rows.loop(*((0, n, unknown, 1) if lower else (n - 1, -1, unknown, -1)))

    name = f"substituted.{n}.{others}.{left:d}{lower:d}{transposed:d}{unit:d}"
    return called(em, name, [A, B], [(B.shape, "d")], write)[0]
