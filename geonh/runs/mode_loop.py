r"""Compiled programs of one mode of a system with modes, prepared once for a run.

Times are arguments of all of them, and parameters that differ between the members of an ensemble, so that whole steps,
the shortened ones about a transition, and all members share their code: the start of the mode, the loop that stops at
its guards, their location, the resets of the transitions that leave it, and the arrival of those that lead to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, TypeAlias

import equinox as eqx
import jax
import numpy as np
from numpy.typing import ArrayLike

from geonh.engine import BatchStepping, Partition, batch_of_one, batch_stepping, first_of_batch, prepared, stepping
from geonh.integrators.base import Integrator, Problem
from geonh.integrators.clock import Clock
from geonh.integrators.node import State
from geonh.integrators.runge_kutta import Gauss
from geonh.integrators.validity import Result
from geonh.mechanics.own_values import OfOwn, Own, StepOfOwn
from geonh.results.events import Crossings, Event, SlipEnds, WithRate, careful_guards
from geonh.results.modes import Modes, Transition
from geonh.results.nodes import Node
from geonh.results.zeros import NEAREST
from geonh.runs.event_loop import Watched, Watching, repeated
from geonh.runs.locating import SAME_INSTANT, Notices, Search, Zeros, located
from geonh.runs.mode_functions import (
    Arrived,
    Bounded,
    Differentials,
    Entry,
    Later,
    Left,
    Motion,
    Place,
    Timed,
    arrived_at,
    at_node_timed,
    differentials_at,
    drifts_off,
    entered,
    errs_in_energy,
    isolated_timed,
    left_by,
    located_timed,
    next_timed,
    next_until,
    point,
    rounded_at,
    row_timed,
    row_until,
    takes_energy,
    tangent_at,
    values_later,
    velocity_timed,
)

Loops: TypeAlias = dict[tuple[int, bool], "ModeLoop"]
"""Programs of modes by index, with True those for parts of steps that an explicit method cannot make."""

RUNS = 8
"""Number of different problems whose programs are kept for further runs."""
NEARBY = 1e-6
"""Distance before a zero at which a step must succeed, relative to its own."""
SHORT = 1e-9
"""Part of a whole step in which values of events change by little more than rounding."""
TINY = 1e-6
"""Value of a guard that may be a rounding."""
ROUNDED = 4 * float(np.finfo(float).eps)
"""Rounding of a coordinate, relative to the largest in its column of a matrix, or to its size and change in a step."""
MOVED = 8
"""Number of places at which rounding is measured."""


@contextmanager
def kept_loops(modes: Modes, method: Integrator, controls: Any, events: tuple[Event, ...]) -> Iterator[Loops]:
    """Programs of the modes for a run, those of an earlier one if nothing in its problem has changed since."""

    parts = Partition.of((modes.systems, modes.transitions, modes.names, method, controls, events))
    values = tuple(np.asarray(a).tobytes() for a in jax.tree.leaves(parts.arrays))
    known = _spare_loops(parts.static, parts.captured, parts.types, values)
    loops = known.pop() if known else {}
    for (which, _), loop in loops.items():
        loop.begin_anew(modes.leaving(which))
    yield loops
    if parts.is_current():  # else a target or a report has changed what functions refer to
        known.append(loops)


@lru_cache(maxsize=RUNS)
def _spare_loops(*problem: Any) -> list[Loops]:
    """Programs that no run uses now; a run takes those that it needs for itself alone."""
    return []


def for_stiff_steps(method: Integrator) -> Integrator:
    """Collocation method of order 4 or 6, for steps that an explicit method cannot make."""
    return Gauss(2 if method.order < 6 else 3)


class ModeLoop(Watching):
    """Loop of a run in one mode, and the programs of its transitions.

    Parameters
    ----------
    modes : Modes
    which : int
        Index of the mode.
    method, controls, events : Integrator, callable or None, tuple of Event
        Those of the run.
    values : mapping of str to array, optional
        Values of parameters, as an example of those that arguments of its programs have; none by default.
    """

    def __init__(
        self,
        modes: Modes,
        which: int,
        method: Integrator,
        controls: Any,
        events: tuple[Event, ...],
        values: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._values = dict(values)
        system = modes.systems[which]
        if (forces := system.multiplier_forces) is not None:
            system = eqx.tree_at(lambda s: s.multiplier_forces, system, forces.parted())
        self.clock = Clock(np.float64(0.0), np.float64(1.0), controls)
        self.system, self.transitions = system, modes.leaving(which)
        self.guards = careful_guards(modes.guards(which), system)
        self._problem = Problem(self.system, method, self.clock, (*self.guards, *events))
        self._parts = Partition.of(self._problem)
        self.notices = Notices(self._problem.events, n_guards=len(self.guards))
        self.names = tuple(event.name for event in self._problem.events)
        self._drifts = drifts_off(method)
        self.step = np.inf
        """Length of a whole step, s, set by the run that uses the loop."""
        self.own = np.isin(self.names, [event.name for event in events])
        """True for the events of the run, false for guards."""
        self.crosses_both_ways = np.array(
            [i >= len(self.guards) or not event.direction for i, event in enumerate(self._problem.events)], bool
        )
        self.directions = np.array([event.direction for event in self._problem.events], float)
        """Directions in which the events count, of guards without one from the side on which the motion is."""
        self.ends_slip = np.array([isinstance(event, SlipEnds) for event in self._problem.events], bool)
        self.has_rate = [isinstance(guard.function, WithRate) for guard in self.guards]
        """True for guards whose functions have rates of their own."""
        plain = [not (known or is_slip) for known, is_slip in zip(self.has_rate, self.ends_slip, strict=False)]
        self.may_be_rounding = np.array(plain + [True] * len(events), bool)
        """True for events whose zeros are told from rounding by that of the place."""
        self.guard_roundings = np.array([getattr(guard.function, "rounding", 0.0) for guard in self.guards], float)
        """Values up to which guards with rates of their own may be zero."""
        self._leaving: dict[str, Callable[[Any], Left]] = {}
        self._arriving: dict[bool, Callable[[Any], Arrived]] = {}

    # --- where the mode begins ------------------------------------------------------------------------------
    def begin_anew(self, transitions: tuple[Transition, ...]) -> None:
        """Forget an earlier run; its transitions were equal, but functions of targets may have effects of their own."""
        self.transitions = transitions
        self.notices.forget()
        vars(self).pop("begin", None)

    def enter(self, clock: Clock, here: Place, k: int, t0: Any) -> State:
        """Begin at a place with the steps of a clock, which is node k of a run that began at t0; return its state."""
        entry = Entry(here, np.float64(t0), clock.dt, np.int64(k))
        state, xi, values = first_of_batch(self.entering(_alone(entry)))
        if not state.status:
            for i in np.flatnonzero(np.isnan(values)).tolist():
                self._unknown(i, float(here.t))
            if np.isnan(values[: len(self.guards)]).any():
                state = state._replace(status=np.asarray(Result.GUARD, np.asarray(state.status).dtype))
        self._begin_at(self.clock._replace(t0=entry.t0, dt=clock.dt), state, xi, values)
        return state

    def go_on(self, clock: Clock, state: State) -> None:
        """Begin at a node, a state of the method with the steps of a clock."""
        self._set(clock)
        xi = values = np.zeros(0)
        if self.names:
            timed = self._timed(Node.of(state))
            xi, values = first_of_batch(self.values_at(timed))
        self._begin_at(clock, state, xi, values)
        if not state.status:
            self.refuse_unknown()

    def continue_at(self, clock: Clock, watched: Watched) -> None:
        """Go on from a state of a loop of this mode, with the steps of a clock."""
        self._set(clock)
        self.begin = watched
        self.crossings = self.none

    def is_at(self, clock: Clock, state: State) -> bool:
        """True if the loop is at a node already, with the steps of this clock."""
        own = self.clock.t0 == clock.t0 and self.clock.dt == clock.dt
        return own and hasattr(self, "begin") and self.begin.state is state and not self.begin.state.status

    def _set(self, clock: Clock) -> None:
        self.clock = clock
        self._problem = self._problem._replace(clock=clock)

    def _begin_at(self, clock: Clock, state: State, xi: np.ndarray, values: np.ndarray) -> None:
        self._set(clock)
        self.begin = Watched.begun(state, xi, values)
        if not state.status:
            self.crossings = self.none

    @cached_property
    def none(self) -> Crossings:
        """Empty record of the events of the mode."""
        return Crossings.none_of(self._problem.events, self.system, self.begin.state.g, self.clock.t0)

    # --- programs -------------------------------------------------------------------------------------------
    def _timed(self, what: Any) -> Own:
        """Arguments of a program for one node, with a first axis."""
        return _alone(Timed(self.clock.t0, self.clock.dt, what))

    def _program(self, function: Callable, tree: Any, what: Any) -> Callable[[Own], Any]:
        """Program for arguments like one, with a first axis."""
        return prepared(OfOwn(function), tree, Own(self._values, what))

    @cached_property
    def entering(self) -> Callable[[Own], Any]:
        """Program of ``Entry`` with a first axis: states, velocities, and values of the events."""
        n, number = self.system.group.dim, np.float64(0.0)
        place = Place(number, jax.tree.map(np.asarray, self.system.point(None)), np.zeros(n))
        return self._program(entered, self._parts, Entry(place, number, number, np.int64(0)))

    def values_at(self, nodes: Own) -> tuple[np.ndarray, np.ndarray]:
        """Velocities at nodes, with a first axis, and values of the events."""
        return self._program(at_node_timed, self._parts, first_of_batch(nodes.what))(nodes)

    def searching(self, function: Callable) -> Callable[[Own], Any]:
        """Program of ``located`` or ``isolated`` of searches with a first axis."""
        one = Timed(self.clock.t0, self.clock.dt, Search(Node.of(self.begin.state), np.int64(0), *np.zeros(3)))
        return self._program(located_timed if function is located else isolated_timed, self._parts, one)

    def _prepared_search(self, function: Callable) -> Callable[[Any], Any]:
        program = self.searching(function)

        def search(given: Search) -> Any:
            n = len(given.a)
            return program(Own({}, Timed(np.full(n, self.clock.t0), np.full(n, self.clock.dt), given)))

        return search

    @cached_property
    def _stepping(self) -> Any:
        begin = Own({}, Timed(self.clock.t0, self.clock.dt, self.begin))
        loop = stepping(StepOfOwn(next_timed), OfOwn(row_timed), self._parts, begin)
        self.engine, self.width = loop.engine, loop.width
        return loop

    def _steps(
        self, watched: Watched, n_nodes: int, stride: int, buffer: np.ndarray
    ) -> Iterator[tuple[Watched, int, int]]:
        own = Own({}, Timed(self.clock.t0, self.clock.dt, watched))
        for after, status, saved in self._stepping.pieces(own, n_nodes, stride, buffer):
            yield after.what.what, status, saved

    @cached_property
    def batch(self) -> BatchStepping:
        """Loop of ``Bounded`` for many members."""
        begin = Own(self._values, Bounded(Timed(self.clock.t0, self.clock.dt, self.begin), np.int64(0)))
        return batch_stepping(StepOfOwn(next_until), OfOwn(row_until), self._problem, self._problem, begin)

    @cached_property
    def _later(self) -> Callable[[Any], Any]:
        later = Timed(self.clock.t0, self.clock.dt, Later(Node.of(self.begin.state), 0.5))
        return self._program(values_later, self._parts, later)

    def _failure(self, here: Watched, after: Watched, zeros: Zeros) -> Result:
        """Reason why a step with these zeros is to be made in parts; SUCCESS if there is none. It is too long where the
        energy is in error, or the guard of a transition jumps, until the first zero that counts; or where shorter steps
        fail, beyond which that zero was found.
        """
        jumps = zeros.jumped & ~self.crosses_both_ways[zeros.which]
        counts = np.flatnonzero(~zeros.jumped | jumps)
        failure = super()._failure(here, after, zeros)
        if failure or not len(counts):
            return failure
        first = counts[np.argmin(zeros.t[counts])]
        if jumps[first] or self._is_beyond_failures(here, zeros, first):
            return Result.STEP
        if not self.takes_energy:
            return failure
        begin = Place(self.clock.t0 + here.state.k * self.clock.dt, here.state.g, here.xi)
        step = Motion(begin, Place(zeros.t[first], point(zeros.g_vector[first], begin.g), zeros.xi[first]))
        return Result.STEP if first_of_batch(self.errs(_alone(step))) else failure

    def _record(self, here: Watched) -> Result:
        """GUARD beside the results of other loops: if a guard is nan after a step, and no transition is before."""
        self._has_lost_guard = False
        status = super()._record(here)
        return Result.GUARD if status is Result.SUCCESS and self._has_lost_guard else status

    def _unknown(self, event: int, t: float) -> None:
        if event < len(self.guards):
            self._has_lost_guard = True
        else:
            super()._unknown(event, t)

    def _zeros(self, here: Watched, after: Watched, which: np.ndarray) -> Zeros:
        """Sign changes of events, told from rounding; none is a jump in a part of a step that is so short that values
        change by little more than it.
        """
        zeros = super()._zeros(here, after, which)
        if abs(self.clock.dt) < SHORT * self.step < np.inf:
            zeros = zeros._replace(jumped=np.zeros_like(zeros.jumped))
        return self._without_left(here, after, self._without_small_jumps(here, after, zeros))

    def _without_small_jumps(self, here: Watched, after: Watched, zeros: Zeros) -> Zeros:
        """Zeros with jumps by rounding as zeros, if the step leads past them, or without."""
        if not zeros.jumped.any():
            return zeros
        each, end, place = zeros.which, after.reached[zeros.which], self._beginning(here)
        rounding, direction = self.roundings(place, [place.xi])[each], self.directions[each]
        is_small = zeros.jumped & self.may_be_rounding[each] & (self._values_on_the_way(here, zeros, 1.0) <= rounding)
        leads_past = np.where(direction == 0, np.abs(end), end * direction) > rounding
        return zeros._replace(jumped=zeros.jumped & ~is_small).taken(~is_small | leads_past)

    def _without_left(self, here: Watched, after: Watched, zeros: Zeros) -> Zeros:
        """Zeros but for those of guards, and of events of the run that count both ways, that leave a zero at the
        beginning: near it, also in a part of a step that is short, and where their values do not exceed the rounding,
        this makes them.
        """
        each = zeros.which
        own, values, end = self.own[each], here.values[each], after.reached[each] * self.directions[each]
        left = np.where(own, self.crosses_both_ways[each] & (values == 0), np.abs(values) <= TINY)
        left &= self.may_be_rounding[each]
        is_near = left & own & (np.abs(zeros.t - self._beginning(here).t) <= NEAREST * self.step)
        if not (left & ~is_near).any():
            return zeros.taken(~is_near)
        rounding = self.roundings(self._beginning(here))[each]
        begins_at_zero = (values == 0) | ((np.abs(values) <= rounding) & (end <= rounding))
        is_rounding = left & begins_at_zero & (self._values_on_the_way(here, zeros, 0.5) <= rounding)
        return zeros.taken(~(is_near | is_rounding))

    def _beginning(self, here: Watched) -> Place:
        """Place at which a step begins."""
        return Place(np.float64(self.clock.t0 + here.state.k * self.clock.dt), here.state.g, here.xi)

    def _values_on_the_way(self, here: Watched, zeros: Zeros, part: float) -> np.ndarray:
        """Absolute values of their events at a part of the time from the beginning of a step to some zeros."""
        parts = part * (zeros.t - self._beginning(here).t) / self.clock.dt
        return np.abs(self.values_after(here.state, parts)[np.arange(len(parts)), zeros.which])

    def _directions(self, begin: np.ndarray, which: np.ndarray, own: np.ndarray) -> np.ndarray:
        return np.where(begin == 0, self.directions[which], own)

    def _is_beyond_failures(self, here: Watched, zeros: Zeros, i: int) -> bool:
        """True if the step to just before a zero fails; not of a slip, of which short ones have no direction there."""
        if self.ends_slip[zeros.which[i]]:
            return False
        node, which = Node.of(here.state), zeros.which[i : i + 1]
        s = (zeros.t[i : i + 1] - self.clock.t0) / self.clock.dt - int(here.state.k)
        before = just_before(s)
        return not np.isfinite(self._locate(Search(batch_of_one(node), which, before, before, np.ones(1))).value[0])

    @property
    def takes_energy(self) -> bool:
        """True if the forces of the mode do no positive work."""
        return takes_energy(self.system)

    @cached_property
    def errs(self) -> Callable[[Own], Any]:
        """Program of ``errs_in_energy`` of motions with a first axis."""
        begin = self._beginning(self.begin)
        return self._program(errs_in_energy, self.system, Motion(begin, begin))

    def buffer(self, n_nodes: int) -> np.ndarray:
        """Buffer for the rows of that many nodes."""
        assert self._stepping is not None  # it knows their width
        return np.empty((n_nodes, self.width))

    def values_after(self, state: State, parts: ArrayLike) -> np.ndarray:
        """Values of the events some parts of a step after a node, shape=[parts, events]."""
        parts = np.atleast_1d(np.asarray(parts, float))
        t0, dt, node = repeated((self.clock.t0, self.clock.dt, Node.of(state)), len(parts))
        return self._later(Own({}, Timed(t0, dt, Later(node, parts))))

    def differentials(self, here: Place) -> Differentials:
        """Differentials of the events at a place, and the motion's there."""
        return first_of_batch(self._differentials(_alone(here)))

    @cached_property
    def _differentials(self) -> Callable[[Own], Any]:
        return self._program(differentials_at, self._parts, self._beginning(self.begin))

    def rounded(self, here: Place) -> tuple[np.ndarray, np.ndarray]:
        """Values of the guards at a place, and bounds of their rounding there, their own and that of the place,
        shape=[guards].
        """
        values, roundings = first_of_batch(self._rounded(_alone(here)))
        return values, roundings + self.roundings(here)[: len(values)]

    @cached_property
    def _rounded(self) -> Callable[[Own], Any]:
        tree = self.system, self.guards, self.clock.controls
        return self._program(rounded_at, tree, self._beginning(self.begin))

    def roundings(self, here: Place, velocities: Sequence[np.ndarray] = ()) -> np.ndarray:
        """Bounds of the rounding of the values of all events at a place, shape=[events]: how they change as it is moved
        by rounding and, if it was located, along motions of these ``velocities`` through it, in the time within which
        zeros are.
        """
        signs = np.random.default_rng(0)

        def moved(a: Any, size: np.ndarray) -> np.ndarray:
            a = np.asarray(a, float)
            return a + size * signs.choice([-1.0, 1.0], (MOVED, *a.shape))

        rounded = jax.tree.map(moved, here, self.roundings_of_place(here))
        places = jax.tree.map(
            lambda *parts: np.concatenate(parts), rounded, *(self._around(here, v) for v in velocities)
        )
        n = len(places.t)
        entries = Entry(places, places.t, np.full(n, float(self.clock.dt)), np.zeros(n, np.int64))
        return 2 * np.ptp(self.entering(Own({}, entries))[2], axis=0)

    def _around(self, here: Place, velocity: np.ndarray) -> Place:
        """Places of a motion with this velocity before and after one, by the time within which zeros are located."""
        within = ROUNDED * np.abs(here.t) + SAME_INSTANT * max(abs(float(self.clock.dt)), self._whole_step)
        rates, times = first_of_batch(self._tangent(_alone(here._replace(xi=velocity)))), np.array([-within, within])
        g = jax.tree.map(lambda a, rate: a + np.multiply.outer(times, rate), here.g, rates)
        return Place(here.t + times, g, np.stack([here.xi, here.xi]))

    def roundings_of_place(self, here: Place) -> Place:
        """Bounds of the rounding of time, coordinates and velocity at a place."""
        fastest = np.abs(here.xi).max(initial=0.0)

        def of_leaf(a: Any) -> np.ndarray:
            size = np.abs(a)
            return ROUNDED * (size.max(axis=-2, keepdims=True) if np.ndim(a) > 1 else size + fastest * self._whole_step)

        velocity = np.full_like(here.xi, ROUNDED * fastest)
        return Place(ROUNDED * np.abs(here.t), jax.tree.map(of_leaf, here.g), velocity)

    @property
    def _whole_step(self) -> float:
        return self.step if np.isfinite(self.step) else 0.0

    @cached_property
    def _tangent(self) -> Callable[[Own], Any]:
        """Program of the coordinates' rates at places with a first axis."""
        return self._program(tangent_at, self.system.group, self._beginning(self.begin))

    def where_stopped(self) -> tuple[int, np.ndarray]:
        """Index of the event at which the loop stopped, and values of all there."""
        found = self.crossings
        assert found is not None
        here = Place(np.float64(found.t[-1]), point(found.g_vector[-1], self.begin.state.g), found.xi[-1])
        entry = Entry(here, here.t, self.clock.dt, np.int64(0))
        return int(found.which[-1]), first_of_batch(self.entering(_alone(entry)))[2]

    def velocity(self, watched: Watched) -> np.ndarray:
        """ξ̃ at a node of the loop."""
        if len(watched.xi):
            return watched.xi
        return self.velocities(self._timed(Node.of(watched.state)))[0]

    def velocities(self, nodes: Own) -> np.ndarray:
        """ξ̃ at nodes with a first axis."""
        return self._program(velocity_timed, self._parts, first_of_batch(nodes.what))(nodes)

    def leaving(self, transition: Transition, places: Own) -> Left:
        """Places after the reset of a transition, of places with a first axis."""
        if transition.name not in self._leaving:
            tree = self.system, transition.reset, self.clock.controls
            try:
                self._leaving[transition.name] = self._program(left_by, tree, first_of_batch(places.what))
            except (TypeError, ValueError) as error:
                error.add_note(f"geonh: at the transition {transition.name!r}")
                raise
        return self._leaving[transition.name](places)

    def arriving(self, places: Own, projects: bool) -> Arrived:
        """Places after a transition to this mode, with a first axis; if wanted, velocities are projected onto its
        constraints.
        """
        if projects not in self._arriving:
            self._arriving[projects] = self._program(
                arrived_at, (self.system, projects, self._drifts), first_of_batch(places.what)
            )
        return self._arriving[projects](places)


def _alone(what: Any) -> Own:
    """Argument of a program for one node, with a first axis."""
    return Own({}, batch_of_one(what))


def just_before(s: np.ndarray) -> np.ndarray:
    """Fractions of a step at which it must succeed for zeros at s."""
    return s * (1 - NEARBY)
