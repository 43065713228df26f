"""Opening of sweep stores, lazily and labelled, with results of their statistics; and merging of stores."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from geonh.arguments.paths import checked_path
from geonh.arguments.signatures import validated
from geonh.arguments.validators import entries, shortly
from geonh.ensembles.described import STATISTIC, SweepStore
from geonh.ensembles.labels import labelled, results_of
from geonh.ensembles.statistics import statistic_from_data
from geonh.ensembles.stores import Store, StoreError, StoreWarning
from geonh.integrators.validity import Result

if TYPE_CHECKING:
    import xarray as xr


@validated
def open_store(path: str | os.PathLike) -> xr.Dataset:
    """Open a store as a dataset whose arrays are read on access.

    Members of missing shards have nan, and the status of an interrupted run.

    Parameters
    ----------
    path : str or path
        Store written by ``Sweep.run``, ``geonh sweep`` or ``stream``.

    Returns
    -------
    xarray.Dataset
        Labelled as by ``Ensemble.to_xarray``, but without descriptions of failures, which ``Sweep.load`` provides;
        ``attrs["missing"]`` counts missing shards.

    Raises
    ------
    TypeError
        If ``path`` is not a path.
    StoreError
        If it is not a store, or a file of a finished shard is missing or truncated.

    Warns
    -----
    StoreWarning
        If shards are missing, or a single run failed.
    """
    store = SweepStore(path)
    faults, missing = store.faults(deep=True, of=STATISTIC), store.missing()  # statistics are read here
    if faults:
        some = "; ".join(f"shard {i}: {fault}" for i, fault in list(faults.items())[:3])
        raise StoreError(f"{path}: {len(faults)} shards are damaged ({some}): run it again to repair them")
    if store.failure:
        warnings.warn(f"{path}: {store.failure}", StoreWarning, stacklevel=3)
    elif missing and store.status is Result.SUCCESS:
        warnings.warn(
            f"{path}: {len(missing)} of {store.shards} shards are missing: run it again to finish them",
            StoreWarning,
            stacklevel=3,
        )
    with store.damage_on_error():
        return _labelled(store, len(missing))


def _labelled(store: SweepStore, missing: int) -> xr.Dataset:
    """Arrays of a store, with coordinates and the results of its statistics."""
    data, about = store.opened(), store.about
    data = data.assign(store.events() | store.switches() | store.last(data))
    _read_one_shard(store)
    data = data.drop_vars([name for name in data.variables if str(name).startswith(STATISTIC)])
    before = store.first()
    sizes = data.sizes
    coordinates: dict[str, Any] = {name: about[name] for name in ("coordinate", "component") if name in sizes}
    if about["what"] == "ensemble":
        coordinates["member"] = np.arange(sizes["member"])
    step, nodes = about["configuration"]["save_every"], about["nodes"]
    if about["what"] == "run":
        from geonh.ensembles.times import times as times_of

        if "t" in data:
            import xarray as xr

            data = data.assign_coords(xr.Coordinates({"time": data["t"]}, indexes={})).drop_vars("t")
        else:
            data = data.assign_coords(times_of(before.t0, before.dt, range(0, sizes["time"] * step, step)))
    elif nodes in sizes:
        if sizes[nodes] != about["configuration"]["n_steps"] // step + 1:
            raise StoreError(f"{store.path} is damaged: its members have {sizes[nodes]} nodes")
        k = np.arange(sizes[nodes]) * step
        times = about["configuration"].get("times")
        if times is not None:
            coordinates["time"] = times
        else:
            coordinates[nodes] = before.t0 + k * before.dt if nodes == "time" else k
    data = data.assign_coords(coordinates)
    differ = about["configuration"]["what differs"]
    labels = [f"parameter {name}" if f"parameter {name}" in data else name for name in differ]
    data = data.set_coords([label for label in labels if label in data])
    statistics = [statistic_from_data(one) for one in about["statistics"]]
    for label, (dims, values, attributes) in labelled(statistics, statistics_of(store), about["nodes"]).items():
        data[label] = (dims, values, attributes)
    facts = {name: before.attributes[name] for name in ("system", "method", "group")}
    if store.modes:
        facts["modes"] = json.dumps(store.modes)
    return data.assign_attrs({**facts, "missing": missing})


def _read_one_shard(store: SweepStore) -> None:
    """Read an entry of each array from an existing shard, to detect undecodable data on opening."""
    there = set(range(store.shards)) - set(store.missing())
    for name in store.about["arrays"] if there else ():
        array = store.array(name)
        array[min(there) * (array.shards or array.chunks)[0]]


def statistics_of(store: Store) -> dict[str, np.ndarray]:
    """Results of the statistics of a store's finished shards, merged in the order of the shards."""
    statistics = [statistic_from_data(data) for data in store.about["statistics"]]
    missing = set(store.missing())
    finished = [i for i in range(store.shards) if i not in missing]
    known = []
    for i, statistic in enumerate(statistics):
        names = [n for n in store.about["arrays"] if n.startswith(f"{STATISTIC}{i}:")]
        if statistic.over == "time":
            known.append({n.split(":")[1]: store.array(n)[:] for n in names})
            continue
        joined: dict[str, np.ndarray] | None = None
        for shard in finished:
            one = {n.split(":")[1]: store.array(n)[shard] for n in names}
            if "numbers" in one:
                there = one["numbers"] >= 0
                one = {name: values[there] for name, values in one.items()}
            joined = one if joined is None else statistic.merge(joined, one)
        known.append(joined or {})
    pairs = [(s, k) for s, k in zip(statistics, known, strict=True) if k]
    return results_of([s for s, _ in pairs], [k for _, k in pairs])


@validated
def merge(target: str | os.PathLike, sources: Iterable[str | os.PathLike]) -> list[int]:
    """Copy missing shards of a store from other stores of the same configuration.

    Parameters
    ----------
    target : str or path
        Store, or path of a new one.
    sources : sequence of str or path
        Stores of jobs that ran parts of the same sweep.

    Returns
    -------
    list of int
        Shards that are still missing.

    Raises
    ------
    StoreError
        If one has another configuration, or a damaged shard.
    TypeError, ValueError
        If ``sources`` is not a list of paths, or is empty.
    """
    paths = entries(sources)
    if paths is None:
        raise TypeError(f"sources must be a list of stores, got {shortly(sources)}")
    others = []
    for path in paths:
        try:
            others.append(SweepStore(checked_path(path, "sources")))
        except StoreError as error:
            raise StoreError(f"sources: {error}") from error
    if not others:
        raise ValueError("sources must be stores to copy from, got none")
    if not os.path.lexists(target):
        others[0].empty_copy(target)
    store = SweepStore(target)
    for other in others:
        same = all(other.about[name] == store.about[name] for name in ("configuration", "shard", "arrays"))
        ours, theirs = store.first(), other.first()
        same = same and all(ours.attributes[name] == theirs.attributes[name] for name in ("system", "parameters"))
        values = [first.function_values for first in (ours, theirs)]
        if not same or (values[0] and values[0].traces) != (values[1] and values[1].traces):
            raise StoreError(f"{other.path} is of another sweep than {target}")
        faults = other.faults(deep=True)
        for shard in set(store.missing()) - set(other.missing()):
            if shard in faults:
                raise StoreError(f"{other.path}: shard {shard} is damaged, {faults[shard]}: run its job again")
            store.copy_shard(other, shard)
    return store.missing()
