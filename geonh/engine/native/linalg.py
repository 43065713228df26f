"""Lowerings of dense linear algebra on small matrices, and sorting: ``rule(emitter, equation, inputs) -> outputs``.

Elimination uses pivoting. Rows are exchanged by selects, so that nothing is indexed and lanes may exchange different
rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from geonh.engine.native import in_memory
from geonh.engine.native.emitter import RULES, Emitter
from geonh.engine.native.loops import part
from geonh.engine.native.values import Entry, Memory, Value, kind_of, pack

LARGEST = 12
"""Maximum dimension of matrices that are decomposed entry by entry; larger ones are in memory."""
SORTED = 32
"""Maximum length of a line that is sorted entry by entry; longer and several ones are sorted in loops."""


def _matrices(em: Emitter, x: Value) -> Iterator[list[list[Entry]]]:
    """Matrices of an array with any leading axes."""
    flat = em.entries(x)
    for at in np.ndindex(*flat.shape[:-2]):
        yield flat[at].tolist()


def _gathered(parts: list[list], eqn: Any) -> list[Value]:
    """Pack nested lists, matrix by matrix, into the outputs of an equation."""
    results: list[Value] = []
    for k, var in enumerate(eqn.outvars):
        results.append(pack([x for part in parts for x in _flat(part[k])], var.aval.shape))
    return results


def _flat(rows: list) -> Iterator[Entry]:
    for row in rows:
        if isinstance(row, list):
            yield from row
        else:
            yield row


def _each(em: Emitter, eqn: Any, xs: list[Value], write: Callable[..., list[Memory]]) -> list[Value]:
    """Apply a function to each matrix of arrays in memory with any leading axes."""
    arrays = [em.memory(x, kind_of(var.aval)) for x, var in zip(xs, eqn.invars, strict=True)]
    if all(len(x.shape) == 2 for x in xs):
        return list(write(*arrays))
    results = [em.place(var.aval) for var in eqn.outvars]
    for i in range(math.prod(xs[0].shape[:-2])):
        for stack, one in zip(results, write(*(part(em, x, i, x.shape[-2:]) for x in arrays)), strict=True):
            em.copy(part(em, stack, i, one.shape), one)
    return list(results)


def _lu(em: Emitter, eqn: Any, xs: list[Value]) -> list[Value]:
    if max(xs[0].shape[-2:]) > LARGEST:
        return _each(em, eqn, xs, partial(in_memory.lu, em))
    parts = []
    for rows in _matrices(em, xs[0]):
        m, n = len(rows), len(rows[0])
        order: list[Entry] = list(range(m))
        pivots: list[Entry] = []
        for j in range(min(m, n)):
            pivot = _largest(em, [row[j] for row in rows], j)
            pivots.append(pivot)
            for i in range(j + 1, m):
                here = em.compare("eq", "i32", pivot, i)
                rows[j], rows[i] = _exchanged(em, here, rows[j], rows[i], "d")
                (order[j],), (order[i],) = _exchanged(em, here, [order[j]], [order[i]], "i32")
            zero = em.compare("eq", "d", rows[j][j], 0.0)
            inverse = em.div(1.0, em.select(zero, 1.0, rows[j][j], "d"))
            for i in range(j + 1, m):
                factor = em.mul(rows[i][j], inverse)
                rows[i][j] = factor
                for k in range(j + 1, n):
                    rows[i][k] = em.sub(rows[i][k], em.mul(factor, rows[j][k]))
        parts.append([rows, pivots, order])
    return _gathered(parts, eqn)


def _largest(em: Emitter, column: list[Entry], first: int) -> Entry:
    """Index of the entry largest in magnitude, from ``first`` on."""
    sizes = [em.intrinsic("fabs", "d", x) if isinstance(x, str) else abs(x) for x in column]
    best: Entry = sizes[first]
    place: Entry = first
    for i in range(first + 1, len(column)):
        larger = em.compare("gt", "d", sizes[i], best)
        best, place = em.select(larger, sizes[i], best, "d"), em.select(larger, i, place, "i32")
    return place


def _exchanged(em: Emitter, condition: Entry, a: list[Entry], b: list[Entry], kind: str) -> tuple[list, list]:
    """Exchange two rows if the condition holds."""
    return (
        [em.select(condition, y, x, kind) for x, y in zip(a, b, strict=True)],
        [em.select(condition, x, y, kind) for x, y in zip(a, b, strict=True)],
    )


def _permutation(em: Emitter, eqn: Any, xs: list[Value]) -> list[Value]:
    """Permutation of rows that a sequence of exchanges makes."""
    if eqn.params["permutation_size"] > LARGEST:
        rows = em.memory(xs[0], kind_of(eqn.invars[0].aval))
        permutations, n = em.place(eqn.outvars[0].aval), eqn.params["permutation_size"]
        for i in range(math.prod(rows.shape[:-1])):
            em.copy(part(em, permutations, i, (n,)), in_memory.permutation(em, part(em, rows, i, rows.shape[-1:]), n))
        return [permutations]
    pivots, n = em.entries(xs[0]), eqn.params["permutation_size"]
    kind, out = kind_of(eqn.invars[0].aval), []
    for row in pivots.reshape(-1, pivots.shape[-1]).tolist():
        order: list[Entry] = list(range(n))
        for j, pivot in enumerate(row):
            for i in range(j + 1, n):
                here = em.compare("eq", kind, pivot, i)
                (order[j],), (order[i],) = _exchanged(em, here, [order[j]], [order[i]], "i32")
        out += order
    return [pack(out, eqn.outvars[0].aval.shape)]


def _cholesky(em: Emitter, eqn: Any, xs: list[Value]) -> list[Value]:
    """Lower Cholesky factor, nan if the matrix is not positive definite."""
    if xs[0].shape[-1] > LARGEST:
        return _each(em, eqn, xs, lambda A: [in_memory.cholesky(em, A)])
    parts = []
    for A in _matrices(em, xs[0]):
        n = len(A)
        L: list[list[Entry]] = [[0.0] * n for _ in range(n)]
        good: Entry = True
        for j in range(n):
            rest = A[j][j]
            for k in range(j):
                rest = em.sub(rest, em.mul(L[j][k], L[j][k]))
            good = em.both(good, em.compare("gt", "d", rest, 0.0))
            L[j][j] = em.intrinsic("sqrt", "d", rest)
            inverse = em.div(1.0, L[j][j])
            for i in range(j + 1, n):
                rest = A[i][j]
                for k in range(j):
                    rest = em.sub(rest, em.mul(L[i][k], L[j][k]))
                L[i][j] = em.mul(rest, inverse)
        parts.append(
            [[[em.select(good, x, float("nan"), "d") for x in row[: i + 1]] + row[i + 1 :] for i, row in enumerate(L)]]
        )
    return _gathered(parts, eqn)


def _triangular_solve(em: Emitter, eqn: Any, xs: list[Value]) -> list[Value]:
    p, parts = eqn.params, []
    if xs[0].shape[-1] > LARGEST:
        return _each(em, eqn, xs, lambda A, B: [in_memory.substituted(em, A, B, p)])
    rights = em.entries(xs[1])
    for at, A in zip(np.ndindex(*rights.shape[:-2]), _matrices(em, xs[0]), strict=True):
        B = rights[at] if p["left_side"] else rights[at].T
        transposed = p["transpose_a"] == p["left_side"]  # X A = B is Aᵀ Xᵀ = Bᵀ
        A = [list(row) for row in zip(*A, strict=True)] if transposed else A
        X = _substituted(em, A, B.tolist(), lower=p["lower"] != transposed, unit=p["unit_diagonal"])
        parts.append([X if p["left_side"] else [list(row) for row in zip(*X, strict=True)]])
    return _gathered(parts, eqn)


def _substituted(em: Emitter, A: list, B: list, *, lower: bool, unit: bool) -> list:
    n = len(A)
    for i in range(n) if lower else reversed(range(n)):
        inverse = 1.0 if unit else em.div(1.0, A[i][i])
        for c in range(len(B[0])):
            total = B[i][c]
            for j in range(i) if lower else range(i + 1, n):
                total = em.sub(total, em.mul(A[i][j], B[j][c]))
            B[i][c] = em.mul(total, inverse)
    return B


def _sort(em: Emitter, eqn: Any, xs: list[Value]) -> list[Value]:
    """Stable odd-even transposition sort; nan comes last."""
    axis, n_keys = eqn.params["dimension"], eqn.params["num_keys"]
    kinds, length = [kind_of(var.aval) for var in eqn.invars], xs[0].shape[axis]

    def in_order(first: list[Entry], second: list[Entry]) -> list[tuple[Entry, Entry]]:
        """Two items, the smaller one first."""
        wrong = _after(em, list(zip(first, second, kinds, strict=True))[:n_keys])
        return [
            (em.select(wrong, y, x, kind), em.select(wrong, x, y, kind))
            for x, y, kind in zip(first, second, kinds, strict=True)
        ]

    if math.prod(xs[0].shape) * length > SORTED**2:
        return _sorted_in_memory(em, eqn, xs, in_order)
    arrays = [np.moveaxis(em.entries(x), axis, -1).copy() for x in xs]
    for at in np.ndindex(*arrays[0].shape[:-1]):
        rows = [x[at] for x in arrays]
        for sweep in range(length):
            for i in range(sweep % 2, length - 1, 2):
                pairs = in_order([row[i] for row in rows], [row[i + 1] for row in rows])
                for row, pair in zip(rows, pairs, strict=True):
                    row[i], row[i + 1] = pair
    return [np.moveaxis(x, -1, axis) for x in arrays]


def _sorted_in_memory(em: Emitter, eqn: Any, xs: list[Value], in_order: Callable) -> list[Value]:
    """The same sort in loops, along any axis."""
    axis, results = eqn.params["dimension"], []
    for x, var in zip(xs, eqn.invars, strict=True):
        results.append(em.place(var.aval))
        em.copy(results[-1], x)
    shape = xs[0].shape
    length, stride = shape[axis], math.prod(shape[axis + 1 :])
    begins = np.delete(np.arange(math.prod(shape)).reshape(shape), range(1, length), axis=axis).ravel()

    def line(k: Entry) -> None:
        begin = em.load(em.table(begins, "i64"), k)

        def sweep(number: Entry) -> None:
            parity = em.integer("and", "i64", number, 1)
            count = em.divide("i64", em.integer("sub", "i64", length, parity), 2, remainder=False)

            def pair(i: Entry) -> None:
                place = em.integer("add", "i64", em.integer("mul", "i64", i, 2), parity)
                here = em.integer("add", "i64", begin, em.integer("mul", "i64", place, stride))
                there = em.integer("add", "i64", here, stride)
                pairs = in_order(*([em.load(x, at) for x in results] for at in (here, there)))
                for x, (first, second) in zip(results, pairs, strict=True):
                    em.store(first, x, here)
                    em.store(second, x, there)

            em.for_each(str(count), pair)

        em.for_each(length, sweep)

    em.for_each(len(begins), line)
    return list(results)


def _after(em: Emitter, keys: list[tuple[Entry, Entry, str]]) -> Entry:
    """True if the first of two comes after the second, by the first key that differs."""
    (x, y, kind), *rest = keys
    above, below = em.compare("gt", kind, x, y), em.compare("lt", kind, x, y)
    if kind == "d":
        x_missing, y_missing = em.compare("ne", "d", x, x), em.compare("ne", "d", y, y)
        above = em.either(above, em.both(x_missing, em.negated(y_missing)))
        below = em.either(below, em.both(y_missing, em.negated(x_missing)))
    return above if not rest else em.either(above, em.both(em.negated(below), _after(em, rest)))


RULES.update(
    {
        "lu": _lu,
        "lu_pivots_to_permutation": _permutation,
        "cholesky": _cholesky,
        "triangular_solve": _triangular_solve,
        "sort": _sort,
    }
)
