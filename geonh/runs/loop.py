"""Stepping loop of a run: compiled batches of steps, with progress reports, checkpoints and interrupts between them.

A batch lasts some 20 ms. After each, progress is reported, a checkpoint is saved if it is due, and Ctrl-C is handled,
whether or not a node is saved there.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
from jax import Array

from geonh.arguments.memory import refuse_too_much
from geonh.arguments.validators import shortly
from geonh.engine import Interrupts
from geonh.geometry.field import check_arguments
from geonh.integrators.base import Problem
from geonh.integrators.node import State
from geonh.integrators.validity import Result
from geonh.results import files
from geonh.results.nodes import Nodes
from geonh.results.trajectory import Trajectory
from geonh.runs.continuation import extended, on_grid, warn_if_spoiled
from geonh.runs.event_loop import Watched, Watching
from geonh.runs.fast_modes import fast_mode
from geonh.runs.start import FirstNode

CHUNK = 2**20
"""Maximum number of nodes of one buffer."""
FIRST, FEW = 2**8, 2**14
"""The same where the number of nodes is not known: at first, and later at most."""
MOST = 2**53
"""Number of steps at most that a run is expected to have."""
BETWEEN = 60.0
"""Seconds between checkpoints; longer if saving takes more than a twentieth of that."""

Progress: TypeAlias = bool | Callable[[int, int], None]


class IntegrationError(RuntimeError):
    """A run stopped early; the error holds the trajectory up to there.

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
    first: FirstNode | None = None,
) -> Trajectory:
    """Append nodes until ``n_steps`` more steps are done, a step fails, or the user interrupts.

    ``first`` is node 0 of a new run: a warning is issued if the time step is too long for its fastest mode.

    Raises
    ------
    IntegrationError
        If a step fails, and ``throw``.
    BaseException
        Any exception of ``progress``, a signal handler or the disk, with the saved trajectory in ``.trajectory``.
    """
    assert trajectory.state is not None
    try:
        problem = trajectory.problem._replace(events=trajectory.watched)
        parts = None if first is None or trajectory.watched else first.parts
        loop = Watching(problem, trajectory.state, trajectory.trail, trajectory.crossings, parts)
        refuse_unwritable(trajectory, checkpoint)
        is_fixed = trajectory.state.t is None
        if first is not None and is_fixed and loop.engine == "native" and loop.is_new():
            too_long = fast_mode(problem, first, loop.step_by)
            if too_long:
                warnings.warn(too_long, stacklevel=4)
    except KeyboardInterrupt:  # during compilation
        return replace(trajectory, status=Result.INTERRUPTED).with_run(function_values=None)
    begin, status = on_grid(trajectory, loop.engine), Result(int(trajectory.state.status))
    # a terminal event may end a longer run, and with an end time the number of steps is not known
    if not any(event.stop for event in trajectory.watched) and problem.clock.end is None:
        refuse_too_many(n_steps // trajectory.save_every + len(trajectory), loop.width)
    run = _RunInProgress(begin, loop.begin, status, loop, [begin.nodes.rows])
    result = carried_out(run, n_steps, progress, checkpoint)
    try:
        warn_if_spoiled(result)
    except BaseException as error:
        _attach(error, result)
        raise
    return thrown(result, throw)


def refuse_unwritable(trajectory: Trajectory, checkpoint: str | os.PathLike | None) -> None:
    """Raise the error of the disk, before the first step, if a checkpoint cannot be written."""
    if checkpoint is not None:
        begin = trajectory.cut(1)
        files.save(begin, begin.to_xarray(), checkpoint, keep=False)


class RunInProgress(Protocol):
    """Run that goes on in batches of steps.

    Attributes
    ----------
    trajectory : Trajectory
        Nodes whose observables are known; those of later ones are computed.
    state : State
        Last node.
    status : Result
    """

    trajectory: Trajectory
    status: Result

    @property
    def state(self) -> State: ...

    def expected(self, begun: int, n_steps: int) -> int:
        """Number of steps of the run."""

    def steps(self, end: int) -> Iterator[None]:
        """Advance to step ``end``, to a failure or to a terminal event, yielding after each batch."""

    def trajectory_so_far(self) -> Trajectory:
        """Trajectory up to the last good node."""


def carried_out(
    run: RunInProgress, n_steps: int, progress: Progress, checkpoint: str | os.PathLike | None
) -> Trajectory:
    """Trajectory of a run after ``n_steps`` more steps, with reports, checkpoints and Ctrl-C between the batches.

    Raises
    ------
    BaseException
        Any exception of ``progress``, a signal handler or the disk, with the saved trajectory in ``.trajectory``.
    """
    begun, save = int(run.state.k), _Checkpoints(checkpoint)
    with Interrupts() as interrupts:
        try:
            with reporting(progress, n_steps) as report:
                for _ in run.steps(begun + n_steps):
                    report(int(run.state.k) - begun, run.expected(begun, n_steps))
                    save.if_due(run)
                    if interrupts.requested:
                        raise KeyboardInterrupt
        except KeyboardInterrupt:
            run.status = Result.INTERRUPTED
        except BaseException as error:  # also SystemExit, from a callback or a signal handler
            run.status = Result.INTERRUPTED
            _attach(error, run.trajectory_so_far())
            _save_while_handling(error, run, save)
            raise
        try:
            save.at_the_end(run)
            return run.trajectory_so_far()
        except BaseException as error:
            _attach(error, run.trajectory_so_far())
            raise


def thrown(result: Trajectory, throw: bool) -> Trajectory:
    """Result of a run; IntegrationError if a step failed, and ``throw``."""
    if throw and result.status.failed:
        raise IntegrationError(f"{result.message}; the trajectory up to there is in the error's .trajectory", result)
    return result


@dataclass
class _RunInProgress:
    """Current state of a run: a trajectory, and rows of its nodes and of those up to the last good state."""

    trajectory: Trajectory
    watched: Watched
    status: Result
    loop: Watching
    rows: list[np.ndarray]
    before: State | None = None
    """State before a shortened last step, from which the run is resumed."""

    @property
    def state(self) -> State:
        return self.watched.state

    def expected(self, begun: int, n_steps: int) -> int:
        """Number of steps of the run; estimated from the time done where steps differ in length."""
        clock, done = self.trajectory.clock, int(self.state.k) - begun
        if clock is None or clock.end is None:
            return n_steps
        t0 = self.trajectory.t[-1]
        part = (self.state.t - t0) / (clock.end - t0)
        if part <= 0:
            return max(done, 1)
        return max(round(done / part), done) if done < part * MOST else MOST

    def steps(self, end: int) -> Iterator[None]:
        """Advance to step ``end``, to a failure or to a terminal event, yielding after each batch."""
        loop, stride = self.loop, self.trajectory.save_every
        t_end = None if self.trajectory.clock is None else self.trajectory.clock.end
        while int(self.state.k) < end and self.status is Result.SUCCESS:
            n_nodes, leap = portion(int(self.state.k), end, stride)
            if t_end is not None:
                n_nodes = min(n_nodes, max(FIRST, min(4 * sum(map(len, self.rows)), FEW)))
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
        if self.status is Result.END and t_end is not None:
            self.before, self.status = self.state, Result.SUCCESS
            self.watched, status = loop.shortened(self.watched, float(t_end))
            self.status = Result(status)
            yield

    def trajectory_so_far(self) -> Trajectory:
        """Trajectory up to the last good node, even if that is off the grid of saved nodes."""
        rows = self.rows
        if rows[-1][-1, 0] > self.state.k:  # interrupted between a row and its state
            rows = [*rows[:-1], rows[-1][rows[-1][:, 0] <= self.state.k]]
            rows = rows if len(rows[-1]) else rows[:-1]
        if int(self.state.k) > rows[-1][-1, 0]:
            rows = [*rows, Nodes.of_state(self.state).rows]
        state = self.state if self.before is None else self.before
        kept = {"trail": self.watched.trail, "crossings": self.loop.crossings}
        return extended(self.trajectory, rows, state, self.status, **kept)


class _Checkpoints:
    """Schedule and destination of checkpoints."""

    def __init__(self, path: str | os.PathLike | None) -> None:
        self.path = path
        self.due = time.monotonic() + BETWEEN

    def if_due(self, run: RunInProgress) -> None:
        """Save a checkpoint if it is due; observables of its nodes are not computed again."""
        if self.path is None or time.monotonic() < self.due:
            return
        begun = time.monotonic()
        trajectory = run.trajectory_so_far().settled()
        trajectory.save(self.path)
        if trajectory.k[-1] % trajectory.save_every == 0:
            run.trajectory = trajectory
        self.due = time.monotonic() + max(BETWEEN, 20 * (time.monotonic() - begun))

    def at_the_end(self, run: RunInProgress) -> None:
        if self.path is not None:
            run.trajectory = run.trajectory_so_far().settled()
            run.trajectory.save(self.path)


def _attach(error: BaseException, trajectory: Trajectory) -> None:
    """Attach the trajectory so far to an exception."""
    error.trajectory = trajectory  # type: ignore[attr-defined]
    error.add_note("geonh: what was computed up to there is in the error's .trajectory")


def _save_while_handling(error: BaseException, run: RunInProgress, save: _Checkpoints) -> None:
    """Save a checkpoint while handling an exception, which remains the one raised."""
    try:
        save.at_the_end(run)
    except Exception as second:
        error.add_note(f"geonh: the checkpoint was not written: {second}")


def next_node(problem: Problem, state: State) -> tuple[State, Array]:
    """Advance a state by one step; return the new state and its status."""
    new = problem.method.next_node(problem.system, problem.clock, state)
    return new, new.status


def portion(k: int, end: int, stride: int) -> tuple[int, int]:
    """Number of nodes to save next, and steps between them: nodes with k a multiple of the stride, and the end."""
    off = k % stride
    if off or end - k < stride:
        return 1, min(stride - off, end - k)
    return min((end - k) // stride, CHUNK), stride


def refuse_too_many(n_nodes: int, width: int, advice: str = "raise save_every, or use geonh.stream") -> None:
    """Raise MemoryError if nodes of a width in numbers, with what is read from them, do not fit into memory."""
    what = f"{n_nodes} nodes of {width} numbers, with what is read from them,"
    refuse_too_much(what, {"nodes": 2 * n_nodes * width}, advice)


def check_progress(progress: Any, arguments: str) -> None:
    """Raise TypeError if ``progress`` is invalid."""
    if callable(progress):
        check_arguments(progress, arguments, "progress")
    elif not isinstance(progress, bool):
        raise TypeError(f"progress must be True, False or a function of ({arguments}), got {shortly(progress)}")


class reporting:
    """Context manager that displays progress as requested: completed steps, rate, and remaining time."""

    def __init__(self, progress: Progress, total: int, unit: str = "steps", task: str = "integrating") -> None:
        self._progress, self._total, self._unit, self._task, self._bar = progress, total, unit, task, None

    def __enter__(self) -> Callable[[int, int], Any]:
        if callable(self._progress):
            return self._progress
        if not self._progress:
            return lambda done, total: None
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        rate = TextColumn(f"{{task.fields[rate]:.3g}} {self._unit}/s")
        columns: Iterable = (TextColumn(self._task), BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn())
        console = Console(stderr=True)
        shown = console.is_terminal or console.is_jupyter
        bar: Any = Progress(*columns, console=console, transient=True, disable=not shown)
        task = bar.add_task(self._task, total=self._total, rate=0.0)
        bar.start()
        self._bar, begun = bar, time.monotonic()
        return lambda done, total: bar.update(task, completed=done, rate=done / max(time.monotonic() - begun, 1e-9))

    def __exit__(self, *_: Any) -> None:
        if self._bar is not None:
            self._bar.stop()
