"""Frames of an animation as pixels: what stands still is drawn once, and what moves on top of a copy of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from geonh.diagnostics.invariants import catalogue_entry
from geonh.drawing import Moving, Scene
from geonh.drawing.modes import mode_colours, modes_at
from geonh.plotting import figures
from geonh.plotting.bodies import body_size, fill_place, set_limits
from geonh.plotting.labels import units_of
from geonh.plotting.pieces import pieces_of
from geonh.plotting.trajectory import draw_ground, label_space

FAR = 12.0
"""Size of the motion in sizes of the largest body beyond which the view follows the body."""
AROUND = 5.0
"""Width of such a view in sizes of the body."""
NARROW = 0.3
"""Width of the picture of the whole path, in widths of the frame."""


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
        self.clock = Clock(dpi)
        self._make_artists()
        self.canvas.draw()
        self.projection = None if self.flat else self.axes.get_proj()
        self.paths = [body.path for body in scene.traces]
        if self.followed is None:
            self.paths = [self._on_screen(path)[0] for path in self.paths]
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
                for artist in draw_ground(axes, self.scene, 0, self.flat):
                    artist.set_clip_on(False)
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
        """Lines of what moves, in pixels, and the triangles and lines of the bodies."""
        from matplotlib.collections import LineCollection
        from matplotlib.lines import Line2D
        from matplotlib.transforms import IdentityTransform

        identity = IdentityTransform()
        self.lines = [Line2D([], [], lw=1.6, color=body.colour, transform=identity) for body in self.scene.traces]
        self.dot = Line2D([], [], marker="o", ms=5, color="black", transform=identity)
        self.ground = LineCollection([], colors="0.85", lw=0.8, transform=identity)
        for artist in (self.ground, *self.lines, self.dot):
            artist.set_figure(self.figure)
        bodies = [body for body in self.scene.bodies if not body.is_ground]
        self.pieces = pieces_of(bodies, list(self.colours.values()), self.flat)

    # --- a frame -------------------------------------------------------------------------------------------------
    def pixels(self, i: int) -> np.ndarray:
        """The i-th frame, shape=[height, width, 4], of bytes; overwritten by the next one."""
        self.canvas.restore_region(self.still)
        t, renderer, first = self.scene.t, self.canvas.get_renderer(), 0
        lines = self._ground_lines(i)
        if lines:
            places = self._on_screen(np.concatenate(lines) - self.centre[i])[0]
            self.ground.set_segments(np.split(places, np.cumsum([len(line) for line in lines[:-1]])))
            self.ground.draw(renderer)
        if self.trail is not None:
            first = int(np.argmax(np.abs(t[i] - t) <= self.trail))
        for line, path in zip(self.lines, self.paths, strict=True):
            shown = path[first : i + 1]
            line.set_data(*(shown if self.followed is None else self._on_screen(shown - self.centre[i])[0]).T)
            line.draw(renderer)
        self._draw_bodies(renderer, i)
        if self.whole is not None:
            self.dot.set_data(*self.whole.transData.transform(self.centre[i][None, :2]).T)
            self.dot.draw(renderer)
        frame = np.asarray(self.canvas.buffer_rgba())
        mode = "" if self.modes is None else f"   {list(self.colours)[self.modes[i]]}"
        self.clock.draw(frame, f"t = {t[i]:.2f} {self.units.time}{mode}")
        return frame

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

        if not self.pieces.bodies:
            return
        mode = 0 if self.modes is None else self.modes[i]
        corners, colours = self.pieces.triangles(
            i, mode, lambda places: self._on_screen(places - self.centre[i]), self.figure.dpi
        )
        colours = np.repeat(colours[:, None], 3, axis=1)
        renderer.draw_gouraud_triangles(renderer.new_gc(), corners, colours, IdentityTransform())

    def _ground_lines(self, i: int) -> list[np.ndarray]:
        """Lines of a ground that turns, or of the plane below the followed body, shape=[k, 3] each, in space."""
        if self.whole is None:
            return [body.points(line, i) for body in self.turning for part in body.parts for line in part.lines]
        marks = np.arange(-6, 7) * self.grid
        x, y = (np.round(self.centre[i][:2] / self.grid) * self.grid + marks[:, None]).T
        along_y = [np.array([[mark, y[0], 0.0], [mark, y[-1], 0.0]]) for mark in x]
        return along_y + [np.array([[x[0], mark, 0.0], [x[-1], mark, 0.0]]) for mark in y]


class Clock:
    """Line of text at the lower left of frames, drawn by Pillow: Matplotlib is slow at text that changes.

    Parameters
    ----------
    dpi : float
    """

    POINTS, GREY = 10, 51

    def __init__(self, dpi: float):
        from matplotlib.font_manager import FontProperties, findfont
        from PIL import ImageFont

        self.font = ImageFont.truetype(findfont(FontProperties()), self.POINTS * dpi / 72)

    def draw(self, frame: np.ndarray, text: str) -> None:
        """Draw text on a frame, shape=[height, width, 4], of bytes."""
        from PIL import Image, ImageDraw

        size = self.font.size
        image = Image.new("L", (int(size * len(text)), int(2 * size)))
        ImageDraw.Draw(image).text((0, 0), text, fill=255, font=self.font)
        first, left = round(0.965 * frame.shape[0] - size), round(0.02 * frame.shape[1])
        there = frame[first : first + image.height, left : left + image.width, :3]
        ink = np.asarray(image)[: len(there), : there.shape[1], None] / np.float32(255)
        there[:] = there * (1 - ink) + self.GREY * ink + np.float32(0.5)


def followed(scene: Scene) -> Moving | None:
    """Body that a view follows, since it would be a dot beside its path; None where the whole motion is shown."""
    if any(body.is_curved for body in scene.bodies) or not scene.traces:
        return None
    low, high = scene.extent
    size = body_size(scene)
    return scene.traces[0] if 0 < FAR * size < np.max(high - low) else None
