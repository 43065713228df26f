"""Stores of sweeps: validation of all metadata on opening, before any use."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from geonh.arguments.file_data import COUNT, misfit
from geonh.arguments.validators import shortly
from geonh.ensembles.labels import at_the_last
from geonh.ensembles.stores import Store, StoreError
from geonh.integrators.validity import Result
from geonh.results.events import Crossings
from geonh.results.modes import Switches
from geonh.results.tables import EVENT_AXES, EVENT_NAMES, SWITCH_AXES, SWITCH_NAMES
from geonh.results.trajectory import Trajectory

if TYPE_CHECKING:
    import xarray as xr

STATISTIC = "statistic "
"""Prefix of the names of arrays that hold the state of statistics."""
START = "start.nc"
"""File in a store: the first node of member 0, and values of the system's functions there."""
PACKED = [str, [int], str]
"""Schema of an array in a record: data type, shape, and content in base64."""


class SweepStore(Store):
    """Store of a sweep; StoreError if the folder is none, is damaged, or has inconsistent metadata."""

    ABOUT: ClassVar[dict[str, Any]] = Store.ABOUT | {
        "what": ("ensemble", "run"),
        "note": str,
        "files": {START: str},
        "configuration": {
            "method": str,
            "members": COUNT,
            "save_every": COUNT,
            "what differs": [str],
            "observables": [[str, str]],
            "statistics": [[dict, str]],
            "geonh": str,
        },
        "statistics": [{"kind": str}],
        "nodes": ("time", "step"),
        "coordinate": [str],
        "component": [str],
    }

    def __init__(self, path: str | os.PathLike) -> None:
        super().__init__(path)
        wrong = self._contradiction()
        if wrong:
            raise StoreError(f"{self.path} is damaged: {wrong}")

    def _contradiction(self) -> str:
        """First contradiction among the metadata; "" if there is none."""
        about, configuration, is_run = self.about, self.about["configuration"], self._is_run
        if is_run == ("n_steps" in configuration):  # a single run may be extended
            return f"it is a store of {'one run' if is_run else 'members'}, and its configuration of another"
        if not is_run and (wrong := misfit(configuration, {"n_steps": COUNT}, "configuration")):
            return wrong
        events = configuration.get("events", [])
        modes = configuration.get("modes", [])
        if not (isinstance(modes, list) and all(isinstance(name, str) for name in modes)):
            return f"configuration.modes is {shortly(modes)}"
        if is_run and not (
            isinstance(events, list) and all(isinstance(e, list) and e and isinstance(e[0], str) for e in events)
        ):
            return f"configuration.events is {shortly(events)}"
        if not is_run and self.entries != configuration["members"]:
            return f"it has {configuration['members']} members, and arrays of {self.entries}"
        if about["statistics"] != [one for one, _ in configuration["statistics"]]:
            return "its statistics are not those of its configuration"
        for name, (kind, fill) in self.fills.items():
            missing: Any = "NaN" if kind.startswith("float") else int(Result.INTERRUPTED) if name == "status" else -1
            if fill != missing:
                return f"what is missing of {name} reads as {fill}, not {missing}"
        return ""

    @property
    def _is_run(self) -> bool:
        return self.about["what"] == "run"

    def _form_of_record(self) -> dict[str, Any]:
        ended = {"status": range(len(Result)), "k": range(2**53), "state": [PACKED]}
        ended |= {"events": [PACKED]} if self._names else {}
        ended |= {"switches": [PACKED]} if self.modes else {}
        return self.RECORD | (ended if self._is_run else {"faults": {str: str}, "failed": range(2**53)})

    @property
    def status(self) -> Result:
        """Status of the single run after its last shard: unless it is SUCCESS, the shards after that stay missing."""
        last = self._last_record()
        return Result.SUCCESS if last is None else Result(last["status"])

    @property
    def failure(self) -> str:
        """Step at which the single run failed, and why; "" if it did not."""
        last = self._last_record()
        status = Result.SUCCESS if last is None else Result(last["status"])
        return f"step {last['k'] + 1}: {status.message}" if last is not None and status.failed else ""

    def events(self) -> dict[str, tuple]:
        """Events of a single run, as variables "name:t", … of a dataset, each event along an axis of its own."""
        parts = [unpacked(record["events"]) for record in self._finished()] if self._names else []
        if not parts:
            return {}
        crossings = Crossings(self._names, *map(np.concatenate, zip(*parts, strict=True)))
        variables: dict[str, tuple] = {}
        for i, name in enumerate(self._names):
            of = crossings.taken(crossings.which == i)
            for what in ("t", "k", "g_vector", "xi", "multipliers"):
                axes = (f"event of {name}", *EVENT_AXES.get(what, ()))
                variables[f"{name}:{what}"] = axes, getattr(of, what), {"long_name": EVENT_NAMES[what]}
        return variables

    @property
    def modes(self) -> list[str]:
        """Names of the modes of a single run, as its arrays "mode" and "switch_source" count them."""
        return self.about["configuration"].get("modes", [])

    def switches(self) -> dict[str, tuple]:
        """Transitions of a single run with modes, as variables "switch_t", … of a dataset, as of a trajectory."""
        parts = [unpacked(record["switches"]) for record in self._finished()] if self.modes else []
        if not parts:
            return {}
        names = Switches._fields[1:]
        return {
            f"switch_{name}": (
                ("switch", *SWITCH_AXES.get(name, ())),
                np.concatenate(values),
                {"long_name": SWITCH_NAMES[name]},
            )
            for name, values in zip(names, zip(*parts, strict=True), strict=True)
        }

    def last(self, nodes: xr.Dataset) -> dict[str, tuple]:
        """Last node of a single run that stopped early, as variables "g:last", … and "n_steps"; none for others."""
        record = self._last_record()
        if record is None or "last" not in record:
            return {}
        wrong = misfit(record["last"], {str: PACKED}, "last") or ", ".join({*record["last"]} - {*nodes})
        if wrong:
            raise StoreError(f"{self.path} is damaged: its last node: {wrong}")
        variables: dict[str, tuple] = {"n_steps": ((), record["k"], {"long_name": "good steps"})}
        for name, values in zip(record["last"], unpacked(record["last"].values()), strict=True):
            variables[f"{name}:last"] = nodes[name].dims[1:], values, at_the_last(name)
        return variables

    def _last_record(self) -> dict[str, Any] | None:
        """Record of the last finished shard of a single run."""
        missing = set(self.missing())
        shards = [i for i in range(self.shards) if i not in missing] if self._is_run else []
        return self.record(shards[-1]) if shards else None

    @property
    def _names(self) -> tuple[str, ...]:
        """Names of the events of a single run."""
        return tuple(name for name, *_ in self.about["configuration"].get("events", ())) if self._is_run else ()

    def _finished(self) -> list[dict[str, Any]]:
        """Records of the finished shards of a single run with events or modes, in their order."""
        missing = set(self.missing())
        shards = (i for i in range(self.shards) if i not in missing) if self._names or self.modes else ()
        return [record for record in map(self.record, shards) if record is not None]

    def first(self) -> Trajectory:
        """First node of member 0; StoreError if it belongs to another store."""
        trajectory = Trajectory.load(self.file(START))
        layout = (trajectory.save_every, trajectory.attributes["point_names"], trajectory.attributes["velocity_names"])
        if layout != (self.about["configuration"]["save_every"], self.about["coordinate"], self.about["component"]):
            raise StoreError(f"{self.path} is damaged: its first node, in {START}, is one of another store")
        return trajectory


def packed(arrays: Iterable[Any]) -> list[list[Any]]:
    """JSON data of arrays, as in ``PACKED``."""
    return [[a.dtype.str, list(a.shape), base64.b64encode(a.tobytes()).decode()] for a in map(np.asarray, arrays)]


def unpacked(data: Iterable[list[Any]]) -> list[np.ndarray]:
    """Arrays of the output of ``packed``."""
    return [np.frombuffer(base64.b64decode(text), dtype).reshape(shape) for dtype, shape, text in data]
