"""Steps of the members of an ensemble, and their saved nodes: at the same steps, or at the same times.

Steps that a tolerance chooses are each member's own, and all members are saved at the same times. Between two of these
times a member makes steps until the next one would pass the second. The solution there is that of a single run with
``t_eval``: one more step of the method, which is not a node; at the last time it is the last node.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.engine import BatchStepping, batch_stepping, first_of_batch, mapped
from geonh.ensembles.batch import Batch, Shared
from geonh.ensembles.configuration import Configuration
from geonh.ensembles.events import MemberEvents
from geonh.ensembles.progress import Progress, nodes_of, replaced_at
from geonh.ensembles.reading import MemberNode, Placed, flattened
from geonh.integrators.base import Problem
from geonh.integrators.node import State
from geonh.integrators.validity import Result
from geonh.integrators.variable_steps import is_at
from geonh.results.dense import after_span, step_method
from geonh.results.nodes import Nodes, node_row
from geonh.runs.loop import next_node

PIECE = 2**24
"""Bytes of the nodes of a batch."""
LEAP = 16
"""Number of steps between two looks at which members have reached a time; later a quarter of those done."""


class EqualSteps:
    """Steps of one length; ``one`` is the state of a member at node 0."""

    def __init__(self, sweep: Configuration, batch: Batch, one: State, threads: int) -> None:
        self._sweep, self._threads = sweep, threads
        self._runner = _runner(sweep, sweep.shared, batch, one)
        self.engine = self._runner.engine

    def nodes(self, progress: Progress, events: MemberEvents | None) -> Iterator[Nodes]:
        """Advance some members; yields their saved nodes but the first in pieces, shape=[members, nodes]."""
        sweep, stride = self._sweep, 1 if events else self._sweep.save_every
        nodes_per_saved = sweep.save_every // stride
        longest = max(PIECE // (8 * self._runner.width * len(progress.indices)), 1)
        done, nodes = 0, _only(progress.active, nodes_of(sweep.system, progress.states).taken(np.s_[:, None]))
        while done < sweep.n_steps and progress.active.any():
            n = min((sweep.n_steps - done) // stride, longest)
            rows = progress.advance(self._runner, n, stride, self._threads)
            last, nodes = nodes.taken(np.s_[:, -1:]), Nodes.of_rows(rows, sweep.system.group.dim)
            if events:
                progress.stop(events.locate(progress.indices, last, nodes), last, nodes)
            yield nodes.taken(np.s_[:, -(done + 1) % nodes_per_saved :: nodes_per_saved])
            done += n * stride


class ChosenSteps:
    """Steps that a tolerance chooses; ``one`` is the state of a member at node 0."""

    def __init__(self, sweep: Configuration, batch: Batch, one: State, threads: int) -> None:
        self._sweep, self._batch, self._one, self._threads = sweep, batch, one, threads
        self._runners: dict[float, BatchStepping] = {}
        self.engine = self._runner_to(sweep.shared.end).engine

    def _runner_to(self, end: float) -> BatchStepping:
        if end not in self._runners:
            shared = self._sweep.shared._replace(end=np.float64(end))
            self._runners[end] = _runner(self._sweep, shared, self._batch, self._one)
        return self._runners[end]

    def nodes(self, progress: Progress, events: MemberEvents | None) -> Iterator[Nodes]:
        """Advance some members; yields their nodes at each time but the first, shape=[members, 1]."""
        assert self._sweep.times is not None
        *between, end = self._sweep.times[1:]
        for time in between:
            self._advance(progress, events, time)
            if not progress.active.any():
                return
            yield self._at(progress, events, time)
        self._advance(progress, events, end)
        self._finish(progress, events, end)
        yield _only(progress.active, nodes_of(self._sweep.system, progress.states).taken(np.s_[:, None]))

    def _advance(self, progress: Progress, events: MemberEvents | None, time: float) -> None:
        """Make steps of the active members while they do not pass a time."""
        runner, done = self._runner_to(time), 0
        while progress.active.any():
            n, before = max(LEAP, done // 4), progress.states.k
            if events is None:
                progress.advance(runner, 1, n, self._threads)
            else:
                self._watched(progress, events, runner, n)
            arrived = progress.active & (progress.states.k - before < n)
            progress.status[arrived] = Result.END
            done += n
        progress.status[progress.status == Result.END] = Result.SUCCESS

    def _finish(self, progress: Progress, events: MemberEvents | None, end: float) -> None:
        """Make the last step of the active members, which is shortened; more where its error is too large."""
        runner, ended = self._runner_to(end), is_at(progress.states.memory.t, end)
        while (progress.active & ~ended).any():
            memory = progress.states.memory
            waiting = ended & progress.active
            h = np.where(ended, memory.h, end - memory.t)
            progress.states = progress.states._replace(memory=memory._replace(h=h))
            progress.status[waiting] = Result.END
            self._watched(progress, events, runner, 1)
            progress.status[waiting] = Result.SUCCESS
            ended = is_at(progress.states.memory.t, end)

    def _watched(self, progress: Progress, events: MemberEvents | None, runner: BatchStepping, n: int) -> None:
        """Make n steps of the active members, and locate their events."""
        system = self._sweep.system
        before = _only(progress.active, nodes_of(system, progress.states).taken(np.s_[:, None]))
        rows = progress.advance(runner, n, 1, self._threads)
        if events is not None:
            nodes = Nodes.of_rows(rows, system.group.dim, timed=True)
            rows[np.diff(nodes.k, axis=1, prepend=before.k) == 0] = np.nan  # of members that wait
            progress.stop(events.locate(progress.indices, before, nodes), before, nodes)

    def _at(self, progress: Progress, events: MemberEvents | None, time: float) -> Nodes:
        """Solution of the active members at a time that their next step passes; nan after an event that stops them. A
        member fails if there is none.
        """
        system, members = self._sweep.system, jax.tree.map(lambda a: a[progress.indices], self._batch.members)
        nodes = _only(progress.active, nodes_of(system, progress.states).taken(np.s_[:, None]))
        flat = flattened(members, nodes, time - nodes.t)
        rows, status = mapped(_after, self._sweep.shared, flat)
        failed = progress.active & (status != 0)
        progress.status[failed] = status[failed]
        found = Nodes.of_rows(rows[:, None], system.group.dim)._replace(t=np.full(nodes.k.shape, time))
        found = _only(progress.active, found)
        if events is None:
            return found
        return _only(events.locate(progress.indices, nodes, found, record=False) > 0, found)


def _after(shared: Shared, at: MemberNode) -> Any:
    """Row of the solution of a member after the span of a node, and the status of the step to there."""
    problem, node = Placed.of(shared, at)
    return after_span(problem._replace(method=step_method(problem.method)), node)


def _only(which: np.ndarray, nodes: Nodes) -> Nodes:
    """Nodes of some members, nan of others."""
    nowhere = jax.tree.map(lambda a: np.full(a.shape, np.nan), nodes)
    return nodes if which.all() else replaced_at(nowhere, which, jax.tree.map(lambda a: a[which], nodes))


def next_or_same(problem: Problem, state: State) -> tuple[State, Array]:
    """Advance a member by one step, or leave it where that would pass the end: lanes go on together."""
    new, status = next_node(problem, state)
    if problem.clock.end is None:
        return new, status
    waits = status == Result.END
    status = jnp.where(waits, np.int32(0), status)
    return jax.tree.map(lambda a, b: jnp.where(waits, a, b), state, new)._replace(status=status), status


def _runner(sweep: Configuration, shared: Shared, batch: Batch, state: State) -> BatchStepping:
    """Loop over members that differ in the data that the sweep varies; ``state`` of one of them."""
    members, varied = batch.members, sweep.members.varied
    one = first_of_batch(members)
    parameters = {name: v if name in varied else one.parameters[name] for name, v in members.parameters.items()}
    t0, dt = (getattr(members if name in varied else one, name) for name in ("t0", "dt"))
    many = members._replace(parameters=parameters, t0=t0, dt=dt)
    return batch_stepping(next_or_same, node_row, shared.problem(one), shared.problem(many), state)
