"""``solve_ensemble``: integrate many members at once, in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from geonh.arguments.signatures import validated
from geonh.arguments.validators import entries
from geonh.ensembles.ensemble import Ensemble
from geonh.ensembles.modal import ModalEnsemble
from geonh.ensembles.modal_solving import solve_modal_ensemble
from geonh.ensembles.statistics import Statistic
from geonh.ensembles.sweep import Sweep
from geonh.integrators.base import Integrator
from geonh.mechanics.system import System
from geonh.results.events import Event
from geonh.results.modes import Modes, refuse_mode


@validated
def solve_ensemble(
    system: System | Modes,
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
    mode: str | None = None,
    observables: Iterable[str] | Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    combine: str = "zip",
    members: int | None = None,
    seed: int = 0,
    project: bool = False,
    statistics: Iterable[Statistic] = (),
    most_events: int = 1,
    threads: int | None = None,
    progress: bool | Callable[[int, int], None] = False,
) -> Ensemble | ModalEnsemble:
    """Integrate many members at once, each bitwise equal to its own ``solve``.

    Arguments with a first axis of members differ between them; the rest are common to all. In place of an array, a
    frozen distribution of ``scipy.stats`` draws xi0, dt, t0 or a parameter for each member.

    Parameters
    ----------
    system : System or Modes
        System to integrate; or one that is of several modes at a time.
    method : Integrator or str, optional
        As for ``solve``.
    xi0 : array_like, shape=[n] or [members, n]
        Initial velocities.
    g0 : point of the group, or points with a first axis of members, optional
        Initial group elements; the identity when left out. A distribution draws η of exp(η), and
        ``ensembles.Near(g, distribution)`` of g·exp(η).
    dt : float, or array_like of shape=[members]
        Time steps in seconds. With a tolerance, bound of the first steps, and optional.
    n_steps : int
        Number of steps, the same for all; left out where ``t_end`` is given.
    t_end : float, optional
        Time of the last node, as for ``solve``, where dt and t0 are the same for all.
    t0 : float, or array_like of shape=[members]
        Initial times in seconds.
    controls : callable or array_like, shape=[n_steps + 1, …] or [members, n_steps + 1, …], optional
        As for ``solve``; values at the nodes may differ between members.
    events : Event or sequence of Event, optional
        Events to locate between the nodes: first passages, sections; a terminal event ends the member.
    save_every : int, optional
        Number of steps between saved nodes, a divisor of ``n_steps``; only the first and the last by default.
    t_eval : array_like, shape=[M], optional
        With a tolerance, times of the saved nodes, besides t0 and ``t_end``; this is the last of them when left out.
    tolerance : float, optional
        As for ``solve``: each member has steps of its own, and ends at ``t_end``.
    mode : str, optional
        Mode in which members of ``Modes`` begin.
    observables : sequence of str, or mapping of str to callable, optional
        Observables to keep at the saved nodes, in place of the nodes themselves ("g", "p_plus", "p_minus"): names of
        observables of a ``Trajectory`` ("xi", "energy", "multipliers", a first integral's), or names with functions of
        (t, g, ξ, λ), or of these and the parameters, in ``jax.numpy``.
    parameters : mapping of str to array_like, shape=[…] or [members, …], optional
        Values for parameters of the system, in place of its own, for all or for each member.
    combine : {"zip", "product"}
        Zip the arguments that differ, member by member, or cross them: every start (g0 with xi0) with every value
        of every parameter, dt, t0 and the controls.
    members, seed : int, optional
        Number of members to draw, and the seed. The values of a member depend only on the seed and its index.
    project : bool
        Project the starts onto the constraints of each member, as ``system.project`` does.
    statistics : sequence of Statistic
        Running statistics with bounded memory, such as ``ensembles.Mean``: subclasses of ``ensembles.Statistic``.
    most_events : int
        Maximum number of occurrences kept per event and member; all are counted.
    threads : int, optional
        Number of threads; the number of CPUs by default.
    progress : bool or callable
        Show a progress bar, or call ``progress(members_done, members)`` at intervals.

    Returns
    -------
    Ensemble, or ModalEnsemble for Modes
        Labelled arrays with the members along the first axis. A member that fails, or has an invalid start, has nan
        from there on, and ``status`` and ``message(i)`` give the reason; the others are unaffected. After Ctrl-C it has
        the members that were finished.

    Raises
    ------
    TypeError, ValueError
        For invalid input, or if no member has a consistent start.
    MemoryError
        If the observables kept would take most of the machine's memory, before the first step.
    """
    if isinstance(system, Modes):
        left_out = {"t_eval": t_eval, "tolerance": tolerance, "observables": observables}
        for name, value in (left_out | {"statistics": entries(statistics) or None}).items():
            if value is not None:
                raise ValueError(f"{name}= is not for runs with modes: use ensemble.to_xarray(), or ensemble[i](times)")
        return solve_modal_ensemble(
            system,
            method,
            mode,
            {"xi0": xi0, "g0": g0, "dt": dt, "t0": t0},
            n_steps=n_steps,
            t_end=t_end,
            controls=controls,
            events=events,
            save_every=save_every,
            parameters=parameters,
            combine=combine,
            members=members,
            seed=seed,
            project=project,
            threads=threads,
            progress=progress,
        )
    refuse_mode(system, mode)
    sweep = Sweep.of(
        system,
        method,
        xi0=xi0,
        g0=g0,
        parameters=parameters,
        dt=dt,
        n_steps=n_steps,
        t_end=t_end,
        t0=t0,
        controls=controls,
        combine=combine,
        members=members,
        seed=seed,
        project=project,
        save_every=save_every,
        t_eval=t_eval,
        tolerance=tolerance,
        observables=observables,
        statistics=statistics,
        events=events,
        most_events=most_events,
    )
    return sweep.solve(threads, progress)
