"""Rearrangements and sums: rule(evaluator, eqn, inputs) -> outputs, or None to fall back on arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax import lax
from jax.extend.core.primitives import add_p, and_p, convert_element_type_p, max_p, min_p, mul_p, or_p, xor_p

from geonh.numerics.scalarize.entries import entries_of, is_constant, pack

if TYPE_CHECKING:
    from geonh.numerics.scalarize.evaluator import Evaluator


def _moves(rule: Callable) -> Callable:
    """A rule that only moves entries: from the inputs, the parameters and the output's shape."""
    return lambda ev, eqn, xs: [rule(xs, eqn.params, eqn.outvars[0].aval.shape)]


def _broadcast(xs: list, params: dict, shape: tuple) -> np.ndarray:
    axes = params["broadcast_dimensions"]
    kept = [xs[0].shape[axes.index(d)] if d in axes else 1 for d in range(len(shape))]
    return np.broadcast_to(xs[0].reshape(kept), shape)


def _slice(xs: list, params: dict, shape: tuple) -> np.ndarray:
    strides = params["strides"] or (1,) * xs[0].ndim
    window = map(slice, params["start_indices"], params["limit_indices"], strides)
    return xs[0][(*window, ...)]


def _pad(xs: list, params: dict, shape: tuple) -> np.ndarray:
    x, filler = xs
    out = pack([filler[()]] * int(np.prod(shape)), shape)
    targets = [lo + np.arange(n) * (1 + gap) for n, (lo, _, gap) in zip(x.shape, params["padding_config"], strict=True)]
    inside = [np.flatnonzero((t >= 0) & (t < m)) for t, m in zip(targets, shape, strict=True)]
    if shape:
        out[np.ix_(*[t[i] for t, i in zip(targets, inside, strict=True)])] = x[np.ix_(*inside)]
    return out


def _iota(ev: Evaluator, eqn: Any, xs: list) -> list:
    aval, axis = eqn.outvars[0].aval, eqn.params["dimension"]
    return [
        entries_of(
            np.broadcast_to(
                np.expand_dims(
                    np.arange(aval.shape[axis], dtype=aval.dtype), [d for d in range(aval.ndim) if d != axis]
                ),
                aval.shape,
            )
        )
    ]


def _split(ev: Evaluator, eqn: Any, xs: list) -> list:
    return np.split(xs[0], np.cumsum(eqn.params["sizes"])[:-1], axis=eqn.params["axis"])


def _unstack(ev: Evaluator, eqn: Any, xs: list) -> list:
    x = np.moveaxis(xs[0], eqn.params["axis"], 0)
    return [pack(list(x[i].ravel() if x.ndim > 1 else [x[i]]), x.shape[1:]) for i in range(x.shape[0])]


def _numbers(xs: Sequence[np.ndarray]) -> list[int] | None:
    """Integers, if all are known."""
    entries = [x for array in xs for x in array.ravel()]
    return [int(x) for x in entries] if all(map(is_constant, entries)) else None


def _window(start: Sequence[int], sizes: Sequence[int], shape: Sequence[int]) -> tuple[slice, ...]:
    starts = [min(max(s, 0), n - w) for s, w, n in zip(start, sizes, shape, strict=True)]
    return tuple(slice(s, s + w) for s, w in zip(starts, sizes, strict=True))


def _dynamic_slice(ev: Evaluator, eqn: Any, xs: list) -> list | None:
    start = _numbers(xs[1:])
    if start is None:
        return None
    return [xs[0][(*_window(start, eqn.params["slice_sizes"], xs[0].shape), ...)]]


def _dynamic_update_slice(ev: Evaluator, eqn: Any, xs: list) -> list | None:
    start = _numbers(xs[2:])
    if start is None:
        return None
    out = xs[0].copy()
    out[(*_window(start, xs[1].shape, out.shape), ...)] = xs[1]
    return [out]


def _positions(
    shape: tuple,
    indices: np.ndarray,
    sizes: Sequence[int],
    clip: bool,
    offset: Sequence[int],
    collapsed: Sequence[int],
    index_map: Sequence[int],
    batching: Sequence[int],
    index_batching: Sequence[int],
) -> np.ndarray:
    """Flat position in the operand of every entry that a gather reads; −1 where out of bounds."""
    flat = np.arange(int(np.prod(shape))).reshape(shape)
    window = [sizes[d] for d in range(len(shape)) if d not in collapsed and d not in batching]
    batch = indices.shape[:-1]
    out = np.full((*batch, *window), -1)
    for b in np.ndindex(*batch):
        start = [0] * len(shape)
        for k, d in enumerate(index_map):
            start[d] = int(indices[b][k])
        for d, axis in zip(batching, index_batching, strict=True):
            start[d] = b[axis]
        if clip or all(0 <= s <= n - w for s, w, n in zip(start, sizes, shape, strict=True)):
            out[b] = flat[_window(start, sizes, shape)].reshape(window)
    return np.moveaxis(out, range(len(batch), out.ndim), offset)


