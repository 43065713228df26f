"""Members of an ensemble integrated in parallel, in SIMD lanes of the CPU and on threads, and evaluated in batches.

A batch is some members for some nodes, so that memory is bounded by the observables kept, whatever the length of a run.
The results of a member do not depend on the batches.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from geonh.arguments.memory import refuse_too_much
from geonh.arguments.precision import float64
from geonh.engine.compiled import Crowd, crowd, mapped
from geonh.ensembles.batch import Batch, Member, Shared
from geonh.ensembles.configuration import Configuration
from geonh.ensembles.reading import Nodes, Passages, read
from geonh.integrators.base import Problem
from geonh.integrators.node import Result, State
from geonh.mechanics.soundness import Facts, clearly_sound, start_fault
from geonh.runs.event_loop import node_row
from geonh.runs.loop import next_node
from geonh.runs.start import node_and_facts

SECONDS = 0.3
"""Approximate duration of a batch, seconds; progress is reported after each."""
FIRST = 64
"""Members of the first batch."""
PIECE = 2**24
"""Bytes of the nodes of a batch."""


@dataclass
class Solved:
    """Results of some members: observables kept, outcomes, and running statistics.

    Attributes
    ----------
    kept : dict of str to ndarray, shape=[members, nodes, …]
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
    events: dict[str, np.ndarray] = field(default_factory=dict)
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

    Raises
    ------
    MemoryError
        If the observables kept would take most of the machine's memory, before the first step.
    """
    one = sum(map(np.size, jax.tree.leaves(sweep.members.part(start, start + 1).members)))
    more = "make fewer, or a Sweep and run it on a store"
    refuse_too_much(f"{stop - start} members' starts and parameters", {"members": (stop - start) * one}, more)
    batch = sweep.members.part(start, stop)
    _refuse_times(batch, sweep.n_steps, start)
    status, counts = np.full(batch.size, int(Result.INTERRUPTED)), np.zeros(batch.size, np.int64)
    found = Solved(batch, "", status, counts, {})
    state, _, first = _begun(sweep.shared, jax.tree.map(lambda a: a[:1], batch.members))
    keeping = _Keeping(sweep, start, found, first)
    with contextlib.suppress(KeyboardInterrupt):  # finished members are kept
        if not empty:
            runner = _runner(sweep, batch, state)
            found.engine = runner.engine
            _Work(sweep, runner, threads, keeping, found).all_members(report)
        elif sweep.events:
            nothing = Passages(sweep.shared, sweep.events, batch.members, sweep.most_events)
            keeping.events.append((np.arange(batch.size), nothing.told()))
    found.events = _joined(keeping.events, batch.size)
    return found


def _runner(sweep: Configuration, batch: Batch, states: State) -> Crowd:
    """Loop over members that differ in the data that the sweep varies."""
    members, varied = batch.members, sweep.members.varied
    one = jax.tree.map(lambda a: a[0], members)
    parameters = {name: v if name in varied else one.parameters[name] for name, v in members.parameters.items()}
    t0, dt = (getattr(members if name in varied else one, name) for name in ("t0", "dt"))
    many = members._replace(parameters=parameters, t0=t0, dt=dt)

    of = sweep.shared.problem
    return crowd(next_node, node_row, of(one), of(many), jax.tree.map(lambda a: np.asarray(a)[0], states))


@dataclass
class _Work:
    """Loop over batches."""

    sweep: Configuration
    runner: Crowd
    threads: int
    keeping: _Keeping
    found: Solved

    def all_members(self, report: Callable[[int, int], None]) -> None:
        done, size, total = 0, FIRST, self.found.batch.size
        while done < total:
            these = np.arange(done, min(done + size, total))
            begun = time.perf_counter()
            for part in self._some(these):
                if part < 1:
                    report(done + int(part * len(these)), total)
            done += len(these)
            elapsed = time.perf_counter() - begun
            size = FIRST * int(np.clip(size * SECONDS / max(elapsed, 1e-3), FIRST, 4 * size) // FIRST)
            report(done, total)

    def _some(self, these: np.ndarray) -> Any:
        """Integrate some members to the end; yields the completed fraction after each batch."""
        sweep, found, keeping = self.sweep, self.found, self.keeping
        states, faults, nodes = _begun(sweep.shared, keeping.of(these))
        found.faults |= {int(these[i]): fault for i, fault in faults.items()}
        found.status[these[list(faults)]] = Result.START
        going = np.array([i not in faults for i in range(len(these))])
        status, counts = np.zeros(len(these), int), np.zeros(len(these), np.int64)
        passages = Passages(sweep.shared, sweep.events, keeping.of(these), sweep.most_events) if sweep.events else None
        leap = 1 if passages else sweep.save_every
        keeping.take(nodes, these, 0)
        done = saved = 0
        most = max(PIECE // (8 * self.runner.width * len(these)), 1)
        while done < sweep.n_steps and going.any():
            n = min((sweep.n_steps - done) // leap, most)
            piece = np.full((len(these), n, self.runner.width), np.nan)
            before = _taken(states, going)
            rows, reached = self.runner.run(these[going], before, n, leap, self.threads)
            rows[np.arange(n) >= reached.n_rows[:, None]] = np.nan
            piece[going], status[going] = rows, reached.status
            counts[going] += reached.state.k - before.k
            states = _put(states, going, reached.state)
            new = Nodes.of_rows(piece, sweep.system.group.dim)
            if passages:
                stops = passages.see(new.after(nodes.last()))
                early = stops < n
                for a in new:
                    a[early[:, None] & (np.arange(1, n + 1) > stops[:, None])] = np.nan
                status[early], counts[early] = Result.EVENT, done + stops[early]
            keep = new.every(-(done + 1) % (sweep.save_every // leap) if leap == 1 else 0, sweep.save_every // leap)
            keeping.take(keep, these, saved + 1)
            done, saved, nodes = done + n * leap, saved + keep.k.shape[1], new
            going &= status == 0
            found.status[these[status > 0]], found.n_steps[these] = status[status > 0], counts
            yield done / sweep.n_steps
        found.status[these[going]] = Result.SUCCESS
        if passages:
            keeping.events.append((these, passages.told()))


def _taken(tree: Any, where: np.ndarray) -> Any:
    return jax.tree.map(lambda a: a[where], tree)


def _put(tree: Any, where: np.ndarray, values: Any) -> Any:
    """Replace entries of the arrays of a tree."""
    if where.all():
        return values

    def put(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a = np.array(a)
        a[where] = b
        return a

    return jax.tree.map(put, tree, values)


class _Keeping:
    """Destination of results: arrays for the observables kept, and the statistics."""

    def __init__(self, sweep: Configuration, start: int, found: Solved, first: Nodes) -> None:
        self.events: list[tuple[np.ndarray, dict[str, np.ndarray]]] = []
        self._sweep, self._start, self._found = sweep, start, found
        size, nodes = found.batch.size, sweep.n_steps // sweep.save_every + 1
        sample = self._read(Nodes(*(a[:1] for a in first)), np.arange(1))
        shapes = {name: value.shape[2:] for name, value in sample.items()}
        kept = size * nodes * sum(int(np.prod(shapes[one.name], dtype=int)) for one in sweep.observables)
        refuse_too_much(
            f"{size} members with {nodes} nodes",
            {
                "nodes": kept,
                "statistics": sum(s.room(size, nodes, shapes[s.wanted.name]) for s in sweep.statistics),
                "events": size
                * len(sweep.events)
                * sweep.most_events
                * (1 + first.g.shape[2] + 2 * first.p_plus.shape[2]),
            },
            "raise save_every (left out, it keeps the first and the last node only), keep less with observables= or "
            "most_events=, or take statistics= of less memory",
        )
        for one in sweep.observables:
            found.kept[one.name] = np.full((size, nodes, *shapes[one.name]), np.nan)
        found.statistics = [s.nothing(start, size, nodes, shapes[s.wanted.name]) for s in sweep.statistics]

    def of(self, these: np.ndarray) -> Member:
        return jax.tree.map(lambda a: a[these], self._found.batch.members)

    def _read(self, nodes: Nodes, these: np.ndarray) -> dict[str, np.ndarray]:
        return read(self._sweep.shared, self.of(these), nodes, self._sweep.reading)

    def take(self, nodes: Nodes, these: np.ndarray, node: int) -> None:
        """Evaluate nodes, and store the results from saved node ``node`` on."""
        if not nodes.k.size:
            return
        values, end = self._read(nodes, these), node + nodes.k.shape[1]
        for one in self._sweep.observables:
            self._found.kept[one.name][these[0] : these[-1] + 1, node:end] = values[one.name]
        for statistic, known in zip(self._sweep.statistics, self._found.statistics, strict=True):
            statistic.seen(known, values[statistic.wanted.name], self._start, int(these[0]), node)


def _joined(parts: list[tuple[np.ndarray, dict[str, np.ndarray]]], size: int) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for these, told in parts:
        for name, values in told.items():
            empty = 0 if values.dtype.kind == "i" else np.nan
            found.setdefault(name, np.full((size, *values.shape[1:]), empty, values.dtype))[these] = values
    return found


def _begun(shared: Shared, members: Member) -> tuple[State, dict[int, str], Nodes]:
    """``first_nodes``, and the nodes to evaluate: nan for invalid starts."""
    with float64():
        states, faults = first_nodes(shared, members)
    rows = mapped(node_row, Problem(shared.system, None, None), states)[:, None]
    rows[list(faults)] = np.nan
    return states, faults, Nodes.of_rows(rows, shared.system.group.dim)


def first_nodes(shared: Shared, members: Member) -> tuple[State, dict[int, str]]:
    """Node 0 of every member, and descriptions of invalid starts, by index."""
    states, found = mapped(first_node, shared, members)
    faults, sound = {}, clearly_sound(members.xi, Facts(*found)) & (np.asarray(states.status) == 0)
    for i in np.flatnonzero(~sound).tolist():
        member, one = (jax.tree.map(lambda a, i=i: a[i], tree) for tree in (members, Facts(*found)))
        fault = start_fault(shared.system, float(member.t0), member.g, member.xi, float(member.dt), one)
        if not fault and states.status[i]:
            fault = Result(int(states.status[i])).message
        if fault:
            faults[i] = fault
    return states, faults


def first_node(shared: Shared, member: Member) -> tuple[State, Facts]:
    """Node 0 of a member, and the diagnostics of its start."""
    return node_and_facts(shared.problem(member), (member.g, member.xi))


def _refuse_times(batch: Batch, n_steps: int, start: int) -> None:
    dt, t0 = batch.members.dt, batch.members.t0
    with np.errstate(over="ignore"):
        end = t0 + float(n_steps) * dt
    bad = ~(np.abs(dt) >= np.finfo(float).tiny) | ~np.isfinite(end) | (t0 + dt == t0) | (end - dt == end)
    if bad.any():
        i = int(np.argmax(bad))
        raise ValueError(f"member {start + i}: time stands still or overflows with t0 = {t0[i]:g}, dt = {dt[i]:g}")
