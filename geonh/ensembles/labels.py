"""Names of the axes, and descriptions, of the arrays of ensembles, in memory and in stores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from geonh.ensembles.statistics import Statistic
from geonh.integrators.validity import Result
from geonh.results.tables import LONG_NAMES

AXES = {
    **dict.fromkeys(("xi", "p", "p_plus", "p_minus"), "component"),
    **dict.fromkeys(("g", "g_vector"), "coordinate"),
    **dict.fromkeys(("multipliers", "impulse_multipliers", "constraint_residual"), "constraint"),
    "holonomic_residual": "holonomic constraint",
}
"""Name of the last axis, by observable."""
STATUS = {
    "long_name": "0, or why the member stopped",
    "flag_values": [int(result) for result in Result],
    "flag_meanings": " ".join(result.name.lower() for result in Result),
}
"""Meanings of the status codes, following the CF conventions."""


def how_ended(status: np.ndarray) -> str:
    """Description of how the members ended, from their status codes."""
    stopped = int((status == Result.EVENT).sum())
    failed = int((~np.isin(status, (Result.SUCCESS, Result.EVENT))).sum())
    if stopped:
        return f"{stopped} stopped at an event" + (f", {failed} failed" if failed else "")
    return "all reached the end" if not failed else f"{failed} did not reach the end"


def dims_of(name: str, values: np.ndarray, nodes: str) -> tuple[str, ...]:
    """Names of the axes of an observable."""
    name = name.removeprefix("integral:").split(":")[-1]
    if name in AXES and values.ndim == 3:
        return "member", nodes, AXES[name]
    return "member", nodes, *(f"{name} axis {i}" for i in range(values.ndim - 2))


def results_of(statistics: Iterable[Statistic], known: Iterable[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Results of statistics from their states, by label."""
    results: dict[str, np.ndarray] = {}
    for statistic, state in zip(statistics, known, strict=True):
        results |= statistic.labelled(state)
    return results


def labelled(statistics: Iterable[Statistic], results: Mapping[str, np.ndarray], nodes: str) -> dict[str, tuple]:
    """Results of statistics, with names of the axes, and the coordinates of additional axes."""
    axes = {s.label(s.axis[0]): s.axis[1:] for s in statistics if s.axis is not None}
    variables: dict[str, tuple] = {}
    for label, values in results.items():
        name, _, what = label.partition(":")
        dims = ["member" if what.endswith("over time") else nodes]
        if label in axes:
            dims.append(f"{what} of {name}")
            variables[dims[1]] = (dims[1:], *axes[label])
        rest = values.ndim - len(dims)
        dims += [AXES[name]] if name in AXES and rest == 1 else [f"{name} axis {i}" for i in range(rest)]
        variables[label] = (tuple(dims), values, attributes_of(label))
    return variables


def attributes_of(name: str) -> dict[str, str]:
    """Attributes of an observable."""
    return {"long_name": LONG_NAMES.get(name, name.replace("_", " "))}


def at_the_last(name: str) -> dict[str, str]:
    """Attributes of an observable at the last good node."""
    return {"long_name": f"{attributes_of(name)['long_name']}, at the last good node"}
