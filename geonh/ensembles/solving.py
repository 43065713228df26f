"""Members of an ensemble integrated in parallel, in SIMD lanes of the CPU and on threads, and evaluated in batches.

A batch is some members for some nodes, so that memory is bounded by the observables kept, whatever the length of a run.
The results of a member do not depend on the batches.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import jax
import numpy as np

from geonh.arguments.memory import refuse_too_much
from geonh.ensembles.batch import Batch, Member
from geonh.ensembles.configuration import Configuration
from geonh.ensembles.events import MemberEvents, Passed
from geonh.ensembles.progress import Progress, member_starts, nodes_of, replaced_at
from geonh.ensembles.reading import read
from geonh.ensembles.steps import ChosenSteps, EqualSteps
from geonh.integrators.validity import Result
from geonh.results.nodes import Nodes

SECONDS = 0.3
"""Approximate duration of a batch, seconds; progress is reported after each."""
FIRST = 64
"""Members of the first batch."""


@dataclass
class Solved:
    """Results of some members: observables kept, outcomes, and running statistics.

    Attributes
    ----------
    kept : dict of str to ndarray, shape=[members, nodes, …]
    last : dict of str to ndarray, shape=[members, …]
        The same observables at the last good node of each member that has ended; and its time "t" where steps differ.
    events : dict of str to ndarray, shape=[members, …]
    statistics : list of dict of str to ndarray
        State of each statistic, in the order of those of the sweep.
    """

    batch: Batch
    engine: str
    status: np.ndarray
    n_steps: np.ndarray
    faults: dict[int, str]
    kept: dict[str, np.ndarray] = field(default_factory=dict)
    last: dict[str, np.ndarray] = field(default_factory=dict)
    events: dict[str, Passed] = field(default_factory=dict)
    statistics: list[dict[str, np.ndarray]] = field(default_factory=list)


def solved(
    sweep: Configuration,
    start: int,
    stop: int,
    threads: int,
    report: Callable[[int, int], None] = lambda done, total: None,
    *,
    empty: bool = False,
) -> Solved:
    """Integrate members ``start`` to ``stop`` of a sweep; with ``empty`` no steps are made, to obtain the layout.
    Raises MemoryError if the observables kept would take most of the machine's memory, before the first step.
    """
    per_member = sum(map(np.size, jax.tree.leaves(sweep.members.member(start))))
    more = "make fewer, or a Sweep and run it on a store"
    refuse_too_much(f"{stop - start} members' starts and parameters", {"members": (stop - start) * per_member}, more)
    batch = sweep.members.batch(start, stop)
    _refuse_times(batch, sweep.n_steps if sweep.times is None else 1, start)
    status, counts = np.full(batch.size, int(Result.INTERRUPTED)), np.zeros(batch.size, np.int64)
    results = Solved(batch, "", status, counts, {})
    first = member_starts(sweep.shared, jax.tree.map(lambda a: a[:1], batch.members))
    recorder = _Recorder(sweep, start, results, first.nodes)
    events = MemberEvents(sweep.shared, sweep.events, batch.members, sweep.most_events) if sweep.events else None
    results.events = events.results if events else {}
    with contextlib.suppress(KeyboardInterrupt):  # finished members are kept
        if not empty:
            state = jax.tree.map(lambda a: np.asarray(a)[0], first.states)
            steps = (EqualSteps if sweep.times is None else ChosenSteps)(sweep, batch, state, threads)
            results.engine = steps.engine
            _Integration(sweep, steps, recorder, events, results).all_members(report)
    return results


@dataclass
class _Integration:
    """Loop over batches of members."""

    sweep: Configuration
    steps: EqualSteps | ChosenSteps
    recorder: _Recorder
    events: MemberEvents | None
    results: Solved

    def all_members(self, report: Callable[[int, int], None]) -> None:
        """Integrate all members, some at a time, as many as take about ``SECONDS``."""
        done, size, total = 0, FIRST, self.results.batch.size
        while done < total:
            indices = np.arange(done, min(done + size, total))
            started = time.perf_counter()
            for part in self._some_members(indices):
                if part < 1:
                    report(done + int(part * len(indices)), total)
            done += len(indices)
            elapsed = time.perf_counter() - started
            size = FIRST * int(np.clip(size * SECONDS / max(elapsed, 1e-3), FIRST, 4 * size) // FIRST)
            report(done, total)

    def _some_members(self, indices: np.ndarray) -> Iterator[float]:
        """Integrate some members to the end; yields the completed fraction after each piece of their nodes."""
        sweep, results, recorder = self.sweep, self.results, self.recorder
        starts = member_starts(sweep.shared, recorder.members(indices))
        results.faults |= {int(indices[i]): fault for i, fault in starts.faults.items()}
        progress = Progress.at(sweep.system, starts, indices)
        progress.record(results.status, results.n_steps)
        recorder.take(starts.nodes, indices, 0)
        saved = 1
        for nodes in self.steps.nodes(progress, self.events):
            recorder.take(nodes, indices, saved)
            saved += nodes.k.shape[1]
            progress.record(results.status, results.n_steps)
            yield (saved - 1) / (sweep.n_steps // sweep.save_every)
        progress.record(results.status, results.n_steps)
        ends = nodes_of(sweep.system, progress.states)
        progress.last = replaced_at(progress.last, progress.active, ends.taken(progress.active))
        recorder.take_last(progress.last.taken(np.s_[:, None]), indices)
        results.status[indices[progress.active]] = Result.SUCCESS


class _Recorder:
    """Destination of results: arrays for the observables kept, and the statistics."""

    def __init__(self, sweep: Configuration, start: int, results: Solved, first: Nodes) -> None:
        self._sweep, self._start, self._results = sweep, start, results
        size, nodes = results.batch.size, sweep.n_steps // sweep.save_every + 1
        sample = self._read(first.taken(np.s_[:1]), np.arange(1))
        shapes = {name: value.shape[2:] for name, value in sample.items()}
        n_numbers = size * nodes * sum(int(np.prod(shapes[one.name], dtype=int)) for one in sweep.observables)
        refuse_too_much(
            f"{size} members with {nodes} nodes",
            {
                "nodes": n_numbers,
                "statistics": sum(s.size(size, nodes, shapes[s.observable.name]) for s in sweep.statistics),
                "events": size
                * len(sweep.events)
                * sweep.most_events
                * (1 + first.g_vector.shape[2] + 2 * first.p_plus.shape[2]),
            },
            "raise save_every (left out, it keeps the first and the last node only), keep less with observables= or "
            "most_events=, or take statistics= of less memory",
        )
        for one in sweep.observables:
            results.kept[one.name] = np.full((size, nodes, *shapes[one.name]), np.nan)
            results.last[one.name] = np.full((size, *shapes[one.name]), np.nan)
        if first.t is not None:
            results.last["t"] = np.full(size, np.nan)
        results.statistics = [s.initial(start, size, nodes, shapes[s.observable.name]) for s in sweep.statistics]

    def members(self, indices: np.ndarray) -> Member:
        """Initial data of some members."""
        return jax.tree.map(lambda a: a[indices], self._results.batch.members)

    def _read(self, nodes: Nodes, indices: np.ndarray) -> dict[str, np.ndarray]:
        return read(self._sweep.shared, self.members(indices), nodes, self._sweep.reading)

    def take(self, nodes: Nodes, indices: np.ndarray, node: int) -> None:
        """Evaluate nodes of consecutive members, and store the results from saved node ``node`` on."""
        if not nodes.k.size:
            return
        values, end = self._read(nodes, indices), node + nodes.k.shape[1]
        for one in self._sweep.observables:
            self._results.kept[one.name][indices[0] : indices[-1] + 1, node:end] = values[one.name]
        for statistic, state in zip(self._sweep.statistics, self._results.statistics, strict=True):
            statistic.update(state, values[statistic.observable.name], self._start, int(indices[0]), node)

    def take_last(self, nodes: Nodes, indices: np.ndarray) -> None:
        """Evaluate the last good node of each of some members, and store the observables kept."""
        values = read(self._sweep.shared, self.members(indices), nodes, self._sweep.observables)
        for name, value in values.items():
            self._results.last[name][indices] = value[:, 0]
        if nodes.t is not None:
            self._results.last["t"][indices] = nodes.t[:, 0]


def _refuse_times(batch: Batch, n_steps: int, start: int) -> None:
    dt, t0 = batch.members.dt, batch.members.t0
    with np.errstate(over="ignore"):
        end = t0 + float(n_steps) * dt
    bad = ~(np.abs(dt) >= np.finfo(float).tiny) | ~np.isfinite(end) | (t0 + dt == t0) | (end - dt == end)
    if bad.any():
        i = int(np.argmax(bad))
        raise ValueError(f"member {start + i}: the time does not advance or overflows: t0 = {t0[i]:g}, dt = {dt[i]:g}")
