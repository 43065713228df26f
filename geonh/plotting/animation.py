"""Animations of the moving bodies of a run and of their traces, as MP4 or GIF."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from geonh.arguments.paths import checked_path
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_constant
from geonh.diagnostics.invariants import catalogue_entry
from geonh.drawing import scene
from geonh.plotting import figures
from geonh.plotting.bodies import draw_scene, fill_place, set_limits
from geonh.plotting.labels import units_of
from geonh.plotting.trajectory import draw_ground, label_space
from geonh.results.replacing import replacing_atomically
from geonh.runs.loop import check_progress, reporting

if TYPE_CHECKING:
    from geonh.results.trajectory import Trajectory

WRITERS = {".gif": "pillow", ".mp4": "ffmpeg"}


@validated
def animate(
    trajectory: Trajectory,
    path: str | os.PathLike,
    *,
    fps: float = 25.0,
    speed: float = 1.0,
    dpi: float = 100.0,
    trail: float | None = None,
    progress: bool | Callable[[int, int], None] = False,
) -> Path:
    """Write an animation of the bodies of a run.

    Parameters
    ----------
    trajectory : Trajectory
        Run to animate; its system defines the drawing (see ``geonh.drawing.scene``).
    path : path
        Output file, ``.gif`` or ``.mp4`` (which needs ffmpeg).
    fps : float
        Frames per second.
    speed : float
        Seconds of the run per second of the animation.
    dpi : float
        Resolution of the frames, which are 6.4 inches wide, in dots per inch.
    trail : float, optional
        Length of the paths drawn, in seconds; the whole path by default.
    progress : bool or callable
        True for a progress bar, or a function called with the numbers of completed frames and of all frames.

    Returns
    -------
    Path

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        For another suffix, a number that is not positive, a run of one node, or a system that cannot be drawn.
    RuntimeError
        If there is no ffmpeg.
    """
    path = checked_path(path)
    if path.suffix.lower() not in WRITERS:
        raise ValueError(f"path must end in .gif or .mp4, got {str(path)!r}")
    for name, value in (("fps", fps), ("speed", speed), ("dpi", dpi), ("trail", 1.0 if trail is None else trail)):
        as_constant(value, name, positive=True)
    fps, dpi = float(fps), float(dpi)
    if not fps >= 0.01:
        raise ValueError(f"fps must be at least 0.01, got {fps:g}")
    if not 10 <= dpi <= 1000:
        raise ValueError(f"dpi must lie between 10 and 1000, got {dpi:g}")
    check_progress(progress, "pictures_done, all")
    if len(trajectory) < 2:
        raise ValueError("the run has one node: there is nothing to animate")
    from matplotlib.animation import writers

    kind = WRITERS[path.suffix.lower()]
    if not writers.is_available(kind):
        raise RuntimeError("MP4 needs ffmpeg, which is not installed; write a .gif, or install ffmpeg")
    writer = writers[kind](fps=fps)
    span = abs(float(trajectory.t[-1] - trajectory.t[0]))
    if not span / speed * fps < MOST:
        much, second = f"{span / speed * fps:.2g} pictures of {span:g}", units_of(trajectory).time
        raise ValueError(f"speed = {speed:g} and fps = {fps:g} would make {much} {second}")
    times = np.linspace(0.0, span, max(2, round(span / speed * fps) + 1))
    nodes = np.searchsorted(np.abs(trajectory.t - trajectory.t[0]), times - 1e-9 * span)
    nodes = nodes.clip(0, len(trajectory) - 1)
    between = np.linspace(0, len(trajectory) - 1, min(len(trajectory), ON_PATHS)).round().astype(int)
    moments = np.union1d(nodes, between)  # paths have vertices between the frames too
    stage = _Stage(trajectory, scene(trajectory, moments), trail)
    with (
        replacing_atomically(path) as temporary,
        writer.saving(stage.figure, str(temporary), dpi),
        reporting(progress, len(times), "pictures", "animation") as report,
    ):
        for i, moment in enumerate(np.searchsorted(moments, nodes)):
            stage.show(moment)
            writer.grab_frame()
            report(i + 1, len(times))
    return path


ON_PATHS = 2000
"""Nodes that the paths pass through, in addition to those of the frames."""
MOST = 100_000
"""Maximum number of frames of an animation."""


class _Stage:
    """Figure in which the bodies of a scene move."""

    def __init__(self, trajectory: Any, scene: Any, trail: float | None):
        self.scene, self.trail, self.flat = scene, trail, scene.is_flat
        self.units = units_of(trajectory)
        low, high = scene.extent
        tall = (high[1] - low[1]) / max(high[0] - low[0], 1e-300) if self.flat else 0.8
        self.figure = figures.empty_figure((6.4, float(np.clip(5.4 * tall + 1.2, 2.8, 6.4))))
        self.axes = self.figure.add_subplot(projection=None if self.flat else "3d")
        set_limits(self.axes, scene, self.flat)
        label_space(self.axes, self.flat, self.units.length)
        entry = catalogue_entry(trajectory)
        self.figure.suptitle(trajectory.attributes["system"] if entry is None else entry.heading, fontsize=10)
        self.clock = self.axes.set_title(f"t = {scene.t[-1]:.2f} {self.units.time}", fontsize=9, color="0.3")
        self.paths = [body.path[:, :2] if self.flat else body.path for body in scene.traces]
        self.lines = [self.axes.plot([], [], *([] if self.flat else [[]]), lw=1.4)[0] for _ in self.paths]
        for line, body in zip(self.lines, scene.traces, strict=True):
            line.set_color(body.colour)
        self.drawn: list[Any] = []
        if not self.flat:
            fill_place(self.axes)
        self.figure.draw_without_rendering()
        self.figure.set_layout_engine("none")  # the layout must not change from frame to frame

    def show(self, i: int) -> None:
        """Draw the i-th frame of the scene."""
        for artist in self.drawn:
            artist.remove()
        t = self.scene.t
        self.drawn = draw_ground(self.axes, self.scene, i, self.flat)
        self.drawn += draw_scene(self.axes, self.scene, i, self.flat)
        first = 0 if self.trail is None else int(np.argmax(np.abs(t[i] - t) <= self.trail))
        for line, path in zip(self.lines, self.paths, strict=True):
            part = path[first : i + 1].T
            line.set_data(*part[:2])
            if not self.flat:
                line.set_3d_properties(part[2])
        self.clock.set_text(f"t = {t[i]:.2f} {self.units.time}")
