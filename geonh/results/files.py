"""Content of a trajectory file: the dataset, the state to resume from, and values of the system's functions.

A file holds data only. The state is written leaf by leaf under labels (``state_memory.zeta``); the method interprets
the leaves when the run is resumed.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import jax
import numpy as np

from geonh.arguments.file_data import misfit
from geonh.arguments.paths import FileError
from geonh.integrators.node import State
from geonh.integrators.validity import Result
from geonh.results.events import Crossings
from geonh.results.formats import attribute, check_destination, opened, read_array, refuse, write
from geonh.results.modes import Switches
from geonh.results.observables import OF_ROWS
from geonh.results.record import FunctionValues, Record, unflatten
from geonh.results.same_system import function_values

if TYPE_CHECKING:
    import xarray as xr

FORMAT = 2
"""Version of the file format; files of a later version are refused with an explanation."""
_OBSERVABLES = {"xi", "p", "energy", "energy_minus", "constraint_residual", "holonomic_residual", "multipliers"}
_OBSERVABLES |= {"impulse_multipliers", "alternating", "kinetic"}
_RENAMED = {"alternation": "alternating"}
"""Renamed observables of older files."""
_AWKWARD = re.compile(r"[/%\x00-\x1f\x7f]| $")
LONGEST = 250
"""Maximum length of a name in a file, bytes."""
CHANGE = {"step": range(2**53), "t": float, "what": {str: str}}
"""Schema of a recorded change of a resumed run."""
ATTRIBUTES = {"parameters": dict, "changes": [CHANGE], "units": {str: str}, "point_shapes": [[range(10**6)]]}
"""Schema of attributes that are JSON data."""


def save(trajectory: Record, dataset: xr.Dataset, path: str | os.PathLike, *, keep: bool = True) -> Path:
    """Write the ``dataset`` of a trajectory and the state to resume from; an existing file is replaced atomically.

    With ``keep=False`` the write is tried, and no file remains.
    """
    path = check_destination(path)
    dataset.attrs["format"] = FORMAT
    if trajectory.state is not None:
        for name, value in _labelled(trajectory.state).items():
            dataset[f"state_{name}"] = (tuple(f"state_{name}_{i}" for i in range(value.ndim)), value)
        leaves = [np.ravel(leaf) for leaf in jax.tree.leaves(trajectory.state.g)]
        dataset["state_g"] = (("coordinate",), np.concatenate(leaves))
        dataset["state_k"] = int(trajectory.state.k)
    known = trajectory.function_values
    if known is None and trajectory.system is not None and trajectory.clock is not None:
        known = function_values(trajectory, trajectory.modes or trajectory.system, trajectory.clock)
    if known is not None:
        dataset["known_nodes"] = (("known",), known.nodes)
        dataset.attrs["traces"] = json.dumps(known.traces)
        for name, value in known.values.items():
            dataset[f"known_{name}"] = (("known", f"known_entry_{value.shape[1]}"), value)
    for key, variable in dataset.data_vars.items():
        if variable.dtype.kind == "c":
            label = str(key).removeprefix("integral:")
            raise FileError(f"first integral {label!r} is complex, which a file cannot hold: give its two parts")
        if variable.dtype.kind == "b":
            dataset[key] = variable.astype(np.float64)
    dataset = dataset.drop_vars([name for name, variable in dataset.variables.items() if variable.size == 0])
    names = {str(name): _in_file(str(name)) for name in (*dataset.variables, *dataset.dims)}
    write(dataset.rename({old: new for old, new in names.items() if old != new}), path, keep=keep)
    return path


def _in_file(name: str) -> str:
    """Encode a name as NetCDF requires."""
    quoted = _AWKWARD.sub(lambda match: quote(match[0], safe=""), name)
    quoted = quoted if unicodedata.normalize("NFC", quoted) == quoted else quote(name, safe="")
    if len(quoted.encode(errors="replace")) > LONGEST:
        raise FileError(f"the name {name[:40]!r}… is too long for a file")
    return quoted


def read(path: str | os.PathLike) -> dict[str, Any]:
    """Read the fields of a ``Trajectory`` from a file; FileError if it is not a geonh trajectory, is damaged, or was
    written by a newer version, and OSError if it cannot be opened.
    """
    with opened(path) as data:
        if "geonh_version" not in data.ncattrs():
            is_export = {"system", "method", "missing"} <= {*data.ncattrs()}
            what = (
                "all of a store, by geonh export: open it with xarray" if is_export else "another program's NetCDF file"
            )
            raise FileError(f"{path} is not a trajectory saved by geonh: it is {what}")
        version = attribute(data, "geonh_version", str)
        form = attribute(data, "format", int)
        if form > FORMAT:
            raise FileError(
                f"{path} was written by geonh {version} in format {form}; this geonh reads up to format {FORMAT}: "
                "update geonh"
            )
        if form < FORMAT:
            raise FileError(f"{path} was written by geonh {version} in format {form}, which is no longer supported")
        return _fields(data)


def _fields(data: Any) -> dict[str, Any]:
    words = ("system", "method", "group", "geonh_version", "catalogue", "engine", "controls")
    attributes: dict[str, Any] = {name: attribute(data, name, str) for name in words}
    for name in ("method_reason", "dt_reason"):
        attributes[name] = attribute(data, name, str) if name in data.ncattrs() else ""
    attributes |= {name: _json(data, name) for name in ("parameters", "changes", "point_shapes")}
    attributes["units"] = _json(data, "units") if "units" in data.ncattrs() else {}
    if wrong := misfit(attributes, ATTRIBUTES):
        refuse(data, wrong)
    attributes["point_is_tuple"] = bool(attribute(data, "point_is_tuple", int))
    for name, where in (("point_names", "coordinate"), ("velocity_names", "component")):
        attributes[name] = [str(n) for n in read_array(data, where, "U", ndim=1)]
    shapes, n = attributes["point_shapes"], len(attributes["velocity_names"])
    if not shapes or sum(int(np.prod(s)) for s in shapes) != len(attributes["point_names"]):
        refuse(data, f"point_shapes {str(shapes)[:60]} are not those of {len(attributes['point_names'])} coordinates")
    if not attributes["point_is_tuple"] and len(shapes) != 1:
        refuse(data, f"a point has {len(shapes)} parts")
    k = read_array(data, "step", "i", ndim=1).astype(np.int64)
    nodes = {
        "g_vector": read_array(data, "g", "f", ndim=2),
        "p_plus": read_array(data, "p_plus", "f", ndim=2),
        "p_minus": read_array(data, "p_minus", "f", ndim=2),
    }
    if [a.shape for a in nodes.values()] != [(len(k), len(attributes["point_names"])), (len(k), n), (len(k), n)]:
        refuse(data, f"the shapes of its nodes do not belong together: {[a.shape for a in nodes.values()]}")
    t = read_array(data, "time", "f", ndim=1) if "times" in data.ncattrs() else None
    if t is not None and not np.all(np.isfinite(t)):
        refuse(data, "its times are not finite")
    in_order = np.all(np.diff(k) >= 0) if t is not None else len(k) and k[0] == 0 and np.all(np.diff(k) > 0)
    if not len(k) or not in_order or not all(np.all(np.isfinite(a)) for a in nodes.values()):
        refuse(data, "its nodes are not one after another, or not finite")
    numbers: dict[str, Any] = {name: attribute(data, name, float) for name in ("dt", "t0")}
    numbers["save_every"] = attribute(data, "save_every", int)
    status = attribute(data, "status", str)
    if not np.all(np.isfinite([numbers["dt"], numbers["t0"]])) or numbers["dt"] == 0 or numbers["save_every"] < 1:
        refuse(data, f"dt, t0, save_every = {numbers}")
    if status not in Result.__members__:
        refuse(data, f"its status {status[:40]!r} is unknown")
    loaded = _observables(data, len(k), n)
    return {
        "k": k,
        "t": t,
        **nodes,
        **numbers,
        "status": Result[status],
        "state": _state(data, attributes, n, int(k[-1]) - (t is not None)),
        "attributes": attributes,
        "loaded": loaded,
        "function_values": _function_values(data, len(k)),
        "crossings": _crossings(data, len(attributes["point_names"]), n, loaded["multipliers"].shape[1]),
        **_modes(data, attributes, len(k), n),
    }


def _json(data: Any, name: str) -> Any:
    try:
        return json.loads(attribute(data, name, str))
    except (json.JSONDecodeError, RecursionError) as error:
        raise FileError(f"{data.filepath()} is not a whole trajectory of geonh: its {name} are unreadable") from error


def _misshapen(arrays: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]]) -> list[str]:
    """Names of arrays that are missing or of another shape."""
    return [name for name, shape in shapes.items() if name not in arrays or arrays[name].shape != shape]


def _observables(data: Any, n_nodes: int, n: int) -> dict[str, np.ndarray]:
    """Saved observables of the nodes; unknown variables are ignored."""
    observables = {}
    for name in data.variables:
        label = _RENAMED.get(unquote(name), unquote(name))
        if label in _OBSERVABLES or label.startswith("integral:"):
            kind = getattr(data.variables[name].dtype, "kind", "?")
            value = read_array(data, name, "i" if kind == "i" and label.startswith("integral:") else "f")
            if value.shape[:1] != (n_nodes,):
                refuse(data, f"{name} has {value.shape} entries for {n_nodes} nodes")
            observables[label] = value
    shapes = {"xi": (n_nodes, n), "p": (n_nodes, n), "energy": (n_nodes,), "energy_minus": (n_nodes,)}
    for name in _misshapen(observables, shapes):
        refuse(data, f"{name} is missing or of another shape than {shapes[name]}")
    observables.setdefault("multipliers", np.zeros((n_nodes, 0)))
    observables.setdefault("constraint_residual", np.zeros((n_nodes, 0)))
    if "impulse_multipliers" not in observables and "alternating" in observables:
        observables["impulse_multipliers"] = np.zeros((n_nodes, 0))
    if len({observables[name].shape for name in OF_ROWS if name in observables}) > 1:
        refuse(data, f"{', '.join(OF_ROWS)} are of different shapes")
    both = (
        ("alternating", "kinetic") if "alternating" in observables else ("kinetic",) if "kinetic" in observables else ()
    )
    if _misshapen(observables, dict.fromkeys(both, (n_nodes,))):
        refuse(data, "alternating and kinetic are missing, or of another shape")
    return observables


def _state(data: Any, attributes: dict[str, Any], n: int, last: int) -> State | None:
    if "state_k" not in data.variables:
        return None
    stored: dict[str, np.ndarray] = {}
    for name in data.variables:
        if name.startswith("state_"):
            label = unquote(name).removeprefix("state_")
            counts = getattr(data.variables[name].dtype, "kind", "?") == "i" and label.startswith(("memory", "warm"))
            stored[label] = read_array(data, name, "i" if counts or label == "k" else "f")
    stored.setdefault("rows", np.zeros((0, n)))
    shapes = {"k": (), "g": (len(attributes["point_names"]),), "p_plus": (n,), "p_minus": (n,)}
    shapes["rows"] = (len(stored["rows"]) if stored["rows"].ndim else 0, n)
    wrong = _misshapen(stored, shapes)
    wrong = wrong or [name for name in shapes if not np.all(np.isfinite(stored[name]))]
    if wrong or stored["k"] < last:
        refuse(data, f"the state to go on from is not one{': ' if wrong else ''}{', '.join(wrong)}")
    return State(
        k=np.int64(stored["k"]),
        g=unflatten(stored["g"], attributes["point_shapes"], attributes["point_is_tuple"]),
        p_plus=stored["p_plus"],
        p_minus=stored["p_minus"],
        memory=Leaves.of(stored, "memory"),
        warm=Leaves.of(stored, "warm"),
        rows=stored["rows"],
        status=np.int32(0),
    )


def _function_values(data: Any, n_nodes: int) -> FunctionValues | None:
    if "known_nodes" not in data.variables:
        return None
    nodes = read_array(data, "known_nodes", "i", ndim=1)
    traces = _json(data, "traces")
    if not len(nodes) or nodes.min() < 0 or nodes.max() >= n_nodes or not isinstance(traces, dict):
        refuse(data, "what it knows of its system is at nodes that it has not")
    values = {name: np.zeros((len(nodes), 0)) for name in traces if name not in ("geonh", "jax")}
    for name in values:
        if (label := _in_file(f"known_{name}")) in data.variables:
            values[name] = read_array(data, label, "f", ndim=2)
    return FunctionValues(nodes, values, traces)


def _modes(data: Any, attributes: dict[str, Any], n_nodes: int, n: int) -> dict[str, Any]:
    """Saved modes of the nodes, and transitions; None for a run of one system."""
    if "modes" not in data.ncattrs():
        return {"mode": None, "switches": None}
    names = _json(data, "modes")
    attributes["state_mode"] = attribute(data, "state_mode", int)
    size = len(attributes["point_names"])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        refuse(data, "the names of its modes are not names")
    attributes["modes"] = names
    mode = read_array(data, "mode", "i", ndim=1).astype(np.int64)
    none = Switches.none(names, size, n)
    parts = {
        key: read_array(data, f"switch_{key}", "i" if key in ("k", "source", "target") else "f")
        for key in none._fields[1:]
        if f"switch_{key}" in data.variables
    }
    switches = none._replace(**parts)
    count = len(switches.t)
    shapes = {key: (count, *getattr(none, key).shape[1:]) for key in none._fields[1:]}
    numbers = np.concatenate([mode, switches.source, switches.target, [attributes["state_mode"]]])
    known = np.all((numbers >= 0) & (numbers < len(names)))
    if len(mode) != n_nodes or _misshapen(switches._asdict(), shapes) or not known:
        refuse(data, "its modes are not whole")
    return {"mode": mode, "switches": switches}


def _crossings(data: Any, n_point: int, n: int, m: int) -> Crossings | None:
    """Saved events, or None for a run without events."""
    if "events" not in data.ncattrs():
        return None
    names = _json(data, "events")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        refuse(data, "the names of its events are not names")
    crossings = Crossings.none(names, n_point, n, m)
    if not any(f"event_{key}" in data.variables for key in crossings._fields):  # empty arrays are not saved
        return crossings
    kinds = {"which": "i", "k": "i"}
    parts = {
        key: read_array(data, f"event_{key}", kinds.get(key, "f"))
        for key in crossings._fields[1:]
        if f"event_{key}" in data.variables
    }
    count = np.size(parts.get("t", ()))
    parts.setdefault("multipliers", np.zeros((count, 0)))
    shapes = {"which": (count,), "k": (count,), "t": (count,), "g_vector": (count, n_point), "xi": (count, n)}
    shapes["multipliers"] = (count, m)
    wrong = _misshapen(parts, shapes)
    if wrong or not all(0 <= i < len(names) for i in parts["which"]):
        refuse(data, f"its events are not whole: {', '.join(wrong) or 'which'}")
    return crossings._replace(**parts)


def _leaves(name: str, tree: Any) -> dict[str, Any]:
    """Leaves of a pytree under labels that a file can hold, such as ``memory.zeta``."""
    if isinstance(tree, Leaves):
        return tree.leaves
    paths = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {name + jax.tree_util.keystr(path).replace("[", ".").replace("]", ""): leaf for path, leaf in paths}


def _labelled(state: State) -> dict[str, np.ndarray]:
    """Arrays of a state other than k and g: momenta, rows, the method's memory and its warm start."""
    arrays = {name: getattr(state, name) for name in ("p_plus", "p_minus", "rows")}
    arrays |= _leaves("memory", state.memory) | _leaves("warm", state.warm)
    return {name: np.asarray(value) for name, value in arrays.items()}


