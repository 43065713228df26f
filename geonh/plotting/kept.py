"""Single-topic figures: conserved quantities, multipliers, phase portraits, Poincaré maps, convergence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from geonh.arguments.signatures import validated
from geonh.arguments.validators import shortly
from geonh.plotting import figures
from geonh.plotting.figures import COLOURS, legend, styles
from geonh.plotting.labels import component_units, symbol, units_of, with_unit
from geonh.plotting.trajectory import draw_curves, draw_title, plot_errors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from geonh.diagnostics import Convergence
    from geonh.results.events import Section
    from geonh.results.trajectory import Trajectory

MARKERS = "osD^vP*X"


@validated
def plot_invariants(trajectory: Trajectory, *, show: bool = False) -> Figure:
    """Plot the errors of conserved quantities, and each quantity itself, on scales that do not magnify rounding.

    Parameters
    ----------
    trajectory : Trajectory
        Run, computed or loaded.
    show : bool
        Open a window with the figure and wait until it is closed.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    TypeError, ValueError
        If an argument is of another type; if the run came from a file without the required data.
    """
    curves = {with_unit("energy", units_of(trajectory).energy): trajectory.energy[:, None]}
    curves |= {name: values.reshape(len(values), -1) for name, values in trajectory.integrals.items()}
    figure = figures.empty_figure((9.0, 2.6 + 1.5 * len(curves)), show)
    rows = figure.subplots(1 + len(curves), 1, sharex=True, height_ratios=[1.6] + [1] * len(curves))
    plot_errors(trajectory, rows[0])
    rows[0].set_xlabel("")
    for axes, (name, values) in zip(rows[1:], curves.items(), strict=True):
        draw_curves(axes, trajectory, values, [None] * values.shape[1])
        axes.set_ylabel(name)
    rows[-1].set_xlabel(with_unit("time", units_of(trajectory).time))
    draw_title(figure, trajectory)
    return figures.shown(figure, show)


@validated
def plot_multipliers(trajectory: Trajectory, *, show: bool = False) -> Figure:
    """Plot multipliers λ of the constraint force, and those of the impulse for methods with one at the node.

    The panels have the names of the constraints where the system has ``row_names``, as a tree of bodies.

    Parameters
    ----------
    trajectory : Trajectory
        Run of a system with constraints.
    show : bool
        Open a window with the figure and wait until it is closed.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    TypeError, ValueError
        If an argument is of another type; if the system has no constraints.
    """
    lam, impulse = trajectory.multipliers, trajectory.impulse_multipliers
    if not lam.shape[1]:
        raise ValueError(f"{trajectory.attributes['system']} has no constraints, hence no multipliers")
    names = getattr(trajectory.system, "row_names", ())
    figure = figures.empty_figure((9.0, 1.4 + 2.0 * lam.shape[1]), show)
    rows = np.atleast_1d(figure.subplots(lam.shape[1], 1, sharex=True))
    for i, axes in enumerate(rows):
        if impulse is not lam:
            axes.plot(trajectory.t, impulse[:, i], ".", ms=2.5, color=COLOURS[1], label="of the impulse at the node")
        axes.plot(trajectory.t, lam[:, i], color=COLOURS[0], lw=1.3, label="of the constraint force")
        axes.set_ylabel(f"$\\lambda_{{{i + 1}}}$")
        axes.set_title(names[i] if i < len(names) else "", loc="right", fontsize="small")
        axes.grid(alpha=0.25)
        figures.mark_fault(axes, trajectory)
    legend(rows[0], 4)
    rows[-1].set_xlabel(with_unit("time", units_of(trajectory).time))
    draw_title(figure, trajectory)
    return figures.shown(figure, show)


@validated
def plot_phase(trajectory: Trajectory, x: str, y: str, *, show: bool = False) -> Figure:
    """Plot a phase portrait: one named component against another.

    Parameters
    ----------
    trajectory : Trajectory
        Run, computed or loaded.
    x, y : str
        Names of coordinates or velocities, as in ``geonh show`` and ``to_pandas``; "energy", "t", or a scalar first
        integral.
    show : bool
        Open a window with the figure and wait until it is closed.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    TypeError, ValueError
        If an argument is of another type; for an unknown name, listing the known ones.
    """
    figure = figures.empty_figure((6.4, 5.6), show)
    axes = figure.subplots()
    points = np.column_stack([_component(trajectory, name) for name in (x, y)])
    axes.plot(*points.T, color=COLOURS[0], lw=1.0)
    axes.plot(*points[:1].T, "o", color="black", ms=5, label="start")
    axes.plot(*points[-1:].T, "s", color="black", ms=5, mfc="white", label="end")
    a = trajectory.attributes
    of, units = units_of(trajectory), component_units(a["point_names"], a["velocity_names"], a["units"])
    units |= {"energy": of.energy, "t": of.time}
    _label_axes(axes, x, y, units)
    if units.get(x, "") == units.get(y, "") != "":
        axes.set_aspect("equal", adjustable="datalim")
    legend(axes, 2)
    draw_title(figure, trajectory)
    return figures.shown(figure, show)


@validated
def plot_poincare(sections: Mapping[str, Section], x: str, y: str, *, show: bool = False) -> Figure:
    """Plot the Poincaré maps of several runs in one figure.

    Parameters
    ----------
    sections : mapping of str to Section
        Results of ``geonh.diagnostics.poincare_section``, by their labels in the legend.
    x, y : str
        Names of coordinates or velocities.
    show : bool
        Open a window with the figure and wait until it is closed.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    TypeError, ValueError
        If an argument is of another type; if no run crosses its surface.
    """
    if not isinstance(sections, Mapping) or not sections:
        raise TypeError(f"sections must be a mapping of names to sections, got {shortly(sections)}")
    if not any(len(section) for section in sections.values()):
        raise ValueError("no run crosses its surface in that direction")
    figure = figures.empty_figure((6.4, 5.8), show)
    axes = figure.subplots()
    for (name, section), colour, marker in zip(sections.items(), cycle(COLOURS), cycle(MARKERS), strict=False):
        points, label = (section.values(x), section.values(y)), f"{name}, {len(section)} crossings"
        axes.plot(*points, marker, ms=3.0, color=colour, mew=0.6, mfc="none", label=label)
    units = component_units(section.point_names, section.velocity_names)
    _label_axes(axes, x, y, units)
    legend(axes, 1)
    return figures.shown(figure, show)


@validated
def plot_convergence(results: Sequence[Convergence], *, show: bool = False) -> Figure:
    """Plot errors at the end against step sizes, for several methods, with a line of each measured order.

    Parameters
    ----------
    results : sequence of Convergence
        Results of ``geonh.diagnostics.convergence``.
    show : bool
        Open a window with the figure and wait until it is closed.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    TypeError
        If ``results`` are not results of ``convergence``.
    """
    figure = figures.empty_figure((7.2, 5.6), show)
    axes = figure.subplots()
    for result, (colour, dashes), marker in zip(results, styles(len(results)), cycle(MARKERS), strict=False):
        label = f"{result.label}: order {result.order:.2f}"
        axes.loglog(result.dt, result.error, color=colour, ls=dashes, marker=marker, ms=5, label=label)
    axes.set_xlabel("dt (s)")
    axes.set_ylabel("error at the end")
    axes.grid(alpha=0.25, which="both")
    legend(axes, 1)
    return figures.shown(figure, show)


def _label_axes(axes: Any, x: str, y: str, units: Mapping[str, str]) -> None:
    axes.set_xlabel(with_unit(symbol(x), units.get(x, "")))
    axes.set_ylabel(with_unit(symbol(y), units.get(y, "")))
    axes.grid(alpha=0.25)


def _component(trajectory: Any, name: str) -> np.ndarray:
    a = trajectory.attributes
    if name in a["point_names"]:
        return trajectory.g_vector[:, a["point_names"].index(name)]
    if name in a["velocity_names"]:
        return trajectory.xi[:, a["velocity_names"].index(name)]
    numbers = {key: values for key, values in trajectory.integrals.items() if values.ndim == 1}
    numbers |= {"energy": trajectory.energy, "t": trajectory.t}
    if name in numbers:
        return numbers[name]
    known = [*a["point_names"], *a["velocity_names"], *numbers]
    raise ValueError(f"there is no component {name!r} of {a['system']}; there are {', '.join(known)}")
