"""``solve`` and ``resume`` of systems with modes: validation, and the trajectory of a run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from geonh.arguments.precision import float64, is_traced
from geonh.engine import batch_of_one
from geonh.integrators.base import Integrator, refuse, require_method
from geonh.integrators.clock import Clock
from geonh.integrators.node import State
from geonh.integrators.validity import Result
from geonh.integrators.variable_steps import VariableSteps
from geonh.integrators.wiener import Wiener
from geonh.mechanics.own_values import Own
from geonh.results.events import as_events
from geonh.results.modes import Modes, Switches
from geonh.results.same_system import different_events, function_values, parameters_of, refuse_other_modes
from geonh.results.trajectory import Trajectory, describe
from geonh.runs.continuation import NO_STATE, completed
from geonh.runs.controls import refuse_noise
from geonh.runs.loop import Progress, carried_out, refuse_too_many, refuse_unwritable
from geonh.runs.modal_run import ModalRun
from geonh.runs.mode_loop import kept_loops
from geonh.runs.start import Span, as_span

BATCH = 4096
"""Number of steps between reports and checkpoints."""


def refuse_for_modes(modes: Modes, method: Integrator, controls: Any) -> None:
    """Raise TypeError or ValueError for a method or controls that runs with modes do not take."""
    if isinstance(method, VariableSteps):
        one = type(method.method).__name__
        raise ValueError(f"runs with modes have steps of one length: pass dt, and {one} without tolerance=")
    if not (controls is None or callable(controls)):
        raise TypeError("controls of a system with modes must be a function of t: transitions lie between the nodes")
    if fault := next(modes.faults([{}])):
        raise ValueError(f"{modes.name}: {fault}")
    for system in modes.systems:
        refuse(method, system)
        if isinstance(controls, Wiener):
            refuse_noise(system, method)


def as_forward_span(modes: Modes, dt: Any, n_steps: Any, t_end: Any, t0: Any) -> Span:
    """Span of a run as of ``as_span``; ValueError for one that goes backwards too: transitions have a direction, and
    impacts and friction no past.
    """
    onward = f"runs of {modes.name} with modes go forward in time"
    steps, begin, end = map(_numbers, (dt, t0, t_end))
    if np.any(steps < 0):
        raise ValueError(f"dt must be positive, got {steps.min():g}: {onward}")
    if np.any(end < begin):
        raise ValueError(f"t_end must be later than t0 = {begin.max():g}, got {end.min():g}: {onward}")
    return as_span(dt, n_steps, t_end, t0)


def _numbers(value: Any) -> np.ndarray:
    """Numbers as far as they are known, else nan."""
    array = np.asarray(np.nan if is_traced(value) else value)
    return array if array.dtype.kind in "iuf" else np.array(np.nan)


def guard_faults(modes: Modes, mode: int, starts: Own) -> list[str]:
    """Faults of starts (t, g), with a first axis, beyond a guard, as below a surface; "" of those that have none."""
    guards = (transition.guard.function for transition in modes.leaving(mode))
    of_each = [guard.start_faults(starts) for guard in guards if hasattr(guard, "start_faults")]
    n = len(jax.tree.leaves(starts.what)[0])
    return [next(filter(None, faults), "") for faults in zip([""] * n, *of_each, strict=True)]


def begun(modes: Modes, mode: str, first: Trajectory) -> Trajectory:
    """Trajectory of one node in a mode, of the modes, from one of its system; ValueError for a start beyond a guard."""
    return _in_progress(modes, modes.index(mode), first).trajectory_so_far()


def solve_modes(
    modes: Modes,
    mode: int,
    begin: Trajectory,
    n_steps: int,
    progress: Progress,
    checkpoint: str | os.PathLike | None,
) -> Trajectory:
    """Run from the start that a trajectory of one node holds, in the mode of an index, as ``solve`` documents it."""
    run = _in_progress(modes, mode, begin).run
    return _advanced(run, begin, n_steps, progress, checkpoint)


def _in_progress(modes: Modes, mode: int, begin: Trajectory) -> ModalRunInProgress:
    """Run from the start that a trajectory of one node holds; ValueError if that is beyond a guard."""
    problem, state = begin.problem, begin.state
    assert state is not None
    if fault := guard_faults(modes, mode, Own({}, batch_of_one((np.float64(begin.t0), state.g))))[0]:
        raise ValueError(f"{modes.name}: {fault}")
    status = Result(int(state.status))
    run = ModalRun(modes, problem.method, problem.clock, begin.watched, begin.save_every, mode, state, status)
    run.save(state, begin.t0)
    return ModalRunInProgress(run, begin)


def _advanced(
    run: ModalRun, before: Trajectory, n_steps: int, progress: Progress, checkpoint: str | os.PathLike | None
) -> Trajectory:
    """Trajectory of a run after further steps; ``before`` has its metadata, and what it kept."""
    refuse_too_many(len(before) + n_steps // run.save_every, before.nodes.rows.shape[1], "raise save_every")
    in_progress = ModalRunInProgress(run, before)
    refuse_unwritable(in_progress.trajectory_so_far(), checkpoint)
    with kept_loops(run.common, run.method, run.clock.controls, run.events) as run.loops:
        return carried_out(in_progress, n_steps, progress, checkpoint)


class ModalRunInProgress:
    """Run with modes that goes on in batches of steps, as ``carried_out`` needs it.

    Parameters
    ----------
    run : ModalRun
    before : Trajectory
        Metadata of the run, and its transitions so far.
    """

    def __init__(self, run: ModalRun, before: Trajectory) -> None:
        self.run, self.trajectory = run, before
        earlier = before.switches
        if earlier is None:
            earlier = Switches.none(run.modes.names, before.g_vector.shape[1], run.system.group.dim)
        self._earlier = earlier.before(int(run.state.k))

    @property
    def state(self) -> State:
        """Last node at a whole number of steps."""
        return self.run.state

    @property
    def status(self) -> Result:
        """Status of the last step."""
        return self.run.status

    @status.setter
    def status(self, status: Result) -> None:
        self.run.status = status

    def expected(self, begun: int, n_steps: int) -> int:
        """Number of steps of the run."""
        return n_steps

    def steps(self, end: int) -> Iterator[None]:
        """Advance to step ``end``, to a failure or to a terminal event, yielding after each batch."""
        self.run.expect(end - int(self.state.k))
        batch = max(BATCH // self.run.save_every, 1) * self.run.save_every
        while int(self.state.k) < end and self.status is Result.SUCCESS:
            self.run.advance(min(end, (int(self.state.k) // batch + 1) * batch))
            yield

    def trajectory_so_far(self) -> Trajectory:
        """Trajectory up to the last good node."""
        run, before = self.run, self.trajectory
        nodes, size = run.nodes(), before.g_vector.shape[1]
        more: dict[str, Any] = {
            "method": run.method,
            "clock": run.clock,
            "watched": run.events,
            "crossings": run.all_crossings(size) if run.event_names else None,
            "modes": run.modes,
            "switches": run.all_switches(self._earlier),
        }
        kept = replace(
            before.run, system=run.modes.systems[0], state=run.state, trail=None, function_values=None, **more
        )
        about = {"system": run.modes.name, "modes": list(run.modes.names), "parameters": parameters_of(run.modes)}
        attributes = {**before.attributes, **about, "engine": run.engine, "state_mode": run.state_mode}
        return replace(before, nodes=nodes, run=kept, status=run.status, attributes=attributes, loaded={})


def resume_modes(
    trajectory: Trajectory,
    modes: Any,
    method: Integrator | None,
    n_steps: int,
    controls: Any,
    events: Any,
    progress: Progress,
    checkpoint: str | os.PathLike | None,
) -> Trajectory:
    """Go on with a run with modes from its last node at a whole number of steps, as ``resume`` documents it."""
    if trajectory.state is None:
        raise ValueError(NO_STATE)
    modes, a = trajectory.modes if modes is None else modes, trajectory.attributes
    method = trajectory.method if method is None else method
    if modes is None or method is None:
        raise ValueError("to go on from a file of a run with modes, system=Modes(...) and method= are needed")
    require_method(method)
    if describe(method) != a["method"]:
        raise ValueError(f"the trajectory was made by {a['method']}, not by {describe(method)}")
    known = trajectory.function_values
    if known is None and trajectory.modes is not None and (modes is not trajectory.modes or controls is not None):
        known = function_values(trajectory, trajectory.modes, trajectory.clock)
    earlier = None if trajectory.clock is None else trajectory.clock.controls
    clock = Clock(np.float64(trajectory.t0), np.float64(trajectory.dt), earlier if controls is None else controls)
    refuse_other_modes(trajectory, known, modes, clock)
    which, k = int(a["state_mode"]), int(trajectory.state.k)
    system = modes.systems[which]
    if events is None and trajectory.crossings is not None and not trajectory.watched:
        raise ValueError("the run looked for events: pass events=, or events=() to look for none")
    with float64():
        state = completed(trajectory.state, system, method, clock)
        watched = trajectory.watched if events is None else as_events(events, system, clock)
        if events is not None and (changes := different_events(trajectory, modes, watched)):
            raise ValueError(f"{changes['events']}: the run has events of these names, give others to new ones")
    run = ModalRun(modes, method, clock, watched, trajectory.save_every, which, state)
    run.keep(trajectory.nodes, clock.t0 + k * clock.dt)
    if trajectory.switches is not None and len(before := trajectory.switches.before(k).t):
        run.since = float(before[-1])
        run.xi_before = np.asarray(trajectory.switches.xi_before[len(before) - 1])
    if trajectory.crossings is not None:
        kept = trajectory.crossings.to_keep(k, [event.name for event in watched])
        run.crossings.append(kept)
        run.kept_names = kept.names
    return _advanced(run, trajectory, n_steps, progress, checkpoint)
