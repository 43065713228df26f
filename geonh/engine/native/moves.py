"""Lowerings of reshapes and reductions: ``rule(emitter, equation, inputs) -> outputs``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from geonh.engine.moves import MOVES, SPLITS, iota
from geonh.engine.native.emitter import RULES, Emitter
from geonh.engine.native.values import STRAIGHT, Entry, Memory, Value, kind_of, known, pack, zeros

LOOP_TERMS = 8
"""Maximum number of entries that are reduced sequentially."""
LONG = 64
"""Maximum number of entries of an unrolled sum, or other reduction to one entry, of an array in memory."""


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
    return replace(out, zeros=np.concatenate(list(map(zeros, xs)))[places.ravel()])


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

                em.store(reduce_in_loop(em, combine, len(further), x.kind, entry), out, i)

            em.for_each(aval.size, row)
            return [out]
        results = []
        for entries in em.entries(arranged(em, x, kind_of(eqn.invars[0].aval), (remaining, axes))).tolist():
            if not entries:
                entries = [np.dtype(aval.dtype).type(_NEUTRAL[name](np.dtype(aval.dtype))).item()]
            results.append(combined(combine, entries))
        return [pack(results, aval.shape)]

    return rule


def reduce_in_loop(em: Emitter, combine: Callable, n: int, kind: str, entry: Callable[[Entry], Entry]) -> Entry:
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


def arranged(em: Emitter, x: Value, kind: str, axes: Sequence[Sequence[int]]) -> Value:
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


RULES.update(
    {
        **{name: _moves(_single_output(move)) for name, move in MOVES.items()},
        **{name: _moves(move) for name, move in SPLITS.items()},
        "iota": lambda em, eqn, xs: [em.constant(iota(eqn.params))],
        **dict.fromkeys(("empty", "empty2"), _empty),
        **{f"reduce_{n}": _reduce(op) for n, op in (("sum", "add"), ("prod", "mul"))},
        **{f"reduce_{n}": _reduce(n) for n in ("max", "min", "and", "or", "xor")},
        **{n: _cumulate(op) for n, op in (("cumsum", "add"), ("cumprod", "mul"), ("cummax", "max"), ("cummin", "min"))},
        "argmax": _argument("gt"),
        "argmin": _argument("lt"),
    }
)
