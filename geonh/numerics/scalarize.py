r"""Evaluation of an array function on scalars: generic stepping loops at the speed of hand-written ones.

A step written with small arrays compiles to many small kernels, because slices, products and concatenations
of arrays stop XLA from fusing. Here the step is traced to a jaxpr, and the jaxpr is evaluated with every
entry of every array as a scalar of its own; what is known at trace time is folded (x + 0, x · 1, x · 0,
constants), so the zeros of a structure matrix or of an identity tangent cost nothing. XLA then sees
straight-line scalar code and fuses it.

How a value is held: a NumPy object array whose entries are NumPy scalars (known constants) or JAX scalars; an
array of more than ``WHOLE`` entries, such as the buffer of a stepping loop, stays a JAX array. How an
operation is evaluated: ``_ELEMENTWISE`` primitives act entry by entry, ``_RULES`` move or sum entries,
``_CONTROL`` are calls and loops; anything else (LAPACK, sort, traced indices) is done by the primitive
itself, on stacked arrays.
"""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Literal
from jax.extend.core.primitives import (
    add_p,
    and_p,
    convert_element_type_p,
    max_p,
    min_p,
    mul_p,
    ne_p,
    neg_p,
    or_p,
    select_n_p,
    xor_p,
)
from jax.interpreters.partial_eval import dce_jaxpr

WHOLE = 256
"""Arrays with more entries than this stay arrays."""

BRANCH_OPS = 64
"""A conditional whose branches have fewer operations than this computes all of them and selects."""


def scalarize(fn: Callable, max_ops: int = 4000) -> Callable:
    """The same function, evaluated on scalars when it is traced.

    Use it only for the primal evaluation of a step in a compiled loop. Custom derivative rules are inlined
    and lost, so differentiate ``fn`` itself, not the result: a derivative here would be that of Newton's
    iterates, and reverse mode does not pass a ``while_loop``. Zeros known at trace time absorb what they
    multiply, also inf and nan.

    Parameters
    ----------
    fn : callable
        Any traceable function of pytrees. Array leaves of its arguments are traced, or folded if they are
        concrete while others are traced; other leaves (Python numbers too) are static.
    max_ops : int
        Largest number of scalar operations, counted after folding. Beyond it ``fn`` is evaluated as it is:
        compilation time grows faster than linearly, and XLA recomputes shared subexpressions.

    Returns
    -------
    callable
        Same signature, pytrees, shapes and dtypes. Outside a trace every call compiles anew: enclose in
        ``jit``.
    """

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        closed, struct, static = eqx.filter_make_jaxpr(fn)(*args, **kwargs)
        if closed.effects:
            return fn(*args, **kwargs)
        values = [*closed.consts, *jax.tree.leaves(eqx.filter((args, kwargs), eqx.is_array))]
        traced = [i for i, value in enumerate(values) if isinstance(value, jax.core.Tracer)]
        traced = traced or list(range(len(closed.consts), len(values)))

        def run(*inputs: Any) -> list:
            known = [None if i in traced else value for i, value in enumerate(values)]
            for i, value in zip(traced, inputs, strict=True):
                known[i] = value
            n = len(closed.consts)
            jaxpr, _ = dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True)
            evaluator = _Evaluator([max_ops])
            outs = evaluator.run(jaxpr, [_entries(v) for v in known[:n]], [_entries(v) for v in known[n:]])
            return [_array(out, var.aval) for out, var in zip(outs, jaxpr.outvars, strict=True)]

        try:  # inside a trace of its own, so that nothing is left behind when the count is exceeded
            flat = jax.jit(run)(*(values[i] for i in traced))
        except _TooManyOps:
            return fn(*args, **kwargs)
        return eqx.combine(jax.tree.unflatten(jax.tree.structure(struct), flat), static)

    return wrapped


