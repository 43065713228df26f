"""Run that is streamed to a store, shard of nodes after shard."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from geonh.arguments.precision import float64
from geonh.engine import computed
from geonh.ensembles.configuration import Configuration
from geonh.ensembles.described import SweepStore, packed, unpacked
from geonh.ensembles.labels import AXES, attributes_of
from geonh.ensembles.progress import first_nodes
from geonh.ensembles.reading import read
from geonh.ensembles.store_configuration import first_of, store_of
from geonh.ensembles.stores import StoredArray, StoreError, StoreWarning
from geonh.integrators.node import State
from geonh.integrators.validity import Result
from geonh.results.events import Crossings
from geonh.results.nodes import Nodes, node_row
from geonh.runs.event_loop import Watched, Watching
from geonh.runs.loop import portion
from geonh.runs.start import MOST

SHARD = 2**24
"""Approximate size of a shard of nodes, bytes."""


class StreamRun:
    """Run split into shards of nodes.

    Parameters
    ----------
    sweep : Configuration
        One member.
    path : path
        Folder of the store, made if there is none.
    """

    def __init__(self, sweep: Configuration, path: str | os.PathLike) -> None:
        self.sweep = sweep
        with float64():
            _, faults = first_nodes(sweep.shared, sweep.members.batch(0, 1).members)
        if faults:
            raise ValueError(faults[0])
        first, state = first_of(sweep)
        self.member = jax.tree.map(np.asarray, sweep.members.batch(0, 1).members)
        self.problem = first.problem
        self.no_events = Crossings.none_of(sweep.events, first.bound_system, state.g, first.t0)
        self.state: Any = self._begin(state)
        self.first = self._row(self.state)
        self.per = max(SHARD // (8 * len(self.first)), 1)
        self.store = self._opened(path)

    def _begin(self, state: State) -> Any:
        """Prepare the loop over the steps; return what the first of them goes on from."""
        self.loop = Watching(self.problem._replace(events=self.sweep.events), state, None, self.no_events)
        return state

    def _row(self, state: Any) -> np.ndarray:
        """Saved data of a node, shape=[width]."""
        return computed(node_row, self.problem, state)

    def _opened(self, path: str | os.PathLike) -> SweepStore:
        """Store of the run, with a place for each of its nodes."""
        shards = -(-self.n_nodes // self.per)
        store = store_of(self.sweep, path, "run", self.per, lambda: (self._fields(self.n_nodes), shards))
        length = length_of(store)
        if store.shards < shards or length < self.n_nodes:
            store.lengthen(self.n_nodes, shards)
        elif length > self.n_nodes:
            raise StoreError(
                f"{path} is of a longer run than {self.sweep.n_steps} steps: open it with geonh.open_store"
            )
        return store

    def _fields(self, n_nodes: int) -> dict[str, StoredArray]:
        """Arrays of a new store."""
        return {
            name: StoredArray(
                values.shape[1:],
                str(values.dtype),
                _dims(name, values),
                attributes_of(name),
                self.per,
                n_nodes,
                -1 if values.dtype.kind == "i" else float("nan"),
            )
            for name, values in self._read(self.first[None]).items()
        }

    @property
    def n_nodes(self) -> int:
        """Largest number of nodes."""
        return self.sweep.n_steps // self.sweep.save_every + 1

    def expected(self, done: int) -> int:
        """Number of steps of the run."""
        return self.sweep.n_steps

    def _read(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Observables that are kept, by name, of nodes from their rows."""
        nodes = Nodes.of_rows(rows[None], self.sweep.system.group.dim, timed=self.state.t is not None)
        values = read(self.sweep.shared, self.member, nodes, self.sweep.observables)
        times = {} if nodes.t is None else {"t": nodes.t}
        return {name: value[0] for name, value in (times | values).items()}

    def shards(self) -> Iterator[int]:
        """Compute the missing shards; yields the number of completed steps after each batch."""
        store = self.store
        for shard, fault in store.faults(deep=True).items():
            warnings.warn(f"{store.path}: shard {shard} is computed again: {fault}", StoreWarning, stacklevel=4)
            store.mark_missing(shard)
        missing = set(store.missing())
        for shard in self._numbers():
            record = store.record(shard) if shard not in missing else None
            if record is None:
                with store.claim(shard) as ours:
                    if not ours:
                        raise StoreError(f"{store.path}: another process computes shard {shard} of this run")
                    yield from self._compute(shard)
                record = store.record(shard)
            assert record is not None
            self._go_on(record)
            yield int(self.state.k)
            if record["status"] != Result.SUCCESS:
                return

    def _numbers(self) -> Iterator[int]:
        """Numbers of the shards, in their order."""
        yield from range(self.store.shards)

    def _go_on(self, record: dict[str, Any]) -> None:
        """Go on from the state in the record of a shard; StoreError if it is none of this run."""
        with self.store.damage_on_error():
            arrays = unpacked(record["state"])
            leaves, structure = jax.tree.flatten(self._like(arrays))
        if [(a.shape, a.dtype) for a in arrays] != [(a.shape, a.dtype) for a in leaves]:
            raise StoreError(
                f"{self.store.path} is damaged: the state in the record of shard {record['shard']} is none"
            )
        self.state = jax.tree.unflatten(structure, arrays)

    def _like(self, leaves: list[np.ndarray]) -> Any:
        """State of the form of one with these leaves."""
        return jax.tree.map(np.asarray, self.state)

    def _compute(self, shard: int) -> Iterator[int]:
        """Integrate from the last state to the end of a shard, or of the run, and write the shard."""
        stride, begin, end = self.sweep.save_every, shard * self.per, min((shard + 1) * self.per, self.n_nodes)
        rows = np.full((end - begin, len(self.first)), np.nan)
        watched, status, saved = self.loop.watched_at(self.state), Result.SUCCESS, 0
        self.loop.crossings = self.no_events
        if shard == 0:
            rows[0], saved = self.first, 1
        while saved < len(rows) and status is Result.SUCCESS:
            n_nodes, leap = portion(int(watched.state.k), (end - 1) * stride, stride)
            done = saved
            for after, code, n in self.loop.pieces(watched, n_nodes, leap, rows[saved:]):
                watched, status, done = after, Result(code), saved + n
                yield int(watched.state.k)
            saved = done
        assert self.loop.crossings is not None
        self._write(shard, rows, saved, watched, status)

    def _write(self, shard: int, rows: np.ndarray, saved: int, watched: Watched, status: Result, **more: Any) -> None:
        """Write a shard, and the state from which the run goes on."""
        assert self.loop.crossings is not None
        rows[saved:] = np.nan
        self._store(shard, rows, watched.state, status, self.loop.crossings, **more)

    def _store(
        self, shard: int, rows: np.ndarray, state: Any, status: Result, crossings: Crossings, **more: Any
    ) -> None:
        """Write a shard, whose missing rows are nan, with a record of the state after it."""
        facts: dict[str, Any] = {"status": int(status), "k": int(state.k), "state": packed(jax.tree.leaves(state))}
        if status is not Result.SUCCESS:
            last = self._read(self._row(state)[None])
            facts["last"] = dict(zip(last, packed(values[0] for values in last.values()), strict=True))
        if self.sweep.events:
            facts["events"] = packed(crossings[1:])
        self.store.write(shard, self._read(rows), facts | more)


