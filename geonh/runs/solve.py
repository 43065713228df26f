"""``solve``: run a one-step method over many steps, in compiled loops, and label the result.

The loop is compiled once for the structure of a system and a method; parameters, step size and number of steps are
arguments, so that changing them requires no compilation. ``integrate`` is for use under a user's own ``jit``,
``grad`` and ``vmap``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from geonh.arguments.paths import checked_path
from geonh.arguments.precision import float64, refuse_traced
from geonh.arguments.validators import as_constant, as_count, as_flag, as_float64
from geonh.engine import interrupted_at_once
from geonh.integrators.base import Integrator
from geonh.integrators.registry import method_of, stepping_method
from geonh.integrators.variable_steps import VariableSteps
from geonh.mechanics.system import System
from geonh.results.dense import TIME_TOLERANCE, as_one_axis, as_times, end_of
from geonh.results.events import Crossings, Event, as_events
from geonh.results.formats import check_destination
from geonh.results.modes import Modes, refuse_mode
from geonh.results.trajectory import Trajectory
from geonh.runs.continuation import bound, new_trajectory, with_events
from geonh.runs.controls import as_controls
from geonh.runs.loop import IntegrationError, advance, check_progress, thrown
from geonh.runs.start import as_span, as_start, as_variable_span, first_node
from geonh.runs.switching import as_forward_span, refuse_for_modes, resume_modes, solve_modes

__all__ = ["IntegrationError", "resume", "solve"]


@interrupted_at_once
def solve(
    system: System | Modes,
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
    t_eval: Any = None,
    tolerance: float | None = None,
    mode: str | None = None,
    throw: bool = True,
    progress: bool | Callable[[int, int], None] = False,
    checkpoint: str | os.PathLike | None = None,
) -> Trajectory:
    """Integrate a system.

    Parameters
    ----------
    system : System or Modes
        System to integrate; or one that is of several modes at a time.
    method : Integrator or str, optional
        One-step method, or its name in ``geonh methods``; when left out ``Gauss(2)``, or
        ``SymmetricProjection()`` where controls are values at the nodes.
    xi0 : array_like, shape=[n]
        Initial velocity ξ = g⁻¹ġ; it must satisfy the constraints at g0 (``system.project`` helps).
    g0 : point of the group, optional
        Initial group element; the identity when left out.
    dt : float
        Time step in seconds; negative runs backwards. With a tolerance, bound of the first step, and optional.
    n_steps : int
        Number of steps; left out where ``t_end`` is given.
    t_end : float, optional
        Time of the last node. Where t_end − t0 is not a whole number of steps, dt is lowered to divide it.
    t0 : float
        Initial time; t_k = t0 + k·dt.
    controls : callable or array_like, shape=[n_steps + 1, …], optional
        u(t) in jax.numpy, or its values at the nodes.
    events : Event or sequence of Event, optional
        Events to record, or to stop at, located between the nodes too; ``traj.events`` has them by name. After a
        terminal event, the last node is the one before it.
    save_every : int
        Number of steps between saved nodes.
    t_eval : array_like, shape=[M], optional
        Times at which the solution is wanted, in the order of the run, in place of its nodes: ``traj(t_eval)``. Where
        neither ``n_steps`` nor ``t_end`` is given, the run ends at the last of them.
    tolerance : float, optional
        Chooses the steps, as ``Adaptive(method, tolerance)``; the method is ``RKMK(8)`` when left out.
    mode : str, optional
        Mode in which a run of ``Modes`` begins.
    throw : bool
        Raise on failure; otherwise see ``success``, ``status`` and ``message`` of the result.
    progress : bool or callable
        Show a progress bar (on a terminal, in a notebook), or call ``progress(steps_done, n_steps)`` after each chunk.
    checkpoint : path, optional
        File for the run so far, saved at most once a minute and at the end; ``resume`` continues it, bitwise equal.

    Returns
    -------
    Trajectory
        Labelled NumPy float64 arrays.

    Raises
    ------
    ValueError, TypeError
        For invalid input, including an inconsistent start (with its residual).
    MemoryError
        If the nodes would take most of the machine's memory, before the first step; not if an event may end the run.
    IntegrationError
        If a step fails: with step, time, cause, and the trajectory up to there in ``.trajectory``.
    """
    method, reason = stepping_method(method, tolerance, controls)
    advice = "solve returns NumPy arrays; under jit, grad or vmap use geonh.integrate"
    refuse_traced(advice, xi0=xi0, g0=g0, dt=dt, t0=t0, t_end=t_end, controls=controls)
    refuse_traced(advice, system=(system.systems, system.transitions) if isinstance(system, Modes) else system)
    modes = None
    if isinstance(system, Modes):
        modes, which = system, system.index(mode)
        refuse_for_modes(modes, method, controls)
        system = modes.systems[which]
    else:
        refuse_mode(system, mode)
    save_every = as_count(save_every, "save_every")
    if t_eval is not None and n_steps is None and t_end is None:
        t_end = last_of(t_eval, t0)
    varies = isinstance(method, VariableSteps)
    if modes is not None:
        span = as_forward_span(modes, dt, n_steps, t_end, t0)
    else:
        span = as_variable_span(dt, n_steps, t_end, t0) if varies else as_span(dt, n_steps, t_end, t0)
    _check_options(throw, progress)
    if checkpoint is not None:
        check_destination(checkpoint, "checkpoint")
    with float64():
        start = as_start(system, method, xi0, g0, span.dt, t0, 1 if varies else span.n_steps, controls)
        start = start._replace(clock=start.clock._replace(end=span.end))
        if t_eval is not None:
            if varies and (n_steps is not None or save_every > 1):
                raise ValueError("t_eval with steps of variable length needs t_end, not n_steps, and save_every=1")
            if modes is not None and save_every > 1:
                raise ValueError("t_eval of a run with modes needs save_every=1")
            end = start.clock.t0 + span.n_steps * start.clock.dt if span.end is None else span.end
            t_eval = as_times(t_eval, "t_eval", float(t0), float(end))
        watched = as_events(events, system, start.clock)
        try:
            begin = first_node(system, method, start)
        except ValueError as error:
            if modes is not None:
                error.add_note(f"system is that of the mode: modes[{mode!r}]")
            raise
        known, node = begin.problem.system, begin.state
        numbers = len(known.group.point_names), known.group.dim, len(begin.facts.residual)
        crossings = Crossings.none([event.name for event in watched], *numbers) if watched else None
        problem = begin.problem._replace(events=watched)
        trajectory = new_trajectory(problem, node, save_every, reason, crossings, span.reason)
    if modes is None:
        result = advance(trajectory, span.n_steps, throw, progress, checkpoint, begin)
    else:
        result = thrown(solve_modes(modes, which, trajectory, span.n_steps, progress, checkpoint), throw)
    return result if t_eval is None else _at_times(result, t_eval)


@interrupted_at_once
def resume(
    trajectory: Trajectory | str | os.PathLike,
    n_steps: int | None = None,
    *,
    t_end: float | None = None,
    system: System | None = None,
    method: Integrator | str | None = None,
    controls: Any = None,
    events: Event | Iterable[Event] | None = None,
    allow_changes: bool | str | Iterable[str] = False,
    throw: bool = True,
    progress: bool | Callable[[int, int], None] = False,
    checkpoint: str | os.PathLike | None = None,
) -> Trajectory:
    """Resume a run from the last step of a trajectory (or of its file), bitwise identical to an uninterrupted run.

    Parameters
    ----------
    trajectory : Trajectory or path
        Run to continue.
    n_steps : int
        Further steps; left out where ``t_end`` is given.
    t_end : float, optional
        Time of the last node, a whole number of steps of the run after its last one.
    system : System, optional
        Required after loading from a file, which holds data only. It must be that of the run: name, parameters and
        traces of the functions are compared.
    method : Integrator or str, optional
        As ``system``; its options are compared.
    controls : callable or array_like, shape=[all steps + 1, …], optional
        As ``system``. Controls in an array are those of the whole run, from its first node.
    events : Event or sequence of Event, optional
        Events to locate; those of the run by default. After loading from a file that has events they are required, or
        ``events=()`` for none. Events after the last node are located again: a run stopped by an event stops there
        again, unless that event is left out.
    allow_changes : bool, str or sequence of str
        Accept a system that differs from that of the run: in everything (True), or in those named of "name",
        "parameters", "base", "metric", "lagrangian", "potential", "holonomic", "forms", "rhs", "forces",
        "multiplier_forces", "controls", "first_integrals", "events" (others of the same names). Observables computed so
        far are kept, and ``attributes["changes"]`` records the change, in the file too.
    throw : bool
        As in ``solve``.
    progress : bool or callable
        As in ``solve``.
    checkpoint : path, optional
        As in ``solve``.

    Returns
    -------
    Trajectory
        Old and new nodes together.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If something differs from the run, naming it; ``FileError``, a subclass, if the file cannot be resumed.
    MemoryError
        If the nodes would take most of the machine's memory, before the first step; not if an event may end the run.
    IntegrationError
        If a step fails, unless ``throw`` is false.
    """
    if checkpoint is not None:
        check_destination(checkpoint, "checkpoint")
    _check_options(throw, progress)
    if not isinstance(trajectory, Trajectory):
        trajectory = Trajectory.load(checked_path(trajectory, "trajectory"))
    if trajectory.nodes.mode is not None:
        if allow_changes:
            raise ValueError("allow_changes= is not for runs with modes: what they go on with must be the same")
        made = method_of(method) if isinstance(method, str) else method
        n_steps, _ = _remaining_steps(trajectory, n_steps, t_end)
        return thrown(resume_modes(trajectory, system, made, n_steps, controls, events, progress, checkpoint), throw)
    before = trajectory
    n_steps, end = _remaining_steps(trajectory, n_steps, t_end)
    bound_system = trajectory.system if system is None else system
    if trajectory.state is not None and isinstance(bound_system, System):
        total = as_count(int(trajectory.state.k) + n_steps, "n_steps")
        earlier_controls = trajectory.clock.controls if trajectory.clock is not None else None
        controls = as_controls(bound_system, earlier_controls if controls is None else controls, total + 1)
    with float64():
        trajectory = bound(
            trajectory, system, method_of(method) if isinstance(method, str) else method, controls, allow_changes
        )
        if events is None and trajectory.crossings is not None and not trajectory.watched:
            names = ", ".join(map(repr, trajectory.crossings.names))
            raise ValueError(f"the run looked for events ({names}): pass events=, or events=() to look for none")
        assert trajectory.system is not None
        assert trajectory.clock is not None
        clock = trajectory.clock._replace(end=end)
        watched = trajectory.watched if events is None else as_events(events, trajectory.system, clock)
        trajectory = trajectory.with_run(clock=clock)
        trajectory = with_events(trajectory, watched, before, allow_changes)
    return advance(trajectory, n_steps, throw, progress, checkpoint)


def last_of(t_eval: Any, t0: Any) -> float:
    """Last of the times, at which a run ends; ValueError if there is no step to it."""
    last = as_one_axis(t_eval, "t_eval")[-1]
    if last == as_float64(t0, "t0", ()):
        raise ValueError(f"t_eval ends at t0 = {last:g}, to which no step leads: add later times, or pass t_end")
    return last


def _at_times(run: Trajectory, t_eval: np.ndarray) -> Trajectory:
    """Solution at the times that the run reached."""
    end = end_of(run)
    reached = t_eval[np.sign(run.dt) * (t_eval - end) <= TIME_TOLERANCE * (1 + abs(end))]
    return run(reached) if len(reached) else run.first(1)


def _remaining_steps(trajectory: Trajectory, n_steps: int | None, t_end: float | None) -> tuple[int, Any]:
    """Number of steps from the last one of a run, and the time at which steps of variable length end.

    ValueError if others do not lead to ``t_end``.
    """
    dt, last = trajectory.dt, trajectory.t[-1]
    t_end = None if t_end is None else as_constant(t_end, "t_end")
    varies = trajectory.nodes.t is not None and trajectory.nodes.mode is None
    if trajectory.state is not None and not varies:
        last = trajectory.t0 + int(trajectory.state.k) * dt
    if t_end is not None and n_steps is None and not np.sign(dt) * (t_end - last) > 0:
        raise ValueError(f"the run leads away from t_end = {t_end:g}: its last node is at t = {last:g} already")
    if varies:
        span = as_variable_span(dt, n_steps, t_end, last)
        return span.n_steps, span.end
    span = as_span(dt, n_steps, t_end, last)
    if span.dt != dt:
        nodes = " and ".join(f"{last + (span.n_steps - i) * dt:.12g}" for i in (1, 0))
        raise ValueError(f"t_end must be a node of the run, whose dt = {dt:g}: {nodes} are the nearest, got {t_end:g}")
    return span.n_steps, None


def _check_options(throw: bool, progress: Any) -> None:
    as_flag(throw, "throw")
    check_progress(progress, "steps_done, n_steps")
