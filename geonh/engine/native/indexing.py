"""Lowerings of slices, gathers and scatters, with known or computed indices.

Computed indices address memory. They are clamped as in JAX for the mode, so that no user's index is out of bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax import lax

from geonh.engine.moves import Windows, assembled, gathered, scattered
from geonh.engine.native.emitter import RULES, Emitter
from geonh.engine.native.moves import combining
from geonh.engine.native.values import Entry, Memory, NotLowered, Value, kind_of, known, pack


def _index(em: Emitter, entry: Entry, kind: str) -> Entry:
    return em.convert(entry, kind, "i64")


def _clamped(em: Emitter, index: Entry, high: int) -> Entry:
    if not isinstance(index, str):
        return max(0, min(int(index), high))
    return em.minimum("i64", em.maximum("i64", index, 0), high) if high > 0 else 0


def _offset(em: Emitter, starts: Sequence[Entry], shape: Sequence[int]) -> Entry:
    """Flat index of an entry."""
    offset: Entry = 0
    for axis, start in enumerate(starts):
        stride = int(np.prod(shape[axis + 1 :], dtype=int))
        offset = em.integer("add", "i64", offset, em.integer("mul", "i64", start, stride))
    return offset


def _window(sizes: Sequence[int], shape: Sequence[int]) -> list[int]:
    """Flat index of every entry of a window, counted from its first."""
    strides = [int(np.prod(shape[axis + 1 :], dtype=int)) for axis in range(len(shape))]
    return [sum(i * s for i, s in zip(at, strides, strict=True)) for at in np.ndindex(*sizes)]


def _read(em: Emitter, x: Value, kind: str, starts: Sequence[Entry], sizes: Sequence[int]) -> list[Entry]:
    """Read the entries of the window that begins at ``starts``, which are within bounds."""
    offset = _offset(em, starts, x.shape)
    places = [em.integer("add", "i64", offset, i) for i in _window(sizes, x.shape)]
    if known(*places) and not isinstance(x, Memory):
        flat = x.ravel()
        return [flat[int(i)] for i in places]
    memory = em.memory(x, kind)
    return [em.load(memory, i) for i in places]


def _starts(em: Emitter, eqn: Any, xs: list[Value], first: int, sizes: Sequence[int]) -> list[Entry]:
    shape = eqn.invars[0].aval.shape
    starts = []
    for x, var, size, n in zip(xs[first:], eqn.invars[first:], sizes, shape, strict=True):
        starts.append(_clamped(em, _index(em, em.entries(x).item(), kind_of(var.aval)), n - size))
    return starts


def _dynamic_slice(em: Emitter, eqn: Any, xs: list[Value]) -> list[Value]:
    sizes = eqn.params["slice_sizes"]
    starts = _starts(em, eqn, xs, 1, sizes)
    return [pack(_read(em, xs[0], kind_of(eqn.invars[0].aval), starts, sizes), sizes)]


def _dynamic_update_slice(em: Emitter, eqn: Any, xs: list[Value]) -> list[Value]:
    x, update = xs[0], em.entries(xs[1])
    starts = _starts(em, eqn, xs, 2, update.shape)
    return [_written(em, x, kind_of(eqn.invars[0].aval), [(starts, update, True)], None)]


def _written(
    em: Emitter,
    x: Value,
    kind: str,
    updates: Sequence[tuple[Sequence[Entry], np.ndarray, Entry]],
    combine: Callable[[Entry, Entry], Entry] | None,
) -> Value:
    """Copy of x with windows (starts, entries, condition) written, or combined with the entries there."""
    shape = x.shape
    if not isinstance(x, Memory) and known(*[s for starts, _, inside in updates for s in (*starts, inside)]):
        out = x.ravel().tolist()
        for starts, update, inside in updates:
            first = int(_offset(em, starts, shape))
            for i, y in zip(_window(update.shape, shape), update.ravel().tolist(), strict=True):
                if inside:
                    out[first + i] = y if combine is None else combine(out[first + i], y)
        return pack(out, shape)
    small = not isinstance(x, Memory)
    new = em.buffer(shape, kind)
    em.copy(new, x)
    for starts, update, inside in updates:
        offset = _offset(em, starts, shape)
        for i, y in zip(_window(update.shape, shape), update.ravel().tolist(), strict=True):
            place = em.integer("add", "i64", offset, i)
            with em.scope():  # values read here are overwritten
                if combine is not None or inside is not True:
                    before = em.load(new, place)
                    y = em.select(inside, y if combine is None else combine(before, y), before, kind)
                em.store(y, new, place)
    return em.entries(new) if small else new


def _clamped_windows(em: Emitter, eqn: Any, indices: np.ndarray, windows: Windows) -> list:
    """Clamped starts and in-bounds condition of each window of a gather or scatter, in the order of the batch."""
    shape, sizes = eqn.invars[0].aval.shape, windows.sizes
    mode = eqn.params["mode"]
    kind, windows_in_bounds = kind_of(eqn.invars[1].aval), []
    for b in np.ndindex(*indices.shape[:-1]):
        starts: list[Entry] = [0] * len(shape)
        for k, axis in enumerate(windows.axes):
            starts[axis] = _index(em, indices[b][k], kind)
        for axis, batch_axis in windows.batch:
            starts[axis] = b[batch_axis]
        inside: Entry = True
        for start, size, n in zip(starts, sizes, shape, strict=True):
            if mode == lax.GatherScatterMode.FILL_OR_DROP:
                above, below = em.compare("ge", "i64", start, 0), em.compare("le", "i64", start, n - size)
                inside = em.both(inside, em.both(above, below))
        clamped = [_clamped(em, start, n - size) for start, size, n in zip(starts, sizes, shape, strict=True)]
        windows_in_bounds.append((clamped, inside))
    return windows_in_bounds


def _gather(em: Emitter, eqn: Any, xs: list[Value]) -> list[Value]:
    x, indices, kind, windows = xs[0], em.entries(xs[1]), kind_of(eqn.invars[0].aval), gathered(eqn.params)
    filler, sizes = _filler(eqn.params["fill_value"], kind), windows.sizes
    out: list[Entry] = []
    for starts, inside in _clamped_windows(em, eqn, indices, windows):
        entries = _read(em, x, kind, starts, sizes) if inside is not False else [filler] * int(np.prod(sizes))
        out += [em.select(inside, y, filler, kind) for y in entries]
    return [assembled(eqn.params, pack(out, (len(out),)), indices)]


def _filler(value: Any, kind: str) -> Entry:
    if value is not None:
        return value
    if kind == "d":
        return float("nan")
    if kind == "b":
        return True
    return -(2 ** (int(kind[1:]) - 1)) if kind[0] == "i" else 2 ** int(kind[1:]) - 1


def _scatter(name: str | None) -> Callable:
    def rule(em: Emitter, eqn: Any, xs: list[Value]) -> list[Value]:
        x, indices = xs[0], em.entries(xs[1])
        windows, parts = scattered(eqn.params, len(x.shape), em.entries(xs[2]))
        places = _clamped_windows(em, eqn, indices, windows)
        changes = [(starts, part, inside) for (starts, inside), part in zip(places, parts, strict=True)]
        combine = None if name is None else combining(em, name, eqn)
        if name is None and _computed(eqn):
            raise NotLowered("scatter with a function of its own")
        return [_written(em, x, kind_of(eqn.invars[0].aval), changes, combine)]

    return rule


def _computed(eqn: Any) -> bool:
    """True if a scatter's update function is not plain replacement."""
    jaxpr = eqn.params.get("update_jaxpr")
    return jaxpr is not None and bool(getattr(jaxpr, "jaxpr", jaxpr).eqns)


RULES.update(
    {
        "dynamic_slice": _dynamic_slice,
        "dynamic_update_slice": _dynamic_update_slice,
        "gather": _gather,
        "scatter": _scatter(None),
        "scatter-add": _scatter("add"),
        "scatter-sub": _scatter("sub"),
        "scatter-mul": _scatter("mul"),
        "scatter-min": _scatter("min"),
        "scatter-max": _scatter("max"),
    }
)
