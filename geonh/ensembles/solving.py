"""Members of an ensemble integrated in parallel, in SIMD lanes of the CPU and on threads, and evaluated in batches.

A batch is some members for some nodes, so that memory is bounded by the observables kept, whatever the length of a run.
The results of a member do not depend on the batches.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np

from geonh.arguments.memory import refuse_too_much
from geonh.arguments.precision import float64
from geonh.engine import BatchStepping, batch_stepping, mapped
from geonh.ensembles.batch import Batch, Member, Shared
from geonh.ensembles.configuration import Configuration
from geonh.ensembles.events import MemberEvents, Passed
from geonh.ensembles.reading import read
from geonh.integrators.base import Problem
from geonh.integrators.node import State
from geonh.integrators.validity import Result
from geonh.mechanics.soundness import Facts, clearly_sound, start_fault
from geonh.mechanics.system import System
from geonh.results.nodes import Nodes, node_row
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
    last : dict of str to ndarray, shape=[members, …]
        The same observables at the last good node of each member that has ended.
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

    Raises
    ------
    MemoryError
        If the observables kept would take most of the machine's memory, before the first step.
    """
    one = sum(map(np.size, jax.tree.leaves(sweep.members.member(start))))
    more = "make fewer, or a Sweep and run it on a store"
    refuse_too_much(f"{stop - start} members' starts and parameters", {"members": (stop - start) * one}, more)
    batch = sweep.members.batch(start, stop)
    _refuse_times(batch, sweep.n_steps, start)
    status, counts = np.full(batch.size, int(Result.INTERRUPTED)), np.zeros(batch.size, np.int64)
    results = Solved(batch, "", status, counts, {})
    first = _member_starts(sweep.shared, jax.tree.map(lambda a: a[:1], batch.members))
    recorder = _Recorder(sweep, start, results, first.nodes)
    events = MemberEvents(sweep.shared, sweep.events, batch.members, sweep.most_events) if sweep.events else None
    results.events = events.results if events else {}
    with contextlib.suppress(KeyboardInterrupt):  # finished members are kept
        if not empty:
            runner = _runner(sweep, batch, first.states)
            results.engine = runner.engine
            _Integration(sweep, runner, threads, recorder, events, results).all_members(report)
    return results


def _runner(sweep: Configuration, batch: Batch, states: State) -> BatchStepping:
    """Loop over members that differ in the data that the sweep varies."""
    members, varied = batch.members, sweep.members.varied
    one = jax.tree.map(lambda a: a[0], members)
    parameters = {name: v if name in varied else one.parameters[name] for name, v in members.parameters.items()}
    t0, dt = (getattr(members if name in varied else one, name) for name in ("t0", "dt"))
    many = members._replace(parameters=parameters, t0=t0, dt=dt)

    of = sweep.shared.problem
    return batch_stepping(next_node, node_row, of(one), of(many), jax.tree.map(lambda a: np.asarray(a)[0], states))


