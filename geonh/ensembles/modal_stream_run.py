"""Run of a system with modes that is streamed to a store, shard of nodes after shard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geonh.arguments.precision import float64
from geonh.ensembles.batch import Shared
from geonh.ensembles.described import packed
from geonh.ensembles.reading import Observable, read, shapes_at
from geonh.ensembles.stream_run import StreamRun
from geonh.integrators.node import State
from geonh.integrators.validity import Result
from geonh.results.events import Crossings, joined_crossings
from geonh.results.modes import Switches, placed
from geonh.results.nodes import Nodes
from geonh.results.observables import OF_ROWS
from geonh.runs.modal_record import joined_switches, rows_at
from geonh.runs.modal_run import ModalRun
from geonh.runs.mode_loop import Loops

BATCH = 1024
"""Number of saved nodes between reports."""


class ModalState(NamedTuple):
    """Node at a whole number of steps, index of its mode, and time of the last transition, nan if there was none."""

    node: State
    mode: Any
    since: Any

    @property
    def k(self) -> Any:
        """Step count."""
        return self.node.k


class ModalStreamRun(StreamRun):
    """Run of a system with modes: shards have the nodes at whole numbers of steps, each with the index of its mode, and
    their records the transitions.
    """

    state: ModalState

    def _begin(self, state: State) -> ModalState:
        modes, kept, n = self.sweep.modes, self.sweep.observables, self.sweep.system.group.dim
        assert modes is not None
        self.modes = modes
        variables = {"mode", *(f"switch_{name}" for name in Switches._fields[1:])}
        if taken := sorted(variables & {one.name for one in kept}):
            raise ValueError(f"observables: {taken[0]!r} is a variable of the dataset itself: take another name")
        self._member = self.member._replace(parameters={})  # those of each mode are in its system
        self._loops: Loops = {}
        begun = ModalState(state, np.int64(modes.index(self.sweep.mode)), np.float64(np.nan))
        run = self._run(begun)
        run.loop.go_on(run.clock, state)  # raises for guards that are not a number there
        node = Nodes.of_rows(super()._row(state)[None, None], n)
        wanted = (*kept, Observable("multipliers")) if self.sweep.events else kept
        own = [shapes_at(self._shared(mode), self._member, node, wanted) for mode in range(len(modes))]
        self._has = [tuple(one for one in kept if one.name in shapes) for shapes in own]
        self._shapes = {one.name: self._common_shape(one.name, own) for one in wanted}
        size, (m,) = node.g_vector.shape[-1], self._shapes.get("multipliers", (0,))
        self.no_events = Crossings.none([event.name for event in self.sweep.events], size, n, m)
        self._no_switches = Switches.none(modes.names, size, n)
        return begun

    def _common_shape(self, name: str, own: list[dict[str, tuple[int, ...]]]) -> tuple[int, ...]:
        """Shape into which an observable fits in all modes that have it, from its shapes in each."""
        shapes = [
            self._placed(name, np.zeros((1, *of[name])), mode).shape[1:] for mode, of in enumerate(own) if name in of
        ]
        if not shapes:
            there = ", ".join(sorted({name for shapes in own for name in shapes}))
            raise ValueError(f"no mode of {self.modes.name} has an observable {name!r}; there are {there}")
        if len({len(shape) for shape in shapes}) > 1:
            raise ValueError(f"observables[{name!r}] has other axes in one mode than in another: shapes {shapes}")
        return tuple(np.max(np.array(shapes, int).reshape(len(shapes), -1), axis=0).tolist())

    def _placed(self, name: str, values: np.ndarray, mode: int) -> np.ndarray:
        return placed(values, self.modes, mode) if name in OF_ROWS else values

    def _shared(self, mode: int) -> Shared:
        return self.sweep.shared._replace(system=self.modes.systems[mode], method=None)

    def _run(self, state: ModalState) -> ModalRun:
        """Run that goes on from a state."""
        sweep, (node, mode, since) = self.sweep, state
        run = ModalRun(
            self.modes,
            sweep.method,
            self.problem.clock,
            sweep.events,
            sweep.save_every,
            int(mode),
            node,
            Result(int(node.status)),
            since=float(since),
        )
        run.loops = self._loops
        run.save(node, float(run.clock.t0 + int(node.k) * run.clock.dt))
        return run

    def _like(self, leaves: list[np.ndarray]) -> ModalState:
        mode = leaves[-2]
        run = self._run(self.state._replace(mode=mode))
        system, g, n = run.loop.system, self.state.node.g, self.sweep.system.group.dim
        with float64():
            node = jax.eval_shape(lambda: run.method.first_node(system, run.clock, g, jnp.zeros(n)))
        return ModalState(node, mode, leaves[-1])

    def _row(self, state: ModalState) -> np.ndarray:
        return np.append(super()._row(state.node), float(state.mode))

    def _read(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        which = np.where(np.isnan(rows[:, -1]), -1, rows[:, -1]).astype(np.int64)
        values = {one.name: np.full((len(rows), *self._shapes[one.name]), np.nan) for one in self.sweep.observables}
        for mode in np.unique(which[which >= 0]).tolist():
            at = np.flatnonzero(which == mode)
            nodes = Nodes.of_rows(rows[None, at, :-1], self.sweep.system.group.dim)
            for name, value in read(self._shared(mode), self._member, nodes, self._has[mode]).items():
                there = self._placed(name, value[0], mode)
                where: Any = (at, *map(slice, there.shape[1:]))
                values[name][where] = there
        return {"mode": which, **values}

    def _compute(self, shard: int) -> Iterator[int]:
        stride, begin, end = self.sweep.save_every, shard * self.per, min((shard + 1) * self.per, self.n_nodes)
        run, last = self._run(self.state), (end - 1) * stride
        while int(run.state.k) < last and run.status is Result.SUCCESS:
            run.advance(min(last, int(run.state.k) + BATCH * stride))
            yield int(run.state.k)
        nodes, before = run.nodes(), min(shard, 1)  # the last node of the shard before
        found = nodes.taken(rows_at(nodes, np.arange(begin - before, end) * stride)[before:])
        rows = np.full((end - begin, len(self.first)), np.nan)
        rows[: len(found.k), :-1], rows[: len(found.k), -1] = found._replace(t=None).rows, found.mode
        switches = joined_switches(self._no_switches, run.switches)
        since = run.switches[-1].t if run.switches else run.since
        state = ModalState(run.state, np.int64(run.state_mode), np.float64(since))
        size, n = self.no_events.g_vector.shape[1], self.sweep.system.group.dim
        crossings = joined_crossings([self.no_events, *run.crossings], self.no_events.names, size, n)
        self._store(shard, rows, state, run.status, crossings, switches=packed(switches[1:]))
