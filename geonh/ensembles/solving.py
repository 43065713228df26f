"""``solve_ensemble``: members side by side in the lanes of the CPU, blocks of them over threads."""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from geonh.alternation import ALTERNATING, AlternationWarning
from geonh.ensembles.batch import Batch, Member, made_batch, with_parameters
from geonh.ensembles.ensemble import Ensemble
from geonh.integrators.base import Integrator, refuse
from geonh.integrators.node import Clock, Result, State
from geonh.integrators.registry import method_of
from geonh.integrators.symmetric_projection import SymmetricProjection
from geonh.mechanics.soundness import Facts, clearly_sound, start_fault
from geonh.mechanics.system import System
from geonh.numerics.compiled import Crowd, crowd, mapped
from geonh.numerics.precision import as_count, float64, is_traced
from geonh.numerics.waiting import interrupted_at_once
from geonh.running import next_node, reporting
from geonh.start import made_start, node_and_facts
from geonh.watching import node_row

SECONDS = 0.3
"""A piece of an ensemble lasts about so long; progress is told after each."""
FIRST = 64
"""Members of the first piece."""
MEMORY = 0.8
"""The part of the machine's memory that saved nodes may take."""


@interrupted_at_once
def solve_ensemble(
    system: System,
    method: Integrator | str | None = None,
    *,
    xi0: Any,
    g0: Any = None,
    parameters: Mapping[str, Any] | None = None,
    dt: Any,
    n_steps: int,
    t0: Any = 0.0,
    controls: Any = None,
    combine: str = "zip",
    save_every: int | None = None,
    threads: int | None = None,
    progress: bool | Callable[[int, int], None] = False,
) -> Ensemble:
    """Many runs at once, each with the bits of its own ``solve``.

    What has a first axis of members differs between them; the rest is the same for all.

    Parameters
    ----------
    system : System
        What moves.
    method : Integrator or str, optional
        As for ``solve``.
    xi0 : array_like, shape=[n] or [members, n]
        Initial velocities; ``system.projected_velocity`` under ``jax.vmap`` puts many on the constraints.
    g0 : point of the group, or points with a first axis of members, optional
        Initial group elements; the identity when left out.
    parameters : mapping of str to array_like, optional
        Values for parameters of the system, in place of its own, for each member or for all.
    dt, t0 : float, or array_like of shape=[members]
        Time steps and initial times in seconds.
    n_steps : int
        Number of steps, the same for all.
    controls : callable or array_like, optional
        As for ``solve``, the same for all.
    combine : {"zip", "product"}
        Whether what differs goes together, member by member, or is crossed: every start (g0 with xi0) with every value
        of every parameter, dt and t0.
    save_every : int, optional
        Keep every so many nodes, a divisor of ``n_steps``; only the first and the last when left out.
    threads : int, optional
        As many as there are CPUs when left out.
    progress : bool or callable
        Show a progress bar, or call ``progress(members_done, members)`` now and then.

    Returns
    -------
    Ensemble
        Labelled arrays with the members along the first axis. A member that fails, or whose start is none, has nan
        from there on, and ``status`` and ``message(i)`` tell why; the others are not touched. After Ctrl-C it has the
        members that were finished.

    Raises
    ------
    TypeError, ValueError
        For input that does not fit, or if no member has a sound start.
    MemoryError
        If the saved nodes would take most of the machine's memory, before the first step.
    """
    if method is None or isinstance(method, str):
        method = SymmetricProjection() if method is None else method_of(method)
    refuse(method, system)
    if is_traced(xi0, g0, dt, t0, parameters, controls, system):
        raise TypeError("solve_ensemble returns NumPy arrays and cannot be traced; under jit use jax.vmap of integrate")
    as_count(n_steps, "n_steps")
    stride = n_steps if save_every is None else as_count(save_every, "save_every")
    if n_steps % stride:
        raise ValueError(f"save_every must divide n_steps = {n_steps}, got {save_every}")
    workers = (os.cpu_count() or 1) if threads is None else as_count(threads, "threads")
    if not isinstance(progress, bool) and not callable(progress):
        raise TypeError(f"progress must be True, False or a function of (members_done, members), got {progress!r}")
    batch = made_batch(system, xi0, g0, dt, t0, parameters, combine)
    first = jax.tree.map(lambda a: a[0], batch.members)
    clock = made_start(system, method, first.xi, first.g, first.dt, first.t0, n_steps, controls).clock
    _refuse_times(batch, n_steps)
    with float64():
        states, faults = _first_nodes(system, method, clock.controls, batch)
    found = _run(system, method, clock.controls, batch, states, faults, n_steps, stride, workers, progress)
    _warn_if_spoiled(found)
    return found


def _refuse_times(batch: Batch, n_steps: int) -> None:
    dt, t0 = batch.members.dt, batch.members.t0
    with np.errstate(over="ignore"):
        end = t0 + float(n_steps) * dt
    bad = ~(np.abs(dt) >= np.finfo(float).tiny) | ~np.isfinite(end) | (t0 + dt == t0) | (end - dt == end)
    if bad.any():
        i = int(np.argmax(bad))
        raise ValueError(f"member {i}: time stands still or overflows with t0 = {t0[i]:g}, dt = {dt[i]:g}")


