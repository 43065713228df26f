"""Members of an ensemble with modes, on threads, by the programs of ``solve``, which are compiled once for all."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

from geonh.arguments.memory import refuse_too_much
from geonh.arguments.precision import float64, refuse_traced
from geonh.arguments.validators import as_count
from geonh.ensembles.batch import Batch, Member, Shared, as_members, parted_controls
from geonh.ensembles.draws import is_drawn
from geonh.ensembles.modal import MembersOnDemand, ModalEnsemble
from geonh.ensembles.progress import member_starts
from geonh.integrators.base import Integrator, Problem
from geonh.integrators.clock import Clock
from geonh.integrators.node import State
from geonh.integrators.registry import stepping_method
from geonh.integrators.validity import Result
from geonh.mechanics.own_values import Own
from geonh.mechanics.system import with_parameters
from geonh.results.events import Event, as_events
from geonh.results.modes import Modes
from geonh.results.trajectory import Trajectory
from geonh.runs.continuation import new_trajectory
from geonh.runs.loop import check_progress, reporting
from geonh.runs.modal_batch import ModalBatch
from geonh.runs.modal_members import parted, rows_of_states, taken
from geonh.runs.modal_run import ModalRun
from geonh.runs.mode_loop import Loops
from geonh.runs.start import as_start
from geonh.runs.switching import ModalRunInProgress, as_forward_span, guard_faults, refuse_for_modes

TOGETHER = 8
"""Fewest members that are run at once, by programs of their own."""


@dataclass
class ModalMembers:
    """Runs of the members of an ensemble with modes.

    Attributes
    ----------
    modes, which : Modes, int
        The system, and the mode in which members begin.
    shared : Shared
        What members have in common, with the system of that mode.
    batch : Batch
    events : tuple of Event
    n_steps, save_every : int
    reason : str
        Reason for the method.
    """

    modes: Modes
    which: int
    shared: Shared
    batch: Batch
    events: tuple[Event, ...]
    n_steps: int
    save_every: int
    reason: str
    _of_thread: threading.local = field(default_factory=threading.local)
    _first_rows: np.ndarray = field(init=False)

    def solved(self, threads: int, report: Callable[[int, int], None]) -> ModalEnsemble:
        """Run all members; after Ctrl-C those that were finished."""
        size, every = self.batch.size, self.batch.members
        runs: list[ModalRun | None] = [None] * size
        per = self.n_steps // self.save_every + 1
        width = sum(np.size(a) // size for a in jax.tree.leaves(every.g)) + 2 * every.xi[0].size
        refuse_too_much(f"{size} members with {per} nodes", {"nodes": 2 * size * per * (1 + width)}, "raise save_every")
        starts, own = member_starts(self.shared, every), self._varied(every)
        of_values = self.modes.faults({name: a[i] for name, a in own.items()} for i in range(size if own else 0))
        of_guards = guard_faults(self.modes, self.which, Own(own, (every.t0, every.g)))
        faults = dict(starts.faults)
        for some in (of_values, of_guards):
            faults = {i: fault for i, fault in enumerate(some) if fault} | faults
        self._first_rows = rows_of_states(starts.states)
        states = {i: state for i, state in enumerate(parted(starts.states)) if i not in faults}
        done, not_started = self._together if self._can_be_together else self._on_threads, len(faults)
        with contextlib.suppress(KeyboardInterrupt):  # members that have ended are kept
            for n in done(states, runs, faults, threads):
                report(n + not_started, size)
        for i, run in enumerate(runs):
            unfinished = run is not None and run.status is Result.SUCCESS and int(run.state.k) < self.n_steps
            if unfinished or i in faults:
                runs[i] = None
        k = np.arange(per) * self.save_every
        found = MembersOnDemand(runs, lambda run, i: self._trajectory(run, states[i]))
        return ModalEnsemble(self.modes, self.shared.method, self.reason, self.batch, k, found, faults)

    @property
    def _can_be_together(self) -> bool:
        """True if members can be run at once, and are many."""
        return not self.events and self.batch.members.controls is None and self.batch.size >= TOGETHER

    def _together(
        self, states: dict[int, State], runs: list[ModalRun | None], faults: dict[int, str], threads: int
    ) -> Iterator[int]:
        """Run members at once; yields the number of those that have ended, and keeps the faults of those that cannot
        be run.
        """
        if not states:
            return
        loops: Loops = {}
        for i, state in states.items():
            runs[i] = self._begun(i, state, loops)
        batch = ModalBatch({i: run for i, run in enumerate(runs) if run is not None}, self.n_steps, threads, faults)
        yield from batch.advance()
        yield len(states)

    def _on_threads(
        self, states: dict[int, State], runs: list[ModalRun | None], faults: dict[int, str], threads: int
    ) -> Iterator[int]:
        """Version of ``_together`` that runs a member at a time on each thread."""
        with ThreadPoolExecutor(threads) as pool:
            waiting = {pool.submit(self._one, i, state): i for i, state in states.items()}
            try:
                for done, future in enumerate(as_completed(waiting)):
                    try:
                        runs[waiting[future]] = future.result()
                    except ValueError as error:  # of a guard or a reset of its own
                        faults[waiting[future]] = str(error)
                    yield done + 1
            except BaseException as error:
                pool.shutdown(wait=True, cancel_futures=True)
                if not isinstance(error, KeyboardInterrupt):
                    error.add_note(f"geonh: of member {waiting[future]}")
                raise

    def _one(self, i: int, state: State) -> ModalRun:
        """Run of a member from its state at node 0."""
        run = self._begun(i, state, self._loops())
        run.advance(self.n_steps)
        return run

    def _begun(self, i: int, state: State, loops: Loops) -> ModalRun:
        """Run of a member with node 0, and these programs, which serve one member after another."""
        every = self.batch.members
        values = taken(self._varied(every), i) if self.batch.varied else {}
        controls = self.shared.controls if every.controls is None else taken(every.controls, i)
        clock = Clock(np.float64(every.t0[i]), np.float64(every.dt[i]), controls)
        status = Result(int(state.status))
        of_all = (self.modes, self.shared.method, clock, self.events, self.save_every, self.which)
        run = ModalRun(*of_all, state, status, values=values)
        if not values and every.controls is None:
            run.loops = loops
        run.begin(self._first_rows[i], self.n_steps)
        return run

    def _trajectory(self, run: ModalRun, state: State) -> Trajectory:
        """Trajectory of a run that began at a state."""
        system = run.modes.systems[self.which]
        with float64():
            begun = new_trajectory(Problem(system, run.method, run.clock), state, self.save_every, self.reason)
        return ModalRunInProgress(run, begun).trajectory_so_far()

    def _varied(self, member: Member) -> dict[str, Any]:
        """Parameters in which a member differs from the others, or those of all members."""
        return {name: value for name, value in member.parameters.items() if name in self.batch.varied}

    def _loops(self) -> Loops:
        if not hasattr(self._of_thread, "loops"):
            self._of_thread.loops = {}
        return self._of_thread.loops


def solve_modal_ensemble(
    modes: Modes,
    method: Integrator | str | None,
    mode: Any,
    values: Mapping[str, Any],
    *,
    n_steps: Any,
    t_end: Any,
    controls: Any,
    events: Any,
    save_every: Any,
    parameters: Any,
    combine: str,
    members: Any,
    seed: int,
    project: bool,
    threads: int | None,
    progress: Any,
) -> ModalEnsemble:
    """``solve_ensemble`` of a system with modes; ``values`` has xi0, g0, dt and t0."""
    method, reason = stepping_method(method, None, controls)
    workers = (os.cpu_count() or 1) if threads is None else as_count(threads, "threads")
    check_progress(progress, "members_done, members")
    which = modes.index(mode)
    refuse_for_modes(modes, method, controls)
    parts = (modes.systems, modes.transitions)
    refuse_traced("NumPy arrays are computed; under jit use integrate", **values, parameters=parameters, system=parts)
    dt, t0 = values["dt"], values["t0"]
    if t_end is not None and any(is_drawn(value) or np.ndim(value) for value in (dt, t0, t_end)):
        raise ValueError("t_end needs one dt and one t0 for all members; where these differ pass n_steps")
    dt, n_steps, *_ = as_forward_span(modes, dt, n_steps, t_end, t0)
    stride = n_steps if save_every is None else as_count(save_every, "save_every")
    if n_steps % stride:
        raise ValueError(f"save_every must divide n_steps = {n_steps}, got {save_every}")
    first = modes.systems[which]
    known = {name: value for system in modes.systems for name, value in system.parameters.items()} | first.parameters
    shared, controls_of_members = parted_controls(first, controls, n_steps + 1)
    given = as_members(
        with_parameters(first, known),
        {**values, "dt": dt},
        parameters,
        controls_of_members,
        combine=combine,
        members=members,
        seed=seed,
        project=project,
    )
    one = given.member(0)
    controls = shared if controls_of_members is None else one.controls
    clock = as_start(first, method, one.xi, one.g, one.dt, one.t0, n_steps, controls).clock
    system = replace(given, project=False).system
    runs = ModalMembers(
        modes,
        which,
        Shared(system, method, None if controls_of_members is not None else clock.controls),
        given.batch(0, given.size),
        as_events(events, first, clock),
        n_steps,
        stride,
        reason,
    )
    with reporting(progress, given.size, "members") as report:
        ensemble = runs.solved(workers, report)
    if len(ensemble.faults) == len(ensemble):
        raise ValueError(f"no member could be run; {ensemble.message(0)}")
    return ensemble
