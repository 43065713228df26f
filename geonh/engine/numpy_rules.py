"""NumPy rules of primitives without inner jaxprs: functions (parameters, *arrays) -> array, in ``NUMPY_RULES``.

Those of elementwise primitives are in ``native/elementwise.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax import lax

from geonh.engine.moves import (
    MOVES,
    Windows,
    assembled,
    assembled_convolution,
    gathered,
    iota,
    sides_of_convolution,
)
from geonh.engine.native.elementwise import ELEMENTWISE


# --- arrays --------------------------------------------------------------------------------------------------
def _window(x: np.ndarray, starts: Sequence[Any], sizes: Sequence[int]) -> tuple[slice, ...]:
    """Slices of a window, clamped to the array."""
    begins = [min(max(int(start), 0), n - size) for start, n, size in zip(starts, x.shape, sizes, strict=True)]
    return tuple(slice(begin, begin + size) for begin, size in zip(begins, sizes, strict=True))


def _updated(params: dict, x: np.ndarray, update: np.ndarray, *starts: np.ndarray) -> np.ndarray:
    out = np.array(x)
    out[_window(x, starts, update.shape)] = update
    return out


def _dot(params: dict, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    (left, right), (of_left, of_right) = params["dimension_numbers"]
    x, y = (a.astype(params["preferred_element_type"] or a.dtype, copy=False) for a in (x, y))
    rest = [
        [axis for axis in range(a.ndim) if axis not in used]
        for a, used in ((x, (*left, *of_left)), (y, (*right, *of_right)))
    ]
    batch = [x.shape[axis] for axis in of_left]
    free = [[a.shape[axis] for axis in axes] for a, axes in zip((x, y), rest, strict=True)]
    sums, *rows = (math.prod(sizes) for sizes in ([x.shape[axis] for axis in left], *free))
    a = x.transpose([*of_left, *rest[0], *left]).reshape(*batch, rows[0], sums)
    b = y.transpose([*of_right, *right, *rest[1]]).reshape(*batch, sums, rows[1])
    return (a @ b).reshape((*batch, *free[0], *free[1]))


def _convolution(params: dict, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    left, right, places = sides_of_convolution(params, x, y)
    return assembled_convolution(params, left @ right.swapaxes(1, 2), places)


def _over_axes(function: Callable) -> Callable:
    return lambda params, x: np.asarray(function(x, axis=tuple(params["axes"])), x.dtype)


def _extreme(function: Callable, least: float) -> Callable:
    def rule(params: dict, x: np.ndarray) -> np.ndarray:
        axes = tuple(params["axes"])
        if x.size or 0 not in [x.shape[axis] for axis in axes]:
            return function(x, axis=axes)
        if x.dtype.kind == "b":
            return function(x, axis=axes, initial=least > 0)
        ends = None if x.dtype.kind == "f" else np.iinfo(x.dtype)
        return function(x, axis=axes, initial=least if ends is None else ends.min if least < 0 else ends.max)

    return rule


def _place(function: Callable) -> Callable:
    def rule(params: dict, x: np.ndarray) -> np.ndarray:
        return function(x, axis=params["axes"][0]).astype(params["index_dtype"])

    return rule


def _running(function: Callable) -> Callable:
    def rule(params: dict, x: np.ndarray) -> np.ndarray:
        axis, back = params["axis"], params["reverse"]
        result = function(np.flip(x, axis) if back else x, axis=axis, dtype=x.dtype)
        return np.flip(result, axis) if back else result

    return rule


# --- indices -------------------------------------------------------------------------------------------------
def window_starts(
    params: dict, x: np.ndarray, indices: np.ndarray, windows: Windows
) -> tuple[list[np.ndarray], np.ndarray]:
    """First index on each axis, clamped, of each window (the batch flattened), and whether it lies within bounds."""
    batch = indices.shape[:-1]
    starts = [np.zeros(math.prod(batch), np.int64)] * x.ndim
    for k, axis in enumerate(windows.axes):
        starts[axis] = indices[..., k].astype(np.int64).ravel()
    for axis, batch_axis in windows.batch:
        starts[axis] = np.indices(batch)[batch_axis].ravel()
    inside = np.ones(math.prod(batch), bool)
    lasts = [n - size for n, size in zip(x.shape, windows.sizes, strict=True)]
    if params["mode"] == lax.GatherScatterMode.FILL_OR_DROP:
        for start, last in zip(starts, lasts, strict=True):
            inside &= (start >= 0) & (start <= last)
    return [np.clip(start, 0, last) for start, last in zip(starts, lasts, strict=True)], inside


def window_entries(starts: Sequence[np.ndarray], sizes: Sequence[int]) -> tuple[np.ndarray, ...]:
    """Indices of the entries of all windows, shape=[batch, *sizes]."""
    grids = np.indices(sizes)
    return tuple(s.reshape(-1, *[1] * len(sizes)) + grid for s, grid in zip(starts, grids, strict=True))


def _gather(params: dict, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    windows = gathered(params)
    starts, inside = window_starts(params, x, indices, windows)
    entries = x[window_entries(starts, windows.sizes)]
    if not inside.all():
        filler = params["fill_value"]
        if filler is None:
            filler = {"f": np.nan, "b": True}.get(x.dtype.kind)
        if filler is None:
            filler = np.iinfo(x.dtype).min if x.dtype.kind == "i" else np.iinfo(x.dtype).max
        entries[~inside] = filler
    return assembled(params, entries, indices)


NUMPY_RULES: dict[str, Callable] = {
    **{name: row.numpy for name, row in ELEMENTWISE.items() if row.numpy is not None},
    **MOVES,
    "iota": iota,
    "dynamic_slice": lambda params, x, *starts: x[_window(x, starts, params["slice_sizes"])],
    "dynamic_update_slice": _updated,
    "dot_general": _dot,
    "conv_general_dilated": _convolution,
    "reduce_sum": _over_axes(np.sum),
    "reduce_prod": _over_axes(np.prod),
    "reduce_and": _over_axes(np.bitwise_and.reduce),
    "reduce_or": _over_axes(np.bitwise_or.reduce),
    "reduce_xor": _over_axes(np.bitwise_xor.reduce),
    "reduce_max": _extreme(np.max, -np.inf),
    "reduce_min": _extreme(np.min, np.inf),
    "argmax": _place(np.argmax),
    "argmin": _place(np.argmin),
    "cumsum": _running(np.cumsum),
    "cumprod": _running(np.cumprod),
    "cummax": _running(np.maximum.accumulate),
    "cummin": _running(np.minimum.accumulate),
    "gather": _gather,
}
