"""Lowerings of the library's dense algebra: ``rule(emitter, equation, inputs) -> outputs``, looked up by primitive.

Elimination without pivoting is unrolled entry by entry, where known zeros cost nothing; a kept inverse is computed
entry by entry or in memory, where rows are vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from geonh.algebra import constrained, corrections, in_memory, reflections, sparse
from geonh.algebra.elimination import BY_ROWS, conjugated, eliminated, orthogonalized, pivots_by_rows
from geonh.engine.lowering import (
    Emitter,
    Entry,
    Memory,
    Push,
    Tangent,
    Value,
    carried_in_memory,
    combined,
    pack,
    pieces,
    register_lowering,
    zero_tangent,
)

SPARSE = 24
"""Largest dimension of corrections that are solved block by block, by the known zeros."""
LOOPED = 40
"""Largest dimension of kept inverses that are applied in straight code."""
WITHOUT_DIVISION = 3
"""Dimension up to which rows are multiplied by pivots, two for symmetric matrices: the entries grow to the power of
2ⁿ⁻¹, and masses may be large. In larger systems only the last two rows are."""


def _eliminated(em: Emitter, eqn: Any, xs: list[Value]) -> list[Value]:
    out: list[Entry] = []
    symmetric, shape = eqn.params["symmetric"], eqn.outvars[0].aval.shape
    if len(shape) == 2 and shape[0] >= BY_ROWS:
        A, B = (em.memory(x, "d") for x in xs)
        if symmetric and (found := _sparse(A)) is not None:
            return [sparse.solution(em, found, A, B)]
        return [in_memory.solution(em, A, B, symmetric=symmetric)]
    As, Bs = (em.entries(x) for x in xs)
    for at in np.ndindex(*shape[:-2]):
        out += [x for row in _solved(em, As[at].tolist(), Bs[at].tolist(), symmetric) for x in row]
    return [pack(out, shape)]


def _sparse(A: Memory) -> sparse.Sparse | None:
    """Factors of a symmetric matrix of which so many entries are known to be zero that it pays."""
    if A.zeros is None:
        return None
    zeros = A.zeros.reshape(A.shape)
    if not np.array_equal(zeros, zeros.T):  # of a triangle alone
        return None
    found = sparse.Sparse(zeros)
    return found if found.is_worthwhile else None


def _pivots(em: Emitter, eqn: Any, xs: list[Value]) -> list[Value]:
    A = em.memory(xs[0], "d")
    found = _sparse(A)
    return [in_memory.pivots(em, A) if found is None else sparse.pivots(em, found, A)]


def _solved(em: Emitter, A: list[list[Entry]], B: list[list[Entry]], symmetric: bool) -> list[list[Entry]]:
    """Elimination; a pivot is inverted while rows are eliminated by the one before, the last two without division."""
    n, inverses = len(A), []
    last = n - 2 if n > WITHOUT_DIVISION - symmetric else 0
    for k in range(last):
        inverses.append(em.div(1.0, A[k][k]))
        for i in range(k + 1, n):
            factor = em.mul(A[k][i] if symmetric else A[i][k], inverses[k])
            for j in range(i if symmetric else k + 1, n):
                A[i][j] = em.sub(A[i][j], em.mul(factor, A[k][j]))
            if i == k + 1 < last:
                em.div(1.0, A[i][i])  # start the next inverse early
            B[i] = [em.sub(x, em.mul(factor, y)) for x, y in zip(B[i], B[k], strict=True)]
    B[last:] = _solved_without_division(em, [row[last:] for row in A[last:]], B[last:], symmetric)
    for i in reversed(range(last)):
        for j in reversed(range(i + 1, n)):
            B[i] = [em.sub(x, em.mul(A[i][j], y)) for x, y in zip(B[i], B[j], strict=True)]
        B[i] = [em.mul(x, inverses[i]) for x in B[i]]
    return B


def _solved_without_division(
    em: Emitter, A: list[list[Entry]], B: list[list[Entry]], symmetric: bool
) -> list[list[Entry]]:
    """Fraction-free elimination: rows are multiplied by pivots, so that all divisions come last and are independent."""
    n = len(A)
    if symmetric:
        A = [[A[min(i, j)][max(i, j)] for j in range(n)] for i in range(n)]
    for k in range(n):
        for i in range(k + 1, n):
            pivot, factor = A[k][k], A[i][k]
            if isinstance(factor, str) or factor != 0:
                A[i] = [em.sub(em.mul(pivot, x), em.mul(factor, y)) for x, y in zip(A[i], A[k], strict=True)]
                B[i] = [em.sub(em.mul(pivot, x), em.mul(factor, y)) for x, y in zip(B[i], B[k], strict=True)]
    inverses = [em.div(1.0, A[k][k]) for k in range(n)]
    for i in reversed(range(n)):
        for j in range(i + 1, n):
            B[i] = [em.sub(x, em.mul(A[i][j], y)) for x, y in zip(B[i], B[j], strict=True)]
        B[i] = [em.mul(x, inverses[i]) for x in B[i]]
    return B


def _correction(em: Emitter, eqn: Any, xs: list[Value]) -> list[Value]:
    """Solve strongly connected blocks of unknowns in order, by the known zeros; small blocks by cofactors."""
    n = xs[1].shape[0]
    if n > SPARSE:
        matrix, vector = (em.memory(x, "d") for x in xs)
        return [in_memory.solution(em, matrix, vector.reshape((n, 1)), symmetric=False).reshape((n,))]
    A, b = em.entries(xs[0]), em.entries(xs[1]).tolist()
    needs = np.array([[isinstance(x, str) or x != 0 for x in row] for row in A.tolist()])
    if not needs.diagonal().all():
        needs[:] = True
    for k in range(n):  # transitive closure: unknowns that an equation needs through others
        needs |= np.outer(needs[:, k], needs[k])
    out: list[Entry] = [0.0] * n
    left = sorted(range(n), key=lambda i: needs[i].sum())
    while left:
        block = [i for i in left if needs[left[0], i] and needs[i, left[0]]]
        left = [i for i in left if i not in block]
        solved = [j for j in range(n) if j not in block and j not in left]
        right = [em.sub(b[i], _sum(em, [em.mul(A[i, j], out[j]) for j in solved])) for i in block]
        for i, x in zip(block, _block(em, A[np.ix_(block, block)].tolist(), right), strict=True):
            out[i] = x
    return [pack(out, (n,))]


def _block(em: Emitter, A: list[list[Entry]], b: list[Entry]) -> list[Entry]:
    n = len(b)
    if n == 2:
        cofactors = [[A[1][1], em.neg(A[0][1])], [em.neg(A[1][0]), A[0][0]]]
    elif n == 3:
        cofactors = [
            [
                em.sub(em.mul(A[j - 2][k - 2], A[j - 1][k - 1]), em.mul(A[j - 2][k - 1], A[j - 1][k - 2]))
                for j in range(3)
            ]
            for k in range(3)
        ]
    else:
        return [x for (x,) in _solved(em, A, [[x] for x in b], False)]
    scale = em.div(1.0, _sum(em, [em.mul(x, row[0]) for x, row in zip(cofactors[0], A, strict=True)]))
    return [em.mul(_sum(em, [em.mul(x, y) for x, y in zip(row, b, strict=True)]), scale) for row in cofactors]


def _sum(em: Emitter, terms: list[Entry]) -> Entry:
    return combined(em.add, terms or [0.0])


def _inverted(em: Emitter, eqn: Any, xs: list[Value]) -> list[Value]:
    n = xs[0].shape[0]
    if carried_in_memory(em, n * n):
        return [in_memory.inverse(em, em.memory(xs[0], "d"))]
    A = em.entries(xs[0]).tolist()
    for k in range(n):
        pivot, column = em.div(1.0, A[k][k]), [row[k] for row in A]
        row = [em.mul(x, pivot) for x in A[k]]
        for i in range(n):
            A[i] = [em.sub(x, em.mul(column[i], y)) for x, y in zip(A[i], row, strict=True)]
            A[i][k] = em.neg(em.mul(column[i], pivot))
        A[k] = row
        A[k][k] = pivot
    return [pack([x for row in A for x in row], (n, n))]


def _applied(em: Emitter, eqn: Any, xs: list[Value]) -> list[Value]:
    n = xs[1].shape[0]
    if n > LOOPED:
        return [in_memory.applied(em, em.memory(xs[0], "d"), em.memory(xs[1], "d"))]
    out: list[Entry] = []
    inverse, b = xs[0], em.entries(xs[1]).tolist()

    def total(rows: list[Entry]) -> Entry:
        return _sum(em, [em.mul(x, y) for x, y in zip(rows, b, strict=True)])

    if not isinstance(inverse, Memory) or em.lanes > 1:
        out = [total(column) for column in em.entries(inverse).T.tolist()]
        return [pack(out, (n,))]
    for at, width in pieces(n):
        with em.side_by_side(width):
            places = [em.address(inverse, i * n + at) for i in range(n)]
            sums = total([em.emit(f"load {em.type('d', width > 1)}, ptr {p}, align 8", width > 1) for p in places])
            out += [em.lane(sums, "d", k) for k in range(width)]
    return [pack(out, (n,))]


def _with_secant(em: Emitter, eqn: Any, xs: list[Value]) -> list[Value]:
    inverse, change, step = (em.entries(x) for x in xs)
    square = _sum(em, [em.mul(x, x) for x in change.tolist()])
    scale = em.div(1.0, em.maximum("d", square, corrections.TINY))
    return [
        pack(
            [
                em.sub(x, em.mul(factor, y))
                for row, factor in zip(inverse.tolist(), [em.mul(c, scale) for c in change.tolist()], strict=True)
                for x, y in zip(row, step.tolist(), strict=True)
            ],
            inverse.shape,
        )
    ]


# --- derivatives ---------------------------------------------------------------------------------------------
def _tangent_of_solution(em: Emitter, eqn: Any, xs: list[Value], out: list[Value]) -> Push | None:
    """Tangent of a solution: d(A⁻¹b) = A⁻¹(db − dA x)."""
    if eqn.params.get("symmetric"):
        return None
    solution = em.entries(out[0])

    def push(tangents: list[Tangent]) -> Sequence[Tangent]:
        dA, db = tangents
        right = em.entries(zero_tangent(em, eqn.invars[1]) if db is None else db)
        if dA is not None:
            turned = _product(em, em.entries(dA), solution)
            pairs = zip(right.ravel().tolist(), turned.ravel().tolist(), strict=True)
            right = pack([em.sub(y, z) for y, z in pairs], turned.shape)
        return em.equation(eqn, [xs[0], right])

    return push


def _product(em: Emitter, A: np.ndarray, x: np.ndarray) -> np.ndarray:
    """A x, shapes [..., n, n] and [..., n, k], or [n, n] and [n]."""
    columns = x if x.ndim > 1 else x[:, None]
    out = np.empty((*A.shape[:-1], columns.shape[-1]), dtype=object)
    for *at, i, j in np.ndindex(*out.shape):
        total: Entry = 0.0
        for a, y in zip(A[(*at, i)], columns[(*at, slice(None), j)], strict=True):
            total = em.add(total, em.mul(a, y))
        out[(*at, i, j)] = total
    return out.reshape(x.shape)


# --- in NumPy ------------------------------------------------------------------------------------------------
def _eliminated_by_rows(params: dict, A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """NumPy version of ``eliminated``, row by row."""
    n = A.shape[-1]
    if params["symmetric"]:
        A = np.where(np.tri(n, dtype=bool).T, A, np.swapaxes(A, -1, -2))
    rows, x, inverses = A.copy(), b.copy(), []
    for k in range(n):
        inverses.append(1 / rows[..., k, k])
        factors = (rows[..., k + 1 :, k] * inverses[k][..., None])[..., None]
        rows[..., k + 1 :, k:] -= factors * rows[..., k, None, k:]
        x[..., k + 1 :, :] -= factors * x[..., k, None, :]
    for i in reversed(range(n)):
        x[..., i, :] -= (rows[..., i, i + 1 :, None] * x[..., i + 1 :, :]).sum(axis=-2)
        x[..., i, :] *= inverses[i][..., None]
    return x


register_lowering(
    eliminated.primitive, _eliminated, degree="solution", tangent=_tangent_of_solution, in_numpy=_eliminated_by_rows
)
register_lowering(pivots_by_rows.primitive, _pivots)
register_lowering(orthogonalized.primitive, lambda em, eqn, xs: [in_memory.orthogonalized(em, em.memory(xs[0], "d"))])
register_lowering(
    conjugated.primitive, lambda em, eqn, xs: [in_memory.conjugated(em, *(em.memory(x, "d") for x in xs))]
)
register_lowering(
    constrained.constrained.primitive,
    lambda em, eqn, xs: [reflections.constrained(em, *(em.memory(x, "d") for x in xs))],
)
register_lowering(
    constrained.free_motions.primitive,
    lambda em, eqn, xs: [reflections.free_motions(em, *(em.memory(x, "d") for x in xs))],
)
register_lowering(
    constrained.multipliers.primitive,
    lambda em, eqn, xs: [reflections.multipliers(em, *(em.memory(x, "d") for x in xs))],
)
register_lowering(
    constrained.shifted.primitive, lambda em, eqn, xs: [reflections.shifted(em, *(em.memory(x, "d") for x in xs))]
)
register_lowering(
    constrained.oriented_null_space.primitive,
    lambda em, eqn, xs: [reflections.oriented_null_space(em, em.memory(xs[0], "d"))],
)
register_lowering(corrections.correction.primitive, _correction, degree="solution", tangent=_tangent_of_solution)
register_lowering(corrections.inverted.primitive, _inverted)
register_lowering(corrections.applied.primitive, _applied, degree="linear in each")
register_lowering(corrections.with_secant.primitive, _with_secant)