def _bind(eqn: Any, inputs: Sequence) -> list:
    """Bind the primitive of an equation to inputs."""
    params = eqn.primitive.get_bind_params(eqn.params)
    functions, params = params if isinstance(params, tuple) else ((), params)  # JAX before 0.10
    outs = eqn.primitive.bind(*functions, *inputs, **params)
    return list(outs) if eqn.primitive.multiple_results else [outs]


class _TooManyOps(Exception):
    pass


class _Evaluator:
    """Evaluates jaxprs at one level of tracing; ``budget`` is shared with the evaluators of loop bodies."""

    def __init__(self, budget: list[int]) -> None:
        self.budget = budget
        self.memo: dict = {}

    def spend(self, n: int) -> None:
        self.budget[0] -= n
        if self.budget[0] < 0:
            raise _TooManyOps

    def run(self, jaxpr: Any, consts: Sequence, args: Sequence) -> list:
        """Values of the outputs of a jaxpr."""
        env = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True))

        def read(var: Any) -> Any:
            return _entries(_literal(var)) if isinstance(var, Literal) else env[var]

        for eqn in jaxpr.eqns:
            inputs = [read(var) for var in eqn.invars]
            env.update(zip(eqn.outvars, self.equation(eqn, inputs), strict=True))
        return [read(var) for var in jaxpr.outvars]

    def closed(self, jaxpr: Any, args: Sequence) -> list:
        if isinstance(jaxpr, ClosedJaxpr):
            return self.run(jaxpr.jaxpr, [_entries(c) for c in jaxpr.consts], args)
        return self.run(jaxpr, [], args)

    def equation(self, eqn: Any, inputs: list) -> list:
        name = eqn.primitive.name
        outs = None
        if name in _CONTROL:
            outs = _CONTROL[name](self, eqn, inputs)
        elif not any(_is_whole(var.aval) for var in (*eqn.invars, *eqn.outvars)):
            if name in _ELEMENTWISE:
                outs = [self.elementwise(eqn.primitive, inputs, eqn.outvars[0].aval, eqn.params)]
            elif name in _RULES:
                outs = _RULES[name](self, eqn, inputs)
        return self.on_arrays(eqn, inputs) if outs is None else outs

    def elementwise(
        self, primitive: Any, inputs: Sequence[np.ndarray], aval: Any, params: dict | None = None
    ) -> np.ndarray:
        single = len(inputs) == 1
        columns = [(x if single else np.broadcast_to(x, aval.shape)).ravel() for x in inputs]
        entries = [self.op(primitive, row, aval.dtype, params) for row in zip(*columns, strict=True)]
        return _pack(entries, aval.shape)

    def op(self, primitive: Any, args: tuple, dtype: Any, params: dict | None = None) -> Any:
        """One scalar operation: folded, remembered, or bound; without parameters, by ``jax.lax``."""
        folded = _fold(primitive.name, args, dtype, params or {})
        if folded is not None and folded[1].dtype == dtype:
            return self.op(neg_p, folded[1:], dtype) if folded[0] == "neg" else folded[1]
        told = repr([item for item in params.items() if item[1] is not None]) if params else "[]"
        key = (primitive, told, *((a.dtype, a.tobytes()) if _is_constant(a) else id(a) for a in args))
        if key not in self.memo:
            self.spend(1)
            value = _PUBLIC[primitive.name](*args) if params is None else primitive.bind(*args, **params)
            self.memo[key] = value, args  # the arguments are kept alive, so that an id names one value
        return self.memo[key][0]

    def total(self, primitive: Any, entries: Sequence, dtype: Any) -> Any:
        return functools.reduce(lambda a, b: self.op(primitive, (a, b), dtype), entries)

    def on_arrays(self, eqn: Any, inputs: list) -> list:
        """Any primitive at all, on stacked arrays; at trace time when all is known."""
        arrays = [_array(x, var.aval) for x, var in zip(inputs, eqn.invars, strict=True)]
        known = all(isinstance(a, np.ndarray) for a in arrays) and not eqn.effects
        with jax.ensure_compile_time_eval() if known else contextlib.nullcontext():
            outs = _bind(eqn, arrays)
        if not known:
            self.spend(sum(var.aval.size for var in (*eqn.invars, *eqn.outvars) if not _is_whole(var.aval)))
        return [_entries(out) for out in outs]