@dataclass
class _Integration:
    """Loop over batches of members."""

    sweep: Configuration
    runner: BatchStepping
    threads: int
    recorder: _Recorder
    events: MemberEvents | None
    results: Solved

    def all_members(self, report: Callable[[int, int], None]) -> None:
        """Integrate all members, some at a time, as many as take about ``SECONDS``."""
        done, size, total = 0, FIRST, self.results.batch.size
        while done < total:
            indices = np.arange(done, min(done + size, total))
            begun = time.perf_counter()
            for part in self._some_members(indices):
                if part < 1:
                    report(done + int(part * len(indices)), total)
            done += len(indices)
            elapsed = time.perf_counter() - begun
            size = FIRST * int(np.clip(size * SECONDS / max(elapsed, 1e-3), FIRST, 4 * size) // FIRST)
            report(done, total)

    def _some_members(self, indices: np.ndarray) -> Iterator[float]:
        """Integrate some members to the end; yields the completed fraction after each piece of their nodes."""
        sweep, results, recorder, events = self.sweep, self.results, self.recorder, self.events
        members = recorder.members(indices)
        starts = _member_starts(sweep.shared, members)
        results.faults |= {int(indices[i]): fault for i, fault in starts.faults.items()}
        progress = _Progress.at(sweep.system, starts, indices)
        progress.record(results)
        stride = 1 if events else sweep.save_every
        nodes_per_saved = sweep.save_every // stride
        longest = max(PIECE // (8 * self.runner.width * len(indices)), 1)
        nodes, done, saved = starts.nodes, 0, 1
        recorder.take(nodes, indices, 0)
        while done < sweep.n_steps and progress.active.any():
            n = min((sweep.n_steps - done) // stride, longest)
            rows = progress.advance(self.runner, n, stride, self.threads)
            last, nodes = nodes.taken(np.s_[:, -1:]), Nodes.of_rows(rows, sweep.system.group.dim)
            if events:
                progress.stop(events.locate(indices, last, nodes), last, nodes, done)
            to_save = nodes.taken(np.s_[:, -(done + 1) % nodes_per_saved :: nodes_per_saved])
            recorder.take(to_save, indices, saved)
            done, saved = done + n * stride, saved + to_save.k.shape[1]
            progress.record(results)
            yield done / sweep.n_steps
        progress.last = _replaced_at(progress.last, progress.active, nodes.taken(np.s_[progress.active, -1]))
        recorder.take_last(progress.last.taken(np.s_[:, None]), indices)
        results.status[indices[progress.active]] = Result.SUCCESS


@dataclass
class _Progress:
    """Some members during their integration, by the last good state of each.

    Attributes
    ----------
    indices : ndarray of int, shape=[members]
        Their indices in the batch.
    status : ndarray of int, shape=[members]
        SUCCESS while a member has not stopped.
    last : Nodes, with leading axes [members]
        The last good node of those that have stopped.
    """

    system: System
    indices: np.ndarray
    states: State
    status: np.ndarray
    n_steps: np.ndarray
    last: Nodes

    @classmethod
    def at(cls, system: System, starts: Starts, indices: np.ndarray) -> _Progress:
        """Members before their first step; those without a sound start have stopped."""
        status = np.full(len(indices), int(Result.SUCCESS))
        status[list(starts.faults)] = Result.START
        n_steps, first = np.zeros(len(indices), np.int64), starts.nodes.taken(np.s_[:, 0])
        return cls(system, indices, starts.states, status, n_steps, first)

    @property
    def active(self) -> np.ndarray:
        """Mask of the members that have not stopped."""
        return self.status == Result.SUCCESS

    def advance(self, runner: BatchStepping, n_nodes: int, stride: int, threads: int) -> np.ndarray:
        """Integrate the active members; rows of all, shape=[members, n_nodes, width], nan after the last good node."""
        active = self.active
        before = jax.tree.map(lambda a: a[active], self.states)
        computed, reached = runner.run(self.indices[active], before, n_nodes, stride, threads)
        computed[np.arange(n_nodes) >= reached.n_rows[:, None]] = np.nan
        rows = np.full((len(active), n_nodes, runner.width), np.nan)
        rows[active] = computed
        self.status[active] = reached.status
        self.n_steps[active] += reached.state.k - before.k
        self.states = _replaced_at(self.states, active, reached.state)
        stopped = active & ~self.active
        if stopped.any():
            self.last = _replaced_at(self.last, stopped, _nodes_of(self.system, self.states).taken(stopped))
        return rows

    def stop(self, last: np.ndarray, before: Nodes, nodes: Nodes, done: int) -> None:
        """Stop members at events, ``last`` steps after ``done`` steps, at ``before``; their later nodes become nan."""
        n = nodes.k.shape[1]
        ends = _replaced_at(nodes.taken((np.arange(len(last)), last - 1)), last == 0, before.taken(np.s_[last == 0, 0]))
        self.last = _replaced_at(self.last, last < n, ends.taken(last < n))
        for values in jax.tree.leaves(nodes):
            values[np.arange(n) >= last[:, None]] = np.nan
        stopped = last < n
        self.status[stopped], self.n_steps[stopped] = Result.EVENT, done + last[stopped]

    def record(self, results: Solved) -> None:
        """Enter the numbers of steps, and the status of the members that have stopped, into the results."""
        results.n_steps[self.indices] = self.n_steps
        results.status[self.indices[~self.active]] = self.status[~self.active]


def _replaced_at(tree: Any, where: np.ndarray, values: Any) -> Any:
    """Replace entries of the arrays of a tree."""
    if where.all():
        return values

    def put(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a = np.array(a)
        a[where] = b
        return a

    return jax.tree.map(put, tree, values)


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
                "statistics": sum(s.room(size, nodes, shapes[s.observable.name]) for s in sweep.statistics),
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
        for statistic, known in zip(self._sweep.statistics, self._results.statistics, strict=True):
            statistic.update(known, values[statistic.observable.name], self._start, int(indices[0]), node)

    def take_last(self, nodes: Nodes, indices: np.ndarray) -> None:
        """Evaluate the last good node of each of some members, and store the observables kept."""
        values = read(self._sweep.shared, self.members(indices), nodes, self._sweep.observables)
        for name, value in values.items():
            self._results.last[name][indices] = value[:, 0]


class Starts(NamedTuple):
    """States of members at node 0, descriptions of invalid starts, by index, and the nodes: nan for invalid starts."""

    states: State
    faults: dict[int, str]
    nodes: Nodes


def _member_starts(shared: Shared, members: Member) -> Starts:
    with float64():
        states, faults = first_nodes(shared, members)
    nodes = _nodes_of(shared.system, states).taken(np.s_[:, None])
    for part in jax.tree.leaves(nodes):
        part[list(faults)] = np.nan
    return Starts(states, faults, nodes)


def _nodes_of(system: System, states: State) -> Nodes:
    """Nodes of the states of members, with leading axes [members]."""
    return Nodes.of_rows(mapped(node_row, Problem(system, None, None), states), system.group.dim)


def first_nodes(shared: Shared, members: Member) -> tuple[State, dict[int, str]]:
    """Node 0 of every member, and descriptions of invalid starts, by index."""
    states, facts = mapped(member_start, shared, members)
    facts, faults = Facts(*facts), {}
    sound = clearly_sound(members.xi, facts) & (np.asarray(states.status) == 0) & (not shared.method.limits_starts)
    for i in np.flatnonzero(~sound).tolist():
        member, of_member = (jax.tree.map(lambda a, i=i: a[i], tree) for tree in (members, facts))
        fault = start_fault(shared.system, float(member.t0), member.g, member.xi, float(member.dt), of_member)
        fault = fault or _refused_by_method(shared, member)
        if not fault and states.status[i]:
            fault = Result(int(states.status[i])).message
        if fault:
            faults[i] = fault
    return states, faults


def _refused_by_method(shared: Shared, member: Member) -> str:
    """Reason for which the method cannot start a member; "" if it can."""
    problem = shared.problem(member)
    try:
        with float64():
            problem.method.refuse_start(problem.system, float(member.dt), member.g, member.xi)
    except ValueError as error:
        return str(error)
    return ""


def member_start(shared: Shared, member: Member) -> tuple[State, Facts]:
    """Node 0 of a member, and the diagnostics of its start."""
    return node_and_facts(shared.problem(member), (member.g, member.xi))


def _refuse_times(batch: Batch, n_steps: int, start: int) -> None:
    dt, t0 = batch.members.dt, batch.members.t0
    with np.errstate(over="ignore"):
        end = t0 + float(n_steps) * dt
    bad = ~(np.abs(dt) >= np.finfo(float).tiny) | ~np.isfinite(end) | (t0 + dt == t0) | (end - dt == end)
    if bad.any():
        i = int(np.argmax(bad))
        raise ValueError(f"member {start + i}: the time does not advance or overflows: t0 = {t0[i]:g}, dt = {dt[i]:g}")
