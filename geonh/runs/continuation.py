"""Creation, extension and continuation of trajectories, for ``solve``, ``resume`` and members of ensembles."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from geonh.arguments.validators import shortly
from geonh.integrators.base import Integrator, Problem
from geonh.integrators.clock import Clock
from geonh.integrators.node import State
from geonh.integrators.validity import Result
from geonh.mechanics.redundancy import with_rank_near
from geonh.mechanics.system import System
from geonh.results import files
from geonh.results.events import Crossings, Event
from geonh.results.nodes import Nodes
from geonh.results.parasitic import AlternationWarning, new_trail, what_alternates
from geonh.results.record import RunState
from geonh.results.same_system import (
    as_data,
    differences,
    different_events,
    function_values,
    refuse_another_space,
    refuse_changes,
)
from geonh.results.trajectory import Trajectory, describe
from geonh.version import __version__

recognisers: list[Callable[[System], str]] = []
"""Functions from a system to its name in a catalogue, or ""; catalogues append theirs."""

NO_STATE = (
    "this trajectory has no state to go on from: members of ensembles, runs at t_eval, the first nodes of a run, lifts "
    "and runs that were joined have none; "
    "begin another with solve, at the g, xi and t of its last node"
)


def new_trajectory(
    problem: Problem,
    state: State,
    save_every: int,
    reason: str = "",
    crossings: Crossings | None = None,
    dt_reason: str = "",
) -> Trajectory:
    """Trajectory of one node, the start of a run of a problem; ``crossings`` is the record of events, if it has any.

    ``reason`` and ``dt_reason`` say why the method and the step are not the ones given.
    """
    system, method, clock, events = problem
    group = system.group
    attributes = {
        **_facts(system, clock),
        "method": describe(method),
        "method_reason": reason,
        "dt_reason": dt_reason,
        "group": str(group),
        "point_names": list(group.point_names),
        "velocity_names": list(group.velocity_names),
        "point_shapes": [list(s) for s in group.point_shapes],
        "point_is_tuple": isinstance(state.g, tuple),
        "units": dict(system.units),
        "engine": "",
        "changes": [],
        "geonh_version": __version__,
    }
    return Trajectory(
        Nodes.of_state(state),
        RunState(system, method, clock, state, None, events, crossings, new_trail(system, method)),
        dt=float(clock.dt),
        t0=float(clock.t0),
        save_every=int(save_every),
        status=Result.SUCCESS,
        attributes=attributes,
    )


def extended(trajectory: Trajectory, rows: list[np.ndarray], state: State, status: Result, **run: Any) -> Trajectory:
    """Trajectory with all nodes, consecutive ``rows`` of shape=[j, columns], the state after them, and what else of the
    ``RunState`` has changed; the monitor is dropped unless given.
    """
    all_rows, stride = rows[0] if len(rows) == 1 else np.concatenate(rows), trajectory.save_every
    nodes = Nodes.of_rows(all_rows, trajectory.p_plus.shape[1], timed=state.t is not None)
    k = np.arange(len(all_rows)) * stride + int(nodes.k[0]) // stride * stride  # faster than to read the column
    k[[0, -1]] = nodes.k[[0, -1]]  # the end nodes may be off the grid of saved nodes
    after = replace(trajectory.run, state=state, function_values=None, **{"trail": None, **run})
    return replace(trajectory, nodes=nodes._replace(k=k), run=after, status=status)


def with_events(
    trajectory: Trajectory, events: tuple[Event, ...], before: Trajectory, allow_changes: Any
) -> Trajectory:
    """Prepare a trajectory for continuation with events; those after the last state are dropped, and located again.
    Raises ValueError for an event that differs from that of its name in ``before``, unless the change is allowed.
    """
    changes = different_events(before, trajectory.bound_system, events)
    if changes:
        refuse_changes(trajectory, changes, allow_changes)
        trajectory = _with_changes_recorded(trajectory, changes)
    assert trajectory.state is not None
    known = trajectory.crossings
    if known is None and events:
        known = Crossings.none_of((), trajectory.bound_system, trajectory.state.g, trajectory.t0)
    known = known and known.to_keep(int(trajectory.state.k), [event.name for event in events])
    return trajectory.with_run(watched=events, crossings=known)


def on_grid(trajectory: Trajectory, engine: str) -> Trajectory:
    """Prepare a trajectory for continuation by an engine, without a last node that a longer run would not save."""
    assert trajectory.state is not None
    prepared = replace(trajectory, attributes={**trajectory.attributes, "engine": engine})
    is_saved = trajectory.k[-1] % trajectory.save_every == 0 and trajectory.k[-1] <= trajectory.state.k
    if len(trajectory) < 2 or is_saved:
        return prepared
    return prepared.cut(len(trajectory) - 1).with_run(trail=trajectory.trail)


def bound(
    trajectory: Trajectory,
    system: System | None,
    method: Integrator | None,
    controls: Any = None,
    allow_changes: bool | str | Iterable[str] = False,
) -> Trajectory:
    """Attach system, method and controls, which a file does not hold.

    Parameters
    ----------
    trajectory : Trajectory
        Trajectory to continue.
    system, method : System or None, Integrator or None
        System and method of the run; those of the trajectory for None.
    controls : callable or array_like, shape=[n_steps + 1, …], optional
        As in ``solve``; those of the trajectory by default.
    allow_changes : bool, str or sequence of str
        As in ``resume``.

    Returns
    -------
    Trajectory

    Raises
    ------
    TypeError
        If ``system`` is not a System, or ``method`` not an Integrator.
    ValueError
        If something is missing or differs from the run, naming it.
    """
    if system is not None and not isinstance(system, System):
        raise TypeError(f"system must be a geonh System, got {shortly(system)}")
    if method is not None and not isinstance(method, Integrator):
        raise TypeError(f"method must be an integrator such as GNI() or the name of one, got {shortly(method)}")
    system, method = system or trajectory.system, method or trajectory.method
    if trajectory.state is None:
        raise ValueError(NO_STATE)
    if system is None or method is None:
        missing = "system=" if system is None else "method="
        raise ValueError(f"to go on from a file, {missing} is needed too: a file holds data only")
    refuse_another_space(trajectory, system)
    if describe(method) != trajectory.attributes["method"]:
        raise ValueError(f"the trajectory was made by {trajectory.attributes['method']}, not by {describe(method)}")
    if controls is None and trajectory.clock is not None:
        controls = trajectory.clock.controls
    clock = Clock(np.float64(trajectory.t0), np.float64(trajectory.dt), controls)
    changes = _changes(trajectory, system, clock)
    refuse_changes(trajectory, changes, allow_changes)
    state = trajectory.state._replace(
        g=system.point(trajectory.state.g, on_group=False)
    )  # the distance from the group is the method's
    system = with_rank_near(system, clock.time(int(state.k)), state.g)
    state = completed(state, system, method, clock)
    prepared = trajectory.with_run(system=system, method=method, clock=clock, state=state)
    return _changed(prepared, trajectory, changes) if changes else prepared


def completed(state: State, system: System, method: Integrator, clock: Clock) -> State:
    """State of a file in the structure that a method gives it; ValueError if it is of another one."""
    if not isinstance(state.memory, files.Leaves):
        return state
    node = jax.eval_shape(lambda: method.first_node(system, clock, state.g, jnp.zeros(system.group.dim)))
    memory, warm = state.memory.like(node.memory), state.warm.like(node.warm, speed_only=True)
    if state.rows.shape != node.rows.shape:
        raise ValueError(f"the file has {len(state.rows)} constraint rows, the system {len(node.rows)}")
    return state._replace(memory=memory, warm=warm)


def _changes(trajectory: Trajectory, system: System, clock: Clock) -> dict[str, str]:
    """Differences of system and controls from those of the run so far."""
    if (
        system is trajectory.system
        and trajectory.clock is not None
        and _same(clock.controls, trajectory.clock.controls)
    ):
        return {}
    if clock.controls is None and trajectory.attributes["controls"]:
        return {"controls": f"{trajectory.attributes['controls']} there, none here: pass controls="}
    known = trajectory.function_values
    if known is None and trajectory.system is not None and trajectory.clock is not None:
        known = function_values(trajectory, trajectory.system, trajectory.clock)
    return differences(trajectory, known, system, clock)


def _changed(trajectory: Trajectory, before: Trajectory, changes: dict[str, str]) -> Trajectory:
    """Record a change that the user allowed; observables of the nodes so far are kept. Raises ValueError if the last
    node no longer satisfies the constraints.
    """
    assert trajectory.system is not None
    assert trajectory.clock is not None
    x = trajectory.system.at(jax.tree.map(lambda a: a[-1], trajectory.g), trajectory.t[-1])
    xi = trajectory.system.velocity(x, (trajectory.p_plus[-1] + trajectory.p_minus[-1]) / 2)
    residual = np.abs(np.append(trajectory.system.constraint_residual(x, xi), trajectory.system.holonomic_residual(x)))
    earlier = np.abs(np.append(before.constraint_residual[-1], before.holonomic_residual[-1])).max(initial=0.0)
    if not np.all(residual <= earlier + 1e-9 * (1 + np.abs(xi).max())):
        raise ValueError(
            f"with these changes the last node does not satisfy the constraints: residual {residual.max():.2g}; "
            "begin a new run from it: solve(system, g0=..., xi0=system.project(g0, run.xi[-1]), t0=run.t[-1], ...)"
        )
    attributes = {**trajectory.attributes, **_facts(trajectory.system, trajectory.clock)}
    changed = replace(trajectory, attributes=attributes, loaded=before.observables)
    return _with_changes_recorded(changed.with_run(function_values=None), changes)


def _with_changes_recorded(trajectory: Trajectory, changes: dict[str, str]) -> Trajectory:
    """Record the changes at the last node among the attributes."""
    k = int(trajectory.k[-1])
    change = {"step": k, "t": float(trajectory.t[-1]), "what": changes}
    return replace(
        trajectory, attributes={**trajectory.attributes, "changes": [*trajectory.attributes["changes"], change]}
    )


def warn_if_spoiled(trajectory: Trajectory) -> None:
    """Warn, once, if a part of the momentum alternates in sign.

    Warns
    -----
    AlternationWarning
        With the time of onset, the amplitude, and recommended methods.
    """
    if trajectory.spoiled_from is None:
        return
    text = f"{trajectory.attributes['system']} by {trajectory.attributes['method']}: "
    warnings.warn(text + what_alternates(trajectory, trajectory.spoiled_from), AlternationWarning, stacklevel=5)


def _same(a: Any, b: Any) -> bool:
    """True if controls are the same function, or equal numbers."""
    return a is b or (isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.array_equal(a, b))


def _facts(system: System, clock: Clock) -> dict[str, Any]:
    """Metadata of a run on its system and controls."""
    controls = clock.controls
    driven = "" if controls is None else "a function" if callable(controls) else f"{len(controls)} values"
    return {
        "system": system.name,
        "catalogue": next(filter(None, (name_of(system) for name_of in recognisers)), ""),
        "parameters": as_data(system.parameters),
        "controls": driven,
    }