# How values are held.


def _is_constant(entry: Any) -> bool:
    return isinstance(entry, np.generic)


def _is_whole(aval: Any) -> bool:
    plain = hasattr(aval, "shape") and not jax.dtypes.issubdtype(aval.dtype, jax.dtypes.extended)
    return not plain or aval.size > WHOLE


def _pack(entries: Sequence, shape: Sequence[int]) -> np.ndarray:
    """Object array of the entries; NumPy is kept from looking into them."""
    out = np.empty(len(entries), dtype=object)
    for i, entry in enumerate(entries):
        out[i] = entry
    return out.reshape(shape)


def _entries(array: Any) -> Any:
    """The entries of an array, or the array itself if it stays whole."""
    if _is_whole(jax.typeof(array)):
        return array
    if not isinstance(array, jax.core.Tracer):
        array = np.asarray(array)
        return _pack([array.dtype.type(x) for x in array.flat], array.shape)
    if array.ndim == 0:
        return _pack([array], ())
    flat = lax.reshape(array, (array.size,))
    return _pack([lax.squeeze(lax.slice(flat, (i,), (i + 1,)), (0,)) for i in range(array.size)], array.shape)


def _array(value: Any, aval: Any) -> Any:
    """The array, as NumPy's if it is known."""
    if _is_whole(aval):
        return value
    entries = value.ravel()
    if all(map(_is_constant, entries)):
        return np.array(list(entries), dtype=aval.dtype).reshape(aval.shape)
    entries = [_strong(x, aval.dtype) for x in entries]
    if aval.ndim == 0:
        return entries[0]
    return lax.reshape(lax.concatenate([lax.reshape(x, (1,)) for x in entries], 0), aval.shape)


def _strong(entry: Any, dtype: Any) -> Any:
    """A JAX scalar without weak type, so that a loop's carry keeps its type."""
    return np.asarray(entry, dtype) if _is_constant(entry) else lax.convert_element_type(entry, dtype)


def _flatten(values: Sequence, avals: Sequence) -> tuple:
    """One flat tuple of JAX scalars (and whole arrays): how loops carry values."""
    flat: list = []
    for value, aval in zip(values, avals, strict=True):
        flat += [value] if _is_whole(aval) else [_strong(x, aval.dtype) for x in value.ravel()]
    return tuple(flat)


def _literal(literal: Any) -> np.ndarray:
    return np.asarray(literal.val, literal.aval.dtype)


def _unflatten(flat: Sequence, avals: Sequence) -> list:
    entries, values = iter(flat), []
    for aval in avals:
        whole = _is_whole(aval)
        values.append(next(entries) if whole else _pack([next(entries) for _ in range(aval.size)], aval.shape))
    return values


# Folding: what is known at trace time.


def _fold(name: str, args: tuple, dtype: Any, params: dict) -> tuple | None:
    """("is", entry) or ("neg", entry) where the operation needs no evaluation, else None."""
    if name in _IDENTITIES or (name == "convert_element_type" and args[0].dtype == dtype):
        return "is", args[0]
    if all(map(_is_constant, args)) and name in _KNOWN and not (name == "div" and dtype.kind in "iu"):
        with np.errstate(all="ignore"):
            return "is", np.dtype(dtype).type(_KNOWN[name](*args, params))
    if name == "select_n":
        which, *cases = args
        if _is_constant(which):
            return "is", cases[int(which)]
        return ("is", cases[0]) if all(_same(case, cases[0]) for case in cases) else None
    if len(args) != 2:
        return None
    x, y = args
    if name in ("add", "add_any", "or", "xor") and (_equals(x, 0) or _equals(y, 0)):
        return "is", y if _equals(x, 0) else x
    if name == "sub":
        return ("is", x) if _equals(y, 0) else ("neg", y) if _equals(x, 0) else None
    if name in ("mul", "and"):
        one = 1 if name == "mul" else True if np.dtype(dtype).kind == "b" else -1
        if _equals(x, 0) or _equals(y, 0):
            return "is", np.dtype(dtype).type(0)
        if _equals(x, one) or _equals(y, one):
            return "is", y if _equals(x, one) else x
    if name == "mul" and (_equals(x, -1) or _equals(y, -1)):
        return "neg", y if _equals(x, -1) else x
    if name == "div":
        return ("is", x) if _equals(x, 0) or _equals(y, 1) else ("neg", x) if _equals(y, -1) else None
    return None


