r"""Runs of systems with modes: whole steps in a mode, and the step in which it ends.

In the step of a transition, which is located as an event, the method restarts at the instant with the velocity after
it, in the next mode, and makes a shortened step to the next node of the run, in which further transitions may lie. So
all nodes but those of the transitions are at t_k = t0 + k·dt. A step that fails, as past the end of a mode it may, is
made in parts.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import numpy as np

from geonh.arguments.precision import float64
from geonh.arguments.validators import shortly
from geonh.engine import computed
from geonh.geometry.field import evaluated, takes_parameters
from geonh.integrators.base import Integrator, Problem, refuse, require_method
from geonh.integrators.clock import Clock
from geonh.integrators.node import State
from geonh.integrators.validity import Result
from geonh.integrators.variable_steps import refuse_variable_steps
from geonh.mechanics.holonomic import onto
from geonh.mechanics.system import System
from geonh.results.dense import partial_step
from geonh.results.events import Crossings, Event, SlipEnds, as_events
from geonh.results.modes import RESET, Modes, Switches, Transition
from geonh.results.nodes import Node, Nodes
from geonh.results.record import unflatten
from geonh.results.same_system import as_data, refuse_another_space
from geonh.results.trajectory import Trajectory, describe
from geonh.runs.continuation import completed, new_trajectory
from geonh.runs.event_loop import Watching, at_node
from geonh.runs.loop import portion, refuse_too_many
from geonh.runs.start import InitialData, Span, first_node

MOST = 1000
"""Most transitions within one step."""
SHORTEST = 2.0**-40
"""Shortest part of a step that fails, relative to it."""
SOON = 1e-6
"""Part of a step after which a guard that is past zero at the beginning of a mode is looked at again."""
ROUNDING = 1e-9
"""Part of a whole step within which a guard that is past zero by rounding comes back."""
OFF = 1e-9
"""Largest residual, relative to 1 + |ξ|, of the constraints of the next mode after a reset."""


class Place(NamedTuple):
    """Point of a motion: time, group element, velocity of shape=[n]."""

    t: Any
    g: Any
    xi: Any


class Piece(NamedTuple):
    """Consecutive nodes in one mode: rows (k, g, p⁺, p⁻), shape=[j, width], and their times, shape=[j]."""

    mode: int
    rows: np.ndarray
    t: np.ndarray


@dataclass
class ModalRun:
    """Run of a system with modes, as far as it has come.

    Attributes
    ----------
    modes, method, clock, events, save_every : Modes, Integrator, Clock, tuple of Event, int
        The problem; the clock is that of the whole run.
    mode, state, status : int, State, Result
        Mode and last node at a whole number of steps, and how the run stands.
    pieces, switches, crossings : list
        Nodes, transitions, and located events by mode, so far.
    engine : str
        Engine that runs the loops.
    empty : dict
        Empty records of the events of each mode.
    """

    modes: Modes
    method: Integrator
    clock: Clock
    events: tuple[Event, ...]
    save_every: int
    mode: int
    state: State
    status: Result = Result.SUCCESS
    pieces: list[Piece] = field(default_factory=list)
    switches: list[Switches] = field(default_factory=list)
    crossings: list[Crossings] = field(default_factory=list)
    engine: str = ""
    empty: dict[int, Crossings] = field(default_factory=dict)

    @property
    def system(self) -> System:
        """System of the mode."""
        return self.modes.systems[self.mode]

    def advance(self, end: int) -> None:
        """Go on to node ``end``, to a terminal event or to a failure."""
        while int(self.state.k) < end and self.status is Result.SUCCESS:
            guard = self._along(end)
            if self.status is not Result.SUCCESS or guard is not None:
                self._across(guard)

    # --- whole steps ----------------------------------------------------------------------------------------
    def _along(self, end: int) -> Crossings | None:
        """Make whole steps in the mode; return the crossing of a guard that ends it."""
        loop = self._loop(self.clock, self.state)
        violated = self._violated(loop, self.clock, self.state)
        if violated is not None:
            return violated
        here, self.engine = loop.begin, loop.engine
        while int(self.state.k) < end and self.status is Result.SUCCESS:
            n_nodes, leap = portion(int(self.state.k), end, self.save_every)
            buffer, saved, status = np.empty((n_nodes, loop.width)), 0, 0
            for here, status, saved in loop.pieces(here, n_nodes, leap, buffer):  # noqa: B007, B020
                pass
            self._save(buffer[:saved], self.clock.t0 + buffer[:saved, 0] * self.clock.dt)
            self.state, self.status = here.state, Result(status)
        return self._events_of(loop)

    def _events_of(self, loop: Watching) -> Crossings | None:
        """Keep the events that a loop has located; return the guard's at which it stopped, and go on there."""
        found = loop.crossings
        assert found is not None
        names = [event.name for event in self.events]
        own = np.isin(found.which, [i for i, name in enumerate(found.names) if name in names])
        self.crossings.append(found.taken(own))
        if self.status is not Result.EVENT or own[-1]:
            return None
        self.status = Result.SUCCESS
        return found.taken(np.array([len(own) - 1]))

    # --- the step of a transition, or one that failed -------------------------------------------------------
    def _across(self, guard: Crossings | None) -> None:
        """Go on to the next node, in parts, from a crossing of a guard, or from the node after which a step failed."""
        k, failure = int(self.state.k), self.status
        begin, end = self._time(k), self._time(k + 1)
        here, length, count = self._reached(self.clock, self.state, begin), end - begin, 0
        if guard is None:
            length, self.status = length / 2, Result.SUCCESS
        while True:
            if guard is not None:
                count, length = count + 1, end - begin
                if count > MOST:
                    self.status = Result.SWITCHES
                    return
                here = self._switched(k, guard)
            left = end - here.t
            if _is_same(here.t, end, self.clock.dt):
                break
            part = left if abs(length) >= abs(left) else length
            clock = Clock(np.float64(here.t), np.float64(part), self.clock.controls)
            state = self._first(clock, here)
            if self.status is not Result.SUCCESS:
                return
            loop = self._loop(clock, state)
            guard = self._violated(loop, clock, state)
            if guard is not None:
                continue
            watched = loop.begin
            while (
                int(watched.state.k) < 1 and self.status is Result.SUCCESS
            ):  # twice where an event may lie in the step
                watched, status, _ = list(loop.pieces(watched, 1, 1, np.empty((1, loop.width))))[-1]
                self.status = Result(status)
            guard = self._events_of(loop)
            if self.status is Result.EVENT:
                return
            if self.status is not Result.SUCCESS:
                failure, length, self.status = self.status, part / 2, Result.SUCCESS
                if abs(length) < SHORTEST * abs(end - begin):
                    self.status = failure
                    return
            elif guard is None:
                here = self._reached(clock, watched.state, end if part == left else here.t + part)
                length = 2 * length
        state = self._first(self.clock._replace(t0=np.float64(end)), here)
        if self.status is Result.SUCCESS:
            self.state = state._replace(k=np.int64(k + 1))
            if (k + 1) % self.save_every == 0:
                self.save(self.state, end)

    def _switched(self, k: int, guard: Crossings) -> Place:
        """Take the transition of a guard at its crossing: the place after it, in the next mode."""
        transition = next(one for one in self.modes.leaving(self.mode) if one.name == guard.names[guard.which[0]])
        before, source = self._place(guard), self.mode
        g, xi = before.g, before.xi
        if transition.reset is not None:
            g, xi = computed(_reset, (self.system, transition), before)
        chosen = transition.target if isinstance(transition.target, str) else transition.target(before.t, g, xi)
        target = self.modes.index(chosen, "the target of a transition")
        arrived = computed(_arrived, (self.modes.systems[target], transition.reset is None), Place(before.t, g, xi))
        if not arrived.residual <= OFF * (1 + np.abs(arrived.xi).max(initial=0.0)):
            raise ValueError(
                f"the reset of {transition.name!r} leads off the constraints of {chosen!r} at t = {before.t:g}: "
                f"residual {arrived.residual:.2g}; leave reset= out to have the velocity projected on them"
            )
        after = Place(before.t, arrived.g, arrived.xi)
        self._save(self._row_at(before, k), np.array([before.t]))
        self.mode = target
        self._save(self._row_at(after, k), np.array([before.t]))
        one = np.array([k]), np.array([before.t]), np.array([source]), np.array([target])
        vector = _vector(before.g)[None]
        self.switches.append(Switches(self.modes.names, *one, vector, before.xi[None], np.asarray(after.xi)[None]))
        return after

    def _violated(self, loop: Watching, clock: Clock, state: State) -> Crossings | None:
        """Crossing, where the mode begins, of a guard that is past zero there, and not by rounding."""
        events = loop.begin.values
        for i, guard in enumerate(self.modes.guards(self.mode)):
            vanished = isinstance(guard, SlipEnds) and events[i] < guard.least * (1 + np.abs(loop.begin.xi).max())
            on_zero = events[i] == 0 and guard.direction  # it may lead past zero from there
            if not (vanished or on_zero or events[i] * guard.direction > 0):
                continue
            problem = self._problem(clock)
            soon = computed(_value_soon, problem, Node.of(state))[i]
            back = ROUNDING * self.clock.dt / clock.dt  # of a shortened step, in which a guard's rate is measured
            past = (events[i] + (soon - events[i]) * (back / SOON)) * guard.direction > 0
            if soon < events[i] if vanished else past:
                t = np.array([clock.t0 + int(state.k) * clock.dt], float)
                xi, names = np.asarray(loop.begin.xi), tuple(event.name for event in problem.events)
                one, step = np.array([i]), np.array([int(state.k)])
                return Crossings(names, one, step, t, _vector(state.g)[None], xi[None], np.zeros((1, 0)))
        return None

    # --- parts ----------------------------------------------------------------------------------------------
    def _problem(self, clock: Clock) -> Problem:
        return Problem(self.system, self.method, clock, (*self.modes.guards(self.mode), *self.events))

    def _loop(self, clock: Clock, state: State) -> Watching:
        problem = self._problem(clock)
        if self.mode not in self.empty:
            self.empty[self.mode] = Crossings.none_of(problem.events, self.system, state.g, clock.t0)
        loop = Watching(problem, state, None, self.empty[self.mode])
        t = clock.t0 + int(state.k) * clock.dt
        if self.switches and len(last := self.switches[-1].t) and _is_same(last[-1], t, self.clock.dt):
            self._leave_zeros(loop, problem, state)
        return loop

    def _leave_zeros(self, loop: Watching, problem: Problem, state: State) -> None:
        """Set values that are zero by rounding after a transition to zero, so that the motion leaves them without an
        event; not those of guards with a direction, which may lead past zero at the same instant.
        """
        values, n_guards = loop.begin.values, len(self.modes.guards(self.mode))
        crossed_both_ways = np.array(
            [i >= n_guards or not event.direction for i, event in enumerate(problem.events)], bool
        )
        if np.any(crossed_both_ways & (values != 0)):
            soon = computed(_value_soon, problem, Node.of(state))
            change = (soon - values) * (ROUNDING * self.clock.dt / problem.clock.dt / SOON)
            at_zero = crossed_both_ways & (np.abs(values) <= np.abs(change))
            loop.begin = loop.begin._replace(values=np.where(at_zero, 0.0, values))

    def _time(self, k: int) -> float:
        return float(self.clock.t0 + k * self.clock.dt)

    def _first(self, clock: Clock, here: Place) -> State:
        """Node 0 of a clock; the status of the run is its status."""
        state = computed(_first, Problem(self.system, self.method, clock), (here.g, here.xi))
        self.status = Result(int(state.status))
        return state

    def _place(self, crossing: Crossings) -> Place:
        shapes, is_tuple = self.system.group.point_shapes, isinstance(self.state.g, tuple)
        g = unflatten(crossing.g_vector[-1], [list(shape) for shape in shapes], is_tuple)
        return Place(np.float64(crossing.t[-1]), g, crossing.xi[-1])

    def _reached(self, clock: Clock, state: State, t: float) -> Place:
        xi = computed(_velocity, Problem(self.system, None, clock), Node.of(state))
        return Place(np.float64(t), state.g, xi)

    def _row_at(self, here: Place, k: int) -> np.ndarray:
        p = computed(_momentum, self.system, here)
        return np.concatenate([[float(k)], _vector(here.g), p, p])[None]

    def save(self, state: State, t: float) -> None:
        """Save a node."""
        row = np.concatenate([[float(state.k)], _vector(state.g), state.p_plus, state.p_minus])
        self._save(row[None], np.array([t]))

    def _save(self, rows: np.ndarray, t: np.ndarray) -> None:
        if len(rows):
            self.pieces.append(Piece(self.mode, rows, np.asarray(t, float)))

    def keep(self, nodes: Nodes, t: float) -> None:
        """Begin with the nodes of an earlier run up to a time, without a last one that a longer run would not save."""
        kept = nodes.taken(np.sign(self.clock.dt) * (nodes.t - t) <= 4 * np.finfo(float).eps * abs(t))
        if kept.k[-1] % self.save_every and kept.t[-1] != kept.t[-2]:
            kept = kept.taken(np.s_[:-1])
        rows = kept._replace(t=None, mode=None).rows
        edges = [0, *(np.flatnonzero(np.diff(kept.mode)) + 1).tolist(), len(rows)]
        for begin, end in itertools.pairwise(edges):
            self.pieces.append(Piece(int(kept.mode[begin]), rows[begin:end], kept.t[begin:end]))

    def nodes(self) -> Nodes:
        """All nodes."""
        rows = np.concatenate([piece.rows for piece in self.pieces])
        nodes = Nodes.of_rows(rows, self.system.group.dim)
        return nodes._replace(
            k=nodes.k.astype(np.int64),
            t=np.concatenate([piece.t for piece in self.pieces]),
            mode=np.concatenate([np.full(len(piece.rows), piece.mode, np.int64) for piece in self.pieces]),
        )


