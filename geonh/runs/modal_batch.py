r"""Runs of many members of a system with modes at once, with the bits of ``ModalRun``.

Members in one mode make their whole steps in SIMD lanes, until a step may have a transition; clean transitions are made
by all of them together: one zero of a guard, a shortened step of the next mode without another, and its next node. All
else, such as steps that are to be made in parts, is left to ``ModalRun``, a member and a step at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from geonh.integrators.validity import Result
from geonh.results.events import SlipEnds, WithRate
from geonh.results.nodes import Node
from geonh.runs.event_loop import Watched
from geonh.runs.locating import Search, isolated, located, zeros_of
from geonh.runs.modal_record import Switch
from geonh.runs.modal_run import OFF, ModalRun, is_same
from geonh.runs.mode_loop import Bounded, Entry, ModeLoop, Motion, Place, Timed, just_before, vector

ALL_IS_WELL = (Result.SUCCESS, Result.END, Result.EVENT)
PIECE = 2**24
"""Bytes of the nodes that are computed at once."""


class Crossed(NamedTuple):
    """Members, as indices of a batch, at the crossings of one guard each, with a first axis of members."""

    members: np.ndarray
    which: np.ndarray
    t: np.ndarray
    g_vector: np.ndarray
    xi: np.ndarray

    def taken(self, some: np.ndarray) -> Crossed:
        """Some of them, by a mask or indices."""
        return Crossed(*(part[some] for part in self))


class ModalBatch:
    """Runs that share their modes, method, guards and controls, and differ in their starts and clocks.

    Parameters
    ----------
    runs : sequence of ModalRun
        With the same programs, and without events.
    end : int
        Number of steps.
    threads : int
    """

    def __init__(self, runs: Sequence[ModalRun], end: int, threads: int) -> None:
        self._runs, self._end, self._threads = runs, end, threads
        self._begins: dict[int, Watched] = {}

    def advance(self) -> Iterator[int]:
        """Go on to the end, or to where members stop; yields the number of those that have ended."""
        while active := [i for i, run in enumerate(self._runs) if self._goes_on(run)]:
            yield len(self._runs) - len(active)
            mode = self._runs[active[0]].mode
            members = [i for i in active if self._runs[i].mode == mode]
            self._along(self._runs[members[0]].loop, members)

    def _goes_on(self, run: ModalRun) -> bool:
        return run.status is Result.SUCCESS and int(run.state.k) < self._end

    # --- whole steps ----------------------------------------------------------------------------------------
    def _along(self, loop: ModeLoop, members: list[int]) -> None:
        """Make whole steps in a mode, to the end or to a transition, and this."""
        run = self._runs[members[0]]
        loop.go_on(run.clock, run.state)
        self._begin(loop, [i for i in members if i not in self._begins])
        members = self._without(members, self._is_hard(loop, [self._begins[i] for i in members]))
        if not members:
            return
        first = min(int(self._runs[i].state.k) for i in members)
        n = min(self._end - first, max(PIECE // (8 * loop.batch.width * len(members)), 1))
        rows, here, status, counts = self._steps(loop, members, self._end, n)
        runs = [self._runs[i] for i in members]
        for i, run, own, watched, count in zip(members, runs, rows, here, counts.tolist(), strict=True):
            saved = own[:count][own[:count, 0] % run.save_every == 0]
            if len(saved):
                run.add(saved.copy(), run.clock.t0 + saved[:, 0] * run.clock.dt)
            run.state, run.engine = watched.state, loop.batch.engine
            self._begins[i] = watched
        at_guard = [i for i, code in zip(members, status.tolist(), strict=True) if code == Result.EVENT]
        failed = [i for i, code in zip(members, status.tolist(), strict=True) if code not in ALL_IS_WELL]
        if at_guard:
            failed += self._across(loop, at_guard)
        for i in failed:
            self._alone(i)

    def _begin(self, loop: ModeLoop, members: list[int]) -> None:
        """Prepare the loop states of members at nodes."""
        if not members:
            return
        states = _stacked([self._runs[i].state for i in members])
        n, size = len(members), loop.system.group.dim
        xi = values = np.zeros((n, 0))
        if loop.names:
            xi, values = loop.values_at(self._timed(members, Node.of(states)))
        begun = Watched(states, None, xi, values, np.zeros(values.shape), np.ones(n), values)
        assert xi.shape in ((n, 0), (n, size))
        self._begins |= dict(zip(members, _parted(begun, n), strict=True))

    def _timed(self, members: Sequence[int], what: Any) -> Timed:
        clocks = [self._runs[i].clock for i in members]
        return Timed(np.array([c.t0 for c in clocks], float), np.array([c.dt for c in clocks], float), what)

    def _steps(
        self, loop: ModeLoop, members: list[int], end: int, n: int
    ) -> tuple[np.ndarray, list[Watched], np.ndarray, np.ndarray]:
        """Make n steps, none beyond step ``end``: rows, shape=[members, n, width], last good states, why the step after
        them failed, and the number of good ones.
        """
        begins = _stacked([self._begins[i] for i in members])
        ends = np.full(len(members), end, begins.state.k.dtype)
        return _advanced(loop, Bounded(self._timed(members, begins), ends), n, self._threads)

    def _without(self, members: list[int], hard: np.ndarray) -> list[int]:
        """The members that are not hard; those that are make a step alone."""
        for i, alone in zip(members, hard.tolist(), strict=True):
            if alone:
                self._alone(i)
        return [i for i, alone in zip(members, hard.tolist(), strict=True) if not alone]

    def _alone(self, i: int) -> None:
        """Make a step of a member by its own run."""
        run = self._runs[i]
        run.advance(int(run.state.k) + 1)
        if run.status is Result.SUCCESS and int(run.loop.begin.state.k) == int(run.state.k):
            self._begins[i] = run.loop.begin
        else:
            self._begins.pop(i, None)

    @staticmethod
    def _is_hard(loop: ModeLoop, begins: Sequence[Watched]) -> np.ndarray:
        """True for places at which a guard is zero, past it, or not a number, shape=[members]."""
        if not loop.names:
            return np.zeros(len(begins), bool)
        values, xi = np.stack([begin.values for begin in begins]), np.stack([begin.xi for begin in begins])
        hard = (np.isnan(values) | (values == 0)).any(axis=1)
        for guard, value in zip(loop.guards, values.T, strict=False):
            hard |= value * guard.direction > 0
            if isinstance(guard, SlipEnds):
                hard |= value < guard.least * (1 + np.abs(xi).max(axis=1))
            if isinstance(guard.function, WithRate):
                hard |= np.abs(value) <= guard.function.rounding
        return hard

    # --- transitions ----------------------------------------------------------------------------------------
    def _across(self, loop: ModeLoop, members: list[int]) -> list[int]:
        """Make the steps of transitions; return the members for which that is not plain."""
        for i in members:
            self._begins[i] = self._begins[i]._replace(armed=np.float64(0.0))
        _, after, status, _ = self._steps(loop, members, self._end, 1)
        begins = [self._begins[i] for i in members]
        hard = (status != 0) | np.array([np.isnan(one.values).any() for one in after])
        crossed, none = self._crossings(loop, members, begins, after, hard)
        hard[crossed.members] |= self._fails(loop, members, begins, crossed)
        crossed = crossed.taken(~hard[crossed.members])
        for which in np.unique(crossed.which).tolist():
            there = crossed.taken(crossed.which == which)
            hard[there.members[~self._switched(loop, members, there)]] = True
        hard[none] = False
        return [i for i, alone in zip(members, hard.tolist(), strict=True) if alone]

    def _crossings(
        self, loop: ModeLoop, members: list[int], begins: list[Watched], after: list[Watched], hard: np.ndarray
    ) -> tuple[Crossed, np.ndarray]:
        """First crossings of guards in the steps from ``begins``, and members that have none; ``hard`` is set where
        there are several zeros of a guard, or one jumps.
        """
        at_begin, at_end = (np.stack(values) for values in ([b.values for b in begins], [a.reached for a in after]))
        suspects = np.stack([one.suspects for one in after]) > 0
        row, which = np.nonzero(suspects & ~hard[:, None])
        begin, end = at_begin[row, which], at_end[row, which]
        states = _stacked([begins[i].state for i in row.tolist()]) if len(row) else None
        none = np.zeros(len(members), bool)
        if states is None:
            return Crossed(row, which, *(np.zeros((0, 0)),) * 3), none
        search = Search(Node.of(states), which, np.zeros(len(row)), end, begin)
        found = loop.searching(isolated)(self._timed([members[i] for i in row.tolist()], search))
        hard[row[~found.is_one]] = True
        there = np.flatnonzero(found.there)
        zero = jax.tree.map(lambda a: a[there], found.zero)
        zeros = zeros_of(there, which[there], zero, begin[there], found.change[there])
        owner = row[there]
        hard[owner[zeros.jumped]] = True
        first = np.lexsort((zeros.t, owner))
        first = first[np.concatenate([[True], np.diff(owner[first]) > 0])[: len(first)]]
        crossed = Crossed(owner[first], zeros.which[first], zeros.t[first], zeros.g_vector[first], zeros.xi[first])
        missed = np.ones(len(members), bool)
        missed[crossed.members] = False
        slip = [i for i, guard in enumerate(loop.guards) if isinstance(guard, SlipEnds)]
        turned = ((at_begin[:, slip] > 0) & (at_end[:, slip] < 0)).any(axis=1)
        hard |= missed & turned
        return crossed.taken(~hard[crossed.members]), missed & ~hard

    def _fails(self, loop: ModeLoop, members: list[int], begins: list[Watched], crossed: Crossed) -> np.ndarray:
        """True where a step is too long, or fails just before a crossing, shape=[crossings]."""
        owners = crossed.members.tolist()
        if not owners:
            return np.zeros(0, bool)
        states = _stacked([begins[i].state for i in owners])
        timed = self._timed([members[i] for i in owners], Node.of(states))
        s = just_before((crossed.t - timed.t0) / timed.dt - states.k)
        search = Search(timed.what, crossed.which, s, s, np.ones(len(s)))
        fails = ~np.isfinite(loop.searching(located)(timed._replace(what=search)).value)
        if loop.takes_energy:
            begin = Place(timed.t0 + states.k * timed.dt, states.g, np.stack([begins[i].xi for i in owners]))
            fails |= loop.gains(
                Motion(begin, Place(crossed.t, _points(crossed.g_vector, begins[owners[0]].state.g), crossed.xi))
            )
        return fails

    def _switched(self, loop: ModeLoop, members: list[int], at: Crossed) -> np.ndarray:
        """Take the transition of one guard, and make the rest of the step; True where that was plain."""
        transition, owners = loop.transitions[at.which[0]], [members[i] for i in at.members.tolist()]
        like = self._runs[owners[0]].state.g
        before = Place(at.t, _points(at.g_vector, like), at.xi)
        left = loop.leaving(transition, before)
        plain = np.isfinite(left.xi).all(axis=1)
        modes, targets = self._runs[0].modes, np.full(len(owners), -1)
        sound = np.flatnonzero(plain)
        places = jax.tree.map(lambda a: a[sound], (at.t, left.g, left.xi))
        for j, chosen in zip(sound.tolist(), _targets(transition.target, *places), strict=True):
            plain[j] = chosen is not None
            targets[j] = modes.index(chosen, "the target of a transition") if plain[j] else -1
        done = np.zeros(len(owners), bool)
        for mode in np.unique(targets[plain]).tolist():
            some = np.flatnonzero(targets == mode)
            part = jax.tree.map(lambda a, some=some: a[some], left)
            done[some] = self._arrived([owners[j] for j in some], at.taken(some), part, transition.reset is None, mode)
        return done

    def _arrived(self, members: list[int], at: Crossed, left: Any, projects: bool, mode: int) -> np.ndarray:
        """Make the rest of the step in the next mode; True where that was plain, and the member is at its end."""
        runs = [self._runs[i] for i in members]
        target = self._loop_in(runs[0], mode)
        arrived = target.arriving(Place(at.t, left.g, left.xi), projects)
        plain = arrived.residual <= OFF * (1 + np.abs(arrived.xi).max(axis=1, initial=0.0))
        timed = self._timed(members, None)
        k = np.array([int(run.state.k) for run in runs])
        end = timed.t0 + (k + 1) * timed.dt
        plain &= ~np.array([is_same(*one) for one in zip(at.t, end, timed.dt, strict=True)])
        part = Entry(Place(at.t, arrived.g, arrived.xi), at.t, end - at.t, np.zeros_like(k))
        begun, plain = self._entered(target, part, plain)
        last = np.ones(len(members), np.asarray(begun.state.k).dtype)
        bounded = Bounded(Timed(part.t0, part.dt, begun), last)
        _, after, status, _ = _advanced(target, bounded, 1, self._threads)
        plain &= status == 0
        states = _stacked([one.state for one in after])
        xi = np.stack([one.xi for one in after])
        if not target.names:
            xi = target.velocities(Timed(part.t0, part.dt, Node.of(states)))
        node, plain = self._entered(target, Entry(Place(end, states.g, xi), timed.t0, timed.dt, k + 1), plain)
        nodes = _parted(node, len(members))
        for j in np.flatnonzero(plain).tolist():
            run, t = runs[j], at.t[j : j + 1]
            source, row, count = run.mode, run.n_rows, [float(k[j])]
            run.add(np.concatenate([count, at.g_vector[j], left.p_before[j], left.p_before[j]])[None], t)
            run.mode = mode
            after_it = vector(jax.tree.map(lambda a, j=j: a[j], arrived.g))
            run.add(np.concatenate([count, after_it, arrived.p[j], arrived.p[j]])[None], t)
            facts = (at.g_vector[j], at.xi[j], arrived.xi[j], int(at.which[j]), row)
            run.switches.append(Switch(int(k[j]), float(t[0]), source, mode, *facts))
            run.state = nodes[j].state
            if (int(k[j]) + 1) % run.save_every == 0:
                run.save(run.state, float(end[j]))
            self._begins[members[j]] = nodes[j]
        return plain

    def _loop_in(self, run: ModalRun, mode: int) -> ModeLoop:
        """Programs of a mode."""
        here, run.mode = run.mode, mode
        loop, run.mode = run.loop, here
        return loop

    def _entered(self, loop: ModeLoop, entries: Entry, plain: np.ndarray) -> tuple[Watched, np.ndarray]:
        """Loop states at places where a mode begins, and which of those that were plain are."""
        states, xi, values = loop.entering(entries)
        n = len(plain)
        begun = Watched(states, None, xi, values, np.zeros(values.shape), np.ones(n), values)
        if not hasattr(loop, "begin"):
            loop.begin = _parted(begun, n)[0]
        hard = self._is_hard(loop, _parted(begun, n)) | (states.status != 0)
        if loop.names:
            hard |= (loop.crosses_both_ways & (values != 0)).any(axis=1)
        return begun, plain & ~hard


def _targets(target: Any, t: np.ndarray, g: Any, xi: np.ndarray) -> list[str | None]:
    """Next modes at places with a first axis; of a function with a method ``of_many`` by that."""
    if isinstance(target, str):
        return [target] * len(t)
    if hasattr(target, "of_many"):
        return target.of_many(t, g, xi)
    return [target(*place) for place in zip(t, _parted(g, len(t)), xi, strict=True)]


def _advanced(
    loop: ModeLoop, begins: Bounded, n: int, threads: int
) -> tuple[np.ndarray, list[Watched], np.ndarray, np.ndarray]:
    """Make n steps of many members: rows, last good states, why the step after them failed, numbers of good ones."""
    size = len(begins.end)
    rows, reached = loop.batch.run(np.arange(size), begins, n, 1, threads)
    return rows, _parted(reached.state.timed.what, size), np.asarray(reached.status), np.asarray(reached.n_rows)


def _stacked(trees: Sequence[Any]) -> Any:
    """Trees of NumPy arrays with a first axis."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def _parted(tree: Any, n: int) -> list[Any]:
    """Trees of the members of one with a first axis."""
    leaves, structure = jax.tree.flatten(tree)
    return [jax.tree.unflatten(structure, [leaf[i] for leaf in leaves]) for i in range(n)]


def _points(vectors: np.ndarray, like: Any) -> Any:
    """Points from vectors, shape=[N, size], in the form of another one, with a first axis."""
    leaves, structure = jax.tree.flatten(like)
    ends = np.cumsum([np.size(leaf) for leaf in leaves])
    parts = np.split(vectors, ends[:-1], axis=1)
    shaped = [part.reshape(len(vectors), *np.shape(leaf)) for part, leaf in zip(parts, leaves, strict=True)]
    return jax.tree.unflatten(structure, shaped)