def _equals(entry: Any, value: Any) -> bool:
    return _is_constant(entry) and bool(entry == value)


def _same(a: Any, b: Any) -> bool:
    if _is_constant(a) and _is_constant(b):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    return a is b


_PUBLIC: dict[str, Callable] = {
    "add": lax.add, "mul": lax.mul, "neg": lax.neg, "max": lax.max, "min": lax.min, "ne": lax.ne,
    "and": lax.bitwise_and, "or": lax.bitwise_or, "xor": lax.bitwise_xor, "select_n": lax.select_n,
}  # fmt: skip
"""How an operation that stands in no jaxpr is emitted; its parameters differ between versions of JAX."""

_IDENTITIES = {"copy", "copy_p", "stop_gradient", "name", "optimization_barrier"}

# fmt: off
_KNOWN: dict[str, Callable] = {name: lambda *a, f=f: f(*a[:-1]) for name, f in {
    "add": operator.add, "add_any": operator.add, "sub": operator.sub, "mul": operator.mul,
    "div": operator.truediv, "neg": np.negative, "abs": np.abs, "sign": np.sign, "max": np.maximum,
    "min": np.minimum, "rem": np.fmod, "floor": np.floor, "ceil": np.ceil, "square": np.square,
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "cbrt": np.cbrt, "exp": np.exp, "exp2": np.exp2,
    "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "sinh": np.sinh,
    "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "pow": np.power, "is_finite": np.isfinite, "not": np.invert, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge,
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high), "convert_element_type": lambda x: x,
}.items()}
# fmt: on
_KNOWN["integer_pow"] = lambda x, params: x ** params["y"]

_ELEMENTWISE = (
    set(_KNOWN)
    | (_IDENTITIES - {"optimization_barrier"})
    | {"select_n", "round", "logistic", "erf", "erfc", "erf_inv", "lgamma", "digamma", "nextafter"}
    | {"reduce_precision", "igamma", "igammac", "bessel_i0e", "bessel_i1e", "population_count", "clz"}
    | {"shift_left", "shift_right_arithmetic", "shift_right_logical", "real", "imag", "conj", "complex"}
)


# Rearrangements and sums: rule(evaluator, eqn, inputs) -> outputs, or None to fall back on arrays.


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
    out = _pack([filler[()]] * int(np.prod(shape)), shape)
    targets = [lo + np.arange(n) * (1 + gap) for n, (lo, _, gap) in zip(x.shape, params["padding_config"], strict=True)]
    inside = [np.flatnonzero((t >= 0) & (t < m)) for t, m in zip(targets, shape, strict=True)]
    if shape:
        out[np.ix_(*[t[i] for t, i in zip(targets, inside, strict=True)])] = x[np.ix_(*inside)]
    return out


def _iota(ev: _Evaluator, eqn: Any, xs: list) -> list:
    aval, axis = eqn.outvars[0].aval, eqn.params["dimension"]
    return [
        _entries(
            np.broadcast_to(
                np.expand_dims(
                    np.arange(aval.shape[axis], dtype=aval.dtype), [d for d in range(aval.ndim) if d != axis]
                ),
                aval.shape,
            )
        )
    ]


def _split(ev: _Evaluator, eqn: Any, xs: list) -> list:
    return np.split(xs[0], np.cumsum(eqn.params["sizes"])[:-1], axis=eqn.params["axis"])


