"""What all figures share: colours, line styles, legends, thinning, and figures that no global state knows of."""

from __future__ import annotations

from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FLOOR = 1e-17
"""Errors below it are drawn at it, so that an exact zero shows on a logarithmic axis."""
MAX_POINTS = 4000
N_BLOCKS = 250

# Okabe and Ito's colours, told apart by colour-blind readers; line styles tell curves apart without any colour.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 3)))


def empty_figure(size: tuple[float, float], show: bool = False) -> Figure:
    """A figure that no global state knows of, unless a window is wanted."""
    options = {"figsize": size, "layout": "constrained"}
    if show:
        import matplotlib.pyplot as plt

        return plt.figure(**options)
    from geonh.plotting.picture import Picture

    return Picture(**options)


def finished(figure: Figure, show: bool) -> Figure:
    """The figure, shown and waited for if a window is wanted."""
    if show:
        import matplotlib.pyplot as plt

        plt.show()
    return figure


def styles(n: int) -> list[tuple[Any, Any]]:
    """Colour and dashes of n curves."""
    return list(islice(zip(cycle(COLOURS), cycle(DASHES), strict=False), n))


def legend(axes: Axes, columns: int) -> None:
    """A legend above the axes, where there is something to tell."""
    handles, _ = axes.get_legend_handles_labels()
    if handles:
        place = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0)}
        axes.legend(**place, ncols=columns, frameon=False, fontsize=8, borderaxespad=0.1)


def thinned(points: np.ndarray) -> np.ndarray:
    """At most about MAX_POINTS rows, the last included."""
    stride = max(1, len(points) // MAX_POINTS)
    thin = points[::stride]
    return thin if (len(points) - 1) % stride == 0 else np.concatenate([thin, points[-1:]])


def envelope(t: np.ndarray, error: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The largest error of each of about N_BLOCKS blocks of nodes: peaks stay, and a wobble becomes one line."""
    stride = max(1, len(t) // N_BLOCKS)
    starts = np.arange(0, len(t), stride)
    return t[starts], np.maximum.reduceat(error, starts)


def honest(axes: Axes, values: np.ndarray) -> None:
    """Limits of the ordinate that do not magnify the rounding of a constant: at least a thousandth of its size."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return
    low, high = float(finite.min()), float(finite.max())
    span = max(high - low, 1e-3 * max(abs(low), abs(high)), 1e-12)
    axes.set_ylim((low + high - 1.12 * span) / 2, (low + high + 1.12 * span) / 2)


def mark_fault(axes: Axes, trajectory: Any) -> None:
    """A shade from where a run is spoiled on, a line where it stopped."""
    if trajectory.spoiled_from is not None:
        axes.axvspan(trajectory.spoiled_from, trajectory.t[-1], color="#CC3311", alpha=0.12, lw=0, label="spoiled")
    if not trajectory.success:
        axes.axvline(trajectory.t[-1], color="#CC3311", lw=1.4, ls=(0, (4, 2)), label="stopped")
