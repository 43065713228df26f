"""Elimination of sparse symmetric matrices in memory, from the last row to the first.

A mass matrix of a tree of bodies, parents first, has the entries of bodies and those that carry them alone, and so have
its factors in this order, A = LᵀDL: none fills. Other matrices may, which is found from their zeros before.

Source: Featherstone, *Rigid Body Dynamics Algorithms*, Springer (2008), §6.5; George, Liu, *Computer Solution of Large
Sparse Positive Definite Systems*, Prentice-Hall (1981), §5, for the entries that fill.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cached_property, partial
from itertools import chain
from typing import NamedTuple

import numpy as np

from geonh.engine.lowering import WIDTH, Emitter, Memory, Rows, called

WORTH = 0.6
"""Part of the operations of a full elimination up to which the zeros are used."""


class Sparse:
    """Entries of the factors of a symmetric matrix, shape=[n, n], that do not vanish.

    Parameters
    ----------
    zeros : array of bool, shape=[n, n], symmetric
        Entries that vanish. Last rows without a diagonal, of constraints in a saddle-point system, are eliminated at
        last: they come first here.

    Attributes
    ----------
    n, n_last : int
        Numbers of rows, and of those without a diagonal.
    columns : list of list of int
        Columns of each row before its diagonal, ascending, in the order in which the rows are used.
    """

    def __init__(self, zeros: np.ndarray) -> None:
        self.n = len(zeros)
        with_diagonal = np.flatnonzero(~zeros.diagonal())
        self.n_last = self.n - 1 - int(with_diagonal.max(initial=-1))
        order = np.roll(np.arange(self.n), self.n_last)
        present = ~zeros[np.ix_(order, order)]
        rows = [set(np.flatnonzero(present[i, :i]).tolist()) for i in range(self.n)]
        for row in reversed(rows):
            if row:
                rows[max(row)] |= row - {max(row)}
        self.columns = [sorted(row) for row in rows]

    @property
    def is_worthwhile(self) -> bool:
        """True if its elimination takes much fewer operations on vectors than one of all entries."""
        vectors = np.cumsum(np.arange(self.n) // WIDTH + 1)
        found = sum(j // WIDTH + 1 for row in self.columns for j in row)
        return found <= WORTH * int(vectors[:-1].sum())

    @cached_property
    def name(self) -> str:
        """Name of functions for it."""
        return f"{self.n}.{self.n_last}.{hashlib.sha256(str(self.columns).encode()).hexdigest()[:16]}"


class _Lists(NamedTuple):
    """Lists of numbers, one after another, and the places at which each begins."""

    numbers: Memory
    begins: Memory


def _lists(em: Emitter, lists: list[list[int]]) -> _Lists:
    numbers, begins = [0, *chain.from_iterable(lists)], 1 + np.cumsum([0, *map(len, lists)])  # a table is never empty
    return _Lists(em.table(np.array(numbers, np.int64), "i64"), em.table(begins.astype(np.int64), "i64"))


def _each(rows: Rows, lists: _Lists, which: str, body: Callable[[str], None]) -> None:
    """Emit a loop over the places of the numbers of a list."""
    begin, end = (rows.em.load(lists.begins, i) for i in (which, rows.new(f"add nsw i64 {which}, 1")))
    rows.loop(begin, end, body)


class _Eliminated(NamedTuple):
    """Pointers to what an elimination leaves: the right-hand sides, the factors entry by entry, and the pivots."""

    right: str
    factors: str
    pivots: str


def _eliminate(rows: Rows, sparse: Sparse, k: int) -> _Eliminated:
    """Emit the elimination of [A | B], shapes [n, n] and [n, k], the first two arguments."""
    em, n, m = rows.em, sparse.n, sparse.n_last
    width, length, _ = rows.sizes(n, 0)
    total = 1 + sum(map(len, sparse.columns))
    sizes = ((n, length), (n, max(k, 1)), (total,), (n,))
    work, right, factors, pivots = (em.buffer(size, "d").pointer for size in sizes)
    place, beside = partial(rows.address, work, length), partial(rows.address, right, max(k, 1))

    def copied(first: int, i: str) -> None:
        """Copy row i of the matrix to ``first`` rows before or after it, constraints before the others."""
        to = rows.new(f"add nsw i64 {i}, {first}")
        for source, size, target in ((n - m, m, 0), (0, n - m, m)):
            for at, w in rows.pieces(size):
                rows.store(rows.load(rows.address("%a0", n, i, source + at), w), place(to, target + at), w)
        for at in range(n, length, width):
            rows.store(rows.zero(1), place(to, at))
        for at, w in rows.pieces(k):
            rows.store(rows.load(rows.address("%a1", k, i, at), w), beside(to, at), w)

    blocks = rows.blocks(n)
    parts = [[j for j in row if at <= j < end] for row in sparse.columns for at, end in blocks]
    table = _lists(em, parts)

    def eliminate(p: str) -> None:
        pivot = rows.load(place(p, p))
        inverse = rows.inverse(pivot)
        rows.store(pivot, rows.address(pivots, 1, p))
        right_of_pivot = [rows.load(beside(p, at), w) for at, w in rows.pieces(k)]
        first = rows.new(f"mul nsw i64 {p}, {len(blocks)}")

        def subtract(end: int, t: str) -> None:
            i = em.load(table.numbers, t)
            factor = rows.apply("fmul", 1, rows.load(place(p, i)), inverse)
            rows.store(factor, rows.address(factors, 1, t))
            minus = rows.apply("fneg", 1, factor)
            for at in range(0, end, width):
                here, row = place(i, at), rows.load(place(p, at), width)
                rows.store(rows.multiply_add(width, rows.all(minus, width), row, rows.load(here, width)), here, width)
            for x, (at, w) in zip(right_of_pivot, rows.pieces(k), strict=True):
                here = beside(i, at)
                rows.store(rows.multiply_add(w, rows.all(minus, w), x, rows.load(here, w)), here, w)

        for b, (at, _) in enumerate(blocks):
            which = rows.new(f"add nsw i64 {first}, {b}")
            _each(rows, table, which, partial(subtract, min(at + WIDTH, length)))
        for x, (at, w) in zip(right_of_pivot, rows.pieces(k), strict=True):
            rows.store(rows.apply("fmul", w, x, rows.all(inverse, w)), beside(p, at), w)

    rows.loop(0, n - m, partial(copied, m))
    rows.loop(n - m, n, partial(copied, m - n))
    rows.loop(n - 1, -1, eliminate, -1)
    return _Eliminated(right, factors, pivots)


def pivots(em: Emitter, sparse: Sparse, A: Memory) -> Memory:
    """Pivots of a symmetric matrix, shape=[n], in the order in which it is eliminated."""
    n = sparse.n

    def write(rows: Rows) -> None:
        found = _eliminate(rows, sparse, 0).pivots
        rows.copy(found, "%r0", 1, n)

    return called(em, f"sparse.pivots.{sparse.name}", [A], [((n,), "d")], write)[0]


def solution(em: Emitter, sparse: Sparse, A: Memory, B: Memory) -> Memory:
    """A⁻¹B, shapes [n, n] and [n, k], of a symmetric matrix."""
    n, k = B.shape

    def write(rows: Rows) -> None:
        eliminated = _eliminate(rows, sparse, k)
        x = partial(rows.address, eliminated.right, k)
        entries = [(i, j) for i, row in enumerate(sparse.columns) for j in row]  # in the order of the factors
        rows_below = _lists(em, [[i for i, column in entries if column == j] for j in range(n)])
        places = _lists(em, [[t for t, (_, column) in enumerate(entries, 1) if column == j] for j in range(n)])

        def substitute(p: str) -> None:
            """Subtract what later rows have of unknown p."""
            known = [rows.load(x(p, at), w) for at, w in rows.pieces(k)]

            def subtract(s: str) -> None:
                i, factor = em.load(rows_below.numbers, s), em.load(places.numbers, s)
                minus = rows.apply("fneg", 1, rows.load(rows.address(eliminated.factors, 1, factor)))
                for y, (at, w) in zip(known, rows.pieces(k), strict=True):
                    here = x(i, at)
                    rows.store(rows.multiply_add(w, rows.all(minus, w), y, rows.load(here, w)), here, w)

            _each(rows, rows_below, p, subtract)

        rows.loop(0, n, substitute)
        m = sparse.n_last
        rows.copy(x(m), "%r0", n - m, k)
        rows.copy(eliminated.right, rows.address("%r0", k, n - m), m, k)

    return called(em, f"sparse.solution.{k}.{sparse.name}", [A, B], [((n, k), "d")], write)[0]
