"""The loop of a run: steps in compiled pieces, and what must not be lost whatever happens between them.

A piece lasts some 20 ms. After each, progress is told, a checkpoint is saved if it is due, and Ctrl-C is answered,
whether a node is saved there or not.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from jax import Array

from geonh.arguments.memory import refuse_too_much
from geonh.arguments.precision import float64
from geonh.engine.interrupts import Interrupts
from geonh.integrators.base import Problem
from geonh.integrators.node import Result, State
from geonh.mechanics.soundness import Facts
from geonh.results import files
from geonh.results.trajectory import Trajectory
from geonh.runs.continuation import extended, on_grid, warn_if_spoiled
from geonh.runs.event_loop import Watched, Watching, node_row
from geonh.runs.fast_modes import fast_mode
from geonh.runs.start import Start

CHUNK = 2**20
"""Nodes of one buffer, at most."""
BETWEEN = 60.0
"""Seconds between checkpoints; more, where saving takes more than a twentieth of them."""

Progress: TypeAlias = bool | Callable[[int, int], None]


class IntegrationError(RuntimeError):
    """A run stopped early; what was computed up to there is in the error.

    Parameters
    ----------
    message : str
        Step, time and cause; ``str(error)``.
    trajectory : Trajectory
        The nodes up to the last good one; an attribute of the error.
    """

    def __init__(self, message: str, trajectory: Trajectory):
        super().__init__(message)
        self.trajectory = trajectory


def advance(
    trajectory: Trajectory,
    n_steps: int,
    throw: bool,
    progress: Progress,
    checkpoint: str | os.PathLike | None,
    start: tuple[Start, Facts] | None = None,
) -> Trajectory:
    """Append nodes until ``n_steps`` more steps are done, a step fails, or the user interrupts.

    Of a run that begins, ``start`` is where it does: a step too long for what is fast there is warned of.

    Raises
    ------
    IntegrationError
        If a step fails, and ``throw``.
    BaseException
        What ``progress``, a signal's handler or the disk raises, with what was computed in ``.trajectory``, and saved.
    """
    assert trajectory.state is not None
    try:
        problem = trajectory.problem
        loop = Watching(problem, trajectory.state, trajectory.trail, trajectory.crossings)
        if checkpoint is not None:
            first = trajectory.first(1)
            files.save(first, first.to_xarray(), checkpoint, keep=False)  # what cannot be saved is told now
        if start is not None and loop.engine == "native" and loop.is_new():
            too_long = fast_mode(problem, *start, loop.step_by)
            if too_long:
                warnings.warn(too_long, stacklevel=4)
    except KeyboardInterrupt:  # while it compiles
        return replace(trajectory, status=Result.INTERRUPTED, known=None)
    begin, status = on_grid(trajectory, loop.engine), Result(int(trajectory.state.status))
    run = _Run(begin, loop.begin, status, loop, [begin.rows])
    begun, save = int(trajectory.state.k), _Checkpoints(checkpoint)
    if not any(event.stop for event in trajectory.watched):  # one may end what is longer
        n_nodes = n_steps // trajectory.save_every + len(trajectory)
        advice = "raise save_every, or write them to a store: geonh.stream"
        refuse_too_much(
            f"{n_nodes} nodes of {loop.width} numbers, with what is read from them,",
            {"nodes": 2 * n_nodes * loop.width},
            advice,
        )
    with Interrupts() as interrupts:
        try:
            with reporting(progress, n_steps) as report:
                for _ in run.steps(begun + n_steps):
                    report(int(run.state.k) - begun, n_steps)
                    save.if_due(run)
                    if interrupts.heard:
                        raise KeyboardInterrupt
        except KeyboardInterrupt:
            run.status = Result.INTERRUPTED
        except BaseException as error:  # also SystemExit, from a callback or a signal's handler
            run.status = Result.INTERRUPTED
            _keep(error, run)
            _save_all_the_same(error, run, save)
            raise
        try:
            save.at_the_end(run)
            made = run.so_far()
            warn_if_spoiled(made)
        except BaseException as error:
            _keep(error, run)
            raise
    if throw and made.status.failed:
        raise IntegrationError(f"{made.message}; the trajectory up to there is in the error's .trajectory", made)
    return made


@dataclass
class _Run:
    """What exists of a run: a trajectory, and rows, its own and those after them up to the last good state."""

    trajectory: Trajectory
    watched: Watched
    status: Result
    loop: Watching
    rows: list[np.ndarray]

    @property
    def state(self) -> State:
        return self.watched.state

    def steps(self, end: int) -> Iterator[None]:
        """Go on to step ``end``, to a failure or to an event that stops, pausing after each piece."""
        loop, stride = self.loop, self.trajectory.save_every
        while int(self.state.k) < end and self.status is Result.SUCCESS:
            n_nodes, leap = _portion(int(self.state.k), end, stride)
            *before, last = self.rows
            if len(last) > 1:  # a single node is copied, so that the rows of a run that fit a buffer stay there
                before, last = self.rows, last[:0]
            buffer = np.empty((len(last) + n_nodes, self.loop.width))
            buffer[: len(last)] = last
            for watched, status, n in loop.pieces(self.watched, n_nodes, leap, buffer[len(last) :]):
                if len(last) + n:
                    self.rows = [*before, buffer[: len(last) + n]]
                self.watched, self.status = watched, Result(status)
                yield

    def so_far(self) -> Trajectory:
        """The trajectory up to the last good node, be it between two that would be saved."""
        rows = self.rows
        if rows[-1][-1, 0] > self.state.k:  # interrupted between a row and its state
            rows = [*rows[:-1], rows[-1][rows[-1][:, 0] <= self.state.k]]
            rows = rows if len(rows[-1]) else rows[:-1]
        if int(self.state.k) > rows[-1][-1, 0]:
            with float64():
                rows = [*rows, np.asarray(node_row(self.trajectory.problem, self.state))[None]]
        made = extended(self.trajectory, rows, self.state, self.status, self.watched.trail)
        return replace(made, crossings=self.loop.crossings)


class _Checkpoints:
    """When to save, and where."""

    def __init__(self, path: str | os.PathLike | None) -> None:
        self.path = path
        self.due = time.monotonic() + BETWEEN

    def if_due(self, run: _Run) -> None:
        """Save what exists, if it is time; what is read from its nodes is not read again."""
        if self.path is None or time.monotonic() < self.due:
            return
        begun = time.monotonic()
        made = run.so_far().settled()
        made.save(self.path)
        if made.k[-1] % made.save_every == 0:
            run.trajectory = made
        self.due = time.monotonic() + max(BETWEEN, 20 * (time.monotonic() - begun))

    def at_the_end(self, run: _Run) -> None:
        if self.path is not None:
            run.trajectory = run.so_far().settled()
            run.trajectory.save(self.path)


def _keep(error: BaseException, run: _Run) -> None:
    """Put what was computed on an exception."""
    error.trajectory = run.so_far()  # type: ignore[attr-defined]
    error.add_note("geonh: what was computed up to there is in the error's .trajectory")


def _save_all_the_same(error: BaseException, run: _Run, save: _Checkpoints) -> None:
    """Save what exists at an exception, which stays the one that is raised."""
    try:
        save.at_the_end(run)
    except Exception as second:
        error.add_note(f"geonh: the checkpoint was not written: {second}")


def next_node(problem: Problem, state: State) -> tuple[State, Array]:
    """The node after a state, and its status."""
    new = problem.method.next_node(problem.system, problem.clock, state)
    return new, new.status


def _portion(k: int, end: int, stride: int) -> tuple[int, int]:
    """How many nodes to save next, and how many steps apart: those whose k is a multiple of the stride, and the end."""
    off = k % stride
    if off or end - k < stride:
        return 1, min(stride - off, end - k)
    return min((end - k) // stride, CHUNK), stride


def check_progress(progress: Any, arguments: str) -> None:
    """Raise TypeError for what is no progress."""
    if not isinstance(progress, bool) and not callable(progress):
        raise TypeError(f"progress must be True, False or a function of ({arguments}), got {progress!r}")


class reporting:
    """Shows progress, as the user wants it, while it is entered: how much is done, how fast, and what remains."""

    def __init__(self, progress: Progress, total: int, unit: str = "steps") -> None:
        self._progress, self._total, self._unit, self._bar = progress, total, unit, None

    def __enter__(self) -> Callable[[int, int], Any]:
        if callable(self._progress):
            return self._progress
        if not self._progress:
            return lambda done, total: None
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        rate = TextColumn(f"{{task.fields[rate]:.3g}} {self._unit}/s")
        columns: Iterable = (TextColumn("integrating"), BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn())
        console = Console(stderr=True)
        shown = console.is_terminal or console.is_jupyter
        bar: Any = Progress(*columns, console=console, transient=True, disable=not shown)
        task = bar.add_task("integrating", total=self._total, rate=0.0)
        bar.start()
        self._bar, begun = bar, time.monotonic()
        return lambda done, total: bar.update(task, completed=done, rate=done / max(time.monotonic() - begun, 1e-9))

    def __exit__(self, *_: Any) -> None:
        if self._bar is not None:
            self._bar.stop()
