"""Frames of an animation as pixels: what stands still is drawn once, and what moves on top of a copy of it.

Triangles and lines of all bodies are projected here and drawn as one collection, the far ones first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from geonh.diagnostics.invariants import catalogue_entry
from geonh.drawing import Moving, Scene
from geonh.drawing.modes import mode_colours, modes_at
from geonh.plotting import figures
from geonh.plotting.bodies import LIGHT, body_size, draw_body, fill_place, set_limits, shades
from geonh.plotting.labels import units_of
from geonh.plotting.trajectory import draw_ground, label_space

FAR = 12.0
"""Size of the motion in sizes of the largest body beyond which the view follows the body."""
AROUND = 5.0
"""Width of such a view in sizes of the body."""
NARROW = 0.3
"""Width of the picture of the whole path, in widths of the frame."""


class Pieces(NamedTuple):
    """Triangles and lines of a body, in its axes.

    Attributes
    ----------
    faces : ndarray, shape=[f, 3, 3]
    normals : ndarray, shape=[f, 3]
        Unit normals of the faces.
    face_colours : ndarray, shape=[f, 4]
    hidden_behind : ndarray of bool, shape=[f]
        Triangles that are not seen from behind, of opaque closed parts.
    segments : ndarray, shape=[s, 2, 3]
    segment_colours : ndarray, shape=[s, 4]
    widths : ndarray, shape=[s]
        In points.
    """

    faces: np.ndarray
    normals: np.ndarray
    face_colours: np.ndarray
    hidden_behind: np.ndarray
    segments: np.ndarray
    segment_colours: np.ndarray
    widths: np.ndarray


class Stage:
    """Figure of the bodies of a scene, whose frames are arrays of pixels.

    Parameters
    ----------
    trajectory : Trajectory
    scene : Scene
        Its bodies at the times of the frames, and between.
    trail : float or None
        Length of the paths in seconds.
    inches : (float, float)
        Size of the figure.
    dpi : float
    """

    def __init__(self, trajectory: Any, scene: Scene, trail: float | None, inches: tuple[float, float], dpi: float):
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        self.scene, self.trail, self.flat, self.units = scene, trail, scene.is_flat, units_of(trajectory)
        self.colours, self.modes = mode_colours(trajectory), modes_at(trajectory, scene.t)
        self.figure = figures.empty_figure(inches)
        self.figure.set_dpi(dpi)
        self.canvas = FigureCanvasAgg(self.figure)
        entry = catalogue_entry(trajectory)
        self.figure.suptitle(trajectory.attributes["system"] if entry is None else entry.heading, fontsize=11)
        self.followed = followed(scene)
        self.centre = np.zeros((len(scene.t), 3)) if self.followed is None else self.followed.x
        self.axes = self.figure.add_subplot(projection=None if self.flat else "3d")
        self._frame()
        self.clock = self.figure.text(0.02, 0.03, "", fontsize=10, color="0.2")
        self.paths = [body.path for body in scene.traces]
        self._make_artists()
        self.canvas.draw()
        self.projection = None if self.flat else self.axes.get_proj()
        self.still = self.canvas.copy_from_bbox(self.figure.bbox)

    # --- the still part ------------------------------------------------------------------------------------------
    def _frame(self) -> None:
        """Axes around the whole motion, or around the followed body, with the whole path beside it."""
        axes, length = self.axes, self.units.length
        if self.followed is None:
            set_limits(axes, self.scene, self.flat)
            label_space(axes, self.flat, length)
            self.turning = [b for b in self.scene.bodies if b.is_ground and np.ptp(b.R, axis=0).max() > 0]
            if not self.turning:
                draw_ground(axes, self.scene, 0, self.flat)
            self.whole = None
            if not self.flat:
                fill_place(axes)
            self.figure.draw_without_rendering()
            self.figure.set_layout_engine("none")
            return
        self.turning = []
        self.figure.set_layout_engine("none")
        axes.set_position((0.0, 0.0, 1.0, 0.93))
        axes.set_axis_off()
        half = AROUND * body_size(self.scene) / 2
        wide = half * self.figure.get_figwidth() / self.figure.get_figheight() if self.flat else half
        axes.set_xlim(-wide, wide)
        axes.set_ylim(-half, half)
        if not self.flat:
            axes.set_zlim(-half, half)
            axes.set_box_aspect((1, 1, 1), zoom=1.6)
        self.grid = figures.nice(half)
        with_unit = f"lines every {self.grid:g} {length}".strip()
        self.figure.text(0.98, 0.03, with_unit, fontsize=9, color="0.4", ha="right")
        self.whole = self.figure.add_axes((0.985 - NARROW, 0.6, NARROW, 0.3))
        for body in self.scene.traces:
            self.whole.plot(*body.path[:, :2].T, color=body.colour, lw=1.0)
        self.whole.set_aspect("equal", adjustable="datalim")
        self.whole.tick_params(labelsize=7)
        self.whole.patch.set_alpha(0.85)

    def _make_artists(self) -> None:
        """Lines of what moves, in pixels, and the shapes of the bodies."""
        from matplotlib.collections import LineCollection
        from matplotlib.lines import Line2D
        from matplotlib.transforms import IdentityTransform

        identity = IdentityTransform()
        self.lines = [Line2D([], [], lw=1.6, color=body.colour, transform=identity) for body in self.scene.traces]
        self.dot = Line2D([], [], marker="o", ms=5, color="black", transform=identity)
        self.grid_lines = LineCollection([], colors="0.85", lw=0.8, transform=identity)
        for artist in (self.grid_lines, *self.lines, self.dot):
            artist.set_figure(self.figure)
        self.shapes = [(body, self._by_mode(body)) for body in self.scene.bodies if not body.is_ground]

    def _by_mode(self, body: Moving) -> list[Pieces]:
        """Triangles and lines of a body in the colour of each mode, where a run has modes."""
        if not self.colours:
            return [self._pieces(body)]
        return [self._pieces(replace(body, colour=colour)) for colour in self.colours.values()]

    def _pieces(self, body: Moving) -> Pieces:
        """Triangles and lines of a body."""
        from matplotlib.colors import to_rgba

        faces, face_colours, hidden = [np.zeros((0, 3, 3))], [np.zeros((0, 4))], [np.zeros(0, bool)]
        segments, segment_colours, widths = [np.zeros((0, 2, 3))], [np.zeros((0, 4))], [np.zeros(0)]
        for part in body.parts:
            colour, n = part.colour or body.colour, len(part.faces)
            if n:
                faces.append(part.vertices[part.faces])
                alpha = np.full(n, 0.3 if body.is_curved else 1.0)
                face_colours.append(np.column_stack([shades(colour, part.dark), alpha]))
                hidden.append(np.full(n, not body.is_curved and part.is_closed))
            if part.lines and (body.is_curved or self.flat or not (part.smooth and n)):
                pairs = np.concatenate([np.stack([line[:-1], line[1:]], axis=1) for line in part.lines])
                segments.append(pairs)
                segment_colours.append(np.tile(to_rgba("0.25" if n else colour), (len(pairs), 1)))
                widths.append(np.full(len(pairs), 0.8 if n else 1.4))
        corners = np.concatenate(faces)
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-300)
        rest = (face_colours, hidden, segments, segment_colours, widths)
        return Pieces(corners, normals, *map(np.concatenate, rest))

    # --- a frame -------------------------------------------------------------------------------------------------
    def pixels(self, i: int) -> np.ndarray:
        """The i-th frame, shape=[height, width, 4], of bytes; overwritten by the next one."""
        self.canvas.restore_region(self.still)
        t = self.scene.t
        turned = [artist for body in self.turning for artist in draw_body(self.axes, body, i, self.flat, alpha=0.4)]
        for artist in turned:
            self.axes.draw_artist(artist)
            artist.remove()
        renderer, first = self.canvas.get_renderer(), 0
        if self.whole is not None:
            self._place_grid(i)
            self.grid_lines.draw(renderer)
            self.dot.set_data(*self.whole.transData.transform(self.centre[i][None, :2]).T)
        if self.trail is not None:
            first = int(np.argmax(np.abs(t[i] - t) <= self.trail))
        for line, path in zip(self.lines, self.paths, strict=True):
            line.set_data(*self._on_screen(path[first : i + 1] - self.centre[i])[0].T)
            line.draw(renderer)
        self._draw_bodies(renderer, i)
        mode = "" if self.modes is None else f"   {list(self.colours)[self.modes[i]]}"
        self.clock.set_text(f"t = {t[i]:.2f} {self.units.time}{mode}")
        self.clock.draw(renderer)
        if self.whole is not None:
            self.dot.draw(renderer)
        return np.asarray(self.canvas.buffer_rgba())

    def _on_screen(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points, shape=[k, 3], in pixels, shape=[k, 2], and their depths, larger for nearer ones."""
        if self.flat:
            return self.axes.transData.transform(points[:, :2]), points[:, 2]
        from mpl_toolkits.mplot3d.proj3d import proj_transform

        x, y, z = proj_transform(*points.T, self.projection)
        return self.axes.transData.transform(np.column_stack([x, y])), -np.asarray(z)

    def _draw_bodies(self, renderer: Any, i: int) -> None:
        """Draw triangles and lines, the far ones first."""
        from matplotlib.transforms import IdentityTransform

        triangles, colours, near = [], [], []
        for body, of_modes in self.shapes:
            pieces = of_modes[0 if self.modes is None else self.modes[i]]
            placed = body.points(pieces.faces.reshape(-1, 3), i).reshape(-1, 3, 3)
            colour = pieces.face_colours
            if not self.flat:
                lit = pieces.normals @ (body.R[i].T @ LIGHT)
                colour = np.column_stack([np.clip(colour[:, :3] * (0.78 + 0.3 * lit)[:, None], 0, 1), colour[:, 3]])
            flat, depth = self._on_screen(placed.reshape(-1, 3) - self.centre[i])
            flat, depth = flat.reshape(-1, 3, 2), depth.reshape(-1, 3)
            (ax, ay), (bx, by) = (flat[:, 1] - flat[:, 0]).T, (flat[:, 2] - flat[:, 0]).T
            seen = ~pieces.hidden_behind | (ax * by > ay * bx)  # counterclockwise: from outside
            flat, depth = flat[seen], depth[seen]
            triangles.append(flat)
            colours.append(colour[seen])
            near.append(depth.max(axis=1) if self.flat else depth.mean(axis=1))
            ends, depth = self._on_screen(body.points(pieces.segments.reshape(-1, 3), i) - self.centre[i])
            triangles.append(_bands(ends.reshape(-1, 2, 2), pieces.widths * self.figure.dpi / 72))
            colours.append(np.repeat(pieces.segment_colours, 2, axis=0))
            near.append(np.repeat(depth.reshape(-1, 2).max(axis=1), 2))
        if not triangles:
            return
        order = np.argsort(np.concatenate(near), kind="stable")
        corners = np.repeat(np.concatenate(colours)[order][:, None], 3, axis=1)
        renderer.draw_gouraud_triangles(
            renderer.new_gc(), np.concatenate(triangles)[order], corners, IdentityTransform()
        )

    def _place_grid(self, i: int) -> None:
        """Lines of the plane below the followed body."""
        half = 6 * self.grid
        middle = np.round(self.centre[i][:2] / self.grid) * self.grid
        marks = np.arange(-6, 7) * self.grid
        ends = np.array([-half, half])
        a = np.stack(np.broadcast_arrays(middle[0] + marks[:, None], middle[1] + ends), axis=-1)
        b = np.stack(np.broadcast_arrays(middle[0] + ends, middle[1] + marks[:, None]), axis=-1)
        lines = np.concatenate([a, b])
        points = np.concatenate([lines, np.zeros((*lines.shape[:2], 1))], axis=2).reshape(-1, 3)
        self.grid_lines.set_segments(self._on_screen(points - self.centre[i])[0].reshape(-1, 2, 2))


def _bands(ends: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Lines of some width as two triangles each, shape=[2s, 3, 2], from their ends, shape=[s, 2, 2]; all in pixels."""
    along = ends[:, 1] - ends[:, 0]
    across = np.stack([-along[:, 1], along[:, 0]], axis=1)
    across *= (widths / 2 / np.maximum(np.linalg.norm(across, axis=1), 1e-300))[:, None]
    a, b = ends[:, 0], ends[:, 1]
    corners = np.stack([a + across, a - across, b - across, a + across, b - across, b + across], axis=1)
    return corners.reshape(-1, 3, 2)


def followed(scene: Scene) -> Moving | None:
    """Body that a view follows, since it would be a dot beside its path; None where the whole motion is shown."""
    if any(body.is_curved for body in scene.bodies) or not scene.traces:
        return None
    low, high = scene.extent
    size = body_size(scene)
    return scene.traces[0] if 0 < FAR * size < np.max(high - low) else None
