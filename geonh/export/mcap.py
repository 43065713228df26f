"""Runs as MCAP files, for Foxglove: bodies in three dimensions, and everything else as curves.

Messages are JSON with the schemas ``foxglove.FrameTransforms`` (poses of the bodies), ``foxglove.SceneUpdate`` (their
shapes, once), and one of our own on the topic ``/state``, whose fields are the columns of ``to_pandas``.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from geonh.arguments.paths import FileError, checked_path
from geonh.arguments.precision import float64
from geonh.arguments.validators import shortly
from geonh.drawing import Moving, NoDrawingError, Scene, scene
from geonh.engine import call_in_numpy
from geonh.groups.so3 import quaternion
from geonh.results.replacing import replacing_atomically
from geonh.results.trajectory import Trajectory
from geonh.version import __version__

_XYZ = {"type": "object", "properties": {name: {"type": "number"} for name in "xyz"}}
_QUATERNION = {"type": "object", "properties": {name: {"type": "number"} for name in "xyzw"}}
_TIME = {"type": "object", "title": "time", "properties": {"sec": {"type": "integer"}, "nsec": {"type": "integer"}}}
_TRANSFORM = {
    "timestamp": _TIME,
    "parent_frame_id": {"type": "string"},
    "child_frame_id": {"type": "string"},
    "translation": _XYZ,
    "rotation": _QUATERNION,
}
SCHEMAS = {
    "foxglove.FrameTransforms": {
        "transforms": {"type": "array", "items": {"type": "object", "properties": _TRANSFORM}},
    },
    "foxglove.SceneUpdate": {
        "deletions": {"type": "array", "items": {"type": "object"}},
        "entities": {"type": "array", "items": {"type": "object"}},
    },
}
"""Properties of the well-known schemas, as far as they are used."""
WORLD = "world"
LINE_STRIP = 0
"""Kind of a line through all of its points."""


def mcap(trajectory: Trajectory, path: str | os.PathLike) -> Path:
    """Write a run as an MCAP file, which Foxglove plays; needs the extra ``pip install 'geonh[mcap]'``.

    Parameters
    ----------
    trajectory : Trajectory
        A run; without a drawing the file has curves only.
    path : path
        Output file, a name that ends in ``.mcap``; an existing one is replaced atomically.

    Returns
    -------
    pathlib.Path

    Raises
    ------
    TypeError
        If it is not a trajectory.
    FileError
        For another suffix.
    ImportError
        If the package ``mcap`` is not installed.
    OSError
        If the file cannot be written.
    """
    if not isinstance(trajectory, Trajectory):
        raise TypeError(f"trajectory must be a Trajectory, got {shortly(trajectory)}")
    path = checked_path(path)
    if path.suffix.lower() != ".mcap":
        raise FileError(f"path must end in .mcap, got {str(path)!r}")
    try:
        from mcap.writer import Writer
    except ImportError:
        raise ImportError("MCAP files need the package mcap: pip install 'geonh[mcap]'") from None
    table = trajectory.to_pandas()
    stamps = _nanoseconds(trajectory.t)
    try:
        drawn: Scene | None = scene(trajectory)
    except NoDrawingError:
        drawn = None
    with replacing_atomically(path) as temporary, open(temporary, "wb") as stream:
        writer = Writer(stream)
        writer.start(profile="", library=f"geonh {__version__}")
        about = {"system": trajectory.attributes["system"], "method": trajectory.attributes["method"]}
        writer.add_metadata("geonh", {**about, "units": json.dumps(table.attrs["units"])})
        names = list(table.columns)
        state = _channel(writer, "/state", "geonh.State", {name: {"type": "number"} for name in names})
        frames = shapes = None
        if drawn is not None:
            frames = _channel(writer, "/tf", "foxglove.FrameTransforms", SCHEMAS["foxglove.FrameTransforms"])
            shapes = _channel(writer, "/scene", "foxglove.SceneUpdate", SCHEMAS["foxglove.SceneUpdate"])
            _add(writer, shapes, stamps[0], {"deletions": [], "entities": _entities(drawn, stamps[0])})
        rows = table.to_numpy(np.float64)
        poses = [_poses(body) for body in drawn.bodies] if drawn is not None else []
        for i, stamp in enumerate(stamps):
            values = {name: v for name, v in zip(names, rows[i].tolist(), strict=True) if math.isfinite(v)}
            _add(writer, state, stamp, values)
            if drawn is not None:
                of_bodies = zip(drawn.bodies, poses, strict=True)
                transforms = [_transform(body.name, stamp, *(a[i] for a in pose)) for body, pose in of_bodies]
                _add(writer, frames, stamp, {"transforms": transforms})
        writer.finish()
    return path


def _nanoseconds(t: np.ndarray) -> list[int]:
    """Times from the beginning of the file, which counts from zero: negative ones have no place in it."""
    return np.round((t - t.min()) * 1e9).astype(np.int64).tolist()


def _channel(writer: Any, topic: str, name: str, properties: dict[str, Any]) -> int:
    schema = json.dumps({"title": name, "type": "object", "properties": properties}).encode()
    number = writer.register_schema(name=name, encoding="jsonschema", data=schema)
    return writer.register_channel(topic=topic, message_encoding="json", schema_id=number)


def _add(writer: Any, channel: int | None, stamp: int, message: dict[str, Any]) -> None:
    writer.add_message(
        channel_id=channel, log_time=stamp, publish_time=stamp, data=json.dumps(message, allow_nan=False).encode()
    )


def _time(stamp: int) -> dict[str, int]:
    return {"sec": stamp // 10**9, "nsec": stamp % 10**9}


def _xyz(values: Any, names: str = "xyz") -> dict[str, float]:
    return dict(zip(names, np.asarray(values, float).tolist(), strict=True))


def _poses(body: Moving) -> tuple[np.ndarray, np.ndarray]:
    """Origin, shape=[N, 3], and quaternion (x, y, z, w), shape=[N, 4], along the run."""
    with float64():
        q = call_in_numpy(quaternion, (body.R / np.linalg.norm(body.R, axis=1)[:, None], False), {})
    return body.x, np.asarray(q)


def _transform(name: str, stamp: int, x: np.ndarray, q: np.ndarray) -> dict[str, Any]:
    return {
        "timestamp": _time(stamp),
        "parent_frame_id": WORLD,
        "child_frame_id": name,
        "translation": _xyz(x),
        "rotation": _xyz(q, "xyzw"),
    }


def _entities(drawn: Scene, stamp: int) -> list[dict[str, Any]]:
    """Shapes of the bodies, each in its frame."""
    return [_entity(body, stamp) for body in drawn.bodies]


def _entity(body: Moving, stamp: int) -> dict[str, Any]:
    triangles, lines = [], []
    for part in body.parts:
        colour = part.colour or body.colour
        points = [_xyz(v) for v in part.vertices]
        for dark in (False, True):
            faces = part.faces[part.dark == dark]
            if len(faces) and (body.is_curved or not body.is_ground):
                shade = _colour(colour, 0.6 if dark else 1.0, 0.3 if body.is_curved else 1.0)
                triangles.append(_primitive(points=points, color=shade, indices=faces.ravel().tolist()))
        ink = _colour("#333333" if len(part.faces) else colour)
        lines += [
            _primitive(type=LINE_STRIP, thickness=1.0, scale_invariant=True, points=[_xyz(v) for v in line], color=ink)
            for line in part.lines
        ]
    return {
        "timestamp": _time(stamp),
        "frame_id": body.name,
        "id": body.name,
        "frame_locked": True,
        "triangles": triangles,
        "lines": lines,
    }


def _primitive(**fields: Any) -> dict[str, Any]:
    at = {"position": _xyz([0, 0, 0]), "orientation": _xyz([0, 0, 0, 1], "xyzw")}
    return {"pose": at, **fields}


def _colour(text: str, shade: float = 1.0, alpha: float = 1.0) -> dict[str, float]:
    r, g, b = (shade * int(text[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return {"r": r, "g": g, "b": b, "a": alpha}
