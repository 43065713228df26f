r"""Runs of systems with modes: whole steps in a mode, and the step in which it ends.

In the step of a transition, which is located as an event, the method restarts at the instant with the velocity after
it, in the next mode, and makes a shortened step to the next node of the run, in which further transitions may lie. So
all nodes but those of the transitions are at t_k = t0 + k·dt. A step that fails, as past the end of a mode it may, is
made in parts; so is one that is too long, by its energy or as a guard jumps past zero. Explicit steps that cannot
follow a slow slip, which friction turns fast, are made by collocation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import numpy as np

from geonh.engine import batch_of_one, first_of_batch
from geonh.integrators.base import Integrator
from geonh.integrators.clock import Clock
from geonh.integrators.node import State
from geonh.integrators.validity import Result
from geonh.mechanics.own_values import Own
from geonh.mechanics.soundness import OFF_GROUP, group_fault
from geonh.mechanics.system import System
from geonh.results.events import Crossings, Event, SlipEnds, joined_crossings
from geonh.results.modes import Modes, Switches, placed
from geonh.results.nodes import Nodes
from geonh.runs.instant import INSTANT, SAME, SOON, Instant, beginning, instants, is_same, is_same_instant
from geonh.runs.loop import portion
from geonh.runs.modal_record import Record, Switch, joined_switches
from geonh.runs.mode_functions import Place, point, vector
from geonh.runs.mode_loop import TINY, Loops, ModeLoop, for_stiff_steps
from geonh.runs.sides import Crossed, Sides

MOST, MOST_FAILURES = 1000, 500
"""Most transitions, and most parts that fail, within one step."""
SHORTEST = 2.0**-40
"""Shortest part of a step that fails, relative to it."""
AT_ONCE = 100
"""Most transitions of one guard within ``ROUNDING`` of a step, and most that are late by rounding within one step."""
ROUNDING = 1e-9
"""Part of a whole step within which a guard that is past zero by rounding comes back; and more where the time is so
long that it is rounded by more."""
AT_NODE, AT_SWITCH, BEFORE = 2, 3, 6
"""Numbers of instants within which zeros are at a node, that is an instant or less after a transition, within which
they are at a transition, and within which transitions and events follow on each other.
"""
OFF = 1e-9
"""Largest residual, relative to 1 + |ξ|, of the constraints of the next mode after a reset."""
RECENT = 10
"""Number of the last records of events among which those of one instant are looked for."""
FEW = 9
"""Number of nodes besides those at whole numbers of steps for which there is room at first."""


@dataclass
class ModalRun:
    """Run of a system with modes, as far as it has come.

    Attributes
    ----------
    common, method, clock, events, save_every : Modes, Integrator, Clock, tuple of Event, int
        The problem; the clock is that of the whole run.
    mode, state, status : int, State, Result
        Mode and last node at a whole number of steps, and how the run stands.
    switches, crossings : list
        Transitions, and located events by mode, so far.
    kept_names : tuple of str
        Names of the events of an earlier run that this one continues.
    since : float
        Time of the last transition of an earlier run that this one continues; nan if there is none.
    xi_before : ndarray or None, shape=[n]
        Velocity before that transition.
    engine : str
        Engine that runs the loops.
    loops : dict of (int, bool) to ModeLoop
        Programs of the modes, by index, made when they are first needed; with True those for parts of steps that an
        explicit method cannot make. Runs that differ in their starts and clocks share them.
    values : mapping of str to array
        Values of parameters in which the run differs from others of ``common``.
    enters : bool
        True where a mode begins, and after steps in parts: guards are looked at before the next step.
    leaves_zero : bool
        True if a guard is zero there, and leaves it: the step from there is looked at in parts.
    stiff_rows : list of int
        Numbers of the nodes to which such a part leads.
    sides : Sides
        Sides of the guards without direction on which the motion is.
    resting : ndarray, shape=[2, guards]
        Bounds of the values that guards may have, by rounding, after a part of a step at whose beginning they are zero,
        and after one that is shorter than ``SOON``.
    """

    common: Modes
    method: Integrator
    clock: Clock
    events: tuple[Event, ...]
    save_every: int
    mode: int
    state: State
    status: Result = Result.SUCCESS
    switches: list[Switch] = field(default_factory=list)
    crossings: list[Crossings] = field(default_factory=list)
    kept_names: tuple[str, ...] = ()
    since: float = float("nan")
    xi_before: np.ndarray | None = None
    engine: str = ""
    loops: Loops = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    enters: bool = True
    leaves_zero: bool = False
    stiff_rows: list[int] = field(default_factory=list)
    sides: Sides = field(default_factory=Sides)
    resting: np.ndarray = field(default_factory=lambda: np.zeros((2, 0)))

    def __post_init__(self) -> None:
        guards = {one.name for one in self.modes.transitions} if self.events else ()
        if taken := [event.name for event in self.events if event.name in guards]:
            raise ValueError(f"events: {taken[0]!r} is the name of a transition of {self.modes.name}: take another")

    @cached_property
    def record(self) -> Record:
        """Nodes so far."""
        return Record(1 + vector(self.state.g).size + 2 * self.common.systems[0].group.dim)

    @cached_property
    def modes(self) -> Modes:
        """Modes with the values of the run."""
        return self.common.with_values(self.values)

    @property
    def system(self) -> System:
        """System of the mode."""
        return self.modes.systems[self.mode]

    @property
    def state_mode(self) -> int:
        """Mode of the last node at a whole number of steps, after which there may be transitions in a step that the run
        does not end.
        """
        return next((switch.source for switch in self.switches if switch.k >= self.state.k), self.mode)

    @property
    def loop(self) -> ModeLoop:
        """Programs of the mode."""
        return self.loop_in(self.mode)

    def loop_in(self, mode: int, *, stiff: bool = False) -> ModeLoop:
        """Programs of a mode of that index, by a collocation method of order 4 or 6 if ``stiff``."""
        if (mode, stiff) not in self.loops:
            method = for_stiff_steps(self.method) if stiff else self.method
            self.loops[mode, stiff] = ModeLoop(self.modes, mode, method, self.clock.controls, self.events)
        self.loops[mode, stiff].step = abs(float(self.clock.dt))
        return self.loops[mode, stiff]

    def advance(self, end: int) -> None:
        """Go on to node ``end``, to a terminal event or to a failure."""
        if self.status is not Result.SUCCESS:
            return
        if not self.loop.is_at(self.clock, self.state):
            self.loop.go_on(self.clock, self.state)
            self.enters = True
        while int(self.state.k) < end and self.status is Result.SUCCESS:
            guard = self._along(end)
            if guard is not None or self.status.failed or self.leaves_zero:
                self._across(guard)

    # --- whole steps ----------------------------------------------------------------------------------------
    def _along(self, end: int) -> Crossings | None:
        """Make whole steps in the mode, at whose beginning its loop is; return the crossing of a guard that ends it."""
        loop = self.loop
        recent = self.enters and is_same_instant(self._last_switch, beginning(loop), self.clock.dt)
        at = self._begin_sides(AT_NODE if recent else 0)
        if self.enters:
            self._leave_zeros(at)
            violated = self._violated(at)
            if violated is not None or self.leaves_zero:
                return violated
        here, self.enters = loop.begin, False
        while int(self.state.k) < end and self.status is Result.SUCCESS:
            n_nodes, leap = portion(int(self.state.k), end, self.save_every)
            buffer, saved, status = self.record.room(n_nodes), 0, 0
            for here, status, saved in loop.pieces(here, n_nodes, leap, buffer):  # noqa: B007, B020
                pass
            self.record.keep(saved, self.clock.t0 + buffer[:saved, 0] * self.clock.dt, self.mode)
            self.state, self.status = here.state, Result(status)
        self.engine, loop.begin = loop.engine, here
        return self._events_of(loop)

    def _events_of(self, loop: ModeLoop, of_step: int | None = None) -> Crossings | None:
        """Keep the events that a loop has located; return the guard's at which it stopped, and go on there. Those in a
        part of a step, which the loop counts from zero, are ``of_step``.
        """
        found, loop.crossings = loop.crossings, loop.none
        assert found is not None
        if not len(found.which):
            return None
        own = loop.own[found.which]
        if own.any():
            taken = found.taken(own)
            placed_multipliers = placed(taken.multipliers, self.modes, self.mode)
            k = taken.k if of_step is None else np.full(len(taken.k), of_step)
            self.crossings.append(taken._replace(k=k, multipliers=placed_multipliers))
        if self.status is not Result.EVENT or own[-1]:
            return None
        self.status = Result.SUCCESS
        return found.taken(np.array([len(own) - 1]))

    # --- the step of a transition, or one that failed -------------------------------------------------------
    def _across(self, guard: Crossings | None) -> None:
        """Go on to the next node, in parts, from a crossing of a guard, or from the node after which a step failed.

        The step is too long if a body turns by half a turn in the part of it in one mode, as in a run of one system.
        """
        k, failure = int(self.state.k), self.status
        begin, end = self._time(k), self._time(k + 1)
        length, count, late, failures, turned = end - begin, 0, 0, 0, failure is Result.CHART
        stiff = self.is_stiff(failure)
        self._begin_sides()
        if guard is None:
            here = Place(np.float64(begin), self.state.g, self.loop.velocity(self.loop.begin))
            length, self.status = length if stiff or self.leaves_zero else length / 2, Result.SUCCESS
        while True:
            is_switch = guard is not None
            if guard is not None:
                self.stiff_rows += [len(self.record)] * stiff
                count, length, turned, stiff = count + 1, self._part_after(guard, k), False, False
                if count > MOST or late > AT_ONCE or self._is_accumulated(guard):
                    self.status = Result.SWITCHES
                    return
                here = self._switched(k, guard)
                if self.status is not Result.SUCCESS:
                    return
            left, is_at_end = end - here.t, is_same(here.t, end, self.clock.dt)
            if is_at_end and not is_switch:
                guard = self._due(here) if count else None
                if guard is None:
                    break
                continue
            part = end - begin if is_at_end else left if abs(length) >= abs(left) else length
            clock, loop = Clock(np.float64(here.t), np.float64(part)), self.loop_in(self.mode, stiff=stiff)
            self.status = Result(int(loop.enter(clock, here, 0, here.t).status))
            if self.status is not Result.SUCCESS:
                return
            is_brief = is_same_instant(here.t, end, self.clock.dt)
            at = self._instant(loop)
            if at.t == self._last_switch:
                self.sides.take(at, AT_SWITCH)
            if is_switch or not is_brief:
                self._leave_zeros(at)
                guard = self._violated(at)
                if guard is not None:
                    late += at.t != self._last_switch
                    continue
            if is_at_end:
                break
            watched, row = loop.begin, loop.buffer(1)
            if is_brief or (failure is Result.STEP and abs(part) < 2 * SHORTEST * abs(end - begin)):
                watched = watched._replace(armed=np.float64(0.0))  # past it, the guard counts at the next part
            while int(watched.state.k) < 1 and self.status is Result.SUCCESS:  # twice where it may have an event
                watched, status, _ = list(loop.pieces(watched, 1, 1, row))[-1]
                self.status = Result(status)
            is_long = not is_brief and abs(part) > SHORTEST * abs(end - begin)
            if self.status is Result.EVENT and is_long and np.any(loop.begin.values == 0):
                found, values = loop.where_stopped()
                if self._has_missed(loop, values, found):
                    self.status, length = Result.SUCCESS, part / 2
                    continue
            guard = self._events_of(loop, of_step=k)
            if self.status is Result.EVENT:
                return
            if self.is_stiff(self.status) and not stiff:
                stiff, self.status = True, Result.SUCCESS
            elif self.status is not Result.SUCCESS:
                failure, length, self.status = self.status, part / 2, Result.SUCCESS
                failures, turned = failures + 1, turned or failure is Result.CHART
                if abs(length) < SHORTEST * abs(end - begin) or failures > MOST_FAILURES:
                    self.status = failure
                    return
            elif guard is None and is_long and self._has_missed(loop, watched.values):
                length = part / 2
            elif guard is None:
                here = Place(
                    np.float64(end if part == left else here.t + part), watched.state.g, loop.velocity(watched)
                )
                length = 2 * length
        if turned:  # in one mode, without a transition: as in a run of one system
            self.status = Result.CHART
            return
        state = self.loop.enter(self.clock, here._replace(t=np.float64(end)), k + 1, self.clock.t0)
        self.status, self.enters, self.leaves_zero = Result(int(state.status)), True, False
        if self.status is Result.SUCCESS:
            self.state = state
            self.stiff_rows += [len(self.record)] * stiff
            if (k + 1) % self.save_every == 0:
                self.save(self.state, end)

    def _due(self, here: Place) -> Crossings | None:
        """Crossing, where a step with transitions ends, of a guard without direction that the motion is about to pass,
        and whose value is zero by rounding, or past it since ``SOON``: the next step, which knows the values alone,
        would not see it.
        """
        loop = self.loop
        loop.enter(Clock(here.t, self.clock.dt), here, 0, here.t)
        at, sides = self._instant(loop), self.sides.of(loop.guards)
        values = at.values[: len(sides)]
        for i in np.flatnonzero((np.abs(values) <= TINY) & (np.nan_to_num(sides) != 0)):
            bounds = at.roundings[1][i], abs(at.change[i]), *self.resting[:, i]
            late = max(bounds) if values[i] * sides[i] <= 0 else 0.0
            if abs(values[i]) <= max(at.roundings[0][i], late) and at.rates[i] * sides[i] < 0:
                return _crossing(loop, i)
        return None

    def _is_accumulated(self, guard: Crossings) -> bool:
        """True if a guard that is crossed has led to more than ``AT_ONCE`` transitions immediately before."""
        number, t = 0, float(guard.t[0])
        for switch in reversed(self.switches):
            if abs(switch.t - t) > ROUNDING * abs(self.clock.dt):
                break
            number += switch.source == self.mode and switch.which == int(guard.which[0])
        return number > AT_ONCE

    def _part_after(self, guard: Crossings, k: int) -> float:
        """Length of the part of a step to try after a transition: twice the time since the one before, if that was at a
        zero of the same function and in the step too, as rebounds become ever shorter.
        """
        whole, last = self._time(k + 1) - self._time(k), self.switches[-1] if self.switches else None
        which = int(guard.which[0])
        if last is None or last.k != k or not self.sides.struck[which] or self.loop.has_rate[which]:
            return whole
        since = abs(float(guard.t[0]) - last.t)
        return min(2 * max(since / abs(whole), INSTANT), 1.0) * whole

    def is_stiff(self, failure: Result) -> bool:
        """True if an explicit step failed as the slip turned too fast for it."""
        return failure is Result.SLIP and not self.method.guarantees.implicit

    def _switched(self, k: int, guard: Crossings) -> Place:
        """Take the transition of a guard at its crossing: the place after it, in the next mode."""
        loop, source, before = self.loop, self.mode, self._place(guard)
        which = int(guard.which[0])
        is_at_node = which > 0 and is_same_instant(before.t, self._time(k + 1), self.clock.dt)
        if (self.events or is_at_node) and not self._begins_at(before.t):
            ahead = self._are_ahead(before)
            if self._stops_with(k, guard, ahead):
                self.status = Result.EVENT
                return before
            which = next(i for i in range(which + 1) if i == which or (is_at_node and ahead[i]))
        transition = loop.transitions[which]
        name = transition.name
        g, xi, p_before, gap = first_of_batch(loop.leaving(transition, Own({}, batch_of_one(before))))
        if not (np.isfinite(xi).all() and np.isfinite(vector(g)).all()):  # as of coefficients that are none
            self.status = Result.RESET
            return before
        if not gap <= OFF_GROUP:
            raise ValueError(
                f"the reset of {name!r} at t = {before.t:g}: {group_fault(self.system, g, float(gap), 'g')}"
            )
        try:
            chosen = transition.target if isinstance(transition.target, str) else transition.target(before.t, g, xi)
        except Exception as error:
            error.add_note(f"geonh: in the target of transition {name!r} at t = {before.t:g}")
            raise
        if chosen is None:
            self.status = Result.MODE
            return before
        target = self.modes.index(chosen, f"the target of transition {name!r}")
        side = -float(loop.directions[which])
        overshoot = abs(loop.begin.values[which]) if guard.t[0] == beginning(loop) else 0.0
        g_before, at, row = guard.g_vector[0], guard.t[:1], len(self.record)
        self.add(np.concatenate([[float(k)], g_before, p_before, p_before])[None], at)
        self.mode = target
        is_moved = self._is_moved(loop, before, g, which, overshoot)
        crossed = Crossed(loop, which, before, side, is_moved, np.flatnonzero(self.sides.of(loop.guards) == 0).tolist())
        self.sides.cross(crossed, self.loop.guards, overshoot)
        after = Own({}, batch_of_one(Place(before.t, g, xi)))
        arrived = first_of_batch(self.loop.arriving(after, transition.reset is None))
        if not arrived.residual <= OFF * (1 + np.abs(arrived.xi).max(initial=0.0)):
            off = f"leads off the constraints of {chosen!r} at t = {before.t:g}: residual {arrived.residual:.2g}"
            if transition.reset is None:
                raise ValueError(
                    f"the transition {transition.name!r} {off}; let its guard be zero where the place is on them, or "
                    "give a reset= that leads there"
                )
            raise ValueError(
                f"the reset of {transition.name!r} {off}; leave reset= out to have the velocity projected on them"
            )
        self.add(np.concatenate([[float(k)], vector(arrived.g), arrived.p, arrived.p])[None], at)
        self.switches.append(Switch(k, float(before.t), source, target, g_before, before.xi, arrived.xi, which, row))
        return Place(before.t, arrived.g, arrived.xi)

    def _is_moved(self, loop: ModeLoop, before: Place, g: Any, which: int, overshoot: float) -> bool:
        """True if a reset changes the place by more than the rounding of a zero, which was late by ``overshoot``, as
        one does not that puts a body on the wall.
        """
        distance = np.linalg.norm(vector(g) - vector(before.g))
        if not distance:
            return False
        of_place = loop.differentials(before).of_events[which][1 : 1 + len(before.xi)]
        slope = np.linalg.norm(of_place)
        late = overshoot / slope if slope else 0.0
        roundings = jax.tree.leaves(loop.roundings_of_place(before).g)
        return bool(distance > 4 * (max(float(np.max(part)) for part in roundings) + late))

    def _begins_at(self, t: float) -> bool:
        """True if the run or a mode begins at an instant: a motion that begins at a zero leaves it uncrossed."""
        return any(is_same_instant(t, begin, self.clock.dt) for begin in (self.clock.t0, self._last_switch))

    def _are_ahead(self, here: Place) -> np.ndarray:
        """True for the guards and events whose zero is at the instant of a place, which rounding may have passed."""
        loop = self.loop
        loop.enter(Clock(here.t, np.float64(self.clock.dt)), here, 0, here.t)
        change = self._instant(loop).change_within(AT_SWITCH)
        directions = np.array([event.direction for event in loop.guards + self.events])
        return (np.abs(loop.begin.values) <= np.abs(change)) & (change != 0) & (change * directions >= 0)

    def _begin_sides(self, number: int = 0) -> Instant:
        """Find the sides where the loop of the mode begins, of which nothing is known, but at the instant of a
        transition; return that instant.
        """
        at, crossed = self._instant(self.loop), self.sides.crossed
        is_known = crossed is not None and is_same_instant(float(crossed.place.t), at.t, self.clock.dt)
        self.sides = self.sides if is_known else Sides(len(self.loop.guards))
        if number or not is_known:
            self.sides.take(at, number, at.t - (self.clock.t0 if np.isnan(self._last_switch) else self._last_switch))
        return at

    def _stops_with(self, k: int, guard: Crossings, ahead: np.ndarray) -> bool:
        """Record the events whose zero is at the instant of a guard, but by rounding was not found before it, where the
        next mode would leave it without an event; True if one of them stops the run.
        """
        loop = self.loop
        new = np.flatnonzero(ahead & loop.own & ~self._are_recorded(loop, guard.t[0]))
        stops, lam = [event.stop for event in self.events], guard.multipliers
        lam = placed(lam, self.modes, self.mode) if lam.shape[1] else lam
        for i in sorted(new, key=lambda i: stops[i - len(loop.guards)]):
            self.crossings.append(
                Crossings(loop.names, np.array([i]), np.array([k]), guard.t, guard.g_vector, guard.xi, lam)
            )
            if stops[i - len(loop.guards)]:
                return True
        return False

    def _are_recorded(self, loop: ModeLoop, t: float) -> np.ndarray:
        """True for events of the run that are recorded at an instant or shortly before it, shape=[events]."""
        begin = self._shortly_before(t)
        known = [
            c.names[i] for c in self.crossings[-RECENT:] for i, at in zip(c.which, c.t, strict=True) if at >= begin
        ]
        return loop.own & np.isin(loop.names, known)

    @property
    def _last_switch(self) -> float:
        """Time of the last transition; nan if there is none."""
        return self.switches[-1].t if self.switches else self.since

    def _violated(self, at: Instant) -> Crossings | None:
        """Crossing, where the mode begins, of a guard that is past zero there, and not by rounding; the value of one
        that is by rounding is set to zero, from which it leaves.
        """
        loop, values = at.loop, at.loop.begin.values.tolist()
        self.leaves_zero, self.resting = False, np.zeros((2, len(loop.guards)))
        for i, guard in enumerate(loop.guards):
            if at.opens(i):
                loop.begin.values[i], self.leaves_zero = 0.0, True
                continue
            vanished = isinstance(guard, SlipEnds) and values[i] < guard.least * (1 + np.abs(loop.begin.xi).max())
            direction = loop.directions[i]
            on_zero = values[i] == 0 and direction  # it may lead past zero from there
            if not (vanished or on_zero or values[i] * direction > 0):
                continue
            is_late = 0 < abs(at.values[i]) <= self.sides.late[i]
            if loop.may_be_rounding[i] and (is_late or at.is_zero(i)):
                if at.side(i) * direction > 0:
                    return _crossing(loop, i)
                loop.begin.values[i], self.leaves_zero = 0.0, True
                off = abs(at.values[i])
                own, located = (part[i] for part in at.roundings)
                self.resting[:, i] = (max(off, located) if at.is_flat(i) else off + own), off + own
                continue
            back = ROUNDING + 2 * SAME * abs(at.t / loop.step)
            past = (values[i] + at.change[i] * (back / SOON)) * direction > 0
            if at.change[i] < 0 if vanished else past:
                return _crossing(loop, i)
            if not vanished:
                loop.begin.values[i], self.leaves_zero = 0.0, self.leaves_zero or at.soon[1, i] != 0
        return None

    def _has_missed(self, loop: ModeLoop, after: np.ndarray, found: int = -1) -> bool:
        """True if a guard that was zero at the beginning of a part is past it at the end, by the values there, and is
        not the one whose crossing was found: it left, and came back within a small part of that.
        """
        n, is_short = len(loop.guards), abs(float(loop.clock.dt)) <= SOON * loop.step
        bounds = np.maximum(loop.guard_roundings, self.resting[int(is_short)])
        is_past = (loop.begin.values[:n] == 0) & (after[:n] * loop.directions[:n] > bounds)
        return bool(np.any(is_past & (np.arange(n) != found)))

    # --- parts ----------------------------------------------------------------------------------------------
    def _leave_zeros(self, at: Instant) -> None:
        """Set values of events of the run to zero that are zero by rounding after a transition, or recorded there, so
        that the motion leaves them without an event; not those of others with a direction, which may lead past zero.
        """
        loop = at.loop
        if not self.events or not is_same_instant(self._last_switch, at.t, self.clock.dt):
            return
        begin, zero, leaves = loop.begin, self._are_recorded(loop, at.t), loop.own & loop.crosses_both_ways
        if np.any(leaves & ~zero & (begin.values != 0)):
            change = at.change_within(AT_SWITCH if at.t == self._last_switch else AT_NODE)
            zero |= leaves & (np.abs(begin.values) <= np.abs(change))
            if np.any(leaves & ~zero & (np.abs(begin.values) < TINY)):
                zero |= leaves & (np.abs(begin.values) <= at.roundings[1])
        loop.begin = begin._replace(values=np.where(zero, 0.0, begin.values))

    def _shortly_before(self, t: float) -> float:
        """Time since when transitions and events are at an instant, or immediately before it."""
        return t - instants(t, abs(float(self.clock.dt)), BEFORE) * float(self.clock.dt)

    def _instant(self, loop: ModeLoop) -> Instant:
        """Instant at which a loop begins."""
        return Instant(loop, self.switches[-1].xi_before if self.switches else self.xi_before)

    def _time(self, k: int) -> float:
        return float(self.clock.t0 + k * self.clock.dt)

    def _place(self, crossing: Crossings) -> Place:
        return Place(np.float64(crossing.t[-1]), point(crossing.g_vector[-1], self.state.g), crossing.xi[-1])

    def drop_last(self) -> None:
        """Remove the last node if it is one at a whole number of steps that is not to be saved."""
        k = int(self.state.k)
        if self.record.last[0] == k and k % self.save_every:
            self.record.drop_last()

    def begin(self, row: np.ndarray, n_steps: int) -> None:
        """Save node 0 from its row, in a record with room for the nodes of that many steps."""
        self.record = Record(row.size, n_steps // self.save_every + FEW)
        self.add(row[None], self.clock.t0)

    def expect(self, n_steps: int) -> None:
        """Make room for the nodes of that many steps, with some transitions."""
        self.record.room(max(n_steps, 0) // self.save_every + FEW)

    def save(self, state: State, t: float) -> None:
        """Save a node."""
        row = np.concatenate([[float(state.k)], vector(state.g), state.p_plus, state.p_minus])
        self.add(row[None], np.array([t]))

    def add(self, rows: np.ndarray, t: Any) -> None:
        """Save nodes of the mode, from their rows and times."""
        self.record.add(rows, t, self.mode)

    def keep(self, nodes: Nodes, t: float) -> None:
        """Begin with the nodes of an earlier run up to a time, without a last one that a longer run would not save."""
        kept = nodes.taken(np.sign(self.clock.dt) * (nodes.t - t) <= SAME * abs(t))
        if kept.k[-1] % self.save_every and kept.t[-1] != kept.t[-2]:
            kept = kept.taken(np.s_[:-1])
        self.record.add(kept._replace(t=None, mode=None).rows, kept.t, kept.mode)

    def nodes(self) -> Nodes:
        """All nodes."""
        return self.record.nodes(self.system.group.dim)

    def all_switches(self, earlier: Switches) -> Switches:
        """Transitions of an earlier run that this one continues, and then its own."""
        return joined_switches(earlier, self.switches)

    def all_crossings(self, size: int) -> Crossings:
        """Events in all modes, of points with ``size`` entries, with as many multipliers as the nodes have."""
        names, n = self.event_names, self.system.group.dim
        return joined_crossings([Crossings.none(names, size, n, self.modes.n_rows), *self.crossings], names, size, n)

    @property
    def event_names(self) -> tuple[str, ...]:
        """Names of the events of the run, after those of an earlier run that it continues."""
        return tuple(dict.fromkeys([*self.kept_names, *(event.name for event in self.events)]))


def _crossing(loop: ModeLoop, i: int) -> Crossings:
    """Crossing of a guard where a loop begins."""
    place = np.array([beginning(loop)], float), vector(loop.begin.state.g)[None], loop.begin.xi[None]
    return Crossings(loop.names, np.array([i]), np.zeros(1, int), *place, np.zeros((1, 0)))
