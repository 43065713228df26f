"""Figures of ensembles: fan charts in time, distributions, and outcomes in a plane of parameters or starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_count, as_float64, is_whole, shortly
from geonh.plotting import figures
from geonh.plotting.figures import COLOURS, legend
from geonh.plotting.labels import component_units, symbol, with_unit
from geonh.units import is_energy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from geonh.ensembles.ensemble import Ensemble

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Default quantiles of a fan chart, if the ensemble has no ``Quantiles``."""


@validated
def plot_fan(ensemble: Ensemble, name: str, *, component: int | None = None, show: bool = False) -> Figure:
    """Plot quantiles over the members against time, or steps if the times differ: the median, and bands around it.

    Without ``Quantiles`` of the observable in the ensemble, those of 5, 25, 50, 75 and 95 % are shown.

    Parameters
    ----------
    ensemble : Ensemble
        Ensemble with saved nodes, or with ``Quantiles`` of the observable.
    name : str
        Name of an observable.
    component : int, optional
        Component of a vector observable, for which it is required.
    show : bool
        Open a window with the figure and wait until it is closed.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    TypeError, ValueError
        If an argument is of another type; if there is no such observable, or ``component`` is missing.
    """
    label = f"{name}:quantile"
    if label in ensemble.statistics:
        levels = next(s.axis[1] for s in ensemble.gathered if s.axis is not None and s.label("quantile") == label)
        order = np.argsort(levels)
        q = np.array(levels)[order]
        values = _one(np.moveaxis(ensemble.statistics[label], 1, 0)[order], name, component)
    else:
        q = np.array(QUANTILES)
        values = np.nanquantile(_one(_values(ensemble, name), name, component), q, axis=0)
    t = ensemble.t[0] if ensemble.same_times else ensemble.k
    figure = figures.empty_figure((8.0, 4.0), show)
    axes = figure.subplots()
    for i in range(len(values) // 2):
        part = f"{100 * q[i]:g} % to {100 * q[-1 - i]:g} %"
        axes.fill_between(
            t, values[i], values[-1 - i], color=COLOURS[0], alpha=0.2 + 0.6 * i / len(values), lw=0, label=part
        )
    for median in values[q == 0.5]:
        axes.plot(t, median, color=COLOURS[0], label="median")
    axes.set(
        xlabel=with_unit("time", ensemble.units["time"]) if ensemble.same_times else "step",
        ylabel=_label(ensemble, name, component),
    )
    figure.suptitle(f"{ensemble.system.name}: {len(ensemble)} members")
    axes.grid(alpha=0.25)
    legend(axes, 4)
    return figures.shown(figure, show)


@validated
def plot_histogram(
    ensemble: Ensemble, name: str, *, component: int | None = None, node: int = -1, bins: Any = 50, show: bool = False
) -> Figure:
    """Plot the distribution of an observable over the members at a saved node, by default the last.

    Parameters
    ----------
    ensemble : Ensemble
        Ensemble with saved nodes.
    name : str
        Name of an observable.
    component : int, optional
        Component of a vector observable, for which it is required.
    node : int
        Index of a saved node.
    bins : int or array_like, shape=[bins + 1]
        Number of bins, or their edges, as in ``numpy.histogram``.
    show : bool
        Open a window with the figure and wait until it is closed.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    TypeError, ValueError
        If an argument is of another type; if there is no such observable, or ``component`` is missing.
    """
    values = _one(_values(ensemble, name), name, component)
    if not -values.shape[1] <= node < values.shape[1]:
        raise ValueError(f"node must be one of the {values.shape[1]} that are kept, got {node}")
    if is_whole(bins):
        bins = as_count(bins, "bins")
    else:
        bins = as_float64(bins, "bins")
        if np.ndim(bins) != 1 or len(bins) < 2 or np.any(np.diff(bins) <= 0):
            raise ValueError(f"bins must be a number of bins, or two or more increasing edges, got {shortly(bins)}")
    values = values[:, node]
    figure = figures.empty_figure((6.0, 4.0), show)
    axes = figure.subplots()
    axes.hist(values[np.isfinite(values)], bins, color=COLOURS[0])
    when = (
        f"at t = {ensemble.t[0, node]:g} {ensemble.units['time']}"
        if ensemble.same_times
        else f"after {ensemble.k[node]} steps"
    )
    axes.set(xlabel=_label(ensemble, name, component), ylabel="members", title=f"{ensemble.system.name} {when}")
    return figures.shown(figure, show)


@validated
def plot_basins(ensemble: Ensemble, values: Any, x: str, y: str, *, label: str = "", show: bool = False) -> Figure:
    """Plot a value of each member in the plane of two parameters that differ: an image for a grid, else points.

    Parameters
    ----------
    ensemble : Ensemble
        The runs.
    values : array_like, shape=[members]
        For instance ``ensemble.energy[:, -1]`` or ``ensemble.events["fall"].t[:, 0]``; nan members are left white.
    x, y : str
        Scalar parameters, "t0" or "dt", or coordinates of the start's group element and velocity.
    label : str
        Label of the values.
    show : bool
        Open a window with the figure and wait until it is closed.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If there is no such parameter, or the number of values is not that of the members.
    """
    values = as_float64(values, "values", finite=False)
    if values.shape != (len(ensemble),):
        raise ValueError(f"values must have shape [{len(ensemble)}], one for each member; got {list(values.shape)}")
    across, up = (_of_members(ensemble, name) for name in (x, y))
    figure = figures.empty_figure((6.0, 5.0), show)
    axes = figure.subplots()
    columns, rows = np.unique(across), np.unique(up)
    grid = min(len(columns), len(rows)) > 1 and len(columns) * len(rows) == len(values)
    if grid and len(np.unique(np.stack([across, up]), axis=1).T) == len(values):
        picture = np.empty((len(rows), len(columns)))
        picture[np.searchsorted(rows, up), np.searchsorted(columns, across)] = values
        drawn: Any = axes.pcolormesh(columns, rows, picture, shading="nearest")
    else:
        drawn = axes.scatter(across, up, c=values, s=6)
    figure.colorbar(drawn, ax=axes, label=label)
    axes.set(xlabel=symbol(x), ylabel=symbol(y), title=f"{ensemble.system.name}: {len(ensemble)} members")
    return figures.shown(figure, show)


def _values(ensemble: Any, name: str) -> np.ndarray:
    known = {**ensemble.observables, "g": ensemble.kept.get("g")}
    for key in (name, f"integral:{name}"):
        if known.get(key) is not None:
            return known[key]
    raise ValueError(f"the ensemble has no {name!r}; there are {', '.join(known)}")


def _one(values: np.ndarray, name: str, component: int | None) -> np.ndarray:
    """Scalar, or one component of a vector, with two leading axes."""
    if values.ndim == 2:
        return values
    if values.ndim != 3 or component is None:
        raise ValueError(f"{name} has shape {list(values.shape[2:])} at each node: say component=")
    return values[..., component]


def _of_members(ensemble: Any, name: str) -> np.ndarray:
    members, group = ensemble.batch.members, ensemble.system.group
    known: dict[str, Any] = {**members.parameters, "t0": members.t0, "dt": members.dt}
    known |= dict(zip(group.velocity_names, np.asarray(members.xi).T, strict=True))
    if "g" in ensemble.kept:
        known |= dict(zip(group.point_names, ensemble.kept["g"][:, 0].T, strict=True))
    values = np.asarray(known[name]) if name in known and not isinstance(known[name], list | tuple) else None
    if values is None or values.ndim != 1:
        raise ValueError(f"{name!r} is no number of each member; there are {', '.join(map(str, known))}")
    return values


def _label(ensemble: Ensemble, name: str, component: int | None) -> str:
    """Label of an observable, with its unit if known."""
    group, units = ensemble.system.group, ensemble.units
    if component is not None and name == "xi":
        velocity = group.velocity_names[component]
        known = component_units(group.point_names, group.velocity_names, dict(ensemble.system.units))
        return with_unit(symbol(velocity), known[velocity])
    if component is not None and name in ("p", "p_plus", "p_minus"):
        unit = units.get(f"p_{group.velocity_names[component]}", "")
    else:
        unit = units["energy"] if is_energy(name) else units.get(name, "")
    return with_unit(name if component is None else f"{name}, component {component}", unit)
