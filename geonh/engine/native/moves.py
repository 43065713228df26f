"""Lowerings of reshapes, reductions and products of small arrays: ``rule(emitter, equation, inputs) -> outputs``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from geonh.engine.moves import MOVES, SPLITS, iota
from geonh.engine.native.emitter import RULES, Emitter
from geonh.engine.native.values import STRAIGHT, WIDTH, Entry, Memory, NotLowered, Value, kind_of, known, pack

LOOP_TERMS = 8
"""Maximum number of entries that are reduced sequentially."""
LONG = 64
"""Maximum number of entries of an unrolled sum, or other reduction to one entry, of an array in memory."""
PARTS_FROM = 16
"""Minimum number of terms of a scalar product in a loop that is summed in as many parts as a vector has entries."""
PRODUCTS = 500
"""Maximum number of products in an unrolled product of matrices, without those with a known zero."""


def _moves(move: Callable[..., Sequence[np.ndarray]]) -> Callable:
    """Rule that only moves entries, of a function (parameters, *arrays) -> arrays."""

    def rule(em: Emitter, eqn: Any, xs: list[Value]) -> Sequence[Value]:
        size = max(math.prod(var.aval.shape) for var in eqn.outvars)
        repeated = size > max(STRAIGHT, sum(math.prod(x.shape) for x in xs))
        if not any(isinstance(x, Memory) or (repeated and not known(*x.ravel().tolist())) for x in xs):
            return move(eqn.params, *xs)
        first = np.cumsum([0, *(math.prod(x.shape) for x in xs)])
        numbers = [n + np.arange(math.prod(x.shape)).reshape(x.shape) for n, x in zip(first, xs, strict=False)]
        moved = move(eqn.params, *numbers)
        return [_moved(em, xs, first, places, var.aval) for places, var in zip(moved, eqn.outvars, strict=True)]

    return rule


def _moved(em: Emitter, xs: list[Value], first: np.ndarray, places: np.ndarray, aval: Any) -> Value:
    """Array of the entries with these indices, which count through all inputs; those of each begin at ``first``."""
    shape, size = places.shape, places.size
    for k, x in enumerate(xs):  # one of the inputs as it is
        if x.size == size and np.array_equal(places.ravel(), first[k] + np.arange(size)):
            return x.reshape(shape)
    if size <= STRAIGHT:
        sources = np.searchsorted(first, places.ravel(), side="right") - 1
        return pack([_entry(em, xs[k], int(i - first[k])) for k, i in zip(sources, places.ravel(), strict=True)], shape)
    out = em.place(aval)
    for k, x in enumerate(xs):
        em.move(x, places.ravel() - first[k], out)
    return out


def _single_output(move: Callable[..., np.ndarray]) -> Callable[..., list[np.ndarray]]:
    return lambda params, *xs: [move(params, *xs)]


def _entry(em: Emitter, x: Value, i: int) -> Entry:
    return em.load(x, i) if isinstance(x, Memory) else x.ravel()[i]


def _empty(em: Emitter, eqn: Any, xs: list[Value]) -> list[Value]:
    aval = eqn.outvars[0].aval
    return [em.constant(np.zeros(aval.shape, aval.dtype))]


def combining(em: Emitter, name: str, eqn: Any) -> Callable[[Entry, Entry], Entry]:
    """Binary operation ``name`` on entries of the kind of an equation's first input."""
    kind = kind_of(eqn.invars[0].aval)
    if kind == "d" and name in ("add", "sub", "mul"):
        return getattr(em, name)
    if name in ("max", "min"):
        extreme = em.maximum if name == "max" else em.minimum
        return lambda x, y: extreme(kind, x, y)
    return lambda x, y: em.integer(name, kind, x, y)


_NEUTRAL: dict[str, Callable[[np.dtype], Any]] = {
    "add": lambda dtype: 0,
    "mul": lambda dtype: 1,
    "or": lambda dtype: 0,
    "xor": lambda dtype: 0,
    "and": lambda dtype: np.invert(np.zeros((), dtype)).item(),
    "max": lambda dtype: -np.inf if dtype.kind == "f" else False if dtype.kind == "b" else np.iinfo(dtype).min,
    "min": lambda dtype: np.inf if dtype.kind == "f" else True if dtype.kind == "b" else np.iinfo(dtype).max,
}