def _unstack(ev: _Evaluator, eqn: Any, xs: list) -> list:
    x = np.moveaxis(xs[0], eqn.params["axis"], 0)
    return [_pack(list(x[i].ravel() if x.ndim > 1 else [x[i]]), x.shape[1:]) for i in range(x.shape[0])]


def _numbers(xs: Sequence[np.ndarray]) -> list[int] | None:
    """Integers, if all are known."""
    entries = [x for array in xs for x in array.ravel()]
    return [int(x) for x in entries] if all(map(_is_constant, entries)) else None


def _window(start: Sequence[int], sizes: Sequence[int], shape: Sequence[int]) -> tuple[slice, ...]:
    starts = [min(max(s, 0), n - w) for s, w, n in zip(start, sizes, shape, strict=True)]
    return tuple(slice(s, s + w) for s, w in zip(starts, sizes, strict=True))


def _dynamic_slice(ev: _Evaluator, eqn: Any, xs: list) -> list | None:
    start = _numbers(xs[1:])
    if start is None:
        return None
    return [xs[0][(*_window(start, eqn.params["slice_sizes"], xs[0].shape), ...)]]


def _dynamic_update_slice(ev: _Evaluator, eqn: Any, xs: list) -> list | None:
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


def _gather(ev: _Evaluator, eqn: Any, xs: list) -> list | None:
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
    return [_pack([x.ravel()[i] for i in where.ravel()], where.shape)]


def _scatter(combine: Any) -> Callable:
    def rule(ev: _Evaluator, eqn: Any, xs: list) -> list | None:
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
        return [_pack(out, x.shape)]

    return rule


def _dot_general(ev: _Evaluator, eqn: Any, xs: list) -> list:
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
    return [_pack(out, aval.shape)]


def _reduce(combine: Any) -> Callable:
    def rule(ev: _Evaluator, eqn: Any, xs: list) -> list | None:
        x, axes, aval = xs[0], eqn.params["axes"], eqn.outvars[0].aval
        if x.size == 0:
            return None
        kept = [d for d in range(x.ndim) if d not in axes]
        rows = x.transpose([*kept, *axes]).reshape(aval.size, -1)
        return [_pack([ev.total(combine, row, aval.dtype) for row in rows], aval.shape)]

    return rule


def _cumulate(combine: Any) -> Callable:
    def rule(ev: _Evaluator, eqn: Any, xs: list) -> list:
        aval, step = eqn.outvars[0].aval, -1 if eqn.params["reverse"] else 1
        out = xs[0].copy()
        lines = np.moveaxis(out, eqn.params["axis"], 0)[::step]
        for i in range(1, len(lines)):
            for rest in np.ndindex(*lines.shape[1:]):
                lines[(i, *rest)] = ev.op(combine, (lines[(i - 1, *rest)], lines[(i, *rest)]), aval.dtype)
        return [out]

    return rule


# Calls and loops.


def _inline(ev: _Evaluator, eqn: Any, xs: list) -> list:
    return ev.closed(eqn.params["jaxpr" if "jaxpr" in eqn.params else "call_jaxpr"], xs)


def _linear_solve(ev: _Evaluator, eqn: Any, xs: list) -> list:
    lengths = eqn.params["const_lengths"]
    before, n = lengths.matvec + lengths.vecmat, sum(lengths)
    return ev.closed(eqn.params["jaxprs"].solve, [*xs[before : before + lengths.solve], *xs[n:]])


def _platform_index(ev: _Evaluator, eqn: Any, xs: list) -> list | None:
    platforms = eqn.params["platforms"]  # the branch for every platform, where there is one
    return [_entries(np.asarray(platforms.index(None), eqn.outvars[0].aval.dtype))] if None in platforms else None


