"""Lowering of Jacobians: the JVP of a function, emitted for each column or for several side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from geonh.engine import jacobians
from geonh.engine.native.derivatives import linearised
from geonh.engine.native.emitter import RULES, Emitter
from geonh.engine.native.values import Entry, Memory, Value, pack

BY_ROWS = 16
"""Least number of columns of a Jacobian in memory, where columns are computed together."""


def _jacobian(em: Emitter, eqn: Any, xs: list[Value]) -> list[Value]:
    m, n = shape = eqn.outvars[0].aval.shape
    _, _, push = linearised(em, eqn.params["jaxpr"], xs, [False] * (len(xs) - 1) + [True])

    def columns(seed: list[Entry]) -> list[Entry]:
        tangent = push([*[None] * (len(xs) - 1), pack(seed, (n,))])[0]
        return [0.0] * m if tangent is None else em.entries(tangent).tolist()

    width = eqn.params["together"]
    if width and n >= BY_ROWS:
        return [_by_rows(em, columns, m, n, width)]
    if width:
        jacobian = _all_columns(em, columns, m, n, width)
    else:
        jacobian = [columns([1.0 if i == j else 0.0 for i in range(n)]) for j in range(n)]
    return [pack([jacobian[j][i] for i in range(m) for j in range(n)], shape)]


def _all_columns(
    em: Emitter, columns: Callable[[list[Entry]], list[Entry]], m: int, n: int, width: int
) -> list[list[Entry]]:
    """Compute all columns by the same instructions, up to ``width`` (one with lanes) per pass of a loop.

    So the members in lanes have the bits of single runs: the seeds' 0 and 1 are not folded in any pass.
    """
    width = min(width, 1 << (n - 1).bit_length()) if em.lanes == 1 else 1
    n_passes = -(-n // width)
    with em.side_by_side(em.lanes * width):
        computed = em.buffer((n_passes, m), "d")

        def write(k: str) -> None:
            for i, x in enumerate(columns(_seeds(em, em.integer("mul", "i64", k, width), n, width))):
                em.store(x, computed, em.integer("add", "i64", em.integer("mul", "i64", k, m), i))

        em.for_each(n_passes, write)
    entries = Memory(computed.pointer, (n_passes * m * width,), "d", em.lanes > 1)
    return [[em.load(entries, (j // width * m + i) * width + j % width) for i in range(m)] for j in range(n)]


def _by_rows(em: Emitter, columns: Callable[[list[Entry]], list[Entry]], m: int, n: int, width: int) -> Memory:
    """Version of ``_all_columns`` with the matrix in memory, row by row; the last columns may be computed twice."""
    out, width = em.buffer((m, n), "d"), width if em.lanes == 1 else 1
    with em.side_by_side(em.lanes * width):

        def write(k: str) -> None:
            start = em.minimum("i64", em.integer("mul", "i64", k, width), n - width)
            for i, x in enumerate(columns(_seeds(em, start, n, width))):
                em.store_row(x, out, em.integer("add", "i64", start, i * n))

        em.for_each(-(-n // width), write)
    return out


def _seeds(em: Emitter, start: Entry, n: int, width: int) -> list[Entry]:
    """Unit vectors of the columns from ``start`` on, one in each lane."""
    numbers = em.integer("add", "i64", start, em.from_lanes(range(width), "i64") if width > 1 else 0)
    return [em.select(em.compare("eq", "i64", numbers, j), 1.0, 0.0, "d") for j in range(n)]


RULES[jacobians.primitive] = _jacobian
