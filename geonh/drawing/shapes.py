"""Parts of bodies: triangles and lines in the body's own axes, in metres.

All parts are of one type, so that renderers need not distinguish them: ``box``, ``ball``, ``cylinder``, ``prism``,
``surface``, ``line``, ``axes`` and ``ground`` create them, ``moved`` places them in their body. Dark faces and lines
make the rotation of a body visible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from geonh.arguments.precision import float64
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_constant, as_count, as_float64, shortly
from geonh.drawing.part import Part
from geonh.engine import in_numpy
from geonh.geometry.field import evaluated

AXES = {"x": 0, "y": 1, "z": 2}
AXIS_COLOURS = ("#D55E00", "#009E73", "#0072B2")
"""Colours of the three body axes, colour-blind safe."""


@validated
def box(length: float, width: float, height: float) -> Part:
    """Create a box about the origin, its sides along the body's axes.

    Parameters
    ----------
    length, width, height : float
        Lengths along the first, second and third axis, metres.

    Returns
    -------
    Part

    Raises
    ------
    TypeError, ValueError
        If one is not a number, or one is not positive.
    """
    half = _positive("box", "length, width and height", length, width, height) / 2
    signs = np.array([[i, j, k] for k in (-1, 1) for j in (-1, 1) for i in (-1, 1)], dtype=np.float64)
    quads = [(0, 2, 3, 1), (4, 5, 7, 6), (0, 1, 5, 4), (2, 6, 7, 3), (0, 4, 6, 2), (1, 3, 7, 5)]
    corners = signs * half
    return _part(corners, _fans(quads), lines=[corners[[*quad, quad[0]]] for quad in quads[:2]])


@validated
def ball(radius: Any, resolution: int = 24) -> Part:
    """Create a ball about the origin, with alternating light and dark octants.

    Parameters
    ----------
    radius : float or array_like, shape=[3]
        Radius, or the three semi-axes of an ellipsoid, metres.
    resolution : int
        Half the number of corners of its equator; a multiple of 4 shows the octants sharp.

    Returns
    -------
    Part

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If a radius is not positive, there are two of them, or ``resolution`` is below 2.
    """
    sizes = as_float64(radius, "radius")
    if sizes.shape not in ((), (3,)):
        raise ValueError(f"radius must be a number, or three semi-axes, got shape {list(sizes.shape)}")
    semi = _positive("ball", "radius", *(np.ones(3) * sizes))
    return _round(lambda several: [normals * semi for normals in several], resolution)


@validated
def surface(point: Callable[[Any], Any], resolution: int = 24, axis: str = "z") -> Part:
    """Create a closed surface from the unit sphere, with alternating light and dark octants.

    Parameters
    ----------
    point : callable
        Map from a unit vector, shape=[3], in ``jax.numpy``, to the corresponding point of the surface, shape=[3],
        metres. For a convex body, the point with this outward normal (the gradient of its support function).
    resolution : int
        Half the number of corners of its equator.
    axis : str
        "x", "y" or "z": the axis of the mesh poles, which for a body with flat ends is the axis through them.

    Returns
    -------
    Part

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If ``point`` gives no finite points of shape=[3], ``resolution`` is below 2, or ``axis`` is anything else.
    """
    pole = _axis(axis)

    def points(several: list[np.ndarray]) -> list[np.ndarray]:
        every = np.concatenate(several)
        with float64():
            values = np.array(in_numpy(jax.vmap(lambda n: evaluated("point", point, n)), every)(every))
        parts = np.split(values, np.cumsum([len(normals) for normals in several])[:-1])
        if values.ndim == 2 and not np.all(np.isfinite(values)):
            parts = [_filled(part, normals[:, pole]) for part, normals in zip(parts, several, strict=True)]
        if values.shape != every.shape or not all(np.all(np.isfinite(part)) for part in parts):
            raise ValueError(f"point must give finite points of shape [3], got shape {list(values.shape[1:])}")
        return parts

    return _round(points, resolution, pole)


def _filled(points: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """Fill poles without a point, as for a flat disc, with the mean of the points around them."""
    known = np.all(np.isfinite(points), axis=1)
    for half in (heights > 1e-9, heights < -1e-9):
        ring = points[half & known]
        if len(ring):
            points[half & ~known] = ring.mean(axis=0)
    return points


def _round(points: Callable[[list[np.ndarray]], list[np.ndarray]], resolution: int, pole: int = 2) -> Part:
    resolution = as_count(resolution, "resolution", 2)
    normals, faces, dark = _sphere(resolution)
    normals = normals[:, np.roll([0, 1, 2], pole - 2)]
    angle = np.linspace(0, 2 * np.pi, 2 * resolution + 1)
    circle = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    vertices, *lines = points([normals, circle, circle[:, [2, 0, 1]], circle[:, [1, 2, 0]]])
    return _part(vertices, faces, dark=dark, lines=lines, smooth=True)


@validated
def cylinder(radius: float, length: float, axis: str = "z", resolution: int = 32) -> Part:
    """Create a cylinder about the origin: a wheel, a disc, a rod. Quarters of its ends are light and dark.

    Parameters
    ----------
    radius, length : float
        Radius and length, metres.
    axis : str
        "x", "y" or "z", the axis of the cylinder.
    resolution : int
        Number of corners of its rim, a multiple of 4.

    Returns
    -------
    Part

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If ``radius`` or ``length`` is not positive, ``axis`` is anything else, or ``resolution`` is below 4.
    """
    r, half = _positive("cylinder", "radius and length", radius, length / 2)
    resolution = as_count(resolution, "resolution", 4)
    angle = np.linspace(0, 2 * np.pi, resolution, endpoint=False)
    rim = np.stack([r * np.cos(angle), r * np.sin(angle), np.full(resolution, half)], axis=1)
    top, bottom = np.vstack([rim, [0, 0, half]]), np.vstack([rim * [1, 1, -1], [0, 0, -half]])
    n, i = resolution, np.arange(resolution)
    j = (i + 1) % n
    caps = np.concatenate([np.stack([i, j, np.full(n, n)], 1), np.stack([j, i, np.full(n, n)], 1) + n + 1])
    side = np.concatenate([np.stack([i, i + n + 1, j], 1), np.stack([j, i + n + 1, j + n + 1], 1)])
    quarter = (4 * i // n) % 2 == 1
    closed = np.append(i, 0)
    spokes = [end[[0, n // 2]] for end in (top, bottom)] + [end[[n // 4, 3 * n // 4]] for end in (top, bottom)]
    solid = _part(
        np.concatenate([top, bottom]),
        np.concatenate([caps, side]),
        dark=np.concatenate([quarter, quarter, np.zeros(2 * n, dtype=bool)]),
        lines=[top[closed], bottom[closed], *spokes],
    )
    order = np.roll([0, 1, 2], _axis(axis) - 2)
    return solid._mapped(lambda points: points[:, order])


@validated
def prism(outline: Any, height: float) -> Part:
    """Create a plate: an outline in the body's plane, convex and anticlockwise, with a thickness along its third axis.

    Parameters
    ----------
    outline : array_like, shape=[k, 2]
        Corners, metres; k ≥ 3.
    height : float
        Thickness, metres; the plate lies half above and half below the plane.

    Returns
    -------
    Part

    Raises
    ------
    TypeError, ValueError
        If an argument is of another type; if ``outline`` has another shape, or ``height`` is not positive.
    """
    flat = as_float64(outline, "outline")
    if flat.ndim != 2 or flat.shape[1] != 2 or len(flat) < 3:
        raise ValueError(f"outline must be at least 3 corners, shape [k, 2], got shape {list(flat.shape)}")
    (half,) = _positive("prism", "height", height / 2)
    k = len(flat)
    top, bottom = (np.column_stack([flat, np.full(k, side * half)]) for side in (1, -1))
    sides = [(i, i + k, (i + 1) % k + k, (i + 1) % k) for i in range(k)]
    faces = _fans([tuple(range(k)), tuple(range(2 * k - 1, k - 1, -1)), *sides])
    return _part(np.concatenate([top, bottom]), faces, lines=[np.vstack([end, end[:1]]) for end in (top, bottom)])


@validated
def mesh(vertices: Any, faces: Any) -> Part:
    """Create a surface of triangles.

    Parameters
    ----------
    vertices : array_like, shape=[k, 3]
        Metres.
    faces : array_like of int, shape=[f, 3]
        Triangles, as indices of vertices, anticlockwise from outside.

    Returns
    -------
    Part

    Raises
    ------
    TypeError, ValueError
        If an array has another shape, or an index is that of no vertex.
    """
    return _part(*as_triangles(vertices, faces))


def as_triangles(vertices: Any, faces: Any) -> tuple[np.ndarray, np.ndarray]:
    """Validated vertices, shape=[k, 3], and triangles, integers of shape=[f, 3]; ValueError or TypeError otherwise."""
    corners, given = as_constant(vertices, "vertices", None), as_constant(faces, "faces", None)
    if corners.ndim != 2 or corners.shape[1] != 3 or given.ndim != 2 or given.shape[1] != 3:
        raise ValueError(
            f"vertices must be of shape [k, 3] and faces [f, 3], got {list(corners.shape)} and {list(given.shape)}"
        )
    if np.any(given != given.round()):
        raise ValueError(f"faces must be integers, got {shortly(faces)}")
    if given.size and not 0 <= given.min() <= given.max() < len(corners):
        raise ValueError(f"faces must be indices of the {len(corners)} vertices")
    return corners, given.astype(np.int64)


def line(points: Any) -> Part:
    """Create a polyline. A body of lines only is a marker, not a solid.

    Parameters
    ----------
    points : array_like, shape=[k, 2] or [k, 3]
        Corners in the body's plane or in its axes, metres; k ≥ 2.

    Returns
    -------
    Part

    Raises
    ------
    TypeError
        If ``points`` are not numbers.
    ValueError
        If ``points`` have another shape.
    """
    vertices = as_float64(points, "points")
    if vertices.ndim != 2 or vertices.shape[1] not in (2, 3) or len(vertices) < 2:
        raise ValueError(f"points must be at least two, shape [k, 2] or [k, 3], got shape {list(vertices.shape)}")
    spatial = vertices if vertices.shape[1] == 3 else np.column_stack([vertices, np.zeros(len(vertices))])
    return _part(np.zeros((0, 3)), np.zeros((0, 3), dtype=int), lines=[spatial])


@validated
def axes(length: float = 1.0) -> list[Part]:
    """Create the body's three axes, each in its own colour.

    Parameters
    ----------
    length : float
        Length, metres.

    Returns
    -------
    list of Part
        Three lines.

    Raises
    ------
    TypeError
        If ``length`` is not a number.
    """
    length = float(as_constant(length, "length"))
    return [line([[0, 0, 0], length * e]).painted(c) for e, c in zip(np.eye(3), AXIS_COLOURS, strict=True)]


@validated
def ground(turns: bool = False) -> Part:
    """Create the plane z = 0 of its body, fitted to the extent of the motion.

    Parameters
    ----------
    turns : bool
        If True, a round table with spokes, otherwise a grid.

    Returns
    -------
    Part

    Raises
    ------
    TypeError
        If ``turns`` is not a bool.
    """
    angle = np.linspace(0, 2 * np.pi, 97)
    circle = np.column_stack([np.cos(angle), np.sin(angle), 0 * angle])
    grid = np.linspace(-1, 1, 21)
    if turns:
        spokes = [np.array([[0.0, 0.0, 0.0], rim]) for rim in circle[:-1:8]]
        lines = [*(r * circle for r in (0.25, 0.5, 0.75, 1.0)), *spokes]
        corners, faces = np.vstack([circle[:-1], [0, 0, 0]]), _fans([(*range(96),)])
    else:
        lines = [np.array([[a, -1, 0], [a, 1, 0]]) for a in grid] + [np.array([[-1, a, 0], [1, a, 0]]) for a in grid]
        corners, faces = np.array([[-1.0, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]]), _fans([(0, 1, 2, 3)])
    return replace(_part(corners, faces, lines=lines), unbounded=True)


def _part(
    vertices: np.ndarray, faces: np.ndarray, *, dark: Any = None, lines: Sequence[np.ndarray] = (), smooth: bool = False
) -> Part:
    shade = np.zeros(len(faces), dtype=bool) if dark is None else np.asarray(dark, dtype=bool)
    return Part(np.asarray(vertices, dtype=np.float64), np.asarray(faces, dtype=np.int64), shade, tuple(lines), smooth)


def _fans(polygons: Sequence[tuple[int, ...]]) -> np.ndarray:
    """Triangulate convex polygons."""
    return np.array([(p[0], p[i], p[i + 1]) for p in polygons for i in range(1, len(p) - 1)], dtype=np.int64)


def _sphere(resolution: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unit vectors, triangles, and mask of those in every other octant."""
    n, m = 2 * resolution, resolution
    theta, phi = np.linspace(0, np.pi, m + 1), np.linspace(0, 2 * np.pi, n, endpoint=False)
    a, b = np.meshgrid(theta, phi, indexing="ij")
    normals = np.stack([np.sin(a) * np.cos(b), np.sin(a) * np.sin(b), np.cos(a)], axis=-1).reshape(-1, 3)
    normals[np.abs(normals) < 1e-15] = 0.0  # sin π and cos π/2
    i, j = np.meshgrid(np.arange(m), np.arange(n), indexing="ij")
    here, right = i * n + j, i * n + (j + 1) % n
    first, second = np.stack([here, here + n, right], -1), np.stack([right, here + n, right + n], -1)
    faces = np.concatenate([first[1:].reshape(-1, 3), second[:-1].reshape(-1, 3)])  # no degenerate ones at poles
    return normals, faces, np.prod(normals[faces].mean(axis=1), axis=1) < 0


def _positive(what: str, names: str, *sizes: float) -> np.ndarray:
    numbers = np.array(sizes, dtype=np.float64)
    if not (np.all(np.isfinite(numbers)) and np.all(numbers > 0)):
        raise ValueError(f"{names} of a {what} must be positive, in metres, got {', '.join(map(str, sizes))}")
    return numbers


def _axis(axis: str) -> int:
    if axis not in AXES:
        raise ValueError(f"axis must be 'x', 'y' or 'z', got {shortly(axis)}")
    return AXES[axis]


PATCH = line([[-0.25, -0.25], [0.25, -0.25], [0.25, 0.25], [-0.25, 0.25], [-0.25, -0.25], [0.25, 0.25]])
"""Piece of a plane half a metre wide."""
