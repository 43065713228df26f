"""Modes of a run in figures: a timeline, and paths in the colours of the modes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from geonh.drawing.modes import mode_colours, pieces, stretches
from geonh.plotting.figures import legend
from geonh.plotting.labels import units_of, with_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TIMELINE = 0.28
"""Height of a timeline, relative to a panel of curves."""


def draw_timeline(axes: Axes, trajectory: Any) -> None:
    """Draw the modes of a run along the time, with a name for each that occurs."""
    colours = mode_colours(trajectory)
    names = list(colours)
    for one in dict.fromkeys(stretch.mode for stretch in stretches(trajectory)):
        own = [(s.begin, s.end - s.begin) for s in stretches(trajectory) if s.mode == one]
        axes.broken_barh(own, (0.0, 1.0), color=colours[names[one]], lw=0, label=names[one])
    axes.set_ylim(0.0, 1.0)
    axes.set_yticks([])
    axes.margins(x=0.01)
    axes.set_ylabel("mode", rotation=0, ha="right", va="center")
    axes.set_xlabel(with_unit("time", units_of(trajectory).time))
    legend(axes, 6)


def parts_of_path(path: np.ndarray, modes: np.ndarray, colours: dict[str, str]) -> list[tuple[str, np.ndarray]]:
    """Pieces of a path, shape=[N, k], each in one mode, with its colour; they meet at the transitions."""
    names = list(colours)
    return [(colours[names[modes[a]]], path[a : b + 1]) for a, b in pieces(modes) if b > a]
