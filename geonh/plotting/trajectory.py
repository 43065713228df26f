"""Figure of a run: path and attitude, velocities, constraint force, and errors of conserved quantities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from geonh.arguments.signatures import validated
from geonh.diagnostics.invariants import catalogue_entry, invariants
from geonh.drawing import NoDrawingError, Scene, momenta, scene
from geonh.drawing.modes import in_mode_colour, mode_colours
from geonh.plotting import figures
from geonh.plotting.bodies import body_size, draw_scene, fill_place, magnified, set_limits
from geonh.plotting.figures import COLOURS, FLOOR, MAX_POINTS, legend, styles, thinned
from geonh.plotting.labels import component_units, method_in_words, path_names, symbol, units_of, with_unit
from geonh.plotting.modes import TIMELINE, draw_timeline, parts_of_path
from geonh.results.trajectory import steps_of
from geonh.units import angle_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from geonh.results.trajectory import Trajectory

N_BODIES = 8
N_TRACE = 1500
UNLIKE = 12.0
"""Ratio of angles or velocities, of one at least, from which they have panels of their own."""
SMALL = 20.0
"""Size of the motion in sizes of the largest body beyond which bodies are drawn enlarged."""
READABLE = 1 / 12
"""Size to which they are enlarged at most, in sizes of the motion."""
FRONT = 1000
"""Z-order of markers: in front of all bodies, which matplotlib orders by their depth."""


@validated
def plot_trajectory(trajectory: Trajectory, *, show: bool = False) -> Figure:
    """Plot the path with the body along it, errors of conserved quantities, attitude, velocities, force and energy.

    Parameters
    ----------
    trajectory : Trajectory
        Run, computed or loaded from a file.
    show : bool
        Open a window with the figure and wait until it is closed.

    Returns
    -------
    matplotlib.figure.Figure
        ``figure.savefig(path)`` writes it; no display is needed.

    Raises
    ------
    TypeError, ValueError
        If an argument is of another type; if the run came from a file without the required data.

    Notes
    -----
    Lengths that are compared have equal scales; a quantity that is constant to rounding is shown as constant. The
    onset of the alternating mode, or the time of a stop, is marked.
    """
    panels = _time_panels(trajectory)
    figure = figures.empty_figure((13.0, max(7.6, 1.75 * len(panels) + 0.6)), show)
    grid = figure.add_gridspec(1, 2, width_ratios=(1.15, 1.0))
    left = grid[0].subgridspec(2, 1, height_ratios=(1.9, 1.0))
    by_mode = trajectory.nodes.mode is not None
    right = grid[1].subgridspec(len(panels) + by_mode, 1, height_ratios=[1.0] * len(panels) + [TIMELINE] * by_mode)
    _draw_where(figure, left[0], trajectory)
    plot_errors(trajectory, figure.add_subplot(left[1]))
    for i, (label, names, values) in enumerate(panels):
        axes = figure.add_subplot(right[i])
        _draw_panel(axes, trajectory, values, names, label, last=not by_mode and i == len(panels) - 1)
    if by_mode:
        draw_timeline(figure.add_subplot(right[-1]), trajectory)
    draw_title(figure, trajectory)
    return figures.shown(figure, show)


def draw_title(figure: Figure, trajectory: Any) -> None:
    """Draw the title: system, method, and faults of the run."""
    a, entry = trajectory.attributes, catalogue_entry(trajectory)
    head = a["system"] if entry is None else entry.heading
    steps, time = int(trajectory.k[-1]), units_of(trajectory).time
    facts = f"{a['group']}  ·  {method_in_words(trajectory)}"
    facts = facts if head == a["system"] else f"{a['system']} on {facts}"
    facts += f"  ·  {steps_of(trajectory, time)}  ·  {steps} steps"
    if not trajectory.success:
        facts += f"\nSTOPPED EARLY at t = {trajectory.t[-1]:g} {time}: {trajectory.status.message}"
    if trajectory.spoiled_from is not None:
        facts += f"\nSPOILED from t = {trajectory.spoiled_from:.4g} {time}: the momentum alternates from node to node"
    if figure.get_figwidth() < 8:
        facts = facts.replace("  ·  ", "\n", 1)
    figure.suptitle(f"{head}\n{facts}", fontsize=11)


# --- path --------------------------------------------------------------------------------------------------
def _draw_where(figure: Figure, place: Any, trajectory: Any) -> None:
    """Draw the scene if there is a drawing, else the path, else the coordinates."""
    nodes = np.unique(np.linspace(0, len(trajectory) - 1, N_TRACE).round().astype(int))
    names = trajectory.attributes["point_names"]
    try:
        drawn = scene(trajectory, nodes)
    except NoDrawingError:
        spatial = path_names(names)
        if spatial:
            _draw_path(figure, place, trajectory, spatial)
        else:
            axes = figure.add_subplot(place)
            _draw_panel(axes, trajectory, trajectory.g_vector, names, "coordinate", last=True)
        return
    flat = drawn.is_flat
    axes = figure.add_subplot(place, projection=None if flat else "3d")
    factor = _magnification(drawn)
    large = drawn if factor == 1 else magnified(drawn, factor)
    chosen = _separate_times(large)
    draw_ground(axes, drawn, len(drawn.t) - 1, flat)
    for rank, i in enumerate(chosen):
        draw_scene(axes, in_mode_colour(large, trajectory, i), i, flat, alpha=0.3 + 0.7 * (rank + 1) / len(chosen))
    bad = trajectory.spoiled_from
    moving = [body for body in drawn.traces if np.ptp(body.path, axis=0).max() > 0]
    for body in moving:
        path = body.path[:, :2] if flat else body.path
        if trajectory.nodes.mode is not None:
            for colour, part in parts_of_path(path, trajectory.nodes.mode[nodes], mode_colours(trajectory)):
                axes.plot(*part.T, color=colour, lw=1.8, zorder=3)
        else:
            axes.plot(*path.T, color=body.colour, lw=1.4, label=f"path of {body.name}", zorder=3)
        axes.plot(*path[:1].T, "o", color="black", ms=5, zorder=FRONT)
        axes.plot(*path[-1:].T, "s", color="black", ms=5, mfc="white", zorder=FRONT)
        if bad is not None:
            i = int(np.argmax(drawn.t >= bad))
            axes.plot(*path[i : i + 1].T, "X", color="#CC3311", ms=9, zorder=FRONT + 1, label="spoiled from here")
        if not trajectory.success:
            axes.plot(*path[-1:].T, "X", color="#CC3311", ms=9, zorder=FRONT + 1, label="stopped here")
    set_limits(axes, large, flat)
    units = units_of(trajectory)
    label_space(axes, flat, units.length)
    every = drawn.t[chosen[1]] - drawn.t[chosen[0]] if len(chosen) > 1 else 0.0
    if moving:
        axes.plot([], [], "o", color="black", ms=5, label="start")
        axes.plot([], [], "s", color="black", ms=5, mfc="white", label="end")
    if every:
        axes.plot([], [], " ", label=f"drawn every {every:.3g} {units.time}")
    if factor > 1:
        axes.plot([], [], " ", label=f"bodies drawn {factor:g} × as large")
    legend(axes, 4)
    if not flat:
        fill_place(axes)


def _magnification(drawn: Scene) -> float:
    """Factor at which bodies are drawn: 1, or what makes those visible that are small beside their path."""
    low, high = drawn.extent
    size, long = body_size(drawn), float(np.max(high - low))
    if not drawn.traces or not 0 < SMALL * size < long or any(body.is_curved for body in drawn.bodies):
        return 1.0
    return figures.nice(READABLE * long / size)


def label_space(axes: Axes, flat: bool, length: str) -> None:
    """Label the axes of space, with the unit of length; add a grid on the plane."""
    axes.set_xlabel(with_unit("x", length))
    axes.set_ylabel(with_unit("y", length))
    if flat:
        axes.grid(alpha=0.25)
    else:
        axes.set_zlabel(with_unit("z", length))
        for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
            axis.set_pane_color((1, 1, 1, 0))
            axis._axinfo["grid"].update({"color": (0, 0, 0, 0.08)})


def draw_ground(axes: Axes, drawn: Scene, i: int, flat: bool) -> list[Any]:
    """Draw the ground: in three dimensions, and from above if it turns."""
    from geonh.plotting.bodies import draw_body

    artists = []
    for body in drawn.bodies:
        if body.is_ground and (not flat or np.ptp(body.R, axis=0).max() > 0):
            artists += draw_body(axes, body, i, flat, alpha=0.4)
    return artists


def _separate_times(drawn: Scene) -> np.ndarray:
    """Indices of times at which to draw the bodies: as many as do not overlap, at least the last."""
    solid = [body for body in drawn.bodies if body.is_solid]
    size = max((np.ptp(p.vertices, axis=0).max() for body in solid for p in body.parts if len(p.faces)), default=0.0)
    way = sum(np.linalg.norm(np.diff(body.x, axis=0), axis=1).sum() for body in solid[:1])
    n = int(np.clip(way / max(0.9 * size, 1e-300), 1, N_BODIES))
    return np.array([len(drawn.t) - 1]) if n < 2 else np.linspace(0, len(drawn.t) - 1, n).round().astype(int)


def _draw_path(figure: Figure, place: Any, trajectory: Any, names: list[str]) -> None:
    """Draw the path by the names of its coordinates, for a file with an unknown system."""
    columns = [trajectory.attributes["point_names"].index(name) for name in names]
    points = thinned(trajectory.g_vector[:, columns])
    three = len(names) == 3
    axes = figure.add_subplot(place, projection="3d" if three else None)
    axes.plot(*points.T, color=COLOURS[0], lw=1.4, label="path")
    axes.plot(*points[:1].T, "o", color="black", ms=6, label="start")
    axes.plot(*points[-1:].T, "s", color="black", ms=6, mfc="white", label="end")
    label_space(axes, not three, units_of(trajectory).length)
    axes.set_aspect("equal") if three else axes.set_aspect("equal", adjustable="datalim")
    legend(axes, 4)
    if three:
        for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
            axis.labelpad = 11
        fill_place(axes)


# --- time series -------------------------------------------------------------------------------------------
def _time_panels(trajectory: Any) -> list[tuple[str, list[str], np.ndarray]]:
    """Panels on the right, from top to bottom: (label of the axis, names, values of shape=[N, k])."""
    a, xi, panels = trajectory.attributes, trajectory.xi, []
    angles = angle_names(a["point_names"], a["velocity_names"])
    if angles:
        values = trajectory.g_vector[:, [a["point_names"].index(name) for name in angles]]
        for chosen in _alike(values):
            panels.append(("angle (rad)", [angles[i] for i in chosen], values[:, chosen]))
    first = 0
    for shape in a["point_shapes"]:
        if shape in ([3, 3], [4, 4]):  # rotation or rigid motion
            third = trajectory.g_vector[:, first + 2 + shape[0] * np.arange(3)]
            panels.append(("third body axis\nin space", ["x", "y", "z"], third))
            break
        first += int(np.prod(shape))
    units = component_units(a["point_names"], a["velocity_names"], a["units"])
    for unit in dict.fromkeys(["rad/s", "m/s", *(units[name] for name in a["velocity_names"])]):
        columns = [i for i, name in enumerate(a["velocity_names"]) if units[name] == unit]
        label = f"angular velocity\n({unit})" if unit.startswith("rad/") else with_unit("velocity", unit)
        for chosen in _alike(xi[:, columns]):
            alike = [columns[i] for i in chosen]
            panels.append((label, [a["velocity_names"][i] for i in alike], xi[:, alike]))
    panels += _forces(trajectory)
    panels.append((with_unit("energy", units_of(trajectory).energy), ["energy"], trajectory.energy[:, None]))
    return panels


def _alike(values: np.ndarray) -> list[list[int]]:
    """Columns that can be read on one axis: sizes differ by less than ``UNLIKE`` within a group, the small ones first.

    A wheel that has turned by 500 rad, or turns at 50 rad/s, would make a line of a hinge's angle, or rate.
    """
    sizes = np.abs(values).max(axis=0, initial=0.0)
    groups: list[list[int]] = []
    for i in np.argsort(sizes, kind="stable"):
        if groups and sizes[i] <= UNLIKE * max(sizes[groups[-1][0]], 1.0):
            groups[-1].append(int(i))
        else:
            groups.append([int(i)])
    return [sorted(group) for group in groups]


def _forces(trajectory: Any) -> list[tuple[str, list[str], np.ndarray]]:
    """Constraint force in space, or its moment if there is no force, or the multipliers if both vanish."""
    names = [f"$\\lambda_{{{i + 1}}}$" for i in range(trajectory.multipliers.shape[1])]
    if not names or np.abs(trajectory.multipliers).max() <= 1e-9:
        return []
    multipliers = [("multiplier", names, trajectory.multipliers)]
    try:
        arrows = momenta(trajectory)
    except NoDrawingError:
        return multipliers
    units = units_of(trajectory)
    force, moment = with_unit("constraint force", units.force), f"constraint moment\n({units.moment})"
    for label, values in ((force, arrows.force), (moment, arrows.moment)):
        active = [i for i in range(3) if np.abs(values[:, i]).max() > 0]
        if np.abs(values).max(initial=0.0) > 1e-9:
            return [(label, ["xyz"[i] for i in active], values[:, active])]
    return multipliers


def draw_curves(axes: Axes, trajectory: Any, values: np.ndarray, labels: Sequence[str | None], stride: int = 1) -> None:
    """Draw curves against time, at one node in ``stride``, and the faults of the run."""
    for column, label, (colour, dashes) in zip(values.T, labels, styles(len(labels)), strict=True):
        axes.plot(trajectory.t[::stride], column[::stride], color=colour, ls=dashes, lw=1.3, label=label)
    figures.mark_fault(axes, trajectory)
    figures.set_ordinate(axes, values)
    axes.grid(alpha=0.25)
    axes.ticklabel_format(axis="y", style="sci", scilimits=(-3, 4), useOffset=False)


def _draw_panel(
    axes: Axes, trajectory: Any, values: np.ndarray, names: Sequence[str], label: str, *, last: bool
) -> None:
    draw_curves(axes, trajectory, values, [symbol(name) for name in names], max(1, len(trajectory) // MAX_POINTS))
    axes.set_ylabel(label)
    axes.margins(x=0.01)
    axes.set_xlabel(with_unit("time", units_of(trajectory).time)) if last else axes.tick_params(labelbottom=False)
    legend(axes, min(len(names) + 2, 6))


def plot_errors(trajectory: Any, axes: Axes) -> None:
    """Plot errors of conserved quantities, on a logarithmic scale: the largest of each block of nodes."""
    conserved, least = [q for q in invariants(trajectory) if q.conserved], np.inf
    names = {"energy at p⁻": "energy at $p^-$", "energy at p̃": r"energy at $\tilde{p}$"}
    for quantity, (colour, dashes) in zip(conserved, styles(len(conserved)), strict=True):
        t, error = figures.envelope(trajectory.t, quantity.relative)
        name, least = names.get(quantity.name, quantity.name), min(least, error.min(initial=np.inf))
        axes.semilogy(t, np.maximum(error, FLOOR), color=colour, ls=dashes, lw=1.1, label=name)
    axes.set_xlabel(with_unit("time", units_of(trajectory).time))
    axes.set_ylabel("error (relative;\nresidual absolute)")
    axes.set_ylim(FLOOR / 2, max(axes.get_ylim()[1], 1e-12))
    axes.margins(x=0.01)
    axes.grid(alpha=0.25)
    axes.axhline(np.finfo(float).eps, color="0.5", lw=0.9, ls=":", label="float64 epsilon")
    if least < FLOOR:
        axes.plot([], [], " ", label=rf"bottom: $\leq 10^{{{np.log10(FLOOR):.0f}}}$")
    figures.mark_fault(axes, trajectory)
    legend(axes, 4 if least < FLOOR else 3)
