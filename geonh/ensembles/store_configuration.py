"""Configuration recorded in a sweep's store, and its comparison with a sweep: data are compared by value, functions by
their traces, as ``resume`` compares them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geonh.arguments.file_data import misfit
from geonh.arguments.paths import checked_path
from geonh.arguments.precision import float64
from geonh.arguments.validators import as_count
from geonh.ensembles.configuration import Configuration
from geonh.ensembles.described import START, STATISTIC, SweepStore
from geonh.ensembles.ensemble import Ensemble, first_trajectory
from geonh.ensembles.reading import ARGUMENTS
from geonh.ensembles.solving import Solved, solved
from geonh.ensembles.statistics import Quantiles
from geonh.ensembles.stores import Store, StoredArray, StoreError
from geonh.geometry.field import takes_parameters
from geonh.integrators.node import State
from geonh.integrators.validity import Result
from geonh.results.digests import digest, trace_of
from geonh.results.same_system import differences, differences_of_modes
from geonh.results.trajectory import Trajectory, describe
from geonh.runs.switching import begun
from geonh.version import __version__

SHARD = 2**26
"""Approximate size of a shard, bytes."""
MOST = 10_240
"""Maximum number of members of a shard."""
BLOCK = 64
"""The number of members of a shard is a multiple of this."""

FILES = (".nc", ".nc4", ".cdf", ".h5", ".hdf5", ".csv", ".parquet", ".npz", ".npy", ".pkl", ".json", ".mat", ".txt")
"""Suffixes of files, which a new store may not have."""


def store_of(
    sweep: Configuration,
    path: str | os.PathLike,
    what: str,
    shard: int | None,
    layout: Callable[[], tuple[dict[str, StoredArray], int]],
    note: str = "",
) -> SweepStore:
    """Open the store of a sweep, or create it if it does not exist; StoreError if it has another configuration.

    An "ensemble" is split into members, a "run" into nodes, ``shard`` of them in each shard (by default as in an
    existing store); ``layout`` returns the arrays and the number of shards of a new one.
    """
    place = checked_path(path)
    if not os.path.lexists(place):
        if place.suffix.lower() in FILES:
            raise StoreError(
                f"{path} is the name of a file, and a store is a folder: name it {place.stem}.zarr; solve has "
                "checkpoint= for a file, and its result save()"
            )
        fields, shards = layout()
        about = {
            "what": what,
            "note": note,
            "shard": max(field.per for field in fields.values()),
            "configuration": configuration_of(sweep, what),
            "statistics": [s.as_data() for s in sweep.statistics],
            "nodes": "step" if {"dt", "t0"} & set(sweep.members.varied) else "time",
            "coordinate": list(sweep.system.group.point_names),
            "component": list(sweep.system.group.velocity_names),
        }
        SweepStore.create(path, fields, shards, about, {START: first_of(sweep)[0].save})
    store = SweepStore(path)
    _refuse_another(sweep, store, what, shard)
    return store


def ensemble_store(sweep: Configuration, path: str | os.PathLike, shard: int | None = None, note: str = "") -> Store:
    """Open or create the store of a sweep that is split into members."""

    def layout() -> tuple[dict[str, StoredArray], int]:
        empty = solved(sweep, 0, 1, 1, empty=True)
        size = _size(sweep, empty) if shard is None else as_count(shard, "shard")
        shards = -(-sweep.members.size // size)
        return _fields(shard_arrays(sweep, empty, size), sweep.members.size, size, shards), shards

    return store_of(sweep, path, "ensemble", shard, layout, note)


def first_of(sweep: Configuration) -> tuple[Trajectory, State]:
    """First node of member 0, and its state."""
    first, state = first_trajectory(sweep.shared, sweep.members.member(0), sweep.save_every, sweep.method_reason)
    return (first if sweep.modes is None else begun(sweep.modes, sweep.mode, first)), state


def configuration_of(sweep: Configuration, what: str) -> dict[str, Any]:
    """Configuration of a sweep, except for functions of the system, as JSON data."""
    shared = None if callable(sweep.controls) else sweep.controls
    length: dict[str, Any] = {"n_steps": sweep.n_steps} if what == "ensemble" else {}  # a single run may be extended
    if length and sweep.times is not None:
        length["times"] = sweep.times.tolist()
    initial = sweep.members.initial_data()
    if what == "run" and sweep.times is not None:
        del initial["dt"]  # chosen by the end of the run, which may change
    return {
        "method": describe(sweep.method),
        "members": sweep.members.size,
        **length,
        "save_every": sweep.save_every,
        "what differs": list(sweep.members.varied),
        "initial data": initial,
        "axes": [[names, length] for names, length in sweep.members.axes],
        "controls": "" if shared is None else digest("", [np.asarray(shared)]),
        "observables": [[one.name, _trace(sweep, one.function)] for one in sweep.observables],
        "statistics": [[s.as_data(), _trace(sweep, s.observable.function)] for s in sweep.statistics],
        "events": [[e.name, e.direction, e.stop, _trace(sweep, e.function)] for e in sweep.events],
        "most_events": sweep.most_events,
        **({} if sweep.modes is None else {"modes": list(sweep.modes.names), "mode": sweep.mode}),
        "geonh": __version__,
        "jax": jax.__version__,
    }


def _trace(sweep: Configuration, function: Callable | None) -> str:
    """Digest of the trace of a function of (t, g, ξ, λ), and optionally of the parameters."""
    if function is None:
        return ""
    system, zero = sweep.system, np.zeros(())
    with float64():
        g, xi = system.point(None), jnp.zeros(system.group.dim)
        lam = np.zeros(len(system.constraint_residual(system.at(g, zero), jnp.zeros(system.group.dim))))
        more = (system.parameters,) if takes_parameters(function, ARGUMENTS, "a function") else ()
        return trace_of(function, zero, g, xi, lam, *more)


def _refuse_another(sweep: Configuration, store: SweepStore, what: str, shard: int | None) -> None:
    if store.about["what"] != what:
        kinds = {"ensemble": "an ensemble", "run": "one run"}
        raise StoreError(f"{store.path} is a store of {kinds[store.about['what']]}, not of {kinds[what]}")
    there, here = store.about["configuration"], json.loads(json.dumps(configuration_of(sweep, what)))
    lines = [line for name in here for line in _differences(name, there.get(name), here[name])]
    if shard is not None and shard != store.about["shard"]:
        lines.append(f"entries of a shard: {store.about['shard']} there, {shard} here")
    if not lines:
        before = store.first()
        first, _ = first_of(sweep)
        assert first.system is not None
        if sweep.modes is None:
            changes = differences(before, before.function_values, first.system, first.clock)
        else:
            changes = differences_of_modes(before, before.function_values, sweep.modes, first.clock)
        lines = [f"{name}: {words}" for name, words in changes.items()]
    if lines:
        words = "\n".join(f"  {line}" for line in lines)
        raise StoreError(f"{store.path} is of another configuration:\n{words}\nname another store, or delete this one")


def _differences(name: str, there: Any, here: Any) -> list[str]:
    """Descriptions of the difference of an entry of two configurations."""
    if there == here:
        return []
    if name == "initial data" and not misfit(there, {str: [str, list]}):
        pairs = {one: (there.get(one), here.get(one)) for one in (*there, *here)}
        return [f"{one}: {_values_apart(a, b)}" for one, (a, b) in pairs.items() if not (a and b) or a[0] != b[0]]
    if name == "controls" and there and here:
        return ["controls: other values at the nodes"]
    return [f"{name}: {there} there, {here} here"]


def _values_apart(there: list[Any] | None, here: list[Any] | None) -> str:
    """Description of the difference of an argument, from its digests and numbers of member 0."""
    if there is None or here is None:
        return "given there, not here" if here is None else "given here, not there"
    a, b = there[1], here[1]
    if len(a) != len(b):
        return f"{len(a)} numbers there, {len(b)} here"
    apart = [i for i, (one, other) in enumerate(zip(a, b, strict=True)) if one != other]
    if not apart:
        return "other values" + (", though not in member 0" if a else "")
    if len(a) <= 3:
        return f"{a[0] if len(a) == 1 else a} there, {b[0] if len(b) == 1 else b} here, in member 0"
    return f"entry {apart[0]} is {a[apart[0]]} there, {b[apart[0]]} here, in member 0"


def _size(sweep: Configuration, one: Solved) -> int:
    """Number of members of a shard."""
    bytes_of_one = sum(array.values.nbytes for array in shard_arrays(sweep, one, 1).values() if not array.of_shard)
    return BLOCK * int(np.clip(min(SHARD // bytes_of_one, MOST) // BLOCK, 1, -(-sweep.members.size // BLOCK)))


class _ShardArray(NamedTuple):
    """Values of a shard: of its members, or of the shard as a whole, with a first axis of length one."""

    values: np.ndarray
    dims: tuple[str, ...]
    attributes: dict[str, str]
    of_shard: bool


def shard_arrays(sweep: Configuration, results: Solved, size: int) -> dict[str, _ShardArray]:
    """Content of a shard of a store: arrays of members, and states of the statistics."""
    arrays = {
        name: _ShardArray(np.asarray(values), dims, attributes, of_shard=False)
        for name, (dims, values, attributes) in Ensemble.of(sweep, results).variables().items()
    }
    for i, (statistic, known) in enumerate(zip(sweep.statistics, results.statistics, strict=True)):
        for name, values in known.items():
            label, of_shard = f"{STATISTIC}{i}:{name}", statistic.over == "members"
            if isinstance(statistic, Quantiles):
                values = _padded(values, min(statistic.sample, size))
            if of_shard:
                values = values[None]
            dims = ("shard" if of_shard else "member", *(f"{label} {j}" for j in range(1, values.ndim)))
            arrays[label] = _ShardArray(values, dims, {}, of_shard)
    return arrays


def _padded(values: np.ndarray, length: int) -> np.ndarray:
    """Pad values to the size of a shard, which may have fewer members than others."""
    filled = np.full((length, *values.shape[1:]), _fill(values), values.dtype)
    filled[: len(values)] = values
    return filled


def _fill(values: np.ndarray) -> Any:
    return -1 if values.dtype.kind == "i" else np.nan


def _fields(arrays: dict[str, _ShardArray], members: int, size: int, shards: int) -> dict[str, StoredArray]:
    return {
        name: StoredArray(
            array.values.shape[1:],
            str(array.values.dtype),
            array.dims,
            array.attributes,
            1 if array.of_shard else size,
            shards if array.of_shard else members,
            int(Result.INTERRUPTED) if name == "status" else _fill(array.values),
        )
        for name, array in arrays.items()
    }
