"""A trajectory as labelled tables: an xarray dataset and a pandas frame."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from geonh.units import is_energy, known_units

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from geonh.results.record import Record

LONG_NAMES = {
    "g": "group element, flattened",
    "p_plus": "incoming momentum",
    "p_minus": "outgoing momentum",
    "xi": "velocity",
    "p": "average momentum",
    "multipliers": "constraint multipliers",
    "impulse_multipliers": "multipliers of the method's impulse at the node",
    "alternating": "size of the alternating part of the outgoing momentum, square root of joule",
    "kinetic": "kinetic part of the energy at the average momentum",
}
EVENT_NAMES = {
    "which": "number of the event's name",
    "k": "step after which the event came",
    "t": "time of the event, s",
    "g_vector": "group element at the event, flattened",
    "xi": "velocity at the event",
    "multipliers": "constraint multipliers at the event",
}
SWITCH_NAMES = {
    "k": "step in which modes switch",
    "t": "time of the transition, s",
    "source": "number of the mode before",
    "target": "number of the mode after",
    "g_vector": "group element at the transition, flattened",
    "xi_before": "velocity before the transition",
    "xi_after": "velocity after the transition",
}
SWITCH_AXES = {"g_vector": ("coordinate",), "xi_before": ("component",), "xi_after": ("component",)}
EVENT_AXES = {"g_vector": ("coordinate",), "xi": ("component",), "multipliers": ("constraint",)}
"""Names of further axes of an event's arrays."""
WORDS = ("system", "catalogue", "engine", "method", "method_reason", "dt_reason", "group", "controls", "geonh_version")
_DIMENSIONS = {
    "xi": "component",
    "p": "component",
    "multipliers": "constraint",
    "impulse_multipliers": "constraint",
    "constraint_residual": "constraint",
    "holonomic_residual": "holonomic constraint",
}


def dataset(trajectory: Record, message: str) -> xr.Dataset:
    """All arrays, labelled by time and component names."""
    import xarray as xr

    a, o = trajectory.attributes, trajectory.observables
    units = known_units(a)
    data: dict[str, Any] = {
        "g": (("time", "coordinate"), trajectory.g_vector, {"long_name": LONG_NAMES["g"]}),
        "p_plus": (("time", "component"), trajectory.p_plus, {"long_name": LONG_NAMES["p_plus"]}),
        "p_minus": (("time", "component"), trajectory.p_minus, {"long_name": LONG_NAMES["p_minus"]}),
        "step": (("time",), trajectory.k, {"long_name": "step number"}),
    }
    for key, value in o.items():
        if key.startswith("integral:"):
            label = key.removeprefix("integral:")
            axes = [f"{label} component"] if value.ndim == 2 else [f"{label} axis {i}" for i in range(value.ndim - 1)]
            unit = {"units": units[label]} if label in units else {}
            data[key] = (("time", *axes), value, {"long_name": f"first integral {label}", **unit})
        else:
            axes = [_DIMENSIONS[key]] if key in _DIMENSIONS else []
            unit = {"units": units["energy"]} if is_energy(key) else {}
            name = LONG_NAMES.get(key, key.replace("_", " "))
            data[key] = (("time", *axes), value, {"long_name": name, **unit})
    coordinates = {
        "time": ("time", trajectory.t, {"units": units["time"]}),
        "coordinate": list(a["point_names"]),
        "component": list(a["velocity_names"]),
        "constraint": np.arange(o["multipliers"].shape[1]),
        **units_of_axes(a["point_names"], a["velocity_names"], units),
    }
    attributes = {
        **{key: a[key] for key in WORDS},
        "dt": trajectory.dt,
        "t0": trajectory.t0,
        "save_every": trajectory.save_every,
        "status": trajectory.status.name,
        "message": message,
        "parameters": json.dumps(a["parameters"]),
        "units": json.dumps(a["units"]),
        "changes": json.dumps(a["changes"]),
        "point_shapes": json.dumps(a["point_shapes"]),
        "point_is_tuple": int(a["point_is_tuple"]),
    }
    if trajectory.nodes.t is not None:
        attributes["times"] = "of each node"
    crossings = trajectory.crossings
    if crossings is not None:
        for key, value in zip(crossings._fields[1:], crossings[1:], strict=True):
            data[f"event_{key}"] = (("event", *EVENT_AXES.get(key, ())), value, {"long_name": EVENT_NAMES[key]})
        attributes["events"] = json.dumps(crossings.names)
    switches, mode = trajectory.switches, trajectory.nodes.mode
    if switches is not None and mode is not None:
        data["mode"] = (("time",), mode, {"long_name": "number of the mode's name"})
        for key, value in zip(switches._fields[1:], switches[1:], strict=True):
            data[f"switch_{key}"] = (("switch", *SWITCH_AXES.get(key, ())), value, {"long_name": SWITCH_NAMES[key]})
        attributes |= {"modes": json.dumps(switches.names), "state_mode": int(a.get("state_mode", -1))}
    return xr.Dataset(data, coordinates, attributes)


def units_of_axes(
    point_names: Sequence[str], velocity_names: Sequence[str], units: Mapping[str, str]
) -> dict[str, tuple[str, list[str]]]:
    """Units of coordinates, velocities and momenta, each along its axis."""
    return {
        "coordinate_units": ("coordinate", [units.get(name, "") for name in point_names]),
        "component_units": ("component", [units.get(name, "") for name in velocity_names]),
        "momentum_units": ("component", [units.get(f"p_{name}", "") for name in velocity_names]),
    }


def frame(trajectory: Record) -> pd.DataFrame:
    """One row per node, one column per named component."""
    import pandas as pd

    a, o = trajectory.attributes, trajectory.observables
    columns: dict[str, np.ndarray] = dict(zip(a["point_names"], trajectory.g_vector.T, strict=True))
    columns |= dict(zip(a["velocity_names"], o["xi"].T, strict=True))
    for name in ("p_plus", "p_minus"):
        values = getattr(trajectory, name)
        columns |= {f"{name}_{v}": values[:, i] for i, v in enumerate(a["velocity_names"])}
    for key, value in o.items():
        label = key.removeprefix("integral:")
        label = key if label != key and (label in columns or label in o) else label
        if value.ndim == 1:
            columns[label] = value
        elif key not in ("xi", "p"):
            for index in np.ndindex(value.shape[1:]):
                columns["_".join((label, *map(str, index)))] = value[:, *index]
    table = pd.DataFrame(columns, index=pd.Index(trajectory.t, name="time"))
    units, energies = known_units(a), [key for key in columns if is_energy(key)]
    units |= dict.fromkeys(energies, units["energy"])
    for key in columns:
        momentum = re.sub(r"^p_(plus|minus)_", "p_", key)
        units |= {key: units[momentum]} if momentum in units else {}
    table.attrs["units"] = {key: units[key] for key in ("time", *columns) if key in units}
    return table