def _gather(ev: Evaluator, eqn: Any, xs: list) -> list | None:
    x, indices = xs
    mode, d = eqn.params["mode"], eqn.params["dimension_numbers"]
    if _numbers([indices]) is None:
        return None
    clip = mode in (lax.GatherScatterMode.CLIP, lax.GatherScatterMode.PROMISE_IN_BOUNDS)
    where = _positions(
        x.shape,
        indices,
        eqn.params["slice_sizes"],
        clip,
        d.offset_dims,
        d.collapsed_slice_dims,
        d.start_index_map,
        d.operand_batching_dims,
        d.start_indices_batching_dims,
    )
    if (where < 0).any():
        return None
    return [pack([x.ravel()[i] for i in where.ravel()], where.shape)]


def _scatter(combine: Any) -> Callable:
    def rule(ev: Evaluator, eqn: Any, xs: list) -> list | None:
        x, indices, updates = xs
        d = eqn.params["dimension_numbers"]
        if _numbers([indices]) is None:
            return None
        fixed = (*d.inserted_window_dims, *d.operand_batching_dims)
        window = iter(d.update_window_dims)
        sizes = [1 if axis in fixed else updates.shape[next(window)] for axis in range(x.ndim)]
        clip = eqn.params["mode"] == lax.GatherScatterMode.CLIP
        where = _positions(
            x.shape,
            indices,
            sizes,
            clip,
            d.update_window_dims,
            d.inserted_window_dims,
            d.scatter_dims_to_operand_dims,
            d.operand_batching_dims,
            d.scatter_indices_batching_dims,
        )
        out = list(x.ravel())
        for i, update in zip(where.ravel(), updates.ravel(), strict=True):
            if i >= 0:
                out[i] = update if combine is None else ev.op(combine, (out[i], update), eqn.outvars[0].aval.dtype)
        return [pack(out, x.shape)]

    return rule


def _dot_general(ev: Evaluator, eqn: Any, xs: list) -> list:
    (lc, rc), (lb, rb) = eqn.params["dimension_numbers"]
    aval, dtype = eqn.outvars[0].aval, np.dtype(eqn.outvars[0].aval.dtype)
    rows = []
    for x, contract, batch in ((xs[0], lc, lb), (xs[1], rc, rb)):
        free = [d for d in range(x.ndim) if d not in contract and d not in batch]
        sizes = [int(np.prod([x.shape[d] for d in axes], dtype=int)) for axes in (batch, free, contract)]
        x = ev.elementwise(
            convert_element_type_p,
            [x],
            jax.ShapeDtypeStruct(x.shape, dtype),
            {"new_dtype": dtype, "weak_type": False, "sharding": None},
        )
        rows.append(x.transpose([*batch, *free, *contract]).reshape(sizes))
    x, y = rows
    out = [
        ev.total(add_p, [ev.op(mul_p, pair, dtype) for pair in zip(u, v, strict=True)] or [dtype.type(0)], dtype)
        for b in range(x.shape[0])
        for u in x[b]
        for v in y[b]
    ]
    return [pack(out, aval.shape)]


def _reduce(combine: Any) -> Callable:
    def rule(ev: Evaluator, eqn: Any, xs: list) -> list | None:
        x, axes, aval = xs[0], eqn.params["axes"], eqn.outvars[0].aval
        if x.size == 0:
            return None
        kept = [d for d in range(x.ndim) if d not in axes]
        rows = x.transpose([*kept, *axes]).reshape(aval.size, -1)
        return [pack([ev.total(combine, row, aval.dtype) for row in rows], aval.shape)]

    return rule


def _cumulate(combine: Any) -> Callable:
    def rule(ev: Evaluator, eqn: Any, xs: list) -> list:
        aval, step = eqn.outvars[0].aval, -1 if eqn.params["reverse"] else 1
        out = xs[0].copy()
        lines = np.moveaxis(out, eqn.params["axis"], 0)[::step]
        for i in range(1, len(lines)):
            for rest in np.ndindex(*lines.shape[1:]):
                lines[(i, *rest)] = ev.op(combine, (lines[(i - 1, *rest)], lines[(i, *rest)]), aval.dtype)
        return [out]

    return rule


RULES: dict[str, Callable] = {
    **dict.fromkeys(("reshape", "squeeze", "expand_dims"), _moves(lambda xs, params, shape: xs[0].reshape(shape))),
    "broadcast_in_dim": _moves(_broadcast),
    "transpose": _moves(lambda xs, params, shape: xs[0].transpose(params["permutation"])),
    "rev": _moves(lambda xs, params, shape: np.flip(xs[0], params["dimensions"])),
    "concatenate": _moves(lambda xs, params, shape: np.concatenate(xs, axis=params["dimension"])),
    "stack": _moves(lambda xs, params, shape: np.stack(xs, axis=params["axis"])),
    "pad": _moves(_pad),
    "slice": _moves(_slice),
    "split": _split,
    "unstack": _unstack,
    "iota": _iota,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "scatter": _scatter(None),
    "scatter-add": _scatter(add_p),
    "scatter-mul": _scatter(mul_p),
    "scatter-min": _scatter(min_p),
    "scatter-max": _scatter(max_p),
    "dot_general": _dot_general,
    "reduce_sum": _reduce(add_p),
    "reduce_prod": _reduce(mul_p),
    "reduce_max": _reduce(max_p),
    "reduce_min": _reduce(min_p),
    "reduce_and": _reduce(and_p),
    "reduce_or": _reduce(or_p),
    "reduce_xor": _reduce(xor_p),
    "cumsum": _cumulate(add_p),
    "cumprod": _cumulate(mul_p),
    "cummax": _cumulate(max_p),
    "cummin": _cumulate(min_p),
}
