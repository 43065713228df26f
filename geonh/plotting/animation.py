"""Animations of the moving bodies of a run and of their traces, as MP4 or GIF."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from geonh.arguments.paths import checked_path
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_constant, as_count, shortly
from geonh.drawing import scene
from geonh.plotting.labels import units_of
from geonh.plotting.stage import Stage
from geonh.results.replacing import replacing_atomically
from geonh.runs.loop import check_progress, reporting

if TYPE_CHECKING:
    from geonh.results.trajectory import Trajectory

WRITERS = {".gif": "pillow", ".mp4": "ffmpeg"}
INCHES = (12.8, 7.2)
"""Size of frames by default: 1280 × 720 pixels at 100 dots per inch."""


@validated
def animate(
    trajectory: Trajectory,
    path: str | os.PathLike,
    *,
    fps: float = 25.0,
    speed: float = 1.0,
    dpi: float = 100.0,
    size: tuple[int, int] | None = None,
    trail: float | None = None,
    progress: bool | Callable[[int, int], None] = False,
) -> Path:
    """Write an animation of the bodies of a run.

    The view is of the whole motion, or follows the first body where that is small beside its path, which is then
    shown beside it.

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
        Dots per inch: 100 for frames of 1280 × 720 pixels, 50 for half of that. Text and lines are scaled with it.
    size : (int, int), optional
        Width and height of the frames in pixels, made even; text and lines are as ``dpi`` says.
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
    if size is not None:
        if not isinstance(size, tuple | list) or len(size) != 2:
            raise ValueError(f"size must be (width, height) in pixels, got {shortly(size)}")
        if not all(16 <= as_count(side, "size") <= LONGEST_SIDE for side in size):
            raise ValueError(f"size must lie between 16 and {LONGEST_SIDE} pixels, got {shortly(size)}")
    check_progress(progress, "pictures_done, all")
    if len(trajectory) < 2:
        raise ValueError("the run has one node: there is nothing to animate")
    from matplotlib.animation import writers

    kind = WRITERS[path.suffix.lower()]
    if not writers.is_available(kind):
        raise RuntimeError("MP4 needs ffmpeg, which is not installed; write a .gif, or install ffmpeg")
    span = abs(float(trajectory.t[-1] - trajectory.t[0]))
    if not span / speed * fps < MOST:
        much, second = f"{span / speed * fps:.2g} pictures of {span:g}", units_of(trajectory).time
        raise ValueError(f"speed = {speed:g} and fps = {fps:g} would make {much} {second}")
    times = np.linspace(0.0, span, max(2, round(span / speed * fps) + 1))
    nodes = np.searchsorted(np.abs(trajectory.t - trajectory.t[0]), times - 1e-9 * span)
    nodes = nodes.clip(0, len(trajectory) - 1)
    between = np.linspace(0, len(trajectory) - 1, min(len(trajectory), ON_PATHS)).round().astype(int)
    moments = np.union1d(nodes, between)  # paths have vertices between the frames too
    even = (np.array(size if size is not None else dpi * np.array(INCHES)) / 2).round().astype(int) * 2
    stage = Stage(trajectory, scene(trajectory, moments), trail, tuple((even + 0.01) / dpi), dpi)
    places = np.searchsorted(moments, nodes)

    with (
        replacing_atomically(path) as temporary,
        reporting(progress, len(times), "pictures", "animation") as report,
    ):

        def frames() -> Iterable[np.ndarray]:
            for i, moment in enumerate(places):
                yield stage.pixels(int(moment))
                report(i + 1, len(times))

        (_write_mp4 if kind == "ffmpeg" else _write_gif)(temporary, frames(), fps)
    return path


ON_PATHS = 2000
"""Nodes that the paths pass through, in addition to those of the frames."""
MOST = 100_000
"""Maximum number of frames of an animation."""


LONGEST_SIDE = 8000
"""Maximum width and height of frames in pixels."""