@dataclass(frozen=True)
class Leaves:
    """Pytree read from a file: leaves by label, until a method supplies the structure."""

    name: str
    leaves: dict[str, np.ndarray]

    @classmethod
    def of(cls, arrays: dict[str, np.ndarray], name: str) -> Leaves:
        return cls(name, {label: value for label, value in arrays.items() if label.split(".")[0] == name})

    def like(self, tree: Any, speed_only: bool = False) -> Any:
        """Return the leaves in the structure of ``tree``, or raise ValueError; with ``speed_only`` leaves of other
        shapes, from another version of geonh, become zeros.
        """
        wanted = _leaves(self.name, tree)
        stored = {label: np.zeros(leaf.shape) for label, leaf in wanted.items() if 0 in leaf.shape} | self.leaves
        if speed_only and stored.keys() == wanted.keys():
            stored |= {
                label: np.zeros(leaf.shape) for label, leaf in wanted.items() if stored[label].shape != leaf.shape
            }
        theirs, ours = ({label: tuple(leaf.shape) for label, leaf in leaves.items()} for leaves in (stored, wanted))
        if theirs != ours:
            raise ValueError(
                f"the {self.name} in the file is not what this method and system keep: it has {theirs or 'nothing'}, "
                f"they have {ours or 'nothing'}"
            )
        leaves = [np.asarray(stored[label], leaf.dtype) for label, leaf in wanted.items()]
        return jax.tree.unflatten(jax.tree.structure(tree), leaves)