def _carried(jaxpr: Any, n_consts: int, values: list) -> tuple[list[int], list, Callable]:
    """What a loop carries: which values change, their types, and how to put all values together again."""
    inner = jaxpr.jaxpr
    changing = [i for i in range(len(values)) if inner.outvars[i] is not inner.invars[n_consts + i]]
    avals = [inner.invars[n_consts + i].aval for i in changing]

    def together(flat: Sequence) -> list:
        whole = list(values)
        for i, value in zip(changing, _unflatten(flat, avals), strict=True):
            whole[i] = value
        return whole

    return changing, avals, together


def _while(ev: _Evaluator, eqn: Any, xs: list) -> list:
    cond, body = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
    n, m = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    cond_consts, body_consts, first = xs[:n], xs[n : n + m], xs[n + m :]
    changing, avals, together = _carried(body, m, first)

    def going(flat: tuple) -> Any:
        (go,) = _Evaluator(ev.budget).closed(cond, [*cond_consts, *together(flat)])
        return _strong(go[()], np.bool_)

    def step(flat: tuple) -> tuple:
        outs = _Evaluator(ev.budget).closed(body, [*body_consts, *together(flat)])
        return _flatten([outs[i] for i in changing], avals)

    return together(lax.while_loop(going, step, _flatten([first[i] for i in changing], avals)))


def _scan(ev: _Evaluator, eqn: Any, xs: list) -> list:
    body, length = eqn.params["jaxpr"], eqn.params["length"]
    n, m = eqn.params["num_consts"], eqn.params["num_carry"]
    consts, first = xs[:n], xs[n : n + m]
    changing, avals, together = _carried(body, n, first)
    rows = [_array(x, var.aval) for x, var in zip(xs[n + m :], eqn.invars[n + m :], strict=True)]

    def step(flat: tuple, slices: list) -> tuple[tuple, list]:
        outs = _Evaluator(ev.budget).closed(body, [*consts, *together(flat), *map(_entries, slices)])
        kept: list = [_array(out, var.aval) for out, var in zip(outs[m:], body.jaxpr.outvars[m:], strict=True)]
        return _flatten([outs[i] for i in changing], avals), kept

    start = _flatten([first[i] for i in changing], avals)
    flat, kept = lax.scan(step, start, rows, length=length, reverse=eqn.params["reverse"])
    return [*together(flat), *map(_entries, kept)]


def _cond(ev: _Evaluator, eqn: Any, xs: list) -> list:
    branches, index, args = eqn.params["branches"], xs[0][()], xs[1:]
    if _is_constant(index):
        return ev.closed(branches[int(index)], args)
    avals = [var.aval for var in eqn.outvars]
    cheap = all(_is_cheap(branch) for branch in branches) and not any(map(_is_whole, avals))
    if cheap:
        cases = [ev.closed(branch, args) for branch in branches]
        if len(branches) == 2:
            index = ev.op(ne_p, (index, index.dtype.type(0)), np.bool_)
        return [
            ev.elementwise(select_n_p, [_pack([index], ()), *outs], aval)
            for *outs, aval in zip(*cases, avals, strict=True)
        ]
    functions = [lambda b=branch: _flatten(_Evaluator(ev.budget).closed(b, args), avals) for branch in branches]
    return _unflatten(lax.switch(index, functions), avals)


def _is_cheap(branch: ClosedJaxpr) -> bool:
    cost = sum(var.aval.size for eqn in branch.jaxpr.eqns for var in eqn.outvars if hasattr(var.aval, "size"))
    simple = all(eqn.primitive.name in _ELEMENTWISE or eqn.primitive.name in _RULES for eqn in branch.jaxpr.eqns)
    return simple and cost <= BRANCH_OPS


_CONTROL: dict[str, Callable] = {
    **dict.fromkeys(("jit", "pjit", "closed_call", "core_call", "composite"), _inline),
    **dict.fromkeys(
        ("remat", "remat2", "checkpoint", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"),
        _inline,
    ),
    "custom_linear_solve": _linear_solve,
    "platform_index": _platform_index,
    "while": _while,
    "scan": _scan,
    "cond": _cond,
    "optimization_barrier": lambda ev, eqn, xs: xs,
}

_RULES: dict[str, Callable] = {
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