def _is_same(t: float, other: float, dt: float) -> bool:
    """True if two times of a run with steps dt are the same, up to rounding."""
    return bool(abs(other - t) <= 4 * np.finfo(float).eps * max(abs(t), abs(other), abs(dt)))


def events_of(events: Any, system: System, clock: Clock) -> tuple[Event, ...]:
    """Validate the events of a run at its start; their program is traced with the controls there."""
    if events is None or (isinstance(events, tuple | list) and not events):
        return ()
    with float64():
        return as_events(events, system, clock.control(0))


def refuse_with_modes(**options: Any) -> None:
    """Raise ValueError for options of ``solve`` that runs with modes do not take."""
    for name, value in options.items():
        if value is not None and value is not False:
            raise ValueError(f"{name}= is not for runs with modes: save the result, or call run(times)")


def solve_modes(
    modes: Modes,
    method: Integrator,
    reason: str,
    mode: Any,
    start: InitialData,
    span: Span,
    events: Any,
    save_every: int,
) -> Trajectory:
    """Run from a start, in the mode of a name, as ``solve`` documents it."""
    which = modes.index(mode)
    refuse_variable_steps(method)
    if not (start.clock.controls is None or callable(start.clock.controls)):
        raise TypeError("controls of a system with modes must be a function of t: transitions lie between the nodes")
    for system in modes.systems:
        refuse(method, system)
    first = first_node(modes.systems[which], method, start)
    system, state = first.problem.system, first.state
    watched = events_of(events, system, start.clock)
    run = ModalRun(modes, method, start.clock, watched, save_every, which, state, Result(int(state.status)))
    run.save(state, float(start.clock.t0))
    begun = new_trajectory(Problem(system, method, start.clock), state, save_every, reason, None, span.reason)
    parameters = {key: as_data(system.parameters) for key, system in zip(modes.names, modes.systems, strict=True)}
    attributes = {**begun.attributes, "system": modes.name, "modes": list(modes.names), "parameters": parameters}
    return _advanced(run, replace(begun, attributes=attributes), span.n_steps)


