"""The figure of a run: where it went, how fast, and how well it kept what it should keep."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from geonh.drawing import scene
from geonh.plotting.invariants import catalogue_entry, invariants
from geonh.plotting.labels import angle_names, method_in_words, path_names, symbol, velocity_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FLOOR = 1e-17
"""Errors below it are drawn at it, so that an exact zero shows on a logarithmic axis."""

MAX_POINTS = 4000
N_BLOCKS = 250
N_OUTLINES = 7

# Okabe and Ito's colours, told apart by colour-blind readers; line styles tell curves apart without any colour.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 3)))


def plot_trajectory(trajectory: Any, *, show: bool = False) -> Figure:
    """Path, velocities and angles against time, and the errors of the invariants.

    Parameters
    ----------
    trajectory : Trajectory
        The run, computed or loaded from a file.
    show : bool
        Open a window with the figure and wait until it is closed.

    Returns
    -------
    matplotlib.figure.Figure
        ``figure.savefig(path)`` writes it; no display is needed.
    """
    figure = _empty_figure(show)
    a = trajectory.attributes
    panels = _time_panels(trajectory)
    grid = figure.add_gridspec(1, 2, width_ratios=(1.15, 1.0))
    left = grid[0].subgridspec(2, 1, height_ratios=(1.7, 1.0))
    right = grid[1].subgridspec(len(panels), 1)
    spatial = path_names(a["point_names"])
    if spatial:
        _draw_path(figure, left[0], trajectory, spatial)
    elif [3, 3] in a["point_shapes"]:
        _draw_body_axes(figure, left[0], trajectory)
    else:
        names = a["point_names"]
        _draw_curves(figure.add_subplot(left[0]), trajectory.t, trajectory.g_vector, names, "coordinate", last=True)
    _draw_errors(figure.add_subplot(left[1]), trajectory)
    for i, (label, names, values) in enumerate(panels):
        axes = figure.add_subplot(right[i])
        _draw_curves(axes, trajectory.t, values, names, label, last=i == len(panels) - 1)
    _draw_title(figure, trajectory)
    if show:
        import matplotlib.pyplot as plt

        plt.show()
    return figure


def _empty_figure(show: bool) -> Figure:
    """A figure that no global state knows of, unless a window is wanted."""
    size = {"figsize": (12.0, 7.6), "layout": "constrained"}
    if show:
        import matplotlib.pyplot as plt

        return plt.figure(**size)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(**size)
    FigureCanvasAgg(figure)
    return figure


def _draw_title(figure: Figure, trajectory: Any) -> None:
    a, entry = trajectory.attributes, catalogue_entry(trajectory)
    head = a["system"] if entry is None else entry.title
    steps = int(trajectory.k[-1])
    facts = f"{a['system']} on {a['group']}  ·  {method_in_words(trajectory)}"
    facts += f"  ·  dt = {trajectory.dt:g} s  ·  {steps} steps"
    if not trajectory.success:
        facts += f"\nSTOPPED EARLY at t = {trajectory.t[-1]:g} s: {trajectory.status.message}"
    if trajectory.spoiled_from is not None:
        facts += f"\nSPOILED from t = {trajectory.spoiled_from:.4g} s: the momentum alternates from node to node"
    figure.suptitle(f"{head}\n{facts}", fontsize=11)


# --- the path ----------------------------------------------------------------------------------------------
def _draw_path(figure: Figure, place: Any, trajectory: Any, names: list[str]) -> None:
    columns = [trajectory.attributes["point_names"].index(name) for name in names]
    points = trajectory.g_vector[:, columns]
    three = len(names) == 3
    axes = figure.add_subplot(place, projection="3d" if three else None)
    outlines = _outlines(trajectory)
    for i, (_, parts) in enumerate(outlines):
        strength = 0.35 + 0.5 * i / max(len(outlines) - 1, 1)
        for part in parts.values():
            drawn = np.asarray(part)[:, : len(names)]
            if drawn.shape[1] == len(names):
                axes.plot(*drawn.T, color="0.25", lw=0.9, alpha=strength, zorder=1)
    thin = _thinned(points)
    axes.plot(*thin.T, color=_COLOURS[0], lw=1.4, label="path", zorder=2)
    axes.plot(*points[:1].T, "o", color="black", ms=6, label="start", zorder=3)
    axes.plot(*points[-1:].T, "s", color="black", ms=6, mfc="white", label="end", zorder=3)
    axes.set_xlabel(f"{symbol(names[0])} (m)")
    axes.set_ylabel(f"{symbol(names[1])} (m)")
    if three:
        axes.set_zlabel(f"{symbol(names[2])} (m)")
    else:
        axes.set_aspect("equal", adjustable="datalim")
        axes.grid(alpha=0.25)
    if outlines:
        view = ", from above" if not three and _is_spatial(outlines) else ""
        every = outlines[1][0] - outlines[0][0] if len(outlines) > 1 else 0.0
        axes.plot([], [], color="0.25", lw=0.9, alpha=0.7, label=f"body every {every:.3g} s{view}")
    _legend(axes, 4)


def _outlines(trajectory: Any) -> list[tuple[float, dict[str, np.ndarray]]]:
    """The lines of the drawing at a few times along the path, where there is one."""
    nodes = np.unique(np.linspace(0, len(trajectory) - 1, N_OUTLINES).round().astype(int))
    try:
        seen = scene(trajectory, nodes)
    except ValueError:
        return []
    bodies = [body for body in seen.bodies if not body.is_ground]
    found = []
    for i, t in enumerate(seen.t):
        lines = [body.points(points, i) for body in bodies for part in body.parts for points in part.lines]
        found.append((float(t), {str(k): points for k, points in enumerate(lines)}))
    return found


def _is_spatial(outlines: list) -> bool:
    return any(np.shape(part)[1] == 3 for _, parts in outlines for part in parts.values())


def _draw_body_axes(figure: Figure, place: Any, trajectory: Any) -> None:
    """Traces of the tips of the three body axes on the unit sphere, for a body that only turns."""
    a = trajectory.attributes
    shapes = a["point_shapes"]
    first = sum(int(np.prod(s)) for s in shapes[: shapes.index([3, 3])])
    rotations = trajectory.g_vector[:, first : first + 9].reshape(-1, 3, 3)
    axes = figure.add_subplot(place, projection="3d")
    u, v = np.linspace(0, 2 * np.pi, 61), np.linspace(0, np.pi, 13)
    for height in (-0.5, 0.0, 0.5):
        r = np.sqrt(1 - height**2)
        axes.plot(r * np.cos(u), r * np.sin(u), height, color="0.8", lw=0.6)
    for angle in np.linspace(0, np.pi, 5)[:-1]:
        both = np.concatenate([v, v + np.pi])
        axes.plot(np.cos(angle) * np.sin(both), np.sin(angle) * np.sin(both), np.cos(both), color="0.8", lw=0.6)
    for i, (colour, dashes) in enumerate(_styles(3)):
        thin = _thinned(rotations[:, :, i])
        axes.plot(*thin.T, color=colour, ls=dashes, lw=1.2, label=f"tip of body axis {i + 1}")
        axes.plot(*thin[:1].T, "o", color=colour, ms=5)
        axes.plot(*thin[-1:].T, "s", color=colour, ms=5, mfc="white")
    axes.set_xlabel("space 1")
    axes.set_ylabel("space 2")
    axes.set_zlabel("space 3")
    axes.set_aspect("equal")
    axes.set_title("dot: start, square: end", fontsize=8, color="0.3", loc="right", y=-0.1)
    _legend(axes, 3)


# --- against time ------------------------------------------------------------------------------------------
def _time_panels(trajectory: Any) -> list[tuple[str, list[str], np.ndarray]]:
    """(label of the axis, names, values of shape=[N, k]) of each panel on the right, from top to bottom."""
    a, xi = trajectory.attributes, trajectory.xi
    titles = {"rad/s": "angular velocity (rad/s)", "m/s": "velocity (m/s)", "": "velocity"}
    panels = []
    for unit, label in titles.items():
        columns = [i for i, name in enumerate(a["velocity_names"]) if velocity_unit(name) == unit]
        if columns:
            panels.append((label, [a["velocity_names"][i] for i in columns], xi[:, columns]))
    angles = angle_names(a["point_names"], a["velocity_names"])
    if angles:
        columns = [a["point_names"].index(name) for name in angles]
        panels.append(("angle (rad)", angles, trajectory.g_vector[:, columns]))
    return panels


def _draw_curves(
    axes: Axes, t: np.ndarray, values: np.ndarray, names: Sequence[str], label: str, *, last: bool
) -> None:
    stride = max(1, len(t) // MAX_POINTS)
    for column, name, (colour, dashes) in zip(values.T, names, _styles(len(names)), strict=True):
        axes.plot(t[::stride], column[::stride], color=colour, ls=dashes, lw=1.3, label=symbol(name))
    axes.set_ylabel(label)
    axes.margins(x=0.01)
    axes.grid(alpha=0.25)
    axes.ticklabel_format(axis="y", style="sci", scilimits=(-3, 4), useOffset=False)
    axes.set_xlabel("time (s)") if last else axes.tick_params(labelbottom=False)
    _legend(axes, min(len(names), 8))


def _draw_errors(axes: Axes, trajectory: Any) -> None:
    kept = [q for q in invariants(trajectory) if q.conserved]
    names = {"energy at p⁻": "energy at $p^-$", "energy at p̃": r"energy at $\tilde{p}$"}
    for quantity, (colour, dashes) in zip(kept, _styles(len(kept)), strict=True):
        t, error = _envelope(trajectory.t, quantity.relative)
        name = names.get(quantity.name, quantity.name)
        axes.semilogy(t, np.maximum(error, FLOOR), color=colour, ls=dashes, lw=1.1, label=name)
    axes.set_xlabel("time (s)")
    axes.set_ylabel("error (relative;\nresidual absolute)")
    axes.set_ylim(FLOOR / 2, max(axes.get_ylim()[1], 1e-12))
    axes.margins(x=0.01)
    axes.grid(alpha=0.25)
    axes.axhline(np.finfo(float).eps, color="0.5", lw=0.9, ls=":", label="float64 epsilon")
    _legend(axes, 3)


# --- helpers -----------------------------------------------------------------------------------------------
def _styles(n: int) -> list[tuple[Any, Any]]:
    return list(islice(zip(cycle(_COLOURS), cycle(_DASHES), strict=False), n))


def _legend(axes: Axes, columns: int) -> None:
    handles, _ = axes.get_legend_handles_labels()
    if handles:
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=columns,
            frameon=False,
            fontsize=8,
            borderaxespad=0.1,
        )


def _thinned(points: np.ndarray) -> np.ndarray:
    """At most about MAX_POINTS rows, the last included."""
    stride = max(1, len(points) // MAX_POINTS)
    thin = points[::stride]
    return thin if (len(points) - 1) % stride == 0 else np.concatenate([thin, points[-1:]])


def _envelope(t: np.ndarray, error: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The largest error of each of about N_BLOCKS blocks of nodes: peaks stay, and a wobble becomes one line."""
    stride = max(1, len(t) // N_BLOCKS)
    starts = np.arange(0, len(t), stride)
    return t[starts], np.maximum.reduceat(error, starts)
