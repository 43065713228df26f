"""Lowering of products of matrices: entry by entry, or in loops over rows of vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np

from geonh.engine.moves import assembled_convolution, sides_of_convolution
from geonh.engine.native.emitter import RULES, Emitter
from geonh.engine.native.moves import LONG, arranged, reduce_in_loop
from geonh.engine.native.values import STRAIGHT, WIDTH, Entry, Memory, NotLowered, Value, kind_of, pack

PARTS_FROM = 16
"""Minimum number of terms of a scalar product in a loop that is summed in as many parts as a vector has entries."""
PRODUCTS = 500
"""Maximum number of products in an unrolled product of matrices, without those with a known zero."""
CONVOLUTION = 2000
"""Maximum number of products of a convolution, without those with padding."""


def _dot_general(em: Emitter, eqn: Any, xs: list[Value]) -> list[Value]:
    (lc, rc), (lb, rb) = eqn.params["dimension_numbers"]
    aval = eqn.outvars[0].aval
    kind = kind_of(aval)
    if kind == "b":
        raise NotLowered("dot_general of truth values")
    add, mul = (em.add, em.mul) if kind == "d" else (_integer(em, "add", kind), _integer(em, "mul", kind))
    sides = []
    for x, var, contract, batch in zip(xs, eqn.invars, (lc, rc), (lb, rb), strict=True):
        before = kind_of(var.aval)
        if before != kind:
            x = pack([em.convert(y, before, kind) for y in em.entries(x).ravel().tolist()], x.shape)
        free = [d for d in range(len(x.shape)) if d not in contract and d not in batch]
        sides.append(arranged(em, x, kind, (batch, free, contract)))

    most = math.prod(sides[0].shape) * sides[1].shape[1]
    large = any(isinstance(x, Memory) and x.size > STRAIGHT for x in sides)
    if large or (most > PRODUCTS and np.einsum("bfc,bgc->", *map(_nonzero, sides)) > PRODUCTS):
        left, right = sides
        by_rows = kind == "d" and right.shape[1] >= WIDTH and right.shape[2] <= LONG
        if by_rows and em.lanes == 1:
            turned = arranged(em, right, kind, ([0], [2], [1]))
            return [_products_by_rows(em, em.memory(left, kind), em.memory(turned, kind), em.place(aval))]
        in_parts = kind == "d" and not by_rows and PARTS_FROM <= right.shape[2] <= STRAIGHT
        summed = partial(_dot_in_parts, em) if in_parts else partial(_dot_in_order, em, add, mul, kind)
        return [_products(em, summed, em.memory(left, kind), em.memory(right, kind), em.place(aval))]
    return [pack(_entry_by_entry(em, add, mul, 0.0 if kind == "d" else 0, *map(em.entries, sides)), aval.shape)]


def _entry_by_entry(
    em: Emitter, add: Callable, mul: Callable, zero: Entry, left: np.ndarray, right: np.ndarray
) -> list[Entry]:
    """Scalar products of rows of entries, shapes [b, f, c] and [b, g, c], in the order of [b, f, g]."""
    out = []
    for u_rows, v_rows in zip(left.tolist(), right.tolist(), strict=True):
        for u in u_rows:
            em.pause()
            for v in v_rows:
                out.append(reduce(lambda total, pair: add(total, mul(*pair)), zip(u, v, strict=True), zero))
    return out


def _convolution(em: Emitter, eqn: Any, xs: list[Value]) -> list[Value]:
    if eqn.params["batch_group_count"] != 1 or any(kind_of(var.aval) != "d" for var in eqn.invars):
        raise NotLowered("convolution in groups of a batch, or not of floats")
    left, right, places = sides_of_convolution(eqn.params, *(em.entries(x) for x in xs))
    if np.einsum("bfc,bgc->", _nonzero(left), _nonzero(right)) > CONVOLUTION:
        raise NotLowered(f"convolution of more than {CONVOLUTION} products")
    products = _entry_by_entry(em, em.add, em.mul, 0.0, left, right)
    shape = (*left.shape[:2], right.shape[1])
    return [assembled_convolution(eqn.params, pack(products, shape), places)]


def _nonzero(x: Value) -> np.ndarray:
    """1 for each entry that is not known to be 0, else 0."""
    if isinstance(x, Memory):
        return np.ones(x.shape, int)
    return np.array([isinstance(y, str) or y != 0 for y in x.ravel().tolist()], int).reshape(x.shape)


def _products(em: Emitter, summed: Callable, left: Memory, right: Memory, out: Memory) -> Memory:
    """Write the products of rows of ``left`` and ``right``, shapes [b, f, c] and [b, g, c], to ``out``, in loops."""
    (n_blocks, n_left, length), n_right = left.shape, right.shape[1]

    def place(row: Entry, size: int, i: Entry) -> Entry:
        return em.integer("add", "i64", em.integer("mul", "i64", row, size), i)

    def block(b: str) -> None:
        def row(f: str) -> None:
            i = place(b, n_left, f)

            def entry(g: Entry) -> None:
                first, second = place(i, length, 0), place(place(b, n_right, g), length, 0)
                em.store(summed(left, first, right, second, length), out, place(i, n_right, g))

            if n_right * length > PRODUCTS:
                em.for_each(n_right, entry)
                return
            for g in range(n_right):
                entry(g)

        em.for_each(n_left, row)

    em.for_each(n_blocks, block)
    return out


def _dot_in_order(
    em: Emitter,
    add: Callable,
    mul: Callable,
    kind: str,
    left: Memory,
    first: Entry,
    right: Memory,
    second: Entry,
    length: int,
) -> Entry:
    """Scalar product of rows that begin at these entries."""

    def term(k: Entry) -> Entry:
        return mul(
            em.load(left, em.integer("add", "i64", first, k)), em.load(right, em.integer("add", "i64", second, k))
        )

    if length > STRAIGHT:
        return reduce_in_loop(em, add, length, kind, term)
    return reduce(add, [term(k) for k in range(length)])


def _dot_in_parts(em: Emitter, left: Memory, first: Entry, right: Memory, second: Entry, length: int) -> Entry:
    """The same of real numbers, summed in as many parts as a vector has entries, which are added in pairs."""

    def pair(at: int, load: Callable[[Memory, Entry], str]) -> Entry:
        return em.mul(*(load(x, em.integer("add", "i64", start, at)) for x, start in ((left, first), (right, second))))

    parts: list[Entry] = []
    if em.lanes == 1:
        with em.side_by_side(WIDTH):
            vectors = range(0, length - WIDTH + 1, WIDTH)
            total = str(reduce(em.add, [pair(at, em.load_row) for at in vectors]))
            parts = [em.lane(total, "d", i) for i in range(WIDTH)]
    else:
        parts = [
            reduce(em.add, [pair(at + i, em.load) for at in range(0, length - WIDTH + 1, WIDTH)]) for i in range(WIDTH)
        ]
    for i in range(length % WIDTH):
        parts[i] = em.add(parts[i], pair(length - length % WIDTH + i, em.load))
    while len(parts) > 1:
        parts = [em.apply("fadd", "d", x, y) for x, y in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _products_by_rows(em: Emitter, left: Memory, right: Memory, out: Memory) -> Memory:
    """Write the products of matrices, shapes [b, f, c] and [b, c, g], to ``out``, in vectors along g.

    Each entry is summed in the order of ``_products``.
    """
    (n_blocks, n_left, length), n_right = left.shape, right.shape[2]

    def row(block: Entry, f: Entry) -> None:
        start = em.integer("add", "i64", em.integer("mul", "i64", block, n_left), f)
        factors = [
            em.load(left, em.integer("add", "i64", em.integer("mul", "i64", start, length), k)) for k in range(length)
        ]
        base = em.integer("mul", "i64", block, length * n_right)

        def some(at: Entry) -> None:
            here = em.integer("add", "i64", base, at)
            with em.side_by_side(WIDTH):
                terms = [
                    em.mul(factor, em.load_row(right, em.integer("add", "i64", here, k * n_right)))
                    for k, factor in enumerate(factors)
                ]
                place = em.integer("add", "i64", em.integer("mul", "i64", start, n_right), at)
                em.store_row(reduce(em.add, terms), out, place)

        em.in_pieces(n_right, some)

    em.for_each(n_blocks, lambda block: em.for_each(n_left, lambda f: row(block, f)))
    return out


def _integer(em: Emitter, name: str, kind: str) -> Callable[[Entry, Entry], Entry]:
    return lambda x, y: em.integer(name, kind, x, y)


RULES["dot_general"] = _dot_general
RULES["conv_general_dilated"] = _convolution