def _advanced(run: ModalRun, before: Trajectory, end: int) -> Trajectory:
    """Trajectory of a run after it has gone on to a node; ``before`` has its metadata, and what it kept."""
    steps = (end - int(run.state.k)) // run.save_every
    refuse_too_many(len(before) + steps, before.nodes.rows.shape[1], "raise save_every")
    try:
        run.advance(end)
    except KeyboardInterrupt:
        run.status = Result.INTERRUPTED
    nodes, size = run.nodes(), before.g_vector.shape[1]
    switches = Switches.none(run.modes.names, size, run.system.group.dim)
    for one in run.switches:
        switches = switches.joined(one)
    crossings = _all_crossings(run, size) if run.events else None
    more: dict[str, Any] = {
        "method": run.method,
        "clock": run.clock,
        "watched": run.events,
        "crossings": crossings,
        "modes": run.modes,
        "switches": switches,
    }
    kept = replace(before.run, system=run.modes.systems[0], state=run.state, trail=None, function_values=None, **more)
    attributes = {**before.attributes, "engine": run.engine, "state_mode": run.mode}
    return replace(before, nodes=nodes, run=kept, status=run.status, attributes=attributes, loaded={})


def resume_modes(
    trajectory: Trajectory, modes: Any, method: Integrator | None, n_steps: int, controls: Any, events: Any
) -> Trajectory:
    """Go on with a run with modes from its last node at a whole number of steps, as ``resume`` documents it."""
    modes, a = trajectory.modes if modes is None else modes, trajectory.attributes
    method = trajectory.method if method is None else method
    if modes is None or method is None or trajectory.state is None:
        raise ValueError("to go on from a file of a run with modes, system=Modes(...) and method= are needed")
    if not isinstance(modes, Modes):
        raise TypeError(f"system must be the Modes of the run, got {shortly(modes)}")
    require_method(method)
    parameters = {key: as_data(system.parameters) for key, system in zip(modes.names, modes.systems, strict=True)}
    if list(modes.names) != list(a["modes"]) or parameters != a["parameters"] or modes.name != a["system"]:
        raise ValueError(f"these are not the modes of the run of {a['system']}: names or parameters differ")
    if describe(method) != a["method"]:
        raise ValueError(f"the trajectory was made by {a['method']}, not by {describe(method)}")
    earlier = None if trajectory.clock is None else trajectory.clock.controls
    clock = Clock(np.float64(trajectory.t0), np.float64(trajectory.dt), earlier if controls is None else controls)
    which, k = int(a["state_mode"]), int(trajectory.state.k)
    system = modes.systems[which]
    refuse_another_space(trajectory, system)
    if events is None and trajectory.crossings is not None and not trajectory.watched:
        raise ValueError("the run looked for events: pass events=, or events=() to look for none")
    with float64():
        state = completed(trajectory.state, system, method, clock)
        watched = trajectory.watched if events is None else events_of(events, system, clock)
    run = ModalRun(modes, method, clock, watched, trajectory.save_every, which, state)
    run.keep(trajectory.nodes, clock.t0 + k * clock.dt)
    if trajectory.switches is not None:
        run.switches.append(trajectory.switches.before(k))
    if trajectory.crossings is not None:
        run.crossings.append(trajectory.crossings.to_keep(k, [event.name for event in watched]))
    return _advanced(run, trajectory, k + n_steps)


