"""Surfaces ψ = 0 that bodies move on, as triangles and lines in a box around the motion.

The box is divided into cells, each into six tetrahedra along its diagonal, on which ψ is nearly linear: its zeros there
are one or two triangles. The triangles end at the faces of the box, and their sides in planes between cells are the
sections of the surface by these planes. Of the three families of sections, the one across which the surface is flattest
is omitted: the remaining two cross well. All triangles face the side ψ > 0, where the body is.

Source: Doi and Koide, *An efficient method of triangulating equi-valued surfaces by using tetrahedral cells*, IEICE
Trans. E74 (1991).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from geonh.arguments.precision import float64
from geonh.drawing.part import Part
from geonh.engine import mapped

CELLS = 24
"""Cells along each side of the box."""
EVERY = 3
"""Cells between two lines."""
HALVINGS = 20
"""Bisections of an edge to locate the zero of ψ."""

TETRAHEDRA = np.array(
    [np.cumsum([np.zeros(3, int), *np.eye(3, dtype=int)[list(p)]], axis=0) for p in itertools.permutations(range(3))]
)
"""Vertices of the six tetrahedra, shape=[6, 4, 3]: paths along the sides between the ends of a cell's diagonal."""


def level(psi: Callable[[Any], Any]) -> Part:
    """Surface ψ(X) = 0, shape=[3] → scalar in ``jax.numpy``, as far as the motion goes: ``fitted`` meshes it."""
    none = np.zeros((0, 3))
    return Part(none, none.astype(np.int64), np.zeros(0, bool), unbounded=True, psi=psi)


def fitted(part: Part, low: np.ndarray, high: np.ndarray) -> Part:
    """Part of such a surface in the box between two corners, shape=[3] each, metres."""
    assert part.psi is not None
    step = (high - low) / CELLS
    first = np.floor(low / step).astype(int)  # so that planes pass through the origin
    sides = np.ceil(high / step).astype(int) - first + 1
    with float64():
        psi, slope = (functools.partial(mapped, of, part.psi) for of in (_value, _slope))
        a, b = _edges(np.asarray(psi(_grid(sides, first) * step)).reshape(sides))
        keys, faces = np.unique(np.stack([a, b], axis=2).reshape(-1, 6), axis=0, return_inverse=True)
        if not len(keys):
            return part
        ends = keys.reshape(-1, 2, 3)
        inner, outer = np.moveaxis((ends + first) * step, 1, 0)
        for _ in range(HALVINGS):  # ψ > 0 at the inner end, not at the outer
            middle = (inner + outer) / 2
            free = np.asarray(psi(middle) > 0)[:, None]
            inner, outer = np.where(free, middle, inner), np.where(free, outer, middle)
        vertices = (inner + outer) / 2
        faces = faces.reshape(-1, 3)
        across = np.cross(*(vertices[faces[:, i]] - vertices[faces[:, 0]] for i in (1, 2)))
        uphill = np.einsum("fi,fi->f", across, np.asarray(slope(vertices))[faces[:, 0]])
        faces = np.where(uphill[:, None] > 0, faces, faces[:, ::-1])[
            np.linalg.norm(across, axis=1) > 1e-9 * np.prod(step) ** (2 / 3)
        ]
        lines = _sections(ends + first, vertices, faces, slope)
    return replace(part, vertices=vertices, faces=faces, dark=np.zeros(len(faces), bool), lines=lines, smooth=True)


def _value(psi: Callable, place: Any) -> Any:
    return psi(place)


def _slope(psi: Callable, place: Any) -> Any:
    return jax.grad(psi)(place)


def _grid(sides: np.ndarray, first: np.ndarray) -> np.ndarray:
    return np.stack(np.meshgrid(*(np.arange(n) for n in sides), indexing="ij"), axis=-1).reshape(-1, 3) + first


def _edges(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Grid edges on which the vertices of each triangle lie, from ψ > 0 to ψ ≤ 0, shape=[f, 3, 3] each."""
    cells = _grid(np.array(values.shape) - 1, np.zeros(3, int))
    corners = (cells[:, None, None] + TETRAHEDRA).reshape(-1, 4, 3)
    at = values[tuple(np.moveaxis(corners, 2, 0))]
    known = np.all(np.isfinite(at), axis=1)
    corners, free = corners[known], at[known] > 0
    order = np.argsort(~free, axis=1, kind="stable")  # vertices with ψ > 0 first
    corners, n = np.take_along_axis(corners, order[:, :, None], axis=1), free.sum(axis=1)
    # the four vertices of a tetrahedron, k of them with ψ > 0, as pairs of ends for the vertices of a triangle
    pairs = {
        1: [[(0, 1), (0, 2), (0, 3)]],
        2: [[(0, 2), (0, 3), (1, 3)], [(0, 2), (1, 3), (1, 2)]],
        3: [[(0, 3), (1, 3), (2, 3)]],
    }
    triangles_of = [corners[n == k][:, triangle] for k, triangles in pairs.items() for triangle in np.array(triangles)]
    every = np.concatenate(triangles_of)  # [f, 3, 2, 3]
    return every[:, :, 0], every[:, :, 1]


def _sections(ends: np.ndarray, vertices: np.ndarray, faces: np.ndarray, slope: Callable) -> tuple[np.ndarray, ...]:
    """Sides of triangles in every ``EVERY``-th plane of two of the families, and the boundary, as pairs of points."""
    all_sides = np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    sides, count = np.unique(all_sides, axis=0, return_counts=True)
    steepest = np.argmax(np.abs(np.asarray(slope(vertices[sides].mean(axis=1)))), axis=1)
    at = ends[sides].reshape(len(sides), 4, 3)
    in_plane = np.all(at == at[:, :1], axis=1) & (at[:, 0] % EVERY == 0)  # [sides, 3]
    in_plane[np.arange(len(sides)), steepest] = False
    return tuple(vertices[sides[np.any(in_plane, axis=1) | (count == 1)]])
