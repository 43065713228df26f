"""One long run streamed to a store: memory is that of one shard of nodes, whatever the length of the run.

The record of a shard holds the state after its last node, from which the next shard starts; so a run that was killed
resumes from there, with bitwise equal results, and a finished run can be extended.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_count, as_float64
from geonh.engine import Interrupts
from geonh.ensembles.modal_stream_run import ModalStreamRun
from geonh.ensembles.opening import open_store
from geonh.ensembles.stream_run import StreamRun, StreamRunToTime
from geonh.ensembles.sweep import Sweep
from geonh.integrators.base import Integrator
from geonh.integrators.registry import stepping_method
from geonh.integrators.variable_steps import VariableSteps
from geonh.mechanics.system import System
from geonh.results.events import Event
from geonh.results.modes import Modes, refuse_mode
from geonh.runs.loop import check_progress, reporting
from geonh.runs.switching import as_forward_span, refuse_for_modes

if TYPE_CHECKING:
    import xarray as xr


@validated
def stream(
    system: System | Modes,
    method: Integrator | str | None = None,
    *,
    xi0: Any,
    g0: Any = None,
    dt: float | None = None,
    n_steps: int | None = None,
    t_end: float | None = None,
    t0: float = 0.0,
    controls: Any = None,
    events: Event | Iterable[Event] = (),
    save_every: int = 1,
    tolerance: float | None = None,
    mode: str | None = None,
    observables: Iterable[str] | Mapping[str, Any] | None = None,
    progress: bool | Callable[[int, int], None] = False,
    store: str | os.PathLike,
) -> xr.Dataset:
    """Integrate a system for a long time, into a store.

    Called again, it resumes where it stopped, with bitwise equal results; a greater ``n_steps`` or ``t_end`` extends
    the run.

    Parameters
    ----------
    system : System or Modes
        System to integrate; or one that is of several modes at a time.
    method : Integrator or str, optional
        As for ``solve``.
    xi0 : array_like, shape=[n]
        Initial velocity, on the constraints at g0.
    g0 : point of the group, optional
        Initial group element; the identity when left out.
    dt : float
        Time step in seconds; negative runs backwards. With a tolerance, bound of the first step, and optional.
    n_steps : int
        Number of steps; left out where ``t_end`` is given.
    t_end : float, optional
        Time of the last node, as for ``solve``.
    t0 : float
        Initial time in seconds.
    controls : callable or array_like, shape=[n_steps + 1, …], optional
        As for ``solve``.
    events : Event or sequence of Event, optional
        Events to record, or to stop at, as for ``solve``: variables "name:t", "name:g_vector", "name:xi",
        "name:multipliers" and "name:k" of the dataset, each along its own axis. After a terminal event the nodes are
        nan; "g:last", "p_plus:last", … and "n_steps" are those of the last node before it, as after a failure.
    save_every : int
        Number of steps between saved nodes, a divisor of ``n_steps``.
    tolerance : float, optional
        As for ``solve``, with ``t_end``; the last node is there, whatever its number.
    mode : str, optional
        Mode in which a system with modes begins. The dataset has the "mode" of each node, its place among the names in
        the attribute "modes", a list in JSON, and the transitions, "switch_t", "switch_source", "switch_target",
        "switch_g_vector", "switch_xi_before" and "switch_xi_after", along an axis of their own.
    observables : sequence of str, or mapping of str to callable, optional
        Observables to keep in place of the nodes, as for ``solve_ensemble``.
    progress : bool or callable
        Show a progress bar, or call ``progress(steps_done, n_steps)``.
    store : str or path
        Folder, created if it does not exist; a store of another run is refused.

    Returns
    -------
    xarray.Dataset
        Opened lazily, with "time" as the first axis. After Ctrl-C it has the shards that were finished.

    Raises
    ------
    ValueError, TypeError
        For invalid input, including an inconsistent start.
    StoreError
        If the store belongs to another run, or cannot be written.
    """
    method, reason = stepping_method(method, tolerance, controls)
    varies = isinstance(method, VariableSteps)
    modes = None
    if isinstance(system, Modes):
        modes, system = system, system.systems[system.index(mode)]
        refuse_for_modes(modes, method, controls)
        dt, n_steps, *_ = as_forward_span(modes, dt, n_steps, t_end, t0)
        t_end = None
    else:
        refuse_mode(system, mode)
    sweep = Sweep.of(
        system,
        method,
        xi0=as_float64(xi0, "xi0", (system.group.dim,))[None],
        g0=g0,
        dt=dt,
        n_steps=n_steps,
        t_end=t_end,
        t0=t0,
        controls=controls,
        events=events,
        save_every=None if varies else save_every,
        observables=observables,
    )
    sweep = replace(sweep, method_reason=reason, modes=modes, mode=mode or "")
    if varies:
        sweep = replace(sweep, save_every=as_count(save_every, "save_every"))
    check_progress(progress, "steps_done, n_steps")
    if not sweep.observables:
        raise ValueError("observables must name what is kept of each node, got none")
    run = (StreamRunToTime if varies else StreamRun if modes is None else ModalStreamRun)(sweep, store)
    with reporting(progress, sweep.n_steps) as report, Interrupts() as interrupts:
        for done in run.shards():
            total = run.expected(done)
            report(min(done, total), total)
            if interrupts.requested:
                break
    return open_store(store)