def _all_crossings(run: ModalRun, size: int) -> Crossings:
    """Events in all modes; nan for the multipliers that a mode has not."""
    found = [c for c in run.crossings if len(c.t)]
    m = max((c.multipliers.shape[1] for c in found), default=0)
    names, n = tuple(event.name for event in run.events), run.system.group.dim
    joined = Crossings.none(names, size, n, m)
    for c in found:
        lam = np.full((len(c.t), m), np.nan)
        lam[:, : c.multipliers.shape[1]] = c.multipliers
        which = np.array([names.index(c.names[i]) for i in c.which], np.int64)
        joined = joined.joined(c._replace(names=names, which=which, multipliers=lam))
    return joined


class Arrived(NamedTuple):
    """Place after a transition, put on the constraints of the next mode, and their largest residual there."""

    g: Any
    xi: Any
    residual: Any


def _reset(tree: tuple[System, Transition], here: Place) -> tuple[Any, Any]:
    """g⁺ and ξ⁺ of a user's reset."""
    (system, transition), (t, g, xi) = tree, here
    assert transition.reset is not None
    more = (system.parameters,) if takes_parameters(transition.reset, RESET, "reset") else ()
    if isinstance(value := transition.reset(t, g, xi, *more), tuple):
        return value
    return g, evaluated("reset", lambda: value)


