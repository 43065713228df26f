"""One long run streamed to a store: memory is that of one shard of nodes, whatever the length of the run.

The record of a shard holds the state after its last node, from which the next shard starts; so a run that was killed
resumes from there, with bitwise equal results, and a finished run can be extended.
"""

from __future__ import annotations

import base64
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from geonh.arguments.precision import float64
from geonh.arguments.signatures import judged
from geonh.arguments.validators import as_float64
from geonh.engine.compiled import Stepping, computed, stepping
from geonh.engine.interrupts import Interrupts
from geonh.ensembles.ensemble import AXES, attributes_of
from geonh.ensembles.opening import open_store
from geonh.ensembles.reading import Nodes, read
from geonh.ensembles.solving import first_nodes
from geonh.ensembles.store_configuration import first_of, store_of
from geonh.ensembles.stores import Field, StoreError, StoreWarning
from geonh.ensembles.sweep import Sweep
from geonh.integrators.base import Integrator
from geonh.integrators.node import Result, State
from geonh.mechanics.system import System
from geonh.runs.event_loop import node_row
from geonh.runs.loop import check_progress, next_node, reporting

if TYPE_CHECKING:
    import xarray as xr

SHARD = 2**24
"""Approximate size of a shard of nodes, bytes."""


@judged
def stream(
    system: System,
    method: Integrator | str | None = None,
    *,
    store: str | os.PathLike,
    xi0: Any,
    g0: Any = None,
    dt: float,
    n_steps: int,
    t0: float = 0.0,
    controls: Any = None,
    save_every: int = 1,
    observables: Iterable[str] | Mapping[str, Any] | None = None,
    progress: bool | Callable[[int, int], None] = False,
) -> xr.Dataset:
    """Integrate a system for a long time, into a store.

    Called again, it resumes where it stopped, with bitwise equal results; a greater ``n_steps`` extends the run.

    Parameters
    ----------
    system : System
        System to integrate.
    method : Integrator or str, optional
        As for ``solve``.
    store : str or path
        Folder, created if it does not exist; a store of another run is refused.
    xi0 : array_like, shape=[n]
        Initial velocity, on the constraints at g0.
    g0 : point of the group, optional
        Initial group element; the identity when left out.
    dt, t0 : float
        Time step and initial time, seconds.
    n_steps, save_every : int
        Number of steps, and steps between saved nodes, a divisor of ``n_steps``.
    controls : callable or array_like, shape=[n_steps + 1, …], optional
        As for ``solve``.
    progress : bool or callable
        Show a progress bar, or call ``progress(steps_done, n_steps)``.
    observables : sequence of str, or mapping of str to callable, optional
        Observables to keep in place of the nodes, as for ``solve_ensemble``.

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
    sweep = Sweep.of(
        system,
        method,
        xi0=as_float64(xi0, "xi0", (system.group.dim,))[None],
        g0=g0,
        dt=dt,
        n_steps=n_steps,
        t0=t0,
        controls=controls,
        save_every=save_every,
        observables=observables,
    )
    check_progress(progress, "steps_done, n_steps")
    if not sweep.observables:
        raise ValueError("observables must name what is kept of each node, got none")
    run = _Stream(sweep, store)
    with reporting(progress, n_steps) as report, Interrupts() as interrupts:
        for done in run.shards():
            report(min(done, n_steps), n_steps)
            if interrupts.heard:
                break
    return open_store(store)


class _Stream:
    """Run split into shards of nodes."""

    def __init__(self, sweep: Sweep, path: str | os.PathLike) -> None:
        self.sweep = sweep
        with float64():
            _, faults = first_nodes(sweep.shared, sweep.members.batch(0, 1).members)
        if faults:
            raise ValueError(faults[0])
        first, self.state = first_of(sweep)
        assert first.system is not None
        self.member = jax.tree.map(np.asarray, sweep.members.batch(0, 1).members)
        self.problem = first.problem
        self.loop: Stepping = stepping(next_node, node_row, self.problem, self.state)
        nodes = sweep.n_steps // sweep.save_every + 1
        self.first = computed(node_row, self.problem, self.state)
        one = self._read(self.first[None])
        self.per = max(SHARD // (8 * self.loop.width), 1)
        shards = -(-nodes // self.per)
        fields = {
            name: Field(
                value.shape[1:], "float64", _dims(name, value), attributes_of(name), self.per, nodes, float("nan")
            )
            for name, value in one.items()
        }
        self.store = store_of(sweep, path, "run", self.per, lambda: (fields, shards))
        if self.store.shards < shards or self.store.array(next(iter(fields))).shape[0] < nodes:
            self.store.lengthen(nodes, shards)
        elif self.store.array(next(iter(fields))).shape[0] > nodes:
            raise StoreError(f"{path} is of a longer run than {sweep.n_steps} steps: open it with geonh.open_store")

    def _read(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        nodes = Nodes.of_rows(rows[None], self.sweep.system.group.dim)
        shared = self.sweep.shared
        return {name: value[0] for name, value in read(shared, self.member, nodes, self.sweep.observables).items()}

    def shards(self) -> Any:
        """Compute the missing shards; yields the number of completed steps after each batch."""
        store, stride, total = self.store, self.sweep.save_every, self.sweep.n_steps // self.sweep.save_every + 1
        for shard, fault in store.faults(deep=True).items():
            warnings.warn(f"{store.path}: shard {shard} is computed again: {fault}", StoreWarning, stacklevel=4)
            store.mark_missing(shard)
        missing = set(store.missing())
        for shard in range(store.shards):
            record = store.record(shard) if shard not in missing else None
            if record is None:
                with store.claim(shard) as ours:
                    if not ours:
                        raise StoreError(f"{store.path}: another process computes shard {shard} of this run")
                    begin, end = shard * self.per, min((shard + 1) * self.per, total)
                    rows = np.full((end - begin, self.loop.width), np.nan)
                    saved, status = 0, Result.SUCCESS
                    if shard == 0:
                        rows[0], saved = self.first, 1
                    whole = saved
                    for state, code, n in self.loop.pieces(self.state, end - begin - saved, stride, rows[saved:]):
                        self.state, status, whole = state, Result(code), saved + n
                        yield int(state.k)
                    rows[whole:] = np.nan
                    facts = {"status": int(status), "k": int(self.state.k), "state": _packed(self.state)}
                    store.write(shard, self._read(rows), facts)
                    record = store.record(shard)
            assert record is not None
            self.state = _unpacked(record["state"], self.state)
            yield int(self.state.k)
            if record["status"]:
                words = Result(record["status"]).message
                warnings.warn(f"{store.path}: step {record['k'] + 1}: {words}", StoreWarning, stacklevel=4)
                return


def _dims(name: str, value: np.ndarray) -> tuple[str, ...]:
    if name in AXES and value.ndim == 2:
        return "time", AXES[name]
    return "time", *(f"{name} axis {i}" for i in range(value.ndim - 1))


def _packed(state: State) -> list[list[Any]]:
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(state)]
    return [[a.dtype.str, list(a.shape), base64.b64encode(a.tobytes()).decode()] for a in leaves]


def _unpacked(packed: list[list[Any]], like: State) -> State:
    leaves = [np.frombuffer(base64.b64decode(text), dtype).reshape(shape) for dtype, shape, text in packed]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)
