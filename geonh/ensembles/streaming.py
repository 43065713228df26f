"""One long run streamed to a store: memory is that of one shard of nodes, whatever the length of the run.

The record of a shard holds the state after its last node, from which the next shard starts; so a run that was killed
resumes from there, with bitwise equal results, and a finished run can be extended.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from geonh.arguments.precision import float64
from geonh.arguments.signatures import judged
from geonh.arguments.validators import as_float64
from geonh.engine import Interrupts, computed
from geonh.ensembles.described import packed, unpacked
from geonh.ensembles.labels import AXES, attributes_of
from geonh.ensembles.opening import open_store
from geonh.ensembles.progress import first_nodes
from geonh.ensembles.reading import read
from geonh.ensembles.store_configuration import first_of, store_of
from geonh.ensembles.stores import StoredArray, StoreError, StoreWarning
from geonh.ensembles.sweep import Sweep
from geonh.integrators.base import Integrator
from geonh.integrators.node import State
from geonh.integrators.validity import Result
from geonh.mechanics.system import System
from geonh.results.events import Crossings, Event
from geonh.results.nodes import Nodes, node_row
from geonh.runs.event_loop import Watching
from geonh.runs.loop import check_progress, portion, reporting

if TYPE_CHECKING:
    import xarray as xr

SHARD = 2**24
"""Approximate size of a shard of nodes, bytes."""


@judged
def stream(
    system: System,
    method: Integrator | str | None = None,
    *,
    xi0: Any,
    g0: Any = None,
    dt: float,
    n_steps: int | None = None,
    t_end: float | None = None,
    t0: float = 0.0,
    controls: Any = None,
    events: Event | Iterable[Event] = (),
    save_every: int = 1,
    observables: Iterable[str] | Mapping[str, Any] | None = None,
    progress: bool | Callable[[int, int], None] = False,
    store: str | os.PathLike,
) -> xr.Dataset:
    """Integrate a system for a long time, into a store.

    Called again, it resumes where it stopped, with bitwise equal results; a greater ``n_steps`` extends the run.

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
        Time step in seconds; negative runs backwards.
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
        save_every=save_every,
        observables=observables,
    )
    check_progress(progress, "steps_done, n_steps")
    if not sweep.observables:
        raise ValueError("observables must name what is kept of each node, got none")
    run = _Stream(sweep, store)
    with reporting(progress, sweep.n_steps) as report, Interrupts() as interrupts:
        for done in run.shards():
            report(min(done, sweep.n_steps), sweep.n_steps)
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
        self.n_nodes = sweep.n_steps // sweep.save_every + 1
        self.problem = first.problem
        self.first = computed(node_row, self.problem, self.state)
        self.per = max(SHARD // (8 * self.loop.width), 1)
        shards = -(-self.n_nodes // self.per)
        fields = {
            name: StoredArray(
                value.shape[1:],
                "float64",
                _dims(name, value),
                attributes_of(name),
                self.per,
                self.n_nodes,
                float("nan"),
            )
            for name, value in self._read(self.first[None]).items()
        }
        self.store = store_of(sweep, path, "run", self.per, lambda: (fields, shards))
        length = self.store.array(next(iter(fields))).shape[0]
        if self.store.shards < shards or length < self.n_nodes:
            self.store.lengthen(self.n_nodes, shards)
        elif length > self.n_nodes:
            raise StoreError(f"{path} is of a longer run than {sweep.n_steps} steps: open it with geonh.open_store")

    def _read(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        nodes = Nodes.of_rows(rows[None], self.sweep.system.group.dim)
        shared = self.sweep.shared
        return {name: value[0] for name, value in read(shared, self.member, nodes, self.sweep.observables).items()}

    def shards(self) -> Iterator[int]:
        """Compute the missing shards; yields the number of completed steps after each batch."""
        store = self.store
        for shard, fault in store.faults(deep=True).items():
            warnings.warn(f"{store.path}: shard {shard} is computed again: {fault}", StoreWarning, stacklevel=4)
            store.mark_missing(shard)
        missing = set(store.missing())
        for shard in range(store.shards):
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
        rows[saved:] = np.nan
        facts = {"status": int(status), "k": int(watched.state.k), "state": packed(jax.tree.leaves(watched.state))}
        if status is not Result.SUCCESS:
            last = self._read(computed(node_row, self.problem, watched.state)[None])
            facts["last"] = dict(zip(last, packed(values[0] for values in last.values()), strict=True))
        if self.sweep.events:
            facts["events"] = packed(self.loop.crossings[1:])
        self.store.write(shard, self._read(rows), facts)


def _dims(name: str, value: np.ndarray) -> tuple[str, ...]:
    if name in AXES and value.ndim == 2:
        return "time", AXES[name]
    return "time", *(f"{name} axis {i}" for i in range(value.ndim - 1))