def _arrived(tree: tuple[System, bool], here: Place) -> Arrived:
    """Place on the constraints of a system, onto which the velocity is projected if wanted."""
    (system, projects), (t, g, xi) = tree, here
    g, _ = onto(system, g, t)
    x = system.at(g, t)
    xi = system.projected_velocity(x, xi) if projects else xi
    residual = jax.numpy.concatenate([system.constraint_residual(x, xi), system.holonomic_residual(x)])
    return Arrived(g, xi, jax.numpy.max(jax.numpy.abs(residual), initial=0.0))


def _velocity(problem: Problem, node: Node) -> Any:
    clock, k = node.local(problem.clock)
    return problem.system.velocity(problem.system.at(node.g, clock.time(k)), (node.p_plus + node.p_minus) / 2)


def _momentum(system: System, here: Place) -> Any:
    return system.momentum(system.at(here.g, here.t), here.xi)


def _first(problem: Problem, start: tuple[Any, Any]) -> State:
    return problem.method.first_node(problem.system, problem.clock, *start)


def _value_soon(problem: Problem, node: Node) -> Any:
    """Values of the events a small part of a step after a node."""
    k, xi = node.local(problem.clock)[1], _velocity(problem, node)
    state, part = partial_step(problem, k, node.g, xi, jax.numpy.asarray(SOON))
    return at_node(problem._replace(clock=part), Node.of(state))[1]


def _vector(g: Any) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(g)])
