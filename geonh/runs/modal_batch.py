r"""Runs of many members of a system with modes at once, with the bits of ``ModalRun``.

Members in one mode make their whole steps in SIMD lanes, until a step may have a transition; clean transitions are made
by all of them together: one zero of a guard, a shortened step of the next mode without another, and its next node. All
else, such as steps that are to be made in parts, is left to ``ModalRun``, a member and a step at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from geonh.engine import batch_of_one
from geonh.integrators.validity import Result
from geonh.mechanics.own_values import Own
from geonh.mechanics.soundness import OFF_GROUP
from geonh.results.events import SlipEnds
from geonh.results.nodes import Node
from geonh.runs.event_loop import PASSES, Watched
from geonh.runs.instant import is_same_instant
from geonh.runs.locating import SAME_INSTANT, Search, isolated, located, order_of_guard, zeros_of
from geonh.runs.modal_members import Crossed, Group, parted, points, rows_of_states, taken, targets_of, vectors
from geonh.runs.modal_record import Switch
from geonh.runs.modal_run import OFF, ModalRun
from geonh.runs.mode_functions import Bounded, Entry, Motion, Place, Timed
from geonh.runs.mode_loop import TINY, Loops, ModeLoop, for_stiff_steps, just_before

ALL_IS_WELL = (Result.SUCCESS, Result.END, Result.EVENT)
PIECE = 2**24
"""Bytes of the nodes that are computed at once."""


class ModalBatch:
    """Runs that share their modes, method, guards and controls, and differ in their starts, clocks and parameters.

    Parameters
    ----------
    runs : dict of int to ModalRun
        By the numbers of members, in the same mode, and without events.
    end : int
        Number of steps.
    threads : int
    faults : dict of int to str
        Reasons why members cannot be run, by their numbers, to which more are added.
    """

    def __init__(self, runs: dict[int, ModalRun], end: int, threads: int, faults: dict[int, str]) -> None:
        self._runs, self._numbers, self._end, self._threads = list(runs.values()), list(runs), end, threads
        self._loops: Loops = {}
        every = [dict(run.values) for run in self._runs]
        self._values = jax.tree.map(lambda *leaves: np.stack(leaves), *every) if every[0] else {}
        self._faults = faults
        clocks = [run.clock for run in self._runs]
        self._t0, self._dt = (np.array([getattr(clock, name) for clock in clocks], float) for name in ("t0", "dt"))
        self._groups: list[Group] = []

    def advance(self) -> Iterator[int]:
        """Go on to the end, or to where members stop; yields the number of those that have ended."""
        going = [i for i, run in enumerate(self._runs) if run.status is Result.SUCCESS and int(run.state.k) < self._end]
        if not going:
            return
        mode = self._runs[going[0]].mode
        loop = self._loop(mode)
        states = jax.tree.map(lambda *leaves: np.stack(leaves), *(self._runs[i].state for i in going))
        members, xi, values = np.array(going), *(np.zeros((len(going), 0)),) * 2
        if loop.names:
            xi, values = loop.values_at(self._own(members, self._timed(members, Node.of(states))))
        self._groups = [Group.entering(mode, members, Watched.begun(states, xi, values))]
        while self._groups:
            yield len(self._runs) - sum(len(group.members) for group in self._groups)
            mode = self._groups[0].mode
            alike = [group for group in self._groups if group.mode == mode]
            self._groups = [group for group in self._groups if group.mode != mode]
            parts = jax.tree.map(lambda *leaves: np.concatenate(leaves), *(group[1:] for group in alike))
            self._along(Group(mode, *parts))

    def _timed(self, members: np.ndarray, what: Any) -> Timed:
        return Timed(self._t0[members], self._dt[members], what)

    def _own(self, members: np.ndarray, what: Any) -> Own:
        """Argument of a program, with the parameters of members."""
        return Own(taken(self._values, members), what)

    def _loop(self, mode: int, *, stiff: bool = False) -> ModeLoop:
        """Programs of a mode for arguments with parameters of their own, by collocation if ``stiff``."""
        if (mode, stiff) not in self._loops:
            run, values = self._runs[0], taken(self._values, 0)
            method = for_stiff_steps(run.method) if stiff else run.method
            self._loops[mode, stiff] = ModeLoop(run.common, mode, method, run.clock.controls, (), values)
        return self._loops[mode, stiff]

    # --- whole steps ----------------------------------------------------------------------------------------
    def _along(self, group: Group) -> None:
        """Make whole steps in a mode, to the end or to a transition, and this."""
        loop = self._loop(group.mode)
        _give_example(loop, group.begins)
        hard = group.enters & _is_hard(loop, group.begins)
        self._alone(group.taken(hard))
        group = group.taken(~hard)
        if not len(group.members):
            return
        most = max(PIECE // (8 * loop.batch.width * len(group.members)), 1)
        n = min(self._end - int(group.begins.state.k.min()), most)
        ends = np.full(len(group.members), self._end, group.begins.state.k.dtype)
        bounded = Bounded(self._timed(group.members, group.begins), ends)
        rows, here, status, counts = self._advanced(loop, group.members, bounded, n)
        firsts, engine = (group.begins.state.k + 1).tolist(), loop.batch.engine
        for i, own, first, count in zip(group.members.tolist(), rows, firsts, counts.tolist(), strict=True):
            run = self._runs[i]
            skipped = -first % run.save_every
            k = np.arange(first + skipped, first + count, run.save_every)
            run.add(own[skipped : count : run.save_every], self._t0[i] + k * self._dt[i])
            run.engine = engine
        group = group._replace(begins=here, enters=np.zeros(len(group.members), bool))
        self._go_on(group.taken(np.isin(status, (Result.SUCCESS, Result.END))))
        self._across(loop, group.taken(status == Result.EVENT))
        stiff = (status == Result.SLIP) & self._runs[0].is_stiff(Result.SLIP) & bool(loop.names)
        self._by_collocation(group.taken(stiff))
        self._alone(group.taken(~stiff & ~np.isin(status, ALL_IS_WELL)))

    def _go_on(self, group: Group) -> None:
        """Go on with members, or end them, with their states."""
        there = group.begins.state.k >= self._end
        for i, state in zip(group.members[there].tolist(), parted(group.begins.state, there), strict=True):
            self._runs[i].state = state
        if not there.all():
            self._groups.append(group.taken(~there))

    def _alone(self, group: Group) -> None:
        """Make a step of members by their own runs, and go on with them."""
        for i, begin, enters in zip(group.members.tolist(), parted(group.begins), group.enters, strict=True):
            run = self._runs[i]
            run.state, run.enters = begin.state, bool(enters)
            run.loop.continue_at(run.clock, begin)
            try:
                if enters:
                    run.loop.refuse_unknown()
                run.advance(int(begin.state.k) + 1)
            except ValueError as error:  # of a guard or a reset of its own
                self._faults[self._numbers[i]] = str(error)
                continue
            if run.status is Result.SUCCESS:
                run.drop_last()
                self._go_on(Group(run.mode, np.array([i]), *batch_of_one((run.loop.begin, run.enters))))

    def _advanced(
        self, loop: ModeLoop, members: np.ndarray, begins: Bounded, n: int
    ) -> tuple[list[np.ndarray], Watched, np.ndarray, np.ndarray]:
        """Make n steps: rows of each, last good states, why the step after them failed, and numbers of good ones."""
        rows, reached = loop.batch.run_each(np.arange(len(members)), self._own(members, begins), n, 1, self._threads)
        return rows, reached.state.what.timed.what, np.asarray(reached.status), np.asarray(reached.n_rows)

    # --- transitions ----------------------------------------------------------------------------------------
    def _across(self, loop: ModeLoop, group: Group, stiff: Timed | None = None) -> None:
        """Make the steps of transitions; those that are not plain by the members' own runs.

        ``stiff`` has the loop states of a loop by collocation, with a clock that begins with the step.
        """
        if not len(group.members):
            return
        step = self._timed(group.members, group.begins) if stiff is None else stiff
        step = step._replace(what=step.what._replace(armed=np.full(len(group.members), PASSES)))
        bounded = Bounded(step, step.what.state.k + 1)
        _, after, status, _ = self._advanced(loop, group.members, bounded, 1)
        hard = (status != 0) | np.isnan(after.values).any(axis=1)
        crossed, none = self._crossings(loop, self._own(group.members, step), after, hard)
        hard[crossed.members] |= self._fails(loop, self._own(group.members, step), crossed)
        crossed = taken(crossed, ~hard[crossed.members])
        for which in np.unique(crossed.which).tolist():
            there = taken(crossed, crossed.which == which)
            hard[there.members[~self._switched(loop, group, there, stiff is not None)]] = True
        turned = none & _has_turned(loop, step.what, after)
        if stiff is None:
            on = group.taken(none & ~turned)
            self._go_on(on._replace(begins=on.begins._replace(armed=np.zeros(len(on.members)))))
            may_be_stiff = turned & self._runs[0].is_stiff(Result.SLIP)
            self._by_collocation(group.taken(may_be_stiff))
            hard |= turned & ~may_be_stiff
        else:
            hard |= turned
            if len(there := np.flatnonzero(none & ~turned)):
                hard[there[~self._stepped(group.taken(there), taken(after, there))]] = True
        self._alone(group.taken(hard))

    def _by_collocation(self, group: Group) -> None:
        """Make a step in which a slip turns too fast for an explicit method."""
        if not len(group.members):
            return
        loop, clock = self._loop(group.mode, stiff=True), self._timed(group.members, None)
        begin, end = (clock.t0 + k * clock.dt for k in (group.begins.state.k, group.begins.state.k + 1))
        place = Place(begin, group.begins.state.g, group.begins.xi)
        entry = Entry(place, begin, end - begin, np.zeros(len(begin), np.int64))
        begun, plain = self._entered(loop, group.members, entry, np.ones(len(begin), bool))
        self._alone(group.taken(~plain))
        self._across(loop, group.taken(plain), taken(Timed(begin, end - begin, begun), plain))

    def _stepped(self, group: Group, after: Watched) -> np.ndarray:
        """Take whole steps by collocation; True where the next node is no place to be looked at alone."""
        loop, k = self._loop(group.mode), group.begins.state.k
        nodes, plain, end = self._next_nodes(loop, group.members, k, after.state.g, after.xi, np.ones(len(k), bool))
        rows = rows_of_states(nodes.state)
        for j in np.flatnonzero(plain).tolist():
            run = self._runs[int(group.members[j])]
            run.stiff_rows.append(len(run.record))
            self._save(run, rows[j : j + 1], end[j : j + 1])
        self._go_on(Group.entering(group.mode, group.members, nodes).taken(plain))
        return plain

    def _crossings(self, loop: ModeLoop, own: Own, after: Watched, hard: np.ndarray) -> tuple[Crossed, np.ndarray]:
        """First crossings of guards in the steps of members, and a mask of those that have none; ``hard`` is set where
        there are several zeros of a guard, or one jumps.
        """
        row, which = np.nonzero((after.suspects > 0) & ~hard[:, None])
        step = own.what
        begin, end = step.what.values[row, which], after.reached[row, which]
        if not len(row):
            return Crossed(row, which, *(np.zeros((0, 0)),) * 3), ~hard
        search = Search(Node.of(taken(step.what.state, row)), which, np.zeros(len(row)), end, begin)
        nodes = Own(taken(own.values, row), Timed(step.t0[row], step.dt[row], search))
        found = self._on_threads(loop.searching(isolated), nodes)
        hard[row[~found.is_one]] = True
        there = np.flatnonzero(found.there)
        zeros = zeros_of(there, which[there], taken(found.zero, there), begin[there], found.change[there])
        owner = row[there]
        hard[owner[zeros.jumped]] = True
        first = np.lexsort((zeros.t + SAME_INSTANT * step.dt[owner] * order_of_guard(zeros.which), owner))
        first = first[np.concatenate([[True], np.diff(owner[first]) > 0])[: len(first)]]
        crossed = Crossed(owner[first], zeros.which[first], zeros.t[first], zeros.g_vector[first], zeros.xi[first])
        none = np.ones(len(hard), bool)
        none[crossed.members] = False
        return taken(crossed, ~hard[crossed.members]), none & ~hard

    def _on_threads(self, program: Callable[[Any], Any], nodes: Any) -> Any:
        """Results of a program for many nodes, on threads."""
        n = len(jax.tree.leaves(nodes)[0])
        parts = np.array_split(np.arange(n), min(self._threads, n))
        with ThreadPoolExecutor(len(parts)) as pool:
            found = list(pool.map(lambda part: program(taken(nodes, slice(part[0], part[-1] + 1))), parts))
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *found)

    def _fails(self, loop: ModeLoop, own: Own, crossed: Crossed) -> np.ndarray:
        """True where a step is too long, or fails just before a crossing, shape=[crossings]."""
        if not len(crossed.members):
            return np.zeros(0, bool)
        values, step = taken(own, crossed.members)
        states = step.what.state
        s = just_before((crossed.t - step.t0) / step.dt - states.k)
        search = Search(Node.of(states), crossed.which, s, s, np.ones(len(s)))
        found = self._on_threads(loop.searching(located), Own(values, step._replace(what=search)))
        fails = ~np.isfinite(found.value) & ~loop.ends_slip[crossed.which]
        if loop.takes_energy:
            begin = Place(step.t0 + states.k * step.dt, states.g, step.what.xi)
            motion = Motion(begin, Place(crossed.t, points(crossed.g_vector, states.g), crossed.xi))
            fails |= loop.errs(Own(values, motion))
        return fails

    def _switched(self, loop: ModeLoop, group: Group, at: Crossed, stiff: bool) -> np.ndarray:
        """Take the transition of one guard, to which a step by collocation led if ``stiff``, and make the rest of the
        step; True where that was plain.
        """
        transition, modes, owners = loop.transitions[at.which[0]], self._runs[0].common, group.taken(at.members)
        place = Place(at.t, points(at.g_vector, owners.begins.state.g), at.xi)
        left = loop.leaving(transition, self._own(owners.members, place))
        plain, targets = np.isfinite(left.xi).all(axis=1) & (left.gap <= OFF_GROUP), np.full(len(at.t), -1)
        sound = np.flatnonzero(plain)
        places = self._own(owners.members[sound], taken((at.t, left.g, left.xi), sound))
        try:
            for j, chosen in zip(sound.tolist(), targets_of(transition.target, places), strict=True):
                plain[j] = chosen is not None
                targets[j] = modes.index(chosen, f"the target of transition {transition.name!r}") if plain[j] else -1
        except ValueError:  # of some: their own runs tell of which
            return np.zeros(len(at.t), bool)
        done = np.zeros(len(at.t), bool)
        for mode in np.unique(targets[plain]).tolist():
            some = targets == mode
            owner, place, after = owners.taken(some), taken(at, some), taken(left, some)
            done[some] = self._arrived(owner, place, after, transition.reset is None, mode, stiff)
        return done

    def _arrived(self, owners: Group, at: Crossed, left: Any, projects: bool, mode: int, stiff: bool) -> np.ndarray:
        """Make the rest of the step in the next mode; True where that was plain, and the member is at its end."""
        members = owners.members
        target, timed = self._loop(mode), self._timed(members, None)
        arrived = target.arriving(self._own(members, Place(at.t, left.g, left.xi)), projects)
        plain = arrived.residual <= OFF * (1 + np.abs(arrived.xi).max(axis=1, initial=0.0))
        k = owners.begins.state.k
        end = timed.t0 + (k + 1) * timed.dt
        plain &= ~np.array([is_same_instant(*one) for one in zip(at.t, end, timed.dt, strict=True)])
        part = Entry(Place(at.t, arrived.g, arrived.xi), at.t, end - at.t, np.zeros(len(k), np.int64))
        begun, plain = self._entered(target, members, part, plain)
        bounded = Bounded(Timed(part.t0, part.dt, begun), np.ones(len(k), begun.state.k.dtype))
        _, after, status, _ = self._advanced(target, members, bounded, 1)
        plain &= status == 0
        xi = after.xi
        if not target.names:
            xi = target.velocities(self._own(members, Timed(part.t0, part.dt, Node.of(after.state))))
        nodes, plain, end = self._next_nodes(target, members, k, after.state.g, xi, plain)
        number = np.asarray(k, float)[:, None]
        before_it = np.concatenate([number, at.g_vector, left.p_before, left.p_before], axis=1)
        after_it = np.concatenate([number, vectors(arrived.g), arrived.p, arrived.p], axis=1)
        rows = rows_of_states(nodes.state)
        for j in np.flatnonzero(plain).tolist():
            run, t, step = self._runs[int(members[j])], at.t[j : j + 1], int(k[j])
            source, row = run.mode, len(run.record)
            run.stiff_rows += [row] * stiff
            run.add(before_it[j : j + 1], t)
            run.mode = mode
            run.add(after_it[j : j + 1], t)
            facts = (at.g_vector[j], at.xi[j], arrived.xi[j], int(at.which[j]), row)
            run.switches.append(Switch(step, float(t[0]), source, mode, *facts))
            self._save(run, rows[j : j + 1], end[j : j + 1])
        self._go_on(Group.entering(mode, members, nodes).taken(plain))
        return plain

    def _next_nodes(
        self, loop: ModeLoop, members: np.ndarray, k: np.ndarray, g: Any, xi: np.ndarray, plain: np.ndarray
    ) -> tuple[Watched, np.ndarray, np.ndarray]:
        """Loop states at the ends of steps from nodes k, which of those that were plain are, and the times."""
        timed = self._timed(members, None)
        end = timed.t0 + (k + 1) * timed.dt
        entry = Entry(Place(end, g, xi), timed.t0, timed.dt, np.asarray(k + 1, np.int64))
        return *self._entered(loop, members, entry, plain), end

    @staticmethod
    def _save(run: ModalRun, row: np.ndarray, t: np.ndarray) -> None:
        """Save the row of a node, with a first axis of length 1, if it is one to be saved."""
        if row[0, 0] % run.save_every == 0:
            run.add(row, t)

    def _entered(
        self, loop: ModeLoop, members: np.ndarray, entries: Entry, plain: np.ndarray
    ) -> tuple[Watched, np.ndarray]:
        """Loop states at places where a mode begins, and which of those that were plain are."""
        states, xi, values = loop.entering(self._own(members, entries))
        begun = Watched.begun(states, xi, values)
        _give_example(loop, begun)
        hard = _is_hard(loop, begun) | (states.status != 0)
        if loop.names:
            hard |= (loop.crosses_both_ways & (values != 0)).any(axis=1)
        return begun, plain & ~hard


def _give_example(loop: ModeLoop, begins: Watched) -> None:
    """Let a loop begin with the first of some loop states, which has the types of all, if it has not begun."""
    if not hasattr(loop, "begin"):
        loop.begin = jax.tree.map(lambda a: a[0], begins)


def _has_turned(loop: ModeLoop, begun: Watched, after: Watched) -> np.ndarray:
    """True where a slip has changed its sign in a step, shape=[members]."""
    return (loop.ends_slip & (begun.values > 0) & (after.reached < 0)).any(axis=1)


def _is_hard(loop: ModeLoop, begins: Watched) -> np.ndarray:
    """True for places at which a guard is zero, past it, or not a number, or may be zero up to rounding and does not
    know its side, shape=[members].
    """
    values, speed = begins.values, np.abs(begins.xi).max(axis=1, initial=0.0)
    hard = (np.isnan(values) | (values == 0)).any(axis=1)
    for i, (guard, value) in enumerate(zip(loop.guards, values[:, : len(loop.guards)].T, strict=True)):
        hard |= (value * guard.direction > 0) | (loop.crosses_both_ways[i] & (np.abs(value) <= TINY))
        if isinstance(guard, SlipEnds):
            hard |= value < guard.least * (1 + speed)
        if loop.has_rate[i]:
            hard |= np.abs(value) <= loop.guard_roundings[i]
    return hard
