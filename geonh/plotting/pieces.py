"""Triangles and lines of all bodies of a scene, projected and put in order for one call of the renderer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from geonh.drawing import Moving
from geonh.plotting.bodies import LIGHT, shades

SLIVER = 0.05
"""Area in pixels of triangles, and length of lines, that one cannot see and that are not drawn."""


class Pieces(NamedTuple):
    """Triangles and lines of bodies, in the axes of their bodies.

    Attributes
    ----------
    flat : bool
        True if they are seen from above and evenly lit, not in perspective.
    bodies : list of Moving
    points : list of ndarray, shape=[k, 3] each
        Points of each body.
    faces : ndarray of int, shape=[f, 3]
        Triangles, as indices of the points of all bodies.
    owners : ndarray of int, shape=[f]
        Their bodies.
    normals : ndarray, shape=[f, 3]
        Their unit normals.
    face_colours : ndarray, shape=[m, f, 4]
        Their colours in each mode.
    hidden_behind : ndarray of bool, shape=[f]
        True for those that are not seen from behind, of opaque closed parts.
    segments : ndarray of int, shape=[s, 2]
        Lines, as indices of the points.
    segment_colours : ndarray, shape=[m, s, 4]
    widths : ndarray, shape=[s]
        In points.
    touched : ndarray of int, shape=[s, 2]
        The faces, one or two, on which a line lies, and which hide it; f for none.
    """

    flat: bool
    bodies: list[Moving]
    points: list[np.ndarray]
    faces: np.ndarray
    owners: np.ndarray
    normals: np.ndarray
    face_colours: np.ndarray
    hidden_behind: np.ndarray
    segments: np.ndarray
    segment_colours: np.ndarray
    widths: np.ndarray
    touched: np.ndarray

    def triangles(
        self, i: int, mode: int, on_screen: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]], dpi: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Corners in pixels, shape=[n, 3, 2], and colours, shape=[n, 4], at the i-th time, the far ones first.

        ``on_screen`` gives places in pixels, shape=[k, 2], and their depths, shape=[k], larger for nearer ones.
        """
        placed = [body.points(points, i) for body, points in zip(self.bodies, self.points, strict=True)]
        pixels, depth = on_screen(np.concatenate(placed))
        corners = pixels[self.faces]
        (ax, ay), (bx, by) = (corners[:, 1] - corners[:, 0]).T, (corners[:, 2] - corners[:, 0]).T
        area = (ax * by - ay * bx) / 2  # positive from outside: counterclockwise
        seen = ~self.hidden_behind | (area > 0)
        faces = np.flatnonzero(seen & (np.abs(area) > SLIVER))
        colours, far = self.face_colours[mode, faces], depth[self.faces[faces]]
        if not self.flat:
            light = np.stack([body.R[i].T @ LIGHT for body in self.bodies])[self.owners[faces]]
            colours[:, :3] *= (0.78 + 0.3 * np.sum(self.normals[faces] * light, axis=1))[:, None]

        ends = pixels[self.segments]
        long = np.abs(ends[:, 1] - ends[:, 0]).max(axis=1) > SLIVER
        lines = np.flatnonzero(long & np.append(seen, True)[self.touched].any(axis=1))
        bands = _bands(ends[lines], self.widths[lines] * dpi / 72)
        line_colours = np.repeat(self.segment_colours[mode, lines], 2, axis=0)

        near = np.repeat(depth[self.segments[lines]].max(axis=1), 2)
        order = np.argsort(np.append(far.max(axis=1) if self.flat else far.mean(axis=1), near), kind="stable")
        return np.append(corners[faces], bands, axis=0)[order], np.append(colours, line_colours, axis=0)[order].clip(
            0, 1
        )


