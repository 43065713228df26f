"""Native code of the cotangents of runs: backwards from the saved nodes, in blocks of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, cached_property, lru_cache, partial
from typing import Any, NamedTuple

import jax
import numpy as np

from geonh.engine.compiled import PROGRAMS, Types, example
from geonh.engine.foreign import is_short, target_of
from geonh.engine.forward import BatchLoop, Run, numbers
from geonh.engine.native import machine
from geonh.engine.native.drivers import Arguments, trace, traced_steps
from geonh.engine.native.handlers import handled_pull
from geonh.engine.operations import COTANGENT, Operands, Transformed, active_values
from geonh.engine.steps import SAME, Backwards, BackwardStep, Block, Cotangents, Plan, driven_row

BLOCK, OF_MANY = 1024, 512
"""Number of steps whose cotangents are computed in one call, for a single member and for each of a batch."""
MOST_NODES = 2**30
"""Number of nodes that a run has at most, of which all are known."""


class Segment(NamedTuple):
    """Consecutive steps, at most a block, with a batch axis.

    Attributes
    ----------
    number : int
        Number of the first step.
    nodes : array, shape=[members, n_steps + 1, size]
        From the node before the first step on.
    entering : array, shape=[members, n_steps + 1, size]
        Cotangents that enter at the nodes.
    warm_start : callable
        Returns the warm-start vectors of the run before the first step, which are rarely needed.
    """

    number: int
    nodes: np.ndarray
    entering: np.ndarray
    warm_start: Callable[[], np.ndarray]

    @property
    def n_steps(self) -> int:
        return self.nodes.shape[1] - 1


class Stretch(NamedTuple):
    """Steps between two saved nodes, which are recomputed, with a batch axis.

    Attributes
    ----------
    number, n_steps : int
        Number of the first step, and of steps.
    before, after : array, shape=[members, size]
        The nodes before the first step and after the last.
    entering : array, shape=[members, size]
        Cotangents that enter after the last step.
    warm_start : callable
        As for ``Segment``.
    """

    number: int
    n_steps: int
    before: np.ndarray
    after: np.ndarray
    entering: np.ndarray
    warm_start: Callable[[], np.ndarray]


class BackwardRun(Run):
    """Native code of the cotangents of the arrays and of x, from those of the nodes."""

    def __init__(self, plan: Plan, part: Transformed, operands: list[Any], batched: tuple[bool, ...]) -> None:
        super().__init__(plan, part, operands, batched)
        self.block = OF_MANY if self.many else BLOCK
        active = active_values(self.given.arrays, part.active)
        self.node_rows = [numbers(2, *x.shape[1:]) for x in active[-1:]] if plan.driven and part.active[-1] else []
        self.summed = active[: len(active) - len(self.node_rows)]
        node, warm, number = self.state
        path, known = numbers(self.block + 1, plan.size), numbers(self.block, plan.warm)
        given = Backwards(self.given.arrays, Block(path, path, known, number))
        varies = [*self.batched.arrays, *Block(nodes=True, entering=True, known=True, begin=False)]
        state = Cotangents(number, node, self.summed, warm, self.node_rows)
        self.pulled = BatchLoop(BackwardStep(plan.one_step, part.active), driven_row, given, varies, state, self.many)

    @property
    def is_native(self) -> bool:
        return super().is_native and self.pulled.is_native

    def results(self, given: Operands) -> list[np.ndarray]:
        arrays, n = given.arrays, len(given.x)
        zeros = partial(jax.tree.map, lambda a: np.zeros((n, *a.shape)))
        cotangents = Cotangents(
            np.zeros(n, np.int64), *zeros((self.state.node, self.summed, self.state.warm, self.node_rows))
        )
        driven = [np.zeros((n, self._length(arrays), *a.shape[1:])) for a in self.node_rows]
        for segment in self._backwards(arrays, given.y, given.y_bar):
            good = np.count_nonzero(segment.nodes[:, 1:, -1] == 0, axis=1)  # after a failure there are none
            for i in np.flatnonzero(good < segment.n_steps):
                cotangents.node[i] += segment.entering[i, good[i] + 1 :, :-1].sum(axis=0)
            if good.max() > 0:
                rows, cotangents = self._pulled(arrays, segment, cotangents, good)
                for total in driven:
                    self._add_rows(total, rows, segment.number, good)
        first = given.y_bar[:, 0] + np.append(cotangents.node, np.zeros((n, 1)), axis=1)
        *more, x_bar = self.at_node_0(given._replace(y=given.y[:, 0], y_bar=first))
        for total, extra in zip([*cotangents.arrays, *(rows[:, :2] for rows in driven)], more, strict=True):
            total += extra
        return [*cotangents.arrays, *driven, x_bar]

    def _pulled(
        self, arrays: list, segment: Segment, after: Cotangents, good: np.ndarray
    ) -> tuple[np.ndarray, Cotangents]:
        """Cotangents before a segment from those after it, through its first ``good`` steps, and the rows of these."""
        most, n = int(good.max()), len(good)
        known = np.zeros((n, self.block, self.plan.warm))
        stride, state = 1 if self.node_rows else most, after._replace(i=good - 1)
        block = Block(self._padded(segment.nodes), self._padded(segment.entering), known, segment.number)
        rows, reached = self.pulled.run(Backwards(arrays, block), state, most // stride, stride)
        if np.isnan(reached.state.node).any():  # some step converged to another solution than in the run
            start, steps = segment.nodes[:, 0], segment.n_steps
            known[:, :steps] = self.warm_starts(arrays, start, segment.number, steps, 1, segment.warm_start())[
                :, :steps
            ]
            rows, reached = self.pulled.run(Backwards(arrays, block), state, most // stride, stride)
        return rows, reached.state

    def _add_rows(self, total: np.ndarray, rows: np.ndarray, number: int, good: np.ndarray) -> None:
        """Add the cotangents of the two rows of nodes that each step from ``number`` on was given, the last first."""
        for i, count in enumerate(good):
            pairs = rows[i, :count].reshape(count, *self.node_rows[0].shape)[::-1]
            for side in (0, 1):
                total[i, number + side : number + side + count] += pairs[:, side]

    def _length(self, arrays: list) -> int:
        """Number of rows of the last array."""
        return arrays[-1].shape[self.has_batch(arrays[-1])]

    def _backwards(self, arrays: list, y: np.ndarray, y_bar: np.ndarray) -> Iterator[Segment]:
        """Segments of the run, from the last backwards."""
        n_nodes, stride = self.plan.n_nodes, self.plan.stride
        every = stride if stride > 1 else self.block
        known = cache(lambda: self.warm_starts(arrays, y[:, 0], 0, n_nodes * stride // every, every))
        for begin in reversed(range(0, n_nodes, self.block)) if stride == 1 else ():
            here = slice(begin, min(begin + self.block, n_nodes) + 1)
            yield Segment(begin, y[:, here], y_bar[:, here], partial(_warm_start, known, begin // every))
        for i in reversed(range(n_nodes)) if stride > 1 else ():
            warm_start = partial(_warm_start, known, i)
            between = Stretch(i * stride, stride, y[:, i], y[:, i + 1], y_bar[:, i + 1], warm_start)
            yield from self._recomputed(arrays, between)

    def _recomputed(self, arrays: list, stretch: Stretch) -> Iterator[Segment]:
        """Segments of a stretch, from the last backwards."""
        number, n_steps, before, after, last, warm_start = stretch
        if n_steps <= self.block:
            y = self.nodes(arrays, before, number, n_steps, 1)
            if not self._same(y[:, -1], after):
                y = self.nodes(arrays, before, number, n_steps, 1, warm_start())
            y_bar = np.zeros_like(y)
            y_bar[:, -1] = last
            yield Segment(number, y, y_bar, warm_start)
            return
        stride = self.block * -(-n_steps // self.block**2)
        n_nodes = (n_steps - 1) // stride
        path = self.nodes(arrays, before, number, n_nodes, stride, warm_start())
        known = cache(lambda: self.warm_starts(arrays, before, number, n_nodes, stride, warm_start()))
        none = np.zeros_like(last)
        for i in reversed(range(n_nodes + 1)):
            start, is_last, warm = number + i * stride, i == n_nodes, partial(_warm_start, known, i)
            part = (
                Stretch(start, n_steps - n_nodes * stride, path[:, i], after, last, warm)
                if is_last
                else Stretch(start, stride, path[:, i], path[:, i + 1], none, warm)
            )
            yield from self._recomputed(arrays, part)

    @staticmethod
    def _same(node: np.ndarray, other: np.ndarray) -> bool:
        """True if all members are at the same nodes with the same status; after a failure, at the last good one."""
        node_rows = SAME * (1 + np.abs(other[:, :-1]).max(axis=1, initial=0.0, keepdims=True))
        alike = np.abs(node[:, :-1] - other[:, :-1]) <= node_rows
        return bool(np.all(alike) and np.array_equal(node[:, -1], other[:, -1]))

    def _padded(self, values: np.ndarray) -> np.ndarray:
        """Pad to as many rows as a block has nodes."""
        if values.shape[1] == self.block + 1:
            return values
        padded = np.zeros((len(values), self.block + 1, values.shape[2]))
        padded[:, : values.shape[1]] = values
        return padded


class ForeignPull:
    """Cotangents of short runs of which every node is known, as a foreign function of XLA.

    They are nan where a step converges to another solution than in the run, and then to be computed by ``BackwardRun``.

    Parameters
    ----------
    plan : Plan
        Its number of nodes is not used.
    active : tuple of bool
        Arrays that are differentiated.
    operands : Types
        Of the arrays, x, y and the cotangent of y.
    """

    def __init__(self, plan: Plan, active: tuple[bool, ...], operands: Types) -> None:
        *arrays, x, _, _ = example(operands)
        path, number = numbers(MOST_NODES, plan.size), jax.ShapeDtypeStruct((), np.int64)
        params = Arguments(Backwards(arrays, Block(path, path, numbers(1, plan.warm), number)))
        summed = active_values(arrays, active)
        state = Arguments(Cotangents(number, numbers(plan.size - 1), summed, numbers(plan.warm), []))
        self._arrays, self._first = arrays, Transformed(COTANGENT, plan.first_node, active)
        self._node_0 = [*arrays, x, numbers(plan.size), numbers(plan.size)]
        self._traced = traced_steps(BackwardStep(plan.one_step, active), driven_row, params, state)

    def is_short(self, n_steps: int) -> bool:
        """True if these cotangents of a run of so many steps take a short time."""
        return is_short(self._traced.step, n_steps)

    @cached_property
    def target(self) -> str | None:
        """Name of the target of XLA, if there is native code."""
        first, _ = trace(self._first, *map(Arguments, self._node_0))
        step, row = self._traced
        return target_of(lambda: handled_pull(first, step, row, len(self._arrays), fma=machine.fma()))


@lru_cache(maxsize=PROGRAMS)
def foreign_pull(plan: Plan, active: tuple[bool, ...], operands: Types) -> ForeignPull:
    """The foreign function of a plan, traced once."""
    return ForeignPull(plan, active, operands)


def _warm_start(known: Callable[[], np.ndarray], i: int) -> np.ndarray:
    """Warm-start vector of a run at the i-th of some nodes."""
    return known()[:, i]
