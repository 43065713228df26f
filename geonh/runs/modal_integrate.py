"""``integrate`` of systems with modes: runs of ``solve`` as an operation of JAX, with derivatives through transitions.

The value is the run that ``solve`` makes. Its derivatives are those of its moves (``modal_moves.py``), linearised at
the nodes of the run, many at once, and multiplied in the order of the run, or backwards.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.memory import refuse_too_much
from geonh.arguments.precision import float64
from geonh.arguments.validators import as_count
from geonh.engine import HostOperation, Operands, Parts, computed, mapped
from geonh.integrators.base import Integrator, Problem
from geonh.integrators.clock import Clock
from geonh.integrators.registry import stepping_method
from geonh.integrators.validity import Result
from geonh.mechanics.soundness import is_start
from geonh.mechanics.system import System
from geonh.results.modes import Modes
from geonh.results.traced_modes import TracedModes
from geonh.runs.modal_moves import BRIEF, METHOD, STIFF, Crossing, Linearised, ModalProblem, Move, Pulled, Pushed, Step
from geonh.runs.modal_record import rows_at
from geonh.runs.modal_run import ModalRun
from geonh.runs.mode_functions import Place
from geonh.runs.start import as_start, known_sound
from geonh.runs.switching import as_forward_span, refuse_for_modes

SHORT = 1e-2
"""Part of a step below which a move is brief: derivatives of an implicit step by its length have an error of a rounding
divided by the length."""
SAME = 1e-8
"""Tolerance, relative to 1 and their largest entry, within which a move done again ends at the same place."""


def integrate_modes(
    modes: Modes,
    method: Integrator | str | None,
    mode: Any,
    *,
    xi0: Any,
    g0: Any,
    dt: Any,
    n_steps: Any,
    t_end: Any,
    t0: Any,
    controls: Any,
    save_every: Any,
    most_switches: Any,
) -> TracedModes:
    """``integrate`` for a system with modes."""
    method = stepping_method(method, None, controls).method
    which = modes.index(mode)
    refuse_for_modes(modes, method, controls)
    if method.guarantees.node != "velocity":
        raise ValueError(
            f"integrate of a system with modes takes methods whose nodes are (g, ξ) alone, such as Gauss(2) and "
            f"RKMK(4), not {method}"
        )
    save_every, most = as_count(save_every, "save_every"), as_count(most_switches, "most_switches", least=0)
    dt, n_steps, *_ = as_forward_span(modes, dt, n_steps, t_end, t0)
    if n_steps % save_every:
        raise ValueError(f"save_every must divide n_steps = {n_steps} of a system with modes, got {save_every}")
    first = modes.systems[which]
    with float64():
        start = as_start(first, method, xi0, g0, dt, t0, n_steps, controls)
        known_sound(first, method, start)
        clock = Clock(jnp.asarray(start.clock.t0), jnp.asarray(start.clock.dt), start.clock.controls)
        arrays, parts = Parts.of(ModalProblem(modes.systems, modes.transitions, method, clock))
        vector = first.group.to_vector(jax.tree.map(jnp.asarray, start.g))
        n_nodes = n_steps // save_every + 1
        refuse_too_much(f"{n_nodes} nodes", {"nodes": n_nodes * (3 + len(vector))}, "pass fewer steps")
        run = ModalSteps(modes.names, parts, which, n_steps, save_every, most, first.group.dim)
        y = run(arrays, jnp.concatenate([clock.t0[None], vector, jnp.asarray(start.xi)]))
        n, size = first.group.dim, len(vector)
        nodes, switches, number = y[:n_nodes], y[n_nodes:-1], y[-1, 0]
        points, (kept, systems) = jax.vmap(first.group.from_vector), Parts.of(modes.systems)
        return TracedModes(
            nodes[:, 2],
            points(nodes[:, 3 : 3 + size]),
            nodes[:, 3 + size :],
            nodes[:, 0].astype(int),
            nodes[:, 1].astype(jnp.int32),
            number.astype(int),
            switches[:, 2],
            points(switches[:, 3 : 3 + size]),
            switches[:, 3 + size : 3 + size + n],
            kept,
            modes.names,
            systems,
        )


class Path(NamedTuple):
    """Moves of a run, each from one of its rows to another.

    Attributes
    ----------
    y : ndarray, shape=[rows, d]
        Places (t, g, ξ).
    moves : list of (Step or Crossing, int, int)
        Kinds, and rows at both ends, in the order of the run.
    given : Move
        What the moves are given, along the first axis.
    """

    y: np.ndarray
    moves: list[tuple[Any, int, int]]
    given: Move

    def by_kind(self) -> dict[Any, np.ndarray]:
        """Places of the moves of each kind in the list."""
        places = defaultdict(list)
        for i, (kind, _, _) in enumerate(self.moves):
            places[kind].append(i)
        return {kind: np.array(where) for kind, where in places.items()}


@dataclass(frozen=True)
class ModalSteps(HostOperation):
    """Nodes and transitions of a run as rows (mode, status, t, g, ξ), shape=[nodes + most + 1, 3 + size + n], from
    x = (t0, g, ξ); those of transitions follow those of nodes, and the last row has their number.
    """

    names: tuple[str, ...]
    parts: Parts
    which: int
    n_steps: int
    save_every: int
    most: int
    dim: int

    @property
    def n_nodes(self) -> int:
        """Number of nodes, node 0 among them."""
        return self.n_steps // self.save_every + 1

    def shape(self, x: Any) -> tuple[int, ...]:
        return self.n_nodes + self.most + 1, 2 + x.shape[0]

    def plain(self, arrays: list[Any], x: Array) -> Array:
        raise NotImplementedError(
            "integrate of a system with modes has values and first derivatives, on a CPU: for second ones take "
            "differences of first ones"
        )

    # --- the run --------------------------------------------------------------------------------------------
    def _run(self, arrays: list[Any], x: np.ndarray, save_every: int) -> ModalRun:
        with float64():
            problem: ModalProblem = jax.tree.map(_as_numpy, self.parts.tree(list(map(np.asarray, arrays))))
            modes = Modes(dict(zip(self.names, problem.systems, strict=True)), problem.transitions)
            system, clock = modes.systems[self.which], problem.clock
            g = jax.tree.map(np.asarray, system.group.from_vector(jnp.asarray(x[1 : len(x) - self.dim])))
            here = Place(np.float64(x[0]), g, x[len(x) - self.dim :])
            run = ModalRun(modes, problem.method, clock, (), save_every, self.which, None)  # type: ignore[arg-type]
            run.state = run.loop.enter(clock, here, 0, clock.t0)
            sound = computed(_sound, Problem(system, problem.method, clock), here)
            run.status = Result(int(run.state.status)) if sound else Result.START
            run.save(run.state, float(x[0]))
            run.advance(self.n_steps)
        return run

    def value(self, given: Operands) -> np.ndarray:
        run = self._run(given.arrays, given.x, self.save_every)
        y = np.full(self.shape(given.x), np.nan)
        places, nodes = _places(run), run.nodes()
        saved = rows_at(nodes, self._saved)
        y[: len(saved), 2:], y[: len(saved), 0], y[: len(saved), 1] = places[saved], nodes.mode[saved], 0.0
        y[len(saved) : self.n_nodes] = y[len(saved) - 1]
        y[len(saved) : self.n_nodes, 1] = int(run.status)
        if run.status is Result.START:
            y[: self.n_nodes, 1] = int(run.status)
        for i, switch in enumerate(run.switches[: self.most]):
            y[self.n_nodes + i] = np.concatenate([[1.0, 0.0], places[switch.row + 1]])
        y[-1] = len(run.switches)
        return y

    @property
    def _saved(self) -> np.ndarray:
        return np.arange(self.n_nodes) * self.save_every

    def _path(self, given: Operands) -> tuple[Path, list[tuple[int, int]]]:
        """Path of the run, and pairs of rows of the result and of the path."""
        run = self._run(given.arrays, given.x, 1)
        y, nodes, before = _places(run), run.nodes(), {switch.row: switch for switch in run.switches}
        moves: list[tuple[Any, int, int]] = []
        stiff = set(run.stiff_rows)
        kind: Step | Crossing
        at, k, until, at_once = 0, [], [], []
        while at + 1 < len(y):
            switch = before.get(at + 1)
            is_brief = abs(y[at + 1, 0] - y[at, 0]) < SHORT * abs(float(run.clock.dt))
            by = STIFF if at + 1 in stiff else BRIEF if is_brief else METHOD
            if switch is None:
                kind, to = Step(int(nodes.mode[at]), by), at + 1
            else:
                transition = self._transitions(run.modes, switch.source)[switch.which]
                kind, to = Crossing(switch.source, transition, switch.target, by), at + 2
            moves.append((kind, at, to))
            k.append(float(nodes.k[to]))
            until.append(y[to, 0])
            at_once.append(y[to, 0] == y[at, 0])
            at = to
        begins = np.array([begin for _, begin, _ in moves], int)
        path = Path(y, moves, Move(y[begins], np.array(k), np.array(until), np.array(at_once, bool)))
        saved = rows_at(nodes, self._saved)
        pairs = [(i, int(saved[min(i, len(saved) - 1)])) for i in range(self.n_nodes)]
        pairs += [(self.n_nodes + i, switch.row + 1) for i, switch in enumerate(run.switches[: self.most])]
        return path, pairs

    def _transitions(self, modes: Modes, source: int) -> list[int]:
        """Indices of the transitions that leave a mode."""
        return [i for i, one in enumerate(modes.transitions) if one.source == self.names[source]]

    # --- its derivatives ------------------------------------------------------------------------------------
    def _matrices(self, path: Path, arrays: list[Any]) -> np.ndarray:
        """Derivatives of moves by the places before them, shape=[moves, d, d]; nan where one cannot be done again."""
        d = path.y.shape[1]
        matrices = np.empty((len(path.moves), d, d))
        ends = path.y[np.array([end for *_, end in path.moves], int)]
        for kind, where in path.by_kind().items():
            at = jax.tree.map(lambda a, where=where: a[where], path.given)
            reached, matrix = mapped(Linearised(kind, self.parts), arrays, at)
            off = np.abs(reached - ends[where]).max(axis=1) > SAME * (1 + np.abs(ends[where]).max(axis=1))
            matrix[off] = np.nan
            matrices[where] = matrix
        return matrices

    def tangent(self, given: Operands, active: tuple[bool, ...]) -> np.ndarray:
        arrays = list(map(np.asarray, given.arrays))
        path, pairs = self._path(given)
        pushed = np.zeros((len(path.moves), path.y.shape[1]))
        if any(active):
            for kind, where in path.by_kind().items():
                at = jax.tree.map(lambda a, where=where: a[where], path.given)
                tree = arrays, list(map(np.asarray, given.tangents))
                pushed[where] = mapped(Pushed(kind, self.parts, active), tree, at)
        change = np.zeros(path.y.shape)
        change[0] = given.x_dot
        for (_, begin, end), matrix, more in zip(path.moves, self._matrices(path, arrays), pushed, strict=True):
            change[end] = matrix @ change[begin] + more
        y = np.zeros(self.shape(given.x))
        for i, row in pairs:
            y[i, 2:] = change[row]
        return y

    def cotangents(self, given: Operands, active: tuple[bool, ...]) -> list[np.ndarray]:
        arrays = list(map(np.asarray, given.arrays))
        path, pairs = self._path(given)
        bar = np.zeros(path.y.shape)
        for i, row in pairs:
            bar[row] += given.y_bar[i, 2:]
        leaving = np.zeros((len(path.moves), path.y.shape[1]))
        matrices = self._matrices(path, arrays)
        for i in range(len(path.moves) - 1, -1, -1):
            _, begin, end = path.moves[i]
            leaving[i] = bar[end]
            bar[begin] += bar[end] @ matrices[i]
        sums = [np.zeros(np.shape(a)) for a, moves in zip(arrays, active, strict=True) if moves]
        if sums:
            for kind, where in path.by_kind().items():
                at = jax.tree.map(lambda a, where=where: a[where], path.given)
                parts = mapped(Pulled(kind, self.parts, active), arrays, (at, leaving[where]))
                sums = [a + b.sum(axis=0) for a, b in zip(sums, parts, strict=True)]
        return [*sums, bar[0]]


def _as_numpy(leaf: Any) -> Any:
    return np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf


def _sound(problem: Problem, here: Place) -> Array:
    return is_start(problem.system, here.t, here.g, here.xi, problem.clock.dt)


def _places(run: ModalRun) -> np.ndarray:
    """Places (t, g, ξ) of the nodes of a run, shape=[rows, 1 + size + n]."""
    nodes = run.nodes()
    xi = np.empty(nodes.p_plus.shape)
    for mode in np.unique(nodes.mode):
        where = nodes.mode == mode
        part = nodes._replace(mode=None).taken(where)
        xi[where] = mapped(_velocity, run.modes.systems[mode], part._replace(k=np.zeros(where.sum())))
    for switch in run.switches:
        xi[switch.row], xi[switch.row + 1] = switch.xi_before, switch.xi_after
    return np.concatenate([nodes.t[:, None], nodes.g_vector, xi], axis=1)


def _velocity(system: System, node: Any) -> Array:
    x = system.at(system.group.from_vector(node.g_vector), node.t)
    return system.velocity(x, (node.p_plus + node.p_minus) / 2)