def pieces_of(bodies: Sequence[Moving], modes: Sequence[str], flat: bool) -> Pieces:
    """Triangles and lines of bodies, in the colours of the modes if there are any, else in those of the bodies."""
    from matplotlib.colors import to_rgba

    points = [np.concatenate([np.zeros((0, 3)), *_points(body)]) for body in bodies]
    faces, owners, colours, hidden = [np.zeros((0, 3), int)], [], [np.zeros((max(1, len(modes)), 0, 4))], []
    segments, ink, widths, touched = [np.zeros((0, 2), int)], [colours[0]], [], [np.zeros((0, 2), int)]
    row, total = 0, sum(len(part.faces) for body in bodies for part in body.parts)
    for owner, body in enumerate(bodies):
        for part in body.parts:
            n, first = len(part.faces), sum(map(len, faces))
            of_modes = [part.colour or colour for colour in modes or (body.colour,)]
            if n:
                alpha = np.full((n, 1), 0.3 if body.is_curved else 1.0)
                faces.append(part.faces + row)
                owners += [owner] * n
                colours.append(np.stack([np.append(shades(colour, part.dark), alpha, axis=1) for colour in of_modes]))
                hidden += [not body.is_curved and part.is_closed] * n
            row += len(part.vertices)
            shown = body.is_curved or flat or not (part.smooth and n)
            for line in part.lines:
                rows = np.arange(row, row + len(line))
                row += len(line)
                if not shown:
                    continue
                segments.append(np.stack([rows[:-1], rows[1:]], axis=1))
                of_line = np.array([to_rgba("0.25" if n else colour) for colour in of_modes])
                ink.append(np.repeat(of_line[:, None], len(line) - 1, axis=1))
                widths += [0.8 if n else 1.4] * (len(line) - 1)
                there = _touched((line[:-1] + line[1:]) / 2, part.vertices[part.faces])
                touched.append(np.where(there < n, there + first, total))
    all_faces = np.concatenate(faces)
    normals = _normals(np.concatenate([np.zeros((0, 3)), *points])[all_faces])
    return Pieces(
        flat,
        list(bodies),
        points,
        all_faces,
        np.array(owners, int),
        normals,
        np.concatenate(colours, axis=1),
        np.array(hidden, bool),
        np.concatenate(segments),
        np.concatenate(ink, axis=1),
        np.array(widths, float),
        np.concatenate(touched),
    )


def _points(body: Moving) -> list[np.ndarray]:
    """Vertices and lines of the parts of a body, in turn."""
    return [points for part in body.parts for points in (part.vertices, *part.lines)]


def _normals(corners: np.ndarray) -> np.ndarray:
    """Unit normals of triangles, shape=[f, 3, 3]; zero for those without area."""
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    return normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-300)


def _touched(points: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Two triangles, or one twice, of shape=[f, 3, 3], on which points, shape=[k, 3], lie; f for none.

    Returns
    -------
    ndarray of int, shape=[k, 2]
    """
    f = len(corners)
    if not f:
        return np.full((len(points), 2), f)
    small = 1e-9 * np.ptp(corners, axis=(0, 1)).max()
    normals = _normals(corners)
    inward = np.cross(normals[:, None], np.roll(corners, -1, axis=1) - corners)  # at each side
    inward /= np.maximum(np.linalg.norm(inward, axis=2, keepdims=True), 1e-300)
    off = points[:, None, None] - corners  # shape=[k, f, 3, 3]
    on = np.abs(np.sum(off[:, :, 0] * normals, axis=2)) < small
    on &= np.all(np.sum(off * inward, axis=3) > -small, axis=2)
    ends = np.stack([np.argmax(on, axis=1), f - 1 - np.argmax(on[:, ::-1], axis=1)], axis=1)
    return np.where(on.any(axis=1)[:, None], ends, f)


def _bands(ends: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Lines of some width as two triangles each, shape=[2s, 3, 2], from their ends, shape=[s, 2, 2]; all in pixels."""
    along = ends[:, 1] - ends[:, 0]
    across = np.stack([-along[:, 1], along[:, 0]], axis=1)
    across *= (widths / 2 / np.maximum(np.linalg.norm(across, axis=1), 1e-300))[:, None]
    a, b = ends[:, 0], ends[:, 1]
    corners = np.stack([a + across, a - across, b - across, a + across, b - across, b + across], axis=1)
    return corners.reshape(-1, 3, 2)