def _first_nodes(system: System, method: Integrator, controls: Any, batch: Batch) -> tuple[State, dict[int, str]]:
    """Node 0 of every member, and what is wrong with those starts that are none, by member."""
    states, found = mapped(_first, (system, method, controls), batch.members)
    faults, sound = {}, clearly_sound(batch.members.xi, Facts(*found)) & (np.asarray(states.status) == 0)
    for i in np.flatnonzero(~sound).tolist():
        member, one = (jax.tree.map(lambda a, i=i: a[i], tree) for tree in (batch.members, Facts(*found)))
        fault = start_fault(system, float(member.t0), member.g, member.xi, float(member.dt), one)
        if not fault and states.status[i]:
            fault = Result(int(states.status[i])).message
        if fault:
            faults[i] = fault
    if len(faults) == batch.size:
        raise ValueError(f"no member has a sound start; member 0: {faults[0]}")
    return states, faults


def _first(tree: tuple, member: Member) -> tuple[State, Facts]:
    system, method, controls = tree
    system, clock = with_parameters(system, member.parameters), Clock(member.t0, member.dt, controls)
    return node_and_facts((system, method, clock), (member.g, member.xi))


def _run(
    system: System,
    method: Integrator,
    controls: Any,
    batch: Batch,
    states: State,
    faults: dict[int, str],
    n_steps: int,
    stride: int,
    workers: int,
    progress: bool | Callable[[int, int], None],
) -> Ensemble:
    """All steps of all members, in pieces of members."""
    members, n_nodes = batch.members, n_steps // stride

    def part(name: str, values: Any) -> Any:
        return values if name in batch.varied else values[0]

    def tree(parameters: Any, t0: Any, dt: Any) -> tuple:
        return with_parameters(system, parameters), method, Clock(t0, dt, controls)

    first = jax.tree.map(lambda a: a[0], members)
    many = {name: part(name, values) for name, values in members.parameters.items()}
    runner = crowd(
        next_node,
        node_row,
        tree(first.parameters, first.t0, first.dt),
        tree(many, part("t0", members.t0), part("dt", members.dt)),
        jax.tree.map(lambda a: np.asarray(a)[0], states),
    )
    rows = _nodes(batch.size, n_nodes + 1, runner.width)
    rows[:] = np.nan
    rows[:, 0] = mapped(node_row, (system,), states)
    status, counts = np.full(batch.size, int(Result.INTERRUPTED)), np.zeros(batch.size, np.int64)
    good = np.array([i for i in range(batch.size) if i not in faults])
    status[list(faults)] = Result.START
    rows[list(faults)] = np.nan
    with contextlib.suppress(KeyboardInterrupt):  # what was finished stays
        _pieces(runner, states, good, n_nodes, stride, workers, progress, rows, status, counts)
    rows[np.arange(n_nodes + 1) * stride > counts[:, None]] = np.nan
    return Ensemble.made(system, method, controls, batch, rows, status, counts, stride, faults, runner.engine)


def _pieces(
    runner: Crowd,
    states: State,
    good: np.ndarray,
    n_nodes: int,
    stride: int,
    workers: int,
    progress: bool | Callable[[int, int], None],
    rows: np.ndarray,
    status: np.ndarray,
    counts: np.ndarray,
) -> None:
    done, size = 0, FIRST
    with reporting(progress, len(good)) as report:
        while done < len(good):
            these, begun = good[done : done + size], time.perf_counter()
            piece = jax.tree.map(lambda a, these=these: np.asarray(a)[these], states)
            rows[these, 1:], status[these], counts[these] = runner.run(these, piece, n_nodes, stride, workers)
            done += len(these)
            elapsed = time.perf_counter() - begun
            size = int(np.clip(size * SECONDS / max(elapsed, 1e-3), FIRST, 4 * size))
            report(done, len(good))


def _nodes(members: int, nodes: int, width: int) -> np.ndarray:
    """Where saved nodes go, if there is room."""
    needed = 8 * members * nodes * width
    try:
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not known on every platform
        there = None
    if there is not None and needed > MEMORY * there:
        raise MemoryError(
            f"{members} members with {nodes} nodes of {width} numbers take {needed / 2**30:.1f} GiB of this machine's "
            f"{there / 2**30:.1f}: raise save_every (left out, it keeps the first and the last node only)"
        )
    return np.empty((members, nodes, width))


def _warn_if_spoiled(ensemble: Ensemble) -> None:
    if ensemble.method.guarantees.node != "impulse":
        return
    worst = np.nanmax(ensemble.alternation, axis=1, initial=0.0)
    if (worst > ALTERNATING).any():
        i = int(np.argmax(worst))
        warnings.warn(
            f"{(worst > ALTERNATING).sum()} of {len(ensemble)} members are spoiled: a part of the momentum alternates "
            f"in sign from node to node and reaches {100 * worst[i]:.3g} % of it (member {i}); SymmetricProjection() "
            "or Gauss(2) cures that",
            AlternationWarning,
            stacklevel=3,
        )
