"""``solve`` and ``resume`` of systems with modes: validation, and the trajectory of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from geonh.arguments.precision import float64
from geonh.integrators.base import Integrator, refuse, require_method
from geonh.integrators.clock import Clock
from geonh.integrators.validity import Result
from geonh.integrators.variable_steps import VariableSteps
from geonh.integrators.wiener import Wiener
from geonh.results.events import as_events
from geonh.results.modes import Modes, Switches
from geonh.results.same_system import parameters_of, refuse_other_modes
from geonh.results.trajectory import Trajectory, describe
from geonh.runs.continuation import completed
from geonh.runs.controls import refuse_noise
from geonh.runs.loop import refuse_too_many
from geonh.runs.modal_run import ModalRun


def refuse_options(**options: Any) -> None:
    """Raise ValueError for options of ``solve`` that runs with modes do not take."""
    for name, value in options.items():
        if value is not None and value is not False:
            raise ValueError(f"{name}= is not for runs with modes: save the result, or call run(times)")


def refuse_for_modes(modes: Modes, method: Integrator, controls: Any, **options: Any) -> None:
    """Raise TypeError or ValueError for a method, controls, or options that runs with modes do not take."""
    refuse_options(**options)
    if isinstance(method, VariableSteps):
        one = type(method.method).__name__
        raise ValueError(f"runs with modes have steps of one length: pass dt, and {one} without tolerance=")
    if not (controls is None or callable(controls)):
        raise TypeError("controls of a system with modes must be a function of t: transitions lie between the nodes")
    for system in modes.systems:
        refuse(method, system)
        if isinstance(controls, Wiener):
            refuse_noise(system, method)


def solve_modes(modes: Modes, mode: int, begin: Trajectory, n_steps: int) -> Trajectory:
    """Run from the start that a trajectory of one node holds, in the mode of an index, as ``solve`` documents it."""
    problem, state = begin.problem, begin.state
    assert state is not None
    status = Result(int(state.status))
    run = ModalRun(modes, problem.method, problem.clock, begin.watched, begin.save_every, mode, state, status)
    run.save(state, begin.t0)
    return advanced(run, begin, n_steps)


def advanced(run: ModalRun, before: Trajectory, end: int) -> Trajectory:
    """Trajectory of a run after it has gone on to a node; ``before`` has its metadata, and what it kept."""
    begun = int(run.state.k)
    steps = (end - begun) // run.save_every
    refuse_too_many(len(before) + steps, before.nodes.rows.shape[1], "raise save_every")
    try:
        run.advance(end)
    except KeyboardInterrupt:
        run.status = Result.INTERRUPTED
    nodes, size = run.nodes(), before.g_vector.shape[1]
    earlier = before.switches
    if earlier is None:
        earlier = Switches.none(run.modes.names, size, run.system.group.dim)
    crossings = run.all_crossings(size) if run.events else None
    more: dict[str, Any] = {
        "method": run.method,
        "clock": run.clock,
        "watched": run.events,
        "crossings": crossings,
        "modes": run.modes,
        "switches": run.all_switches(earlier.before(begun)),
    }
    kept = replace(before.run, system=run.modes.systems[0], state=run.state, trail=None, function_values=None, **more)
    modes = run.modes
    parameters = parameters_of(modes)
    about = {"system": modes.name, "modes": list(modes.names), "parameters": parameters}
    attributes = {**before.attributes, **about, "engine": run.engine, "state_mode": run.mode}
    return replace(before, nodes=nodes, run=kept, status=run.status, attributes=attributes, loaded={})


def resume_modes(
    trajectory: Trajectory, modes: Any, method: Integrator | None, n_steps: int, controls: Any, events: Any
) -> Trajectory:
    """Go on with a run with modes from its last node at a whole number of steps, as ``resume`` documents it."""
    modes, a = trajectory.modes if modes is None else modes, trajectory.attributes
    method = trajectory.method if method is None else method
    if modes is None or method is None or trajectory.state is None:
        raise ValueError("to go on from a file of a run with modes, system=Modes(...) and method= are needed")
    refuse_other_modes(trajectory, modes)
    require_method(method)
    if describe(method) != a["method"]:
        raise ValueError(f"the trajectory was made by {a['method']}, not by {describe(method)}")
    earlier = None if trajectory.clock is None else trajectory.clock.controls
    clock = Clock(np.float64(trajectory.t0), np.float64(trajectory.dt), earlier if controls is None else controls)
    which, k = int(a["state_mode"]), int(trajectory.state.k)
    system = modes.systems[which]
    if events is None and trajectory.crossings is not None and not trajectory.watched:
        raise ValueError("the run looked for events: pass events=, or events=() to look for none")
    with float64():
        state = completed(trajectory.state, system, method, clock)
        watched = trajectory.watched if events is None else as_events(events, system, clock)
    run = ModalRun(modes, method, clock, watched, trajectory.save_every, which, state)
    run.keep(trajectory.nodes, clock.t0 + k * clock.dt)
    if trajectory.switches is not None and len(before := trajectory.switches.before(k).t):
        run.since = float(before[-1])
    if trajectory.crossings is not None:
        run.crossings.append(trajectory.crossings.to_keep(k, [event.name for event in watched]))
    return advanced(run, trajectory, k + n_steps)