class StreamRunToTime(StreamRun):
    """Run with steps of variable length: there is a shard more until one of them reaches the end of the run."""

    @property
    def n_nodes(self) -> int:
        return MOST

    @property
    def end(self) -> float:
        return float(self.problem.clock.end)

    def _opened(self, path: str | os.PathLike) -> SweepStore:
        store = store_of(self.sweep, path, "run", self.per, lambda: (self._fields(self.per), 1))
        ended = self._end_of(store, store.shards - 1)
        if ended is not None and np.sign(self.problem.clock.dt) * (ended - self.end) > 0:
            raise StoreError(f"{path} is of a longer run than to {self.end:g}: open it with geonh.open_store")
        if ended != self.end:
            store.mark_missing(store.shards - 1)
            store.lengthen(store.shards * self.per, store.shards)
        return store

    @staticmethod
    def _end_of(store: SweepStore, shard: int) -> float | None:
        """Time at which a shard ends the run; None if it is missing, or the run goes on."""
        return (store.record(shard) or {}).get("end")

    def _numbers(self) -> Iterator[int]:
        shard = 0
        while True:
            if shard == self.store.shards:
                self.store.lengthen((shard + 1) * self.per, shard + 1)
            yield shard
            if self._end_of(self.store, shard) is not None:
                return
            shard += 1

    def expected(self, done: int) -> int:
        clock = self.problem.clock
        part = (self.state.t - clock.t0) / (clock.end - clock.t0)
        return max(round(done / part), done) if part > 0 else max(done, 1)

    def _write(self, shard: int, rows: np.ndarray, saved: int, watched: Watched, status: Result, **more: Any) -> None:
        """Write a shard; of the last one the state before its shortened step, from which a longer run goes on."""
        if status is not Result.END:
            super()._write(shard, rows, saved, watched, status)
            return
        after, code = self.loop.shortened(watched, self.end)
        if code == Result.SUCCESS:
            rows[saved] = self._row(after.state)
            rows = rows[: saved + 1]
            self.store.lengthen(shard * self.per + len(rows), shard + 1)
            more = {"end": self.end}
        super()._write(shard, rows, saved + (code == Result.SUCCESS), watched, Result(code), **more)


def length_of(store: SweepStore) -> int:
    """Number of nodes for which a store has a place."""
    return int(store.array(store.about["arrays"][0]).shape[0])


def _dims(name: str, value: np.ndarray) -> tuple[str, ...]:
    if name in AXES and value.ndim == 2:
        return "time", AXES[name]
    return "time", *(f"{name} axis {i}" for i in range(value.ndim - 1))
