"""Primitives that only move entries, as NumPy functions of their parameters and arrays; windows of gathers.

The interpreter applies them to numbers, and the native engine to names of values or to the flat indices of the entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np


def _reshape(params: dict, x: np.ndarray) -> np.ndarray:
    order = params["dimensions"]
    return (x if order is None else x.transpose(order)).reshape(params["new_sizes"])


def _broadcast(params: dict, x: np.ndarray) -> np.ndarray:
    inner = [1] * len(params["shape"])
    for axis, place in enumerate(params["broadcast_dimensions"]):
        inner[place] = x.shape[axis]
    return np.broadcast_to(x.reshape(inner), params["shape"])


def _slice(params: dict, x: np.ndarray) -> np.ndarray:
    strides = params["strides"] or (1,) * x.ndim
    window: tuple = (*map(slice, params["start_indices"], params["limit_indices"], strides), ...)
    return x[window]


def _pad(params: dict, x: np.ndarray, filler: np.ndarray) -> np.ndarray:
    config = params["padding_config"]
    shape = [low + high + n + max(n - 1, 0) * gap for n, (low, high, gap) in zip(x.shape, config, strict=True)]
    targets = [low + np.arange(n) * (1 + gap) for n, (low, _, gap) in zip(x.shape, config, strict=True)]
    inside = [np.flatnonzero((t >= 0) & (t < m)) for t, m in zip(targets, shape, strict=True)]
    out = np.full(shape, filler.item(), x.dtype)
    out[np.ix_(*[t[i] for t, i in zip(targets, inside, strict=True)])] = x[np.ix_(*inside)]
    return out


def iota(params: dict) -> np.ndarray:
    """Index of each entry along one axis."""
    shape, axis = params["shape"], params["dimension"]
    line = np.arange(shape[axis], dtype=params["dtype"])
    return np.broadcast_to(line.reshape([-1 if d == axis else 1 for d in range(len(shape))]), shape)


def _unstack(params: dict, x: np.ndarray) -> list[np.ndarray]:
    rows = np.moveaxis(x, params["axis"], 0)
    return [rows[i : i + 1].reshape(rows.shape[1:]) for i in range(len(rows))]  # arrays, where rows[i] may be an entry


MOVES: dict[str, Callable[..., np.ndarray]] = {
    "reshape": _reshape,
    "squeeze": lambda params, x: np.squeeze(x, tuple(params["dimensions"])),
    "expand_dims": lambda params, x: np.expand_dims(x, tuple(params["dimensions"])),
    "broadcast_in_dim": _broadcast,
    "transpose": lambda params, x: x.transpose(params["permutation"]),
    "rev": lambda params, x: np.flip(x, params["dimensions"]),
    "concatenate": lambda params, *xs: np.concatenate(xs, axis=params["dimension"]),
    "stack": lambda params, *xs: np.stack(xs, axis=params["axis"]),
    "tile": lambda params, x: np.tile(x, params["reps"]),
    "pad": _pad,
    "slice": _slice,
}
"""Functions (parameters, *arrays) -> array."""
SPLITS: dict[str, Callable[[dict, np.ndarray], list[np.ndarray]]] = {
    "split": lambda params, x: np.split(x, np.cumsum(params["sizes"])[:-1], axis=params["axis"]),
    "unstack": _unstack,
}
"""Functions (parameters, array) -> arrays."""


class Windows(NamedTuple):
    """Windows of an array that a gather reads or a scatter writes, one for each vector of indices.

    Attributes
    ----------
    sizes : sequence of int
        Lengths of a window along each axis.
    axes : sequence of int
        Axes along which the entries of a vector of indices count.
    batch : sequence of (int, int)
        Pairs of an axis of the array and the axis of the indices along which it is batched.
    """

    sizes: Sequence[int]
    axes: Sequence[int]
    batch: Sequence[tuple[int, int]]


def gathered(params: dict) -> Windows:
    """Windows of a gather."""
    d = params["dimension_numbers"]
    batch = tuple(zip(d.operand_batching_dims, d.start_indices_batching_dims, strict=True))
    return Windows(params["slice_sizes"], d.start_index_map, batch)


def assembled(params: dict, windows: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Result of a gather, from the entries of its windows."""
    d, sizes, batch = params["dimension_numbers"], params["slice_sizes"], indices.shape[:-1]
    lengths = [n for axis, n in enumerate(sizes) if axis not in (*d.collapsed_slice_dims, *d.operand_batching_dims)]
    entries = windows.reshape((*batch, *lengths))
    return np.moveaxis(entries, range(len(batch), entries.ndim), d.offset_dims)


def scattered(params: dict, ndim: int, updates: np.ndarray) -> tuple[Windows, np.ndarray]:
    """Windows of a scatter into an array of ``ndim`` axes, and the entries for them, shape=[windows, *sizes]."""
    d = params["dimension_numbers"]
    fixed, window = (*d.inserted_window_dims, *d.operand_batching_dims), iter(d.update_window_dims)
    sizes = [1 if axis in fixed else updates.shape[next(window)] for axis in range(ndim)]
    outer = [axis for axis in range(updates.ndim) if axis not in d.update_window_dims]
    batch = tuple(zip(d.operand_batching_dims, d.scatter_indices_batching_dims, strict=True))
    parts = updates.transpose([*outer, *d.update_window_dims]).reshape(-1, *sizes)
    return Windows(sizes, d.scatter_dims_to_operand_dims, batch), parts
