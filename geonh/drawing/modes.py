"""Modes of a run in pictures: a colour for each mode, and the times at which they hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from geonh.drawing.scene import PALETTE, Scene


class Stretch(NamedTuple):
    """Interval of time in one mode, seconds, and the index of the mode."""

    begin: float
    end: float
    mode: int


def mode_colours(trajectory: Any) -> dict[str, str]:
    """Colours "#rrggbb" of the modes of a run by name, in their order; empty for a run of one system."""
    switches = trajectory.switches
    if trajectory.nodes.mode is None or switches is None:
        return {}
    return {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(switches.names)}


def modes_at(trajectory: Any, t: np.ndarray) -> np.ndarray | None:
    """Indices of the modes of a run at times t, shape=[N], at transitions those after; None of a run of one system."""
    if trajectory.nodes.mode is None:
        return None
    sign = np.sign(trajectory.dt)
    at = np.searchsorted(sign * trajectory.t, sign * t, side="right") - 1
    return trajectory.nodes.mode[np.clip(at, 0, len(trajectory) - 1)]


def stretches(trajectory: Any) -> list[Stretch]:
    """Intervals of a run with modes in the order of the run, those of no length left out."""
    mode, t = trajectory.nodes.mode, trajectory.t
    return [Stretch(float(t[a]), float(t[b]), int(mode[a])) for a, b in pieces(mode) if t[a] != t[b]]


def pieces(modes: np.ndarray) -> list[tuple[int, int]]:
    """First node of each piece in one mode, and of the next, or the last of all."""
    starts = np.concatenate([[0], np.flatnonzero(np.diff(modes)) + 1])
    return list(zip(starts, np.append(starts[1:], len(modes) - 1), strict=True))


def in_mode_colour(drawn: Scene, trajectory: Any, i: int) -> Scene:
    """Scene whose bodies, but the ground, have the colour of the mode at its i-th time; itself of one system."""
    at = modes_at(trajectory, drawn.t[i : i + 1])
    if at is None:
        return drawn
    colour = list(mode_colours(trajectory).values())[at[0]]
    return replace(drawn, bodies=tuple(b if b.is_ground else replace(b, colour=colour) for b in drawn.bodies))