class _Planes:
    """Luminance and chrominance of frames, as video has them (BT.601); only what changes is computed.

    Attributes
    ----------
    values : ndarray of uint8, shape=[3·height·width/2]
        Y of all pixels, then U and V of each square of four.
    """

    def __init__(self, height: int, width: int):
        pixels = height * width
        self.values = np.zeros(pixels * 3 // 2, np.uint8)
        self._before = np.zeros((height, width), np.uint32)
        squares = height // 2, 2, width // 2, 2
        self._luminance = self.values[:pixels].reshape(squares)
        self._chrominance = self.values[pixels:].reshape(2, height // 2, width // 2)
        self._shape = squares

    def update(self, frame: np.ndarray) -> None:
        """Change to a frame, shape=[height, width, 4], of bytes."""
        pixels = np.ascontiguousarray(frame).view(np.uint32)[..., 0]
        changed = pixels.view(np.uint64) != self._before.view(np.uint64)  # two pixels of a row
        rows, columns = np.divmod(np.flatnonzero(changed[::2] | changed[1::2]), pixels.shape[1] // 2)
        fresh = pixels.reshape(self._shape)[rows, :, columns]  # shape=[squares, 2, 2]
        self._before.reshape(self._shape)[rows, :, columns] = fresh
        values = fresh.view(np.uint8).reshape(-1, 4)[:, :3].astype(np.float32) @ OF_COLOUR
        self._luminance[rows, :, columns] = values[:, 0].reshape(-1, 2, 2) + 16.5
        squares = values[:, 1:].reshape(-1, 4, 2)
        mean = (squares[:, 0] + squares[:, 1] + squares[:, 2] + squares[:, 3]) / 4
        self._chrominance[:, rows, columns] = mean.T + 128.5


OF_COLOUR = np.float32([[65.481, -37.797, 112.0], [128.553, -74.203, -93.786], [24.966, 112.0, -18.214]]) / 255
"""Y, U and V, in columns, of red, green and blue from 0 to 255, without their offsets 16, 128 and 128."""


def _write_mp4(path: Path, frames: Iterable[np.ndarray], fps: float) -> None:
    """Write frames as H.264 by ffmpeg, to which they are piped."""
    import matplotlib as mpl

    process, planes, sent = None, None, None
    writer = ThreadPoolExecutor(1)  # drawing goes on while ffmpeg takes a frame
    for frame in frames:
        if process is None:
            height, width = frame.shape[:2]
            planes = _Planes(height, width)
            words = [mpl.rcParams["animation.ffmpeg_path"], "-y", "-loglevel", "error"]
            words += ["-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", f"{width}x{height}", "-r", f"{fps:g}", "-i", "-"]
            words += ["-vcodec", "h264", "-preset", "ultrafast", "-threads", "1", "-movflags", "+faststart", str(path)]
            process = subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, pipesize=1 << 20)
        assert process.stdin is not None
        assert planes is not None
        planes.update(frame)
        if sent is not None and isinstance(sent.exception(), BrokenPipeError):
            break
        sent = writer.submit(process.stdin.write, planes.values.copy())
    writer.shutdown()
    assert process is not None
    _, said = process.communicate()
    if process.returncode or said:  # on a full disk it prints an error and succeeds
        reason = said.decode(errors="replace").strip()[-300:] or f"it ended with code {process.returncode}"
        raise OSError(f"ffmpeg could not write the animation: {reason}")


def _write_gif(path: Path, frames: Iterable[np.ndarray], fps: float) -> None:
    """Write frames as GIF, with a palette for each."""
    from PIL import Image

    pictures = [Image.fromarray(frame[..., :3].copy()).quantize(128, Image.Quantize.FASTOCTREE) for frame in frames]
    first, *rest = pictures
    first.save(path, format="GIF", save_all=True, append_images=rest, duration=1000 / fps, loop=0)
