"""Native code of runs: their nodes, and the tangents along with them."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, cached_property, lru_cache
from typing import Any

import jax
import numpy as np

from geonh.engine import native
from geonh.engine.compiled import PROGRAMS, BatchStepping, Types, example, lanes_of, loop_of, types
from geonh.engine.evaluation import mapped_part
from geonh.engine.foreign import is_short, target_of
from geonh.engine.native import machine
from geonh.engine.native.drivers import Arguments, Reached, trace, traced_steps
from geonh.engine.native.handlers import handled_run
from geonh.engine.operations import Operands, Transformed, members
from geonh.engine.steps import Carry, Dual, Forwards, ForwardStep, Plan, TangentStep, node_row, tangent_row, warm_row

CPUS = os.cpu_count() or 1


class BatchLoop:
    """Native stepping loop for a batch, which is the first axis of states and of the parameters that vary.

    Parameters
    ----------
    step, row : callable
        As for ``compiled.stepping``.
    given, state : pytrees of shapes
        Parameters and state of one member.
    varies : list of bool
        Arrays of the parameters that differ between members.
    many : bool
        True for SIMD lanes, false for one member.
    """

    def __init__(self, step: Callable, row: Callable, given: Any, varies: list[bool], state: Any, many: bool) -> None:
        kinds, self.varies = (types(given), types(state)), tuple(varies)
        self.loop: Any = (lanes_of(step, row, *kinds, self.varies) if many else None) or loop_of(step, row, *kinds)
        self.is_native = isinstance(self.loop, native.Loop | native.Lanes)

    def run(self, given: Any, states: Any, n_nodes: int, stride: int) -> tuple[np.ndarray, Reached]:
        """Rows, shape=[members, n_nodes, width], and final states."""
        every = np.arange(len(jax.tree.leaves(states)[0]))
        return BatchStepping(given, self.varies, self.loop).run(every, states, n_nodes, stride, CPUS)


class Run:
    """Native code of the nodes of a run; subclasses have that of their tangents and cotangents.

    Within, a single member has a batch axis too.

    Parameters
    ----------
    plan : Plan
    part : Transformed
        Value, tangent or cotangents of the run.
    operands : list of shapes
        Operands of the part, of one member.
    batched : tuple of bool
        Operands that differ between members.
    """

    def __init__(self, plan: Plan, part: Transformed, operands: list[Any], batched: tuple[bool, ...]) -> None:
        self.plan, self.part, self.many = plan, part, any(batched)
        self.flags = batched or (False,) * len(operands)
        self.given, self.batched = part.named(operands), part.named(self.flags)
        self.state = Carry(numbers(plan.size - 1), numbers(plan.warm), jax.ShapeDtypeStruct((), np.int64))
        self.steps = self._forwards(ForwardStep(plan.one_step), node_row, self.state)
        self.warm_steps = cache(lambda: self._forwards(ForwardStep(plan.one_step), warm_row, self.state))
        self.first: Any = self._first()

    def _forwards(self, step: Callable, row: Callable, state: Carry, tangents: bool = False) -> BatchLoop:
        pushed = (self.given.tangents, self.batched.tangents) if tangents else ([], [])
        given, varies = Forwards(self.given.arrays, list(pushed[0])), [*self.batched.arrays, *pushed[1]]
        return BatchLoop(step, row, given, varies, state, self.many)

    def _first(self) -> Callable | None:
        """Native code of this part of the operation that gives node 0."""
        given, node, every = self.given, numbers(self.plan.size), True
        operands = given._replace(arrays=self._at_first(given.arrays), tangents=self._at_first(given.tangents))
        flags = self.batched._replace(x=every)
        if given.y is not None:
            operands, flags = operands._replace(y=node), flags._replace(y=every)
        if given.y_bar is not None:
            operands, flags = operands._replace(y_bar=node), flags._replace(y_bar=every)
        if given.x_dot is not None:
            flags = flags._replace(x_dot=every)
        part = Transformed(self.part.kind, self.plan.first_node, self.part.active)
        return mapped_part(part, operands.flat(), tuple(flags.flat()))

    @property
    def is_native(self) -> bool:
        """True if the engine has code for all of it."""
        return self.first is not None and self.steps.is_native

    def __call__(self, *values: np.ndarray) -> list[np.ndarray]:
        n, given = members(values, self.flags) or 1, self.part.named(values)

        def of_all(value: Any, many: Any) -> Any:
            return value if many or value is None else np.broadcast_to(value, (n, *value.shape))

        names = ("x", "y", "x_dot", "y_bar")
        given = given._replace(**{name: of_all(getattr(given, name), getattr(self.batched, name)) for name in names})
        results = self.results(given)
        return results if self.many else [value[0] for value in results]

    def results(self, given: Operands) -> list[np.ndarray]:
        """Results for all members; x and what belongs to nodes have a batch axis."""
        (first,) = self.at_node_0(given)
        return [self.nodes(given.arrays, first, 0, self.plan.n_nodes, self.plan.stride)]

    def at_node_0(self, given: Operands) -> list[np.ndarray]:
        """Results of this part for node 0; y and its cotangent are those of node 0."""
        arrays, tangents = self._at_first(given.arrays), self._at_first(given.tangents)
        return self.first(*given._replace(arrays=arrays, tangents=tangents).flat())

    def _at_first(self, arrays: Any) -> list:
        """Arrays, or their tangents, with the rows of the first node and the next one alone of a driven array."""
        n = len(self.given.arrays)
        if not self.plan.driven or not arrays or (len(arrays) < n and not self.part.active[-1]):
            return list(arrays)
        *others, rows = arrays
        if isinstance(rows, np.ndarray):
            return [*others, rows[:, :2] if self.has_batch(rows) else rows[:2]]
        return [*others, numbers(2, *rows.shape[1:])]

    def has_batch(self, rows: np.ndarray) -> bool:
        """True if the rows of nodes have a batch axis."""
        return rows.ndim > self.given.arrays[-1].ndim

    def state_before(self, node: Any, number: int, warm: np.ndarray | None = None) -> Carry:
        """State before step ``number``, with a warm start from ``warm``, or a cold start."""
        n = len(jax.tree.leaves(node)[0])
        return Carry(node, np.zeros((n, self.plan.warm)) if warm is None else warm, np.full(n, number))

    def nodes(
        self, arrays: list, x: np.ndarray, number: int, n_nodes: int, stride: int, warm: np.ndarray | None = None
    ) -> np.ndarray:
        """Nodes, shape=[members, n_nodes + 1, size], from x, shape=[members, size], the node before step ``number``."""
        rows, reached = self.steps.run(
            Forwards(arrays, []), self.state_before(x[:, :-1], number, warm), n_nodes, stride
        )
        nodes = np.concatenate([x[:, None], rows], axis=1)
        for i in np.flatnonzero(reached.status):
            nodes[i, 1 + reached.n_rows[i] :] = np.append(reached.state.node[i], reached.status[i])
        for i in np.flatnonzero(x[:, -1]):
            nodes[i] = x[i]
        return nodes

    def warm_starts(
        self, arrays: list, x: np.ndarray, number: int, n: int, stride: int, warm: np.ndarray | None = None
    ) -> np.ndarray:
        """Warm-start vectors of the run at x, and after every ``stride`` steps, shape=[members, n + 1, warm]."""
        state = self.state_before(x[:, :-1], number, warm)
        if not n:
            return state.warm[:, None]
        rows, _ = self.warm_steps().run(Forwards(arrays, []), state, n, stride)
        return np.concatenate([state.warm[:, None], rows], axis=1)


class TangentRun(Run):
    """Native code of the tangents of the nodes, forwards along with the steps."""

    def __init__(self, plan: Plan, part: Transformed, operands: list[Any], batched: tuple[bool, ...]) -> None:
        super().__init__(plan, part, operands, batched)
        state = self.state._replace(node=Dual(self.state.node, self.state.node))
        self.pushed = self._forwards(TangentStep(plan.one_step, part.active), tangent_row, state, tangents=True)

    @property
    def is_native(self) -> bool:
        return super().is_native and self.pushed.is_native

    def results(self, given: Operands) -> list[np.ndarray]:
        node = given.y[:, 0]
        (first,) = self.at_node_0(given._replace(y=node))
        state = self.state_before(Dual(node[:, :-1], first[:, :-1]), 0)
        parameters = Forwards(given.arrays, list(given.tangents))
        rows, reached = self.pushed.run(parameters, state, self.plan.n_nodes, self.plan.stride)
        for i in np.flatnonzero(reached.status):
            rows[i, reached.n_rows[i] :, :-1] = reached.state.node.tangent[i]
        for i in np.flatnonzero(node[:, -1]):
            rows[i, :, :-1] = first[i, :-1]
        return [np.concatenate([first[:, None], rows], axis=1)]


class ForeignRun:
    """Nodes of runs of (*arrays, x) as a foreign function of XLA, which takes the number of steps between nodes, too.

    Parameters
    ----------
    plan : Plan
        Its numbers of nodes and steps are not used.
    operands : Types
        Of the arrays and x.
    """

    def __init__(self, plan: Plan, operands: Types) -> None:
        *arrays, x = example(operands)
        state = Carry(numbers(plan.size - 1), numbers(plan.warm), jax.ShapeDtypeStruct((), np.int64))
        self._plan, self._arrays, self._x = plan, arrays, x
        self._traced = traced_steps(
            ForwardStep(plan.one_step), node_row, Arguments(Forwards(arrays, [])), Arguments(state)
        )

    def is_short(self, n_steps: int) -> bool:
        """True if a run of so many steps is short."""
        return is_short(self._traced.step, n_steps)

    @cached_property
    def target(self) -> str | None:
        """Name of the target of XLA, if there is native code."""
        first, _ = trace(self._plan.first_node.plain, Arguments(self._arrays), Arguments(self._x))
        step, row = self._traced
        return target_of(lambda: handled_run(first, step, row, len(self._arrays), fma=machine.fma()))


@lru_cache(maxsize=PROGRAMS)
def foreign_run(plan: Plan, operands: Types) -> ForeignRun:
    """The foreign function of a plan, traced once."""
    return ForeignRun(plan, operands)


def numbers(*shape: int) -> Any:
    """Shape of an array in double precision."""
    return jax.ShapeDtypeStruct(shape, np.float64)
