"""One long run streamed to a store: memory is that of one shard of nodes, whatever the length of the run.

The record of a shard holds the state after its last node, from which the next shard starts; so a run that was killed
resumes from there, with bitwise equal results, and a finished run can be extended.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from geonh.arguments.precision import float64
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_count, as_float64
from geonh.engine import Interrupts, computed
from geonh.ensembles.described import SweepStore, packed, unpacked
from geonh.ensembles.labels import AXES, attributes_of
from geonh.ensembles.opening import open_store
from geonh.ensembles.progress import first_nodes
from geonh.ensembles.reading import read
from geonh.ensembles.store_configuration import first_of, store_of
from geonh.ensembles.stores import StoredArray, StoreError, StoreWarning
from geonh.ensembles.sweep import Sweep
from geonh.integrators.base import Integrator
from geonh.integrators.node import State
from geonh.integrators.registry import stepping_method
from geonh.integrators.validity import Result
from geonh.integrators.variable_steps import VariableSteps
from geonh.mechanics.system import System
from geonh.results.events import Crossings, Event
from geonh.results.nodes import Nodes, node_row
from geonh.runs.event_loop import Watched, Watching
from geonh.runs.loop import check_progress, portion, reporting
from geonh.runs.start import MOST

if TYPE_CHECKING:
    import xarray as xr

SHARD = 2**24
"""Approximate size of a shard of nodes, bytes."""


@validated
def stream(
    system: System,
    method: Integrator | str | None = None,
    *,
    xi0: Any,
    g0: Any = None,
    dt: float | None = None,
    n_steps: int | None = None,
    t_end: float | None = None,
    t0: float = 0.0,
    controls: Any = None,
    events: Event | Iterable[Event] = (),
    save_every: int = 1,
    tolerance: float | None = None,
    observables: Iterable[str] | Mapping[str, Any] | None = None,
    progress: bool | Callable[[int, int], None] = False,
    store: str | os.PathLike,
) -> xr.Dataset:
    """Integrate a system for a long time, into a store.

    Called again, it resumes where it stopped, with bitwise equal results; a greater ``n_steps`` or ``t_end`` extends
    the run.

    Parameters
    ----------
    system : System
        System to integrate.
    method : Integrator or str, optional
        As for ``solve``.
    xi0 : array_like, shape=[n]
        Initial velocity, on the constraints at g0.
    g0 : point of the group, optional
        Initial group element; the identity when left out.
    dt : float
        Time step in seconds; negative runs backwards. With a tolerance, bound of the first step, and optional.
    n_steps : int
        Number of steps; left out where ``t_end`` is given.
    t_end : float, optional
        Time of the last node, as for ``solve``.
    t0 : float
        Initial time in seconds.
    controls : callable or array_like, shape=[n_steps + 1, …], optional
        As for ``solve``.
    events : Event or sequence of Event, optional
        Events to record, or to stop at, as for ``solve``: variables "name:t", "name:g_vector", "name:xi",
        "name:multipliers" and "name:k" of the dataset, each along its own axis. After a terminal event the nodes are
        nan; "g:last", "p_plus:last", … and "n_steps" are those of the last node before it, as after a failure.
    save_every : int
        Number of steps between saved nodes, a divisor of ``n_steps``.
    tolerance : float, optional
        As for ``solve``, with ``t_end``; the last node is there, whatever its number.
    observables : sequence of str, or mapping of str to callable, optional
        Observables to keep in place of the nodes, as for ``solve_ensemble``.
    progress : bool or callable
        Show a progress bar, or call ``progress(steps_done, n_steps)``.
    store : str or path
        Folder, created if it does not exist; a store of another run is refused.

    Returns
    -------
    xarray.Dataset
        Opened lazily, with "time" as the first axis. After Ctrl-C it has the shards that were finished.

    Raises
    ------
    ValueError, TypeError
        For invalid input, including an inconsistent start.
    StoreError
        If the store belongs to another run, or cannot be written.
    """
    method, reason = stepping_method(method, tolerance, controls)
    varies = isinstance(method, VariableSteps)
    sweep = Sweep.of(
        system,
        method,
        xi0=as_float64(xi0, "xi0", (system.group.dim,))[None],
        g0=g0,
        dt=dt,
        n_steps=n_steps,
        t_end=t_end,
        t0=t0,
        controls=controls,
        events=events,
        save_every=None if varies else save_every,
        observables=observables,
    )
    sweep = replace(sweep, method_reason=reason)
    if varies:
        sweep = replace(sweep, save_every=as_count(save_every, "save_every"))
    check_progress(progress, "steps_done, n_steps")
    if not sweep.observables:
        raise ValueError("observables must name what is kept of each node, got none")
    run = (_StreamToTime if varies else _Stream)(sweep, store)
    with reporting(progress, sweep.n_steps) as report, Interrupts() as interrupts:
        for done in run.shards():
            total = run.expected(done)
            report(min(done, total), total)
            if interrupts.requested:
                break
    return open_store(store)


class _Stream:
    """Run split into shards of nodes."""

    def __init__(self, sweep: Sweep, path: str | os.PathLike) -> None:
        self.sweep = sweep
        with float64():
            _, faults = first_nodes(sweep.shared, sweep.members.batch(0, 1).members)
        if faults:
            raise ValueError(faults[0])
        first, self.state = first_of(sweep)
        self.member = jax.tree.map(np.asarray, sweep.members.batch(0, 1).members)
        self.no_events = Crossings.none_of(sweep.events, first.bound_system, self.state.g, first.t0)
        self.loop = Watching(first.problem._replace(events=sweep.events), self.state, None, self.no_events)
        self.problem = first.problem
        self.first = computed(node_row, self.problem, self.state)
        self.per = max(SHARD // (8 * self.loop.width), 1)
        self.store = self._opened(path)

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
        nowhere = float("nan")
        return {
            name: StoredArray(
                values.shape[1:], "float64", _dims(name, values), attributes_of(name), self.per, n_nodes, nowhere
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
            self.state = self._recorded_state(record)
            yield int(self.state.k)
            status = Result(record["status"])
            if status.failed:
                words = f"{store.path}: step {record['k'] + 1}: {status.message}"
                warnings.warn(words, StoreWarning, stacklevel=4)
            if status is not Result.SUCCESS:
                return

    def _numbers(self) -> Iterator[int]:
        """Numbers of the shards, in their order."""
        yield from range(self.store.shards)

    def _recorded_state(self, record: dict[str, Any]) -> State:
        """State after a shard, from its record; StoreError if it is none of this run."""
        leaves, structure = jax.tree.flatten(self.state)
        with self.store.damage_on_error():
            arrays = unpacked(record["state"])
        if [(a.shape, a.dtype) for a in arrays] != [(np.shape(a), np.asarray(a).dtype) for a in leaves]:
            raise StoreError(
                f"{self.store.path} is damaged: the state in the record of shard {record['shard']} is none"
            )
        return jax.tree.unflatten(structure, arrays)

    def _compute(self, shard: int) -> Iterator[int]:
        """Integrate from the last state to the end of a shard, or of the run, and write the shard."""
        stride, begin, end = self.sweep.save_every, shard * self.per, min((shard + 1) * self.per, self.n_nodes)
        rows = np.full((end - begin, self.loop.width), np.nan)
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
        self._write(shard, rows, saved, watched, status)

    def _write(self, shard: int, rows: np.ndarray, saved: int, watched: Watched, status: Result, **more: Any) -> None:
        """Write a shard, whose rows after the ``saved`` ones are missing, and the state from which the run goes on."""
        rows[saved:] = np.nan
        leaves = packed(jax.tree.leaves(watched.state))
        facts: dict[str, Any] = {"status": int(status), "k": int(watched.state.k), "state": leaves, **more}
        if status is not Result.SUCCESS:
            last = self._read(computed(node_row, self.problem, watched.state)[None])
            facts["last"] = dict(zip(last, packed(values[0] for values in last.values()), strict=True))
        if self.sweep.events:
            assert self.loop.crossings is not None
            facts["events"] = packed(self.loop.crossings[1:])
        self.store.write(shard, self._read(rows), facts)


class _StreamToTime(_Stream):
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
            rows[saved] = computed(node_row, self.problem, after.state)
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
