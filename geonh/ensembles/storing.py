"""Sweeps run on stores: a configuration split into shards, each determined by the configuration and its index.

A process that runs a sweep on its store computes the missing shards. An executor schedules, retries and transfers them;
each shard is written once, by the process that computes it.
"""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    as_completed,
)
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from geonh.arguments.paths import checked_path
from geonh.arguments.validators import as_count, shortly
from geonh.ensembles.configuration import Configuration
from geonh.ensembles.ensemble import Ensemble
from geonh.ensembles.events import OCCURRENCE, Passed
from geonh.ensembles.opening import open_store, statistics_of
from geonh.ensembles.solving import Solved, solved
from geonh.ensembles.store_configuration import ensemble_store, shard_arrays
from geonh.ensembles.stores import Store, StoreError, StoreWarning
from geonh.integrators.validity import Result
from geonh.runs.loop import check_progress, reporting

if TYPE_CHECKING:
    import xarray as xr


def run(
    sweep: Configuration,
    path: str | os.PathLike,
    shard: int | None,
    only: tuple[int, int] | None,
    executor: Any,
    threads: int | None,
    progress: bool | Callable[[int, int], None],
    note: str,
) -> xr.Dataset:
    """Implementation of ``Sweep.run``."""
    check_progress(progress, "members_done, members")
    if threads is not None:
        threads = as_count(threads, "threads")
    first, stride = _part_of_job(only)
    with _executor(executor) as workers:
        store = ensemble_store(sweep, path, shard, note)
        _compute_missing(sweep, store, range(first, store.shards, stride), workers, threads, progress)
    return open_store(path)


def _compute_missing(
    sweep: Configuration,
    store: Store,
    shards: range,
    workers: Executor | None,
    threads: int | None,
    progress: bool | Callable[[int, int], None],
) -> None:
    """Compute those of some shards that are missing or damaged."""
    path = store.path
    for damaged, fault in store.faults(shards, deep=True).items():
        warnings.warn(f"{path}: shard {damaged} is computed again: {fault}", StoreWarning, stacklevel=5)
        store.mark_missing(damaged)
    missing = [i for i in store.missing() if i in shards]
    size = store.about["shard"]
    done, total = (len(shards) - len(missing)) * size, min(len(shards) * size, sweep.members.size)
    with reporting(progress, total, "members") as report:
        try:
            for _ in _each_computed(sweep, store, missing, workers, threads):
                done = min(done + size, total)
                report(done, total)
        except KeyboardInterrupt:
            pass
        except (BrokenExecutor, CancelledError) as error:
            cause = "a worker died" if isinstance(error, BrokenExecutor) else "the scheduler was lost"
            left = store.missing()
            advice = "run again to finish them"
            if isinstance(error, BrokenProcessPool) and set(missing) <= set(left):
                advice += '; a script that starts processes calls Sweep.run under if __name__ == "__main__":'
            raise StoreError(f"{path}: {cause}; {len(left)} shards are missing: {advice}") from error


def load(sweep: Configuration, path: str | os.PathLike, start: int, stop: int) -> Ensemble:
    """Implementation of ``Sweep.load``."""
    size = sweep.members.size
    start = as_count(start, "start", 0)
    stop = as_count(stop, "stop")
    if not 0 <= start < stop <= size:
        raise ValueError(f"start and stop must be of 0 ≤ start < stop ≤ {size}, got {start} and {stop}")
    if not os.path.lexists(checked_path(path, "store")):
        raise FileNotFoundError(f"{path} is not there: Sweep.run makes it")
    store = ensemble_store(sweep, path)
    first, last = start // store.about["shard"], -(-stop // store.about["shard"])
    for shard, fault in store.faults(range(first, last), deep=True).items():
        raise StoreError(f"{path}: shard {shard} is damaged, {fault}: run the sweep again to repair it")
    records = [store.record(shard) or {} for shard in range(first, last)]
    faults = {int(i): words for record in records for i, words in record.get("faults", {}).items()}

    def members(name: str) -> np.ndarray:
        return store.array(name)[start:stop]

    group, timed = sweep.system.group, () if sweep.times is None else ("t",)
    events = {
        e.name: Passed(group, *(members(f"{e.name}:{what}") for what in ("number", *OCCURRENCE))) for e in sweep.events
    }
    results = Solved(
        batch=sweep.members.batch(start, stop),
        engine=records[0].get("engine", ""),
        status=members("status"),
        n_steps=members("n_steps"),
        faults={i - start: words for i, words in faults.items() if start <= i < stop},
        kept={one.name: members(one.name) for one in sweep.observables},
        last={name: members(f"{name}:last") for name in (*(o.name for o in sweep.observables), *timed)},
        events=events,
    )
    return replace(Ensemble.of(sweep, results), statistics=statistics_of(store))


