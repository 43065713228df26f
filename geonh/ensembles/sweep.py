"""``Sweep``: configuration of an ensemble, from which any range of members can be computed on any machine.

``solve_ensemble`` computes all of them in memory; ``Sweep.run`` splits them into shards and writes each to a store.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from geonh.arguments.precision import refuse_traced
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_count, entries, shortly
from geonh.engine import interrupted_at_once
from geonh.ensembles.batch import as_members, parted_controls
from geonh.ensembles.configuration import Configuration
from geonh.ensembles.draws import is_drawn
from geonh.ensembles.ensemble import Ensemble
from geonh.ensembles.reading import NODES, inspect_functions, requested_observables
from geonh.ensembles.solving import solved
from geonh.ensembles.statistics import Statistic, refuse_clashes
from geonh.ensembles.storing import Executor, load, run
from geonh.integrators.base import Integrator, refuse
from geonh.integrators.registry import stepping_method
from geonh.integrators.variable_steps import VariableSteps, is_at
from geonh.integrators.wiener import Wiener
from geonh.mechanics.redundancy import with_rank, with_rank_near
from geonh.mechanics.system import System, with_parameters
from geonh.results.dense import as_times
from geonh.results.events import Event, as_events
from geonh.results.parasitic import ALTERNATING, AlternationWarning
from geonh.results.trajectory import describe, with_reason
from geonh.runs.controls import refuse_off_grid, warn_of_unread
from geonh.runs.loop import check_progress, reporting
from geonh.runs.solve import last_of
from geonh.runs.start import as_span, as_start, as_variable_span

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True, eq=False, repr=False)
class Sweep(Configuration):
    """Configuration of an ensemble that can be run; ``Sweep.of`` creates one, with the arguments of ``solve_ensemble``.

    Attributes
    ----------
    system, method, controls : System, Integrator, callable or array
        Common to all members. An array has shape=[n_steps + 1, …].
    members : MemberRecipe
        Initial data of the members, as a recipe for any range of them.
    n_steps, save_every : int
        Number of steps, and steps between saved nodes.
    observables : tuple of Observable
        Observables kept at the saved nodes.
    statistics : tuple of Statistic
        Running statistics.
    events : tuple of Event
        Events located between nodes.
    most_events : int
        Maximum number of occurrences kept per event and member.
    method_reason : str
        Reason for the method if none was named, as in ``default_method``; else "".
    times : ndarray, shape=[N], or None
        Times of the saved nodes where members have steps of their own.
    modes, mode : Modes or None, str
        All modes of a streamed run, and the one in which it begins, that of ``system``.
    """

    @classmethod
    @validated
    def of(
        cls,
        system: System,
        method: Integrator | str | None = None,
        *,
        xi0: Any,
        g0: Any = None,
        dt: Any = None,
        n_steps: int | None = None,
        t_end: float | None = None,
        t0: Any = 0.0,
        controls: Any = None,
        events: Event | Iterable[Event] = (),
        save_every: int | None = None,
        t_eval: Any = None,
        tolerance: float | None = None,
        observables: Iterable[str] | Mapping[str, Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        combine: str = "zip",
        members: int | None = None,
        seed: int = 0,
        project: bool = False,
        statistics: Iterable[Statistic] = (),
        most_events: int = 1,
    ) -> Sweep:
        """Create from user input; arguments, defaults and errors are those of ``solve_ensemble``."""
        method, reason = stepping_method(method, tolerance, controls)
        refuse(method, system)
        advice = "NumPy arrays are computed; under jit use integrate, and jax.vmap of it"
        varied = {"xi0": xi0, "g0": g0, "dt": dt, "t0": t0, "parameters": parameters}
        refuse_traced(advice, **varied, controls=controls, system=system)
        if t_end is not None and any(is_drawn(value) or np.ndim(value) for value in (dt, t0, t_end)):
            raise ValueError("t_end needs one dt and one t0 for all members; where these differ pass n_steps")
        times = None
        if isinstance(method, VariableSteps):
            times, dt = _times(dt, n_steps, t_end, t0, save_every, t_eval)
            n_steps, stride = len(times) - 1, 1
        elif t_eval is not None:
            raise ValueError("t_eval of many runs is for steps that a tolerance chooses; with dt pass save_every")
        else:
            dt, n_steps, *_ = as_span(dt, n_steps, t_end, t0)
            stride = n_steps if save_every is None else as_count(save_every, "save_every")
        if n_steps % stride:
            raise ValueError(f"save_every must divide n_steps = {n_steps}, got {save_every}")
        shared, controls_of_members = parted_controls(system, controls, n_steps + 1)
        given = as_members(
            system,
            {"xi0": xi0, "g0": g0, "dt": dt, "t0": t0},
            parameters,
            controls_of_members,
            combine=combine,
            members=members,
            seed=seed,
            project=project,
        )
        start = replace(given, project=False).member(0)
        one = with_rank_near(with_parameters(system, start.parameters), start.t0, start.g)
        system = with_rank(system, one.rank)
        given = replace(given, system=system)
        first = given.member(0)
        one = shared if controls_of_members is None else first.controls
        clock = as_start(
            system, method, first.xi, first.g, first.dt, first.t0, n_steps if times is None else 1, one
        ).clock
        if isinstance(controls, Wiener):
            if is_drawn(dt) or is_drawn(t0):
                raise ValueError("dt and t0 are multiples of the spacing of the noise, and not drawn")
            refuse_off_grid(controls, t0, dt)
            warn_of_unread(system, controls, first.g, first.xi, 5)
        gathered = entries(statistics)
        if gathered is None:
            raise TypeError(f"statistics must be a list of statistics such as Mean, got {shortly(statistics)}")
        for statistic in gathered:
            if not isinstance(statistic, Statistic):
                raise TypeError(f"statistics must be statistics such as Mean('energy'), got {shortly(statistic)}")
        requested = requested_observables(NODES if observables is None else observables)
        refuse_clashes(requested, gathered)
        inspect_functions(system, (*requested, *(s.observable for s in gathered)))
        return cls(
            system=system,
            method=method,
            controls=None if controls_of_members is not None else clock.controls,
            members=given,
            n_steps=n_steps,
            save_every=stride,
            observables=requested,
            statistics=tuple(gathered),
            events=as_events(events, system, clock),
            most_events=as_count(most_events, "most_events"),
            method_reason=reason,
            times=times,
        )

    def __repr__(self) -> str:
        varied, method = ", ".join(self.members.varied), with_reason(describe(self.method), self.method_reason)
        length = f"{self.n_steps} steps each, every {self.save_every} kept"
        if self.times is not None:
            length = f"{len(self.times)} nodes each, t = {self.times[0]:g} … {self.times[-1]:g} s"
        return f"Sweep of {self.members.size} runs of {self.system.name} by {method}: {length}; differing in {varied}"

    def _repr_html_(self) -> str:
        from geonh.plotting.cards import sweep_card

        return sweep_card(self)

    @interrupted_at_once
    def solve(self, threads: int | None = None, progress: bool | Callable[[int, int], None] = False) -> Ensemble:
        """Integrate all members in memory, as ``solve_ensemble`` does.

        Parameters
        ----------
        threads : int, optional
            Number of threads; the number of CPUs by default.
        progress : bool or callable
            Show a progress bar, or call ``progress(members_done, members)`` at intervals.

        Returns
        -------
        Ensemble

        Raises
        ------
        TypeError
            If ``progress`` is neither.
        ValueError
            If no member has a consistent start, or ``threads`` is not a positive integer.
        MemoryError
            If the observables kept would take most of the machine's memory, before the first step.
        """
        workers = (os.cpu_count() or 1) if threads is None else as_count(threads, "threads")
        check_progress(progress, "members_done, members")
        with reporting(progress, self.members.size, "members") as report:
            ensemble = Ensemble.of(self, solved(self, 0, self.members.size, workers, report))
        if len(ensemble.faults) == len(ensemble):
            raise ValueError(f"no member has a valid start; {ensemble.message(0)}")
        _warn_if_spoiled(ensemble)
        return ensemble

    @validated
    def run(
        self,
        store: str | os.PathLike,
        *,
        shard: int | None = None,
        only: tuple[int, int] | None = None,
        executor: Executor | str | None = None,
        threads: int | None = None,
        progress: bool | Callable[[int, int], None] = False,
        note: str = "",
    ) -> xr.Dataset:
        """Compute the missing shards of a store, and open it.

        Parameters
        ----------
        store : path
            Folder, created if it does not exist; a store of another configuration is refused.
        shard : int, optional
            Members of a shard; by default according to the data kept of each.
        only : (int, int), optional
            (i, n): only the shards i, i + n, i + 2n, …, as for a job of a job array.
        executor : Executor, Client or str, optional
            Executor of the shards: "threads", "processes", any of ``concurrent.futures``, or a
            ``dask.distributed.Client``, all with access to the store. By default this process, one shard after another.
        threads : int, optional
            Threads per shard; by default the number of CPUs without an executor, else one.
        progress : bool or callable
            Show a progress bar, or call ``progress(members_done, members)`` after each shard.
        note : str
            Note to record in a new store.

        Returns
        -------
        xarray.Dataset
            Opened lazily, as by ``open_store``.

        Raises
        ------
        TypeError, ValueError
            If an argument is invalid.
        StoreError
            If the store has another configuration, with the differences, or cannot be written.
        """
        return run(self, store, shard, only, executor, threads, progress, note)

    def load(self, store: str | os.PathLike, start: int = 0, stop: int | None = None) -> Ensemble:
        """Load members from a store of this sweep.

        Parameters
        ----------
        store : str or path
            Folder of the store.
        start, stop : int, optional
            Range of members; all by default.

        Returns
        -------
        Ensemble

        Raises
        ------
        StoreError
            If the store has another configuration, or is damaged.
        """
        return load(self, store, start, self.members.size if stop is None else stop)


def _times(dt: Any, n_steps: Any, t_end: Any, t0: Any, save_every: Any, t_eval: Any) -> tuple[np.ndarray, Any]:
    """Times of the saved nodes of members with steps of their own, shape=[N], and the bound of their first steps."""
    if save_every is not None or n_steps is not None:
        raise ValueError(
            "steps that a tolerance chooses are each member's own: pass t_end, and t_eval for times at which all "
            "members are saved, in place of n_steps and save_every"
        )
    t_end = last_of(t_eval, t0) if t_end is None and t_eval is not None else t_end
    span = as_variable_span(dt, None, t_end, t0)
    begin, end = float(t0), float(span.end)
    between = np.zeros(0) if t_eval is None else as_times(t_eval, "t_eval", begin, end)
    inner = between[~is_at(between, end) & (between != begin)]
    return np.unique(np.concatenate([[begin], inner, [end]]))[:: 1 if begin < end else -1], span.dt


def _warn_if_spoiled(ensemble: Ensemble) -> None:
    if ensemble.method.guarantees.node != "impulse" or not ensemble.has_nodes:
        return
    worst = np.nanmax(ensemble.alternation, axis=1, initial=0.0)
    if (worst > ALTERNATING).any():
        i = int(np.argmax(worst))
        warnings.warn(
            f"{(worst > ALTERNATING).sum()} of {len(ensemble)} members are spoiled: a part of the momentum alternates "
            f"in sign from node to node and reaches {100 * worst[i]:.3g} % of it (member {i}); SymmetricProjection() "
            "or Gauss(2) cures that",
            AlternationWarning,
            stacklevel=5,
        )
