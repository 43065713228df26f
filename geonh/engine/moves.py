"""Primitives that only move entries, as NumPy functions of their parameters and arrays; windows of gathers.

The interpreter applies them to numbers, and the native engine to names of values or to the flat indices of the entries.
"""

from __future__ import annotations

import math
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


def windows_of_convolution(params: dict, x: np.ndarray, kernel: Sequence[int]) -> np.ndarray:
    """Entries of x, shape=[n, c, *sizes], beneath a kernel at each of its places: shape=[n, *places, c, *kernel]."""
    padding = [(low, high, gap - 1) for (low, high), gap in zip(params["padding"], params["lhs_dilation"], strict=True)]
    x = _pad({"padding_config": [(0, 0, 0), (0, 0, 0), *padding]}, x, np.array(0.0))
    axes = zip(kernel, params["rhs_dilation"], params["window_strides"], strict=True)
    for axis, (length, gap, stride) in enumerate(axes):
        places = max(0, (x.shape[2 + 2 * axis] - (length - 1) * gap - 1) // stride + 1)
        x = np.take(x, stride * np.arange(places)[:, None] + gap * np.arange(length), axis=2 + 2 * axis)
    many = range(len(kernel))
    return x.transpose([0, *(2 + 2 * d for d in many), 1, *(3 + 2 * d for d in many)])


def sides_of_convolution(params: dict, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Rows of each group of features whose scalar products are a convolution, shapes [groups, places, terms] and
    [groups, features, terms], and the numbers of places: the samples, and those along each axis.
    """
    spec, groups = params["dimension_numbers"], params["feature_group_count"]
    x, y = x.transpose(spec.lhs_spec), y.transpose(spec.rhs_spec)
    windows = windows_of_convolution(params, x, y.shape[2:])
    places = list(windows.shape[: windows.ndim - y.ndim + 1])
    left = windows.reshape(math.prod(places), groups, math.prod(y.shape[1:])).swapaxes(0, 1)
    return left, y.reshape(groups, len(y) // groups, math.prod(y.shape[1:])), places


def assembled_convolution(params: dict, products: np.ndarray, places: Sequence[int]) -> np.ndarray:
    """Result of a convolution from the products of its sides, shape=[groups, places, features]."""
    features = products.shape[0] * products.shape[2]
    out = products.transpose(0, 2, 1).reshape(features, *places)  # places: the samples, and those along each axis
    spec = params["dimension_numbers"].out_spec
    return np.swapaxes(out, 0, 1).transpose(np.argsort(spec))