def _each_computed(
    sweep: Configuration, store: Store, missing: list[int], workers: Executor | None, threads: int | None
) -> Iterable[int]:
    """Compute shards; yields the index of each when it is finished."""
    if workers is None:
        for i in missing:
            yield compute(sweep, store, i, threads or os.cpu_count() or 1)
        return
    payload = _packed(sweep)
    futures = [
        workers.submit(_compute_in_process, payload, str(store.path.resolve()), i, threads or 1) for i in missing
    ]
    try:
        for future in as_completed(futures):
            yield future.result()
    finally:
        for future in futures:
            future.cancel()


def compute(sweep: Configuration, store: Store, shard: int, threads: int) -> int:
    """Compute a shard and write it, unless another process has done so, or is computing it."""
    with store.claim(shard) as ours:
        if ours:
            size = store.about["shard"]
            start = shard * size
            results = solved(sweep, start, min(start + size, sweep.members.size), threads)
            if np.any(results.status == Result.INTERRUPTED):
                raise KeyboardInterrupt
            facts = {
                "faults": {str(start + i): words for i, words in results.faults.items()},
                "failed": int(np.sum(~np.isin(results.status, (Result.SUCCESS, Result.EVENT)))),
                "engine": results.engine,
            }
            arrays = shard_arrays(sweep, results, size)
            store.write(shard, {name: array.values for name, array in arrays.items()}, facts)
    return shard


def _packed(sweep: Configuration) -> bytes:
    try:
        import cloudpickle
    except ImportError as error:
        raise ImportError("an executor needs cloudpickle: pip install 'geonh[scale]'") from error
    return cloudpickle.dumps(sweep)


@lru_cache(maxsize=4)
def _unpacked(payload: bytes) -> Configuration:
    return pickle.loads(payload)  # one object for all shards of a worker, so that programs are compiled once


def _compute_in_process(payload: bytes, path: str, shard: int, threads: int) -> int:
    return compute(_unpacked(payload), Store(path), shard, threads)


@contextmanager
def _executor(executor: Any) -> Any:
    """Context manager that resolves an executor of ``concurrent.futures``; those created here are closed."""
    if executor is None or isinstance(executor, Executor):
        yield executor
    elif hasattr(executor, "get_executor"):  # a dask.distributed Client
        yield executor.get_executor(pure=False, retries=3)
    elif isinstance(executor, str) and executor == "threads":
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            yield pool
    elif isinstance(executor, str) and executor == "processes":
        import multiprocessing

        with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
            yield pool
    else:
        raise TypeError(
            f'executor must be "threads", "processes", an Executor of concurrent.futures or a Client of '
            f"dask.distributed, got {shortly(executor)}"
        )


def _part_of_job(only: tuple[int, int] | None) -> tuple[int, int]:
    """First shard of a job, and the stride to its next one."""
    if only is None:
        return 0, 1
    if not isinstance(only, tuple | list) or len(only) != 2:
        raise TypeError(f"only must be two integers (i, n), got {shortly(only)}")
    i, n = only
    n = as_count(n, "n of only=(i, n)")
    if not 0 <= as_count(i, "i of only=(i, n)", 0) < n:
        raise ValueError(f"only=(i, n) needs 0 ≤ i < n, got {only}")
    return i, n
