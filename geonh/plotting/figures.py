"""Common elements of figures: colours, line styles, legends, thinning, and figures without global state."""

from __future__ import annotations

import re
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FLOOR = 1e-17
"""Smaller errors are drawn at this value, so that an exact zero shows on a logarithmic axis."""
MAX_POINTS = 4000
N_BLOCKS = 250
ROWS = 3
"""Largest number of rows of a legend."""
HANDLE, CHARACTER = 38.0, 4.6
"""Widths in a legend, in points: of a line with the space around it, and of a character."""

# Okabe and Ito's colour-blind safe palette; line styles distinguish curves without any colour.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 3)))


def empty_figure(size: tuple[float, float], show: bool = False) -> Figure:
    """Create a figure without global state, unless a window is requested."""
    options = {"figsize": size, "layout": "constrained"}
    if show:
        import matplotlib.pyplot as plt

        return plt.figure(**options)
    from geonh.plotting.picture import Picture

    return Picture(**options)


def shown(figure: Figure, show: bool) -> Figure:
    """Return the figure, after showing it and waiting if a window is requested."""
    if show:
        import matplotlib.pyplot as plt

        plt.show()
    return figure


def styles(n: int) -> list[tuple[Any, Any]]:
    """Colours and dash patterns of n curves."""
    return list(islice(zip(cycle(COLOURS), cycle(DASHES), strict=False), n))


def legend(axes: Axes, columns: int) -> None:
    """Add a legend above the axes, if there are labels, with fewer columns where it would be wider than these, and the
    number of those for which there is no place.
    """
    handles, labels = axes.get_legend_handles_labels()
    if not handles:
        return
    widths = [HANDLE + CHARACTER * len(re.sub(r"\\[a-z]+|[${}_^\\]", "", label)) for label in labels]
    width = 72 * axes.get_figure().get_figwidth() * axes.get_position().width
    while columns > 1 and sum(max(column) for column in np.array_split(widths, columns) if len(column)) > width:
        columns -= 1
    most = ROWS * columns
    if len(labels) > most:
        rest = len(labels) - most + 1
        handles = [*handles[: most - 1], axes.plot([], [], " ")[0]]
        labels = [*labels[: most - 1], f"and {rest} more"]
    place = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0)}
    axes.legend(handles, labels, **place, ncols=columns, frameon=False, fontsize=8, borderaxespad=0.1)


def thinned(points: np.ndarray) -> np.ndarray:
    """Thin to at most about MAX_POINTS rows, including the last."""
    stride = max(1, len(points) // MAX_POINTS)
    thin = points[::stride]
    return thin if (len(points) - 1) % stride == 0 else np.concatenate([thin, points[-1:]])


def envelope(t: np.ndarray, error: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Largest error of each of about N_BLOCKS blocks of nodes: peaks remain, and oscillations become one line."""
    stride = max(1, len(t) // N_BLOCKS)
    starts = np.arange(0, len(t), stride)
    return t[starts], np.maximum.reduceat(error, starts)


def nice(most: float) -> float:
    """Largest of 1, 2 and 5 times a power of ten that is not above a positive number."""
    unit = 10.0 ** np.floor(np.log10(most))
    return float(max(m * unit for m in (1, 2, 5) if m * unit <= most * (1 + 1e-9)))


def set_ordinate(axes: Axes, values: np.ndarray) -> None:
    """Set limits of the ordinate that do not magnify rounding of a constant: at least a thousandth of its size."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return
    low, high = float(finite.min()), float(finite.max())
    span = max(high - low, 1e-3 * max(abs(low), abs(high)), 1e-12)
    axes.set_ylim((low + high - 1.12 * span) / 2, (low + high + 1.12 * span) / 2)


def mark_fault(axes: Axes, trajectory: Any) -> None:
    """Shade the time after the onset of the alternating mode, and draw a line at an early stop."""
    if trajectory.spoiled_from is not None:
        axes.axvspan(trajectory.spoiled_from, trajectory.t[-1], color="#CC3311", alpha=0.12, lw=0, label="spoiled")
    if not trajectory.success:
        axes.axvline(trajectory.t[-1], color="#CC3311", lw=1.4, ls=(0, (4, 2)), label="stopped")
