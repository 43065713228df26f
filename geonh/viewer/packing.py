"""Binary data of runs for the viewer: one block of bytes, and a header with the layout."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from geonh.arguments.precision import float64
from geonh.diagnostics.invariants import catalogue_entry, invariants
from geonh.drawing import Moving, Part, momenta, scene
from geonh.drawing.modes import mode_colours, modes_at, stretches
from geonh.engine import call_in_numpy
from geonh.groups.so3 import quaternion
from geonh.plotting.labels import component_units, method_in_words, plain, units_of
from geonh.results.trajectory import steps_of

CURVE_POINTS = 500
"""Points of a curve against time; with more nodes, the maximum and minimum of each block are shown."""
STILL = 1e-12
FLOOR = 1e-17
"""Smaller errors are drawn at this value."""


class Block:
    """Growing block of bytes; ``add`` returns the location of an array."""

    def __init__(self) -> None:
        self.bytes = bytearray()
        self._known: dict[bytes, dict[str, Any]] = {}

    def add(self, array: Any, kind: str) -> dict[str, Any]:
        """Append an array as "f4", "i2", "u2" or "u1", unless present; return kind, offset and length."""
        data = np.ascontiguousarray(array, dtype="<" + kind if kind != "u1" else kind)
        key = hashlib.sha256(kind.encode() + data.tobytes()).digest()
        if key not in self._known:
            self.bytes += bytes(-len(self.bytes) % 4)
            self._known[key] = {"kind": kind, "at": len(self.bytes), "n": int(data.size)}
            self.bytes += data.tobytes()
        return self._known[key]


def packed(trajectories: Sequence[Any], names: Sequence[str], max_frames: int) -> tuple[dict[str, Any], bytes]:
    """Header and bytes of runs."""
    block = Block()
    runs = [_run(block, trajectory, name, max_frames) for trajectory, name in zip(trajectories, names, strict=True)]
    entry = catalogue_entry(trajectories[0])
    system = trajectories[0].attributes["system"]
    return {"title": system if entry is None else entry.heading, "system": system, "runs": runs}, bytes(block.bytes)


def frames_of(n: int, max_frames: int) -> np.ndarray:
    """Evenly spaced nodes, including the first and the last."""
    return np.unique(np.linspace(0, n - 1, min(n, max_frames)).round().astype(int))


def _run(block: Block, trajectory: Any, name: str, max_frames: int) -> dict[str, Any]:
    nodes = frames_of(len(trajectory), max_frames)
    if trajectory.dt < 0:
        nodes = nodes[::-1]  # the viewer's time increases
    drawn, arrows = scene(trajectory, nodes), momenta(trajectory, nodes)
    a = trajectory.attributes
    low, high = drawn.extent
    units = units_of(trajectory)
    return {
        "name": name,
        "method": method_in_words(trajectory),
        "facts": f"{a['system']} on {a['group']}, {steps_of(trajectory, units.time)}, {int(trajectory.k[-1])} steps",
        "warning": _warning(trajectory),
        "spoiled": trajectory.spoiled_from,
        "t": block.add(drawn.t - drawn.t[0], "f4"),
        "t0": float(drawn.t[0]),
        "second": units.time,
        "low": low.tolist(),
        "high": high.tolist(),
        "flat": bool(drawn.is_flat),
        "bodies": [packed_body(block, body) for body in drawn.bodies],
        "traces": [[drawn.bodies.index(body), trace_of(body)] for body in drawn.traces],
        "about": next((i for i, b in enumerate(drawn.bodies) if b.is_solid and np.all(b.x == arrows.about)), -1),
        "arrows": [
            _arrow(block, "constraint force", units.force, arrows.force),
            _arrow(block, "constraint moment", units.moment, arrows.moment),
            _arrow(block, "angular momentum", units.angular_momentum, arrows.angular),
        ],
        "panels": _panels(block, trajectory),
        "modes": _modes(block, trajectory, drawn.t),
    }


def _modes(block: Block, trajectory: Any, t: np.ndarray) -> dict[str, Any] | None:
    """Modes of a run at its frames, with their names, colours and times; None of a run of one system."""
    at = modes_at(trajectory, t)
    if at is None:
        return None
    begin = float(trajectory.t[0])
    spans = [[s.begin - begin, s.end - begin, s.mode] for s in stretches(trajectory)]
    colours = mode_colours(trajectory)
    return {"names": list(colours), "colours": list(colours.values()), "at": block.add(at, "u1"), "spans": spans}


def _warning(trajectory: Any) -> str:
    said, time = [], units_of(trajectory).time
    if trajectory.spoiled_from is not None:
        said.append(f"spoiled from t = {trajectory.spoiled_from:.4g} {time}: the momentum alternates from node to node")
    if not trajectory.success:
        said.append(f"stopped at t = {trajectory.t[-1]:.6g} {time}: {trajectory.status.message}")
    return "; ".join(said)


def trace_of(body: Moving) -> list[float]:
    """Point of a body whose path is drawn."""
    return [0.0, 0.0, 0.0] if body.trace is None else body.trace.tolist()


def packed_body(block: Block, body: Moving) -> dict[str, Any]:
    """Parts and poses of a body, in a block of bytes."""
    lengths = np.linalg.norm(body.R, axis=1)
    stretched = bool(np.abs(lengths - 1).max() > 1e-6)
    with float64():
        q = np.asarray(call_in_numpy(quaternion, (body.R / np.where(lengths > 0, lengths, 1.0)[:, None], False), {}))
    turned = np.sum(q[1:] * q[:-1], axis=1) < 0  # q and −q are one attitude: take the one nearer the last
    q = q * np.where(np.cumsum(np.append(False, turned)) % 2 == 1, -1.0, 1.0)[:, None]
    return {
        "name": body.name,
        "colour": body.colour,
        "ground": body.is_ground,
        "parts": [_part(block, part) for part in body.parts],
        "x": block.add(_once(body.x), "f4"),
        "q": block.add(np.rint(_once(q) * 32767), "i2"),
        "scale": block.add(_once(lengths), "f4") if stretched else None,
    }


def _once(rows: np.ndarray) -> np.ndarray:
    """Reduce to one row if all rows are equal."""
    return rows[:1] if np.ptp(rows, axis=0).max() <= STILL else rows


def _part(block: Block, part: Part) -> dict[str, Any]:
    pieces = [np.repeat(points, 2, axis=0)[1:-1] for points in part.lines]  # as pairs of ends
    return {
        "vertices": block.add(part.vertices, "f4"),
        "faces": block.add(part.faces, "u2"),
        "dark": block.add(part.dark, "u1"),
        "lines": block.add(np.concatenate(pieces) if pieces else [], "f4"),
        "smooth": part.smooth,
        "colour": part.colour,
    }


def _arrow(block: Block, name: str, unit: str, rows: np.ndarray) -> dict[str, Any] | None:
    largest = float(np.abs(rows).max(initial=0.0))
    if not largest > STILL or not np.isfinite(largest):
        return None
    length = float(np.linalg.norm(rows, axis=1).max())
    step = largest / 32767
    return {"name": name, "unit": unit, "values": block.add(np.rint(rows / step), "i2"), "of": step, "max": length}


def _panels(block: Block, trajectory: Any) -> list[dict[str, Any]]:
    """Curves against time: errors of conserved quantities, the energy, the velocities."""
    quantities = invariants(trajectory)
    errors = [(q.name, np.maximum(q.relative, FLOOR)) for q in quantities if q.conserved]
    a, xi = trajectory.attributes, trajectory.xi
    units = component_units(a["point_names"], a["velocity_names"], a["units"])
    joules, energy = units_of(trajectory).energy, [("energy", trajectory.energy)]
    panels: list[dict[str, Any]] = [
        {"title": "error of what is kept", "unit": "relative; residual absolute", "log": True, "curves": errors},
        {"title": "energy", "unit": joules, "log": False, "curves": energy},
    ]
    for unit in dict.fromkeys(["rad/s", "m/s", *(units[name] for name in a["velocity_names"])]):
        chosen = [(plain(name), xi[:, i]) for i, name in enumerate(a["velocity_names"]) if units[name] == unit]
        if chosen:
            title = "angular velocity" if unit.startswith("rad/") else "velocity"
            panels.append({"title": title, "unit": unit, "log": False, "curves": chosen})
    for panel in panels:
        panel["curves"] = [
            {"name": name, **_curve(block, trajectory.t, np.asarray(values, dtype=np.float64), panel["log"])}
            for name, values in panel["curves"]
        ]
    return [panel for panel in panels if panel["curves"]]


def _curve(block: Block, t: np.ndarray, values: np.ndarray, log: bool) -> dict[str, Any]:
    """Curve of about ``CURVE_POINTS`` points: maximum and, unless logarithmic, minimum of each block of nodes."""
    order = np.argsort(t)
    t, values = t[order], values[order]
    if len(t) > CURVE_POINTS:
        starts = np.unique(np.linspace(0, len(t), CURVE_POINTS // (1 if log else 2), endpoint=False).astype(int))
        top = np.maximum.reduceat(values, starts)
        if log:
            t, values = t[starts], top
        else:
            t, values = np.repeat(t[starts], 2), np.stack([np.minimum.reduceat(values, starts), top], 1).ravel()
    return {"t": block.add(t, "f4"), "y": block.add(np.log10(values) if log else values, "f4")}