def _reduce(name: str) -> Callable:
    def rule(em: Emitter, eqn: Any, xs: list[Value]) -> list[Value]:
        (x,), axes, aval, combine = xs, eqn.params["axes"], eqn.outvars[0].aval, combining(em, name, eqn)
        remaining = [d for d in range(len(x.shape)) if d not in axes]
        if isinstance(x, Memory) and x.size > STRAIGHT:
            first, further, out = _places(x.shape, remaining), _places(x.shape, axes), em.place(aval)

            def row(i: str) -> None:
                start = _table_entry(em, first, i)

                def entry(j: Entry) -> Entry:
                    return em.load(x, em.integer("add", "i64", start, _table_entry(em, further, j)))

                em.store(_reduce_in_loop(em, combine, len(further), x.kind, entry), out, i)

            em.for_each(aval.size, row)
            return [out]
        results = []
        for entries in em.entries(_arranged(em, x, kind_of(eqn.invars[0].aval), (remaining, axes))).tolist():
            if not entries:
                entries = [np.dtype(aval.dtype).type(_NEUTRAL[name](np.dtype(aval.dtype))).item()]
            results.append(combined(combine, entries))
        return [pack(results, aval.shape)]

    return rule


def _reduce_in_loop(em: Emitter, combine: Callable, n: int, kind: str, entry: Callable[[Entry], Entry]) -> Entry:
    """Reduce n ≥ 1 entries to one; many in a loop over a few at a time."""
    if n <= LONG:
        return combined(combine, [entry(j) for j in range(n)])
    total, first = em.buffer((), kind), n % LOOP_TERMS or LOOP_TERMS
    em.store(combined(combine, [entry(j) for j in range(first)]), total)

    def some(i: str) -> None:
        start = em.integer("add", "i64", em.integer("mul", "i64", i, LOOP_TERMS), first)
        combination = combined(combine, [entry(em.integer("add", "i64", start, k)) for k in range(LOOP_TERMS)])
        em.store(combine(em.load(total, 0), combination), total)

    em.for_each((n - first) // LOOP_TERMS, some)
    return em.load(total, 0)


def _places(shape: Sequence[int], axes: Sequence[int]) -> np.ndarray:
    """Flat indices of the entries along some axes, with index 0 on the others."""
    every = np.arange(math.prod(shape)).reshape(shape)
    return every[tuple(slice(None) if d in axes else 0 for d in range(len(shape)))].ravel()


def _table_entry(em: Emitter, places: np.ndarray, i: Entry) -> Entry:
    """Look up places[i]."""
    if not isinstance(i, str):
        return int(places[int(i)])
    step = int(places[1] - places[0]) if len(places) > 1 else 0
    if np.array_equal(places, step * np.arange(len(places))):
        return em.integer("mul", "i64", i, step)
    return em.load(em.table(places, "i64"), i)


def _arranged(em: Emitter, x: Value, kind: str, axes: Sequence[Sequence[int]]) -> Value:
    """Transpose to this order of axes, each group of them merged."""
    order = [d for group in axes for d in group]
    sizes = [math.prod([x.shape[d] for d in group]) for group in axes]
    if isinstance(x, Memory) and order == sorted(order):
        return x.reshape(sizes)
    if isinstance(x, Memory) and x.size > STRAIGHT:
        out = em.buffer(sizes, kind)
        em.move(x, np.arange(x.size).reshape(x.shape).transpose(order).ravel(), out)
        return out
    return em.entries(x).transpose(order).reshape(sizes)


def combined(combine: Callable[..., Entry], row: list[Entry]) -> Entry:
    """Reduce entries to one: few sequentially, so that products are fused, more pairwise, for short dependencies."""
    if len(row) > LOOP_TERMS:
        half = len(row) // 2
        return combine(combined(combine, row[:half]), combined(combine, row[half:]))
    return reduce(combine, row)


def _cumulate(name: str) -> Callable:
    def rule(em: Emitter, eqn: Any, xs: list[Value]) -> list[Value]:
        out, combine = em.entries(xs[0]).copy(), combining(em, name, eqn)
        lines = np.moveaxis(out, eqn.params["axis"], 0)[:: -1 if eqn.params["reverse"] else 1]
        for i in range(1, len(lines)):
            for rest in np.ndindex(*lines.shape[1:]):
                lines[(i, *rest)] = combine(lines[(i - 1, *rest)], lines[(i, *rest)])
        return [out]

    return rule


def _argument(name: str) -> Callable:
    """Index of the first largest or smallest entry, or of the first nan."""

    def rule(em: Emitter, eqn: Any, xs: list[Value]) -> list[Value]:
        x, (axis,), kind = em.entries(xs[0]), eqn.params["axes"], kind_of(eqn.invars[0].aval)
        index, out = kind_of(eqn.outvars[0].aval), []
        rows = np.moveaxis(x, axis, -1)
        for row in rows.reshape(-1, rows.shape[-1]).tolist():
            best: Entry = row[0]
            place: Entry = 0
            for i, y in enumerate(row[1:], 1):
                better = em.compare(name, kind, y, best)
                if kind == "d":
                    missing = em.both(em.compare("ne", "d", y, y), em.compare("eq", "d", best, best))
                    better = em.either(better, missing)
                best, place = em.select(better, y, best, kind), em.select(better, i, place, index)
            out.append(place)
        return [pack(out, eqn.outvars[0].aval.shape)]

    return rule


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
        sides.append(_arranged(em, x, kind, (batch, free, contract)))

    def product(u: list[Entry], v: list[Entry]) -> Entry:
        total: Entry = 0.0 if kind == "d" else 0
        for x, y in zip(u, v, strict=True):
            total = add(total, mul(x, y))
        return total

    most = math.prod(sides[0].shape) * sides[1].shape[1]
    large = any(isinstance(x, Memory) and x.size > STRAIGHT for x in sides)
    if large or (most > PRODUCTS and np.einsum("bfc,bgc->", *map(_nonzero, sides)) > PRODUCTS):
        left, right = sides
        by_rows = kind == "d" and right.shape[1] >= WIDTH and right.shape[2] <= LONG
        if by_rows and em.lanes == 1:
            turned = _arranged(em, right, kind, ([0], [2], [1]))
            return [_products_by_rows(em, em.memory(left, kind), em.memory(turned, kind), em.place(aval))]
        in_parts = kind == "d" and not by_rows and PARTS_FROM <= right.shape[2] <= STRAIGHT
        summed = partial(_dot_in_parts, em) if in_parts else partial(_dot_in_order, em, add, mul, kind)
        return [_products(em, summed, em.memory(left, kind), em.memory(right, kind), em.place(aval))]
    out = []
    for u_rows, v_rows in zip(*(em.entries(x).tolist() for x in sides), strict=True):
        for u in u_rows:
            em.pause()
            out += [product(u, v) for v in v_rows]
    return [pack(out, aval.shape)]


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
        return _reduce_in_loop(em, add, length, kind, term)
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


RULES.update(
    {
        **{name: _moves(_single_output(move)) for name, move in MOVES.items()},
        **{name: _moves(move) for name, move in SPLITS.items()},
        "iota": lambda em, eqn, xs: [em.constant(iota(eqn.params))],
        **dict.fromkeys(("empty", "empty2"), _empty),
        "dot_general": _dot_general,
        **{f"reduce_{n}": _reduce(op) for n, op in (("sum", "add"), ("prod", "mul"))},
        **{f"reduce_{n}": _reduce(n) for n in ("max", "min", "and", "or", "xor")},
        **{n: _cumulate(op) for n, op in (("cumsum", "add"), ("cumprod", "mul"), ("cummax", "max"), ("cummin", "min"))},
        "argmax": _argument("gt"),
        "argmin": _argument("lt"),
    }
)
