"""Runs of many steps as JAX operations.

A run is differentiated step by step: in forward mode along with the steps, or in reverse mode from stored nodes, with
the steps between two of them recomputed (checkpointing). Solutions of equations are differentiated by the implicit
function theorem, never through iterations. No derivative flows through a failed step.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.engine import native
from geonh.engine.attempt import attempted
from geonh.engine.compiled import Crowd, Reached, lanes_of, loop_of, types
from geonh.engine.evaluation import Parts, mapped_part
from geonh.engine.operations import COTANGENT, TANGENT, VALUE, Operation, Part, chosen, members
from geonh.engine.steps import (
    SAME,
    Advance,
    AdvanceTangent,
    Begun,
    Retreat,
    Step,
    near_row,
    node_row,
    quick_row,
    tangent_row,
)

BLOCK, OF_MANY = 1024, 512
"""Number of steps whose cotangents are computed in one call, for a single member and for each of a batch."""
CPUS = os.cpu_count() or 1


@dataclass(frozen=True)
class Steps(Operation):
    """Nodes of a run, shape=[n_nodes + 1, size], node 0 and one every ``stride`` steps, from x.

    The last entry of a node is its status. After a failure the last good node is repeated, with the status of the
    failed step; nothing is done from a start whose status is not 0.

    Parameters
    ----------
    first : callable
        (tree, x, near) to node 0.
    step : callable
        (tree, node, quick, near) to (node, quick, status), nodes without their status. Both are hashable, and part of
        the cache keys of their programs.
    parts : Parts
        Static part of the tree.
    quick : int
        Length of the warm-start vector that is passed from step to step and only saves iterations: zeros for a cold
        start. It is not part of the nodes.
    driven : bool
        True if the last array has a row for each node, of which a step is given its own and the next: ``near``.
    """

    first: Callable[..., Array]
    step: Callable[..., tuple[Array, Array, Array]]
    parts: Parts
    n_nodes: int
    stride: int
    size: int
    quick: int
    driven: bool

    def shape(self, x: Any) -> tuple[int, ...]:
        return self.n_nodes + 1, self.size

    @property
    def once(self) -> Step:
        """Operation of one step."""
        return Step(self.step, self.parts, self.driven)

    @property
    def begun(self) -> Begun:
        """Operation that gives node 0."""
        return Begun(self.first, self.once, self.size)

    def plain(self, arrays: list[Any], x: Array) -> Array:
        x = self.begun.plain(arrays, x)

        def stepped(carry: tuple) -> tuple:
            node, *rest = carry
            (node, *rest), status = self.once(arrays, (node[:-1], *rest))
            return jnp.append(node, status.astype(node.dtype)), *rest

        begin = x, jnp.zeros(self.quick), jnp.asarray(0)
        attempt = attempted(stepped, begin, lambda carry: carry[0][-1] == 0)

        def once(carry: tuple, _: None) -> tuple[tuple, None]:
            (new, quick, i), node = attempt(carry), carry[0]
            going = node[-1] == 0
            state = jnp.where(going & (new[-1] == 0), new[:-1], node[:-1])
            return (jnp.append(state, jnp.where(going, new[-1], node[-1])), quick, i), None

        def several(carry: tuple, _: None) -> tuple[tuple, Array]:
            carry = lax.scan(once, carry, None, length=self.stride)[0]
            return carry, carry[0]

        return jnp.concatenate([x[None], lax.scan(several, begin, None, length=self.n_nodes)[1]])

    def native(self, part: Part, operands: list[Any], batched: tuple[bool, ...]) -> Callable | None:
        run = _Run(self, part, operands, batched)
        return run if run.is_native else None


class _Program:
    """Native loop for a batch, which is the first axis of states and of the arrays that vary."""

    def __init__(self, step: Callable, row: Callable, given: Any, varies: list[bool], state: Any, many: bool) -> None:
        kinds, self.varies = (types(given), types(state)), tuple(varies)
        self.loop: Any = (lanes_of(step, row, *kinds, self.varies) if many else None) or loop_of(step, row, *kinds)
        self.is_native = isinstance(self.loop, native.Loop | native.Lanes)

    def run(self, given: Any, states: Any, n_nodes: int, stride: int) -> tuple[np.ndarray, Reached]:
        every = np.arange(len(jax.tree.leaves(states)[0]))
        return Crowd(given, self.varies, self.loop).run(every, states, n_nodes, stride, CPUS)


class _Run:
    """Native code of a part of a run; internally a single member has a batch axis too."""

    def __init__(self, of: Steps, part: Part, operands: list[Any], batched: tuple[bool, ...]) -> None:
        self.of, self.part, self.n = of, part, len(of.parts.types[1]) + of.driven
        self.flags, self.many = batched or (False,) * len(operands), any(batched)
        self.block, self.axes = OF_MANY if self.many else BLOCK, operands[self.n - 1].ndim
        arrays, varies, node = operands[: self.n], list(self.flags[: self.n]), _numbers(of.size - 1)
        tangents, moved = operands[self.n + 2 : -1], list(self.flags[self.n + 2 : -1])
        rest = _numbers(of.quick), jax.ShapeDtypeStruct((), np.int64)
        forwards: Any = (arrays, []), list(varies), (node, *rest), self.many
        self.steps = _Program(Advance(of.once), node_row, *forwards)
        self.recall = cache(lambda: _Program(Advance(of.once), quick_row, *forwards))
        self.derived = self.steps
        if part.kind == TANGENT:
            advance, given = AdvanceTangent(of.once, part.active), (arrays, tangents)
            self.derived = _Program(advance, tangent_row, given, varies + moved, ((node, node), *rest), self.many)
        elif part.kind == COTANGENT:
            path, moving = _numbers(self.block + 1, of.size), chosen(arrays, part.active)
            self.seen = [_numbers(2, *x.shape[1:]) for x in moving[-1:]] if of.driven and part.active[-1] else []
            self.summed = moving[: len(moving) - len(self.seen)]
            state = rest[1], node, self.summed, rest[0], self.seen
            known = _numbers(self.block, of.quick)
            retreat, block = Retreat(of.once, part.active), (arrays, (path, path, known, rest[1]))
            varies += [True, True, True, False]
            self.derived = _Program(retreat, near_row, block, varies, state, self.many)
        y = [] if part.kind == VALUE else [_numbers(of.size)]
        last = [] if part.kind == VALUE else [_numbers(of.size)] if part.kind == COTANGENT else operands[-1:]
        shapes = [*self._at_first(arrays), operands[self.n], *y, *self._at_first(tangents), *last]
        flags = (*self.flags[: self.n], *(True for _ in (0, *y)), *moved, *(True for _ in last))
        self.first: Any = mapped_part(Part(part.kind, of.begun, part.active), shapes, flags)

    @property
    def is_native(self) -> bool:
        return self.first is not None and self.steps.is_native and self.derived.is_native

    def __call__(self, *values: np.ndarray) -> list[np.ndarray]:
        n = members(values, self.flags) or 1
        arrays, tangents = list(values[: self.n]), list(values[self.n + 2 : -1])
        others = zip(values[self.n :], self.flags[self.n :], strict=True)
        x, *rest = [value if many else np.broadcast_to(value, (n, *value.shape)) for value, many in others]
        if self.part.kind == VALUE:
            found = [self._nodes(arrays, self.first(*self._at_first(arrays), x)[0], 0, self.of.n_nodes, self.of.stride)]
        elif self.part.kind == TANGENT:
            found = [self._tangents(arrays, x, rest[0], tangents, rest[-1])]
        else:
            found = self._cotangents(arrays, x, *rest)
        return found if self.many else [value[0] for value in found]

    def _at_first(self, arrays: list) -> list:
        """Rows of the controls, or of their tangents, for the first node and the next one."""
        if not self.of.driven or not arrays or (len(arrays) < self.n and not self.part.active[-1]):
            return arrays
        *others, rows = arrays
        if isinstance(rows, np.ndarray):
            return [*others, rows[:, :2] if self._ahead(rows) else rows[:2]]
        return [*others, _numbers(2, *rows.shape[1:])]

    def _begin(self, n: int, number: int, quick: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Warm-start vectors, zero for a cold start, and step numbers that accompany the nodes before a step."""
        return np.zeros((n, self.of.quick)) if quick is None else quick, np.full(n, number)

    def _nodes(
        self, arrays: list, x: np.ndarray, number: int, n_nodes: int, stride: int, quick: np.ndarray | None = None
    ) -> np.ndarray:
        """Nodes, shape=[members, n_nodes + 1, size], from x, shape=[members, size], the node before step ``number``;
        with a warm start from ``quick``, or a cold start."""
        begin = x[:, :-1], *self._begin(len(x), number, quick)
        rows, reached = self.steps.run((arrays, []), begin, n_nodes, stride)
        nodes = np.concatenate([x[:, None], rows], axis=1)
        for i in np.flatnonzero(reached.status):
            nodes[i, 1 + reached.n_rows[i] :] = np.append(reached.state[0][i], reached.status[i])
        for i in np.flatnonzero(x[:, -1]):
            nodes[i] = x[i]
        return nodes

    def _recalled(
        self, arrays: list, x: np.ndarray, number: int, n: int, stride: int, quick: np.ndarray | None = None
    ) -> np.ndarray:
        """Warm-start vectors of the run at x, and after every ``stride`` steps, shape=[members, n + 1, quick]."""
        quick, numbers = self._begin(len(x), number, quick)
        if not n:
            return quick[:, None]
        rows, _ = self.recall().run((arrays, []), (x[:, :-1], quick, numbers), n, stride)
        return np.concatenate([quick[:, None], rows], axis=1)

    def _tangents(self, arrays: list, x: np.ndarray, y: np.ndarray, tangents: list, x_dot: np.ndarray) -> np.ndarray:
        (first,) = self.first(*self._at_first(arrays), x, y[:, 0], *self._at_first(tangents), x_dot)
        states = (y[:, 0, :-1], first[:, :-1]), *self._begin(len(x), 0)
        rows, reached = self.derived.run((arrays, tangents), states, self.of.n_nodes, self.of.stride)
        for i in np.flatnonzero(reached.status):
            rows[i, reached.n_rows[i] :, :-1] = reached.state[0][1][i]
        for i in np.flatnonzero(y[:, 0, -1]):
            rows[i, :, :-1] = first[i, :-1]
        return np.concatenate([first[:, None], rows], axis=1)

    def _cotangents(self, arrays: list, x: np.ndarray, y: np.ndarray, y_bar: np.ndarray) -> list[np.ndarray]:
        n = len(x)
        x_bar, sums = np.zeros((n, self.of.size - 1)), [np.zeros((n, *a.shape)) for a in self.summed]
        quick, seen = np.zeros((n, self.of.quick)), [np.zeros((n, *a.shape)) for a in self.seen]
        driven = [np.zeros((n, self._length(arrays), *a.shape[1:])) for a in self.seen]
        for number, nodes, steps, entering, before in self._backwards(arrays, y, y_bar):
            good = np.count_nonzero(nodes[:, 1 : steps + 1, -1] == 0, axis=1)  # after a failure there are none
            for i in np.flatnonzero(good < steps):
                x_bar[i] += entering[i, good[i] + 1 : steps + 1, :-1].sum(axis=0)
            most = int(good.max())
            if not most:
                continue
            known = np.zeros((n, self.block, self.of.quick))
            stride, state = 1 if seen else most, (good - 1, x_bar, sums, quick, seen)
            given = arrays, (self._padded(nodes), self._padded(entering), known, number)
            rows, reached = self.derived.run(given, state, most // stride, stride)
            if np.isnan(reached.state[1]).any():  # some step converged to another solution than in the run
                known[:, :steps] = self._recalled(arrays, nodes[:, 0], number, steps, 1, before())[:, :steps]
                rows, reached = self.derived.run(given, state, most // stride, stride)
            _, x_bar, sums, quick, _ = reached.state
            for total, (i, count) in ((total, pair) for total in driven for pair in enumerate(good)):
                pairs = rows[i, :count].reshape(count, *self.seen[0].shape)[::-1]
                for side in (0, 1):
                    total[i, number + side : number + side + count] += pairs[:, side]
        first = y_bar[:, 0] + np.append(x_bar, np.zeros((n, 1)), axis=1)
        *more, x_bar = self.first(*self._at_first(arrays), x, y[:, 0], first)
        for total, extra in zip([*sums, *(rows[:, :2] for rows in driven)], more, strict=True):
            total += extra
        return [*sums, *driven, x_bar]

    def _ahead(self, rows: np.ndarray) -> bool:
        """True if the rows of nodes have a batch axis."""
        return rows.ndim > self.axes

    def _length(self, arrays: list) -> int:
        """Number of rows of the last array."""
        return arrays[-1].shape[self._ahead(arrays[-1])]

    def _backwards(self, arrays: list, y: np.ndarray, y_bar: np.ndarray) -> Iterator[tuple]:
        """Iterate over blocks of at most ``self.block`` steps, from the last backwards, with a batch axis.

        Yields the number of the first step; nodes from the one before it on; the number of steps; the cotangents that
        enter at the nodes; and a function that returns the warm start of the run before the first step, which is rarely
        needed.
        """
        of, stride = self.of, self.of.stride
        every = stride if stride > 1 else self.block
        known = cache(lambda: self._recalled(arrays, y[:, 0], 0, of.n_nodes * stride // every, every))
        for begin in reversed(range(0, of.n_nodes, self.block)) if stride == 1 else ():
            end = min(begin + self.block, of.n_nodes)
            nodes, entering = y[:, begin : end + 1], y_bar[:, begin : end + 1]
            yield begin, nodes, end - begin, entering, partial(_at, known, begin // every)
        for i in reversed(range(of.n_nodes)) if stride > 1 else ():
            ends = y[:, i], y[:, i + 1]
            yield from self._within(arrays, *ends, i * stride, stride, y_bar[:, i + 1], partial(_at, known, i))

    def _within(
        self,
        arrays: list,
        x: np.ndarray,
        after: np.ndarray,
        number: int,
        n_steps: int,
        last: np.ndarray,
        before: Callable[[], np.ndarray],
    ) -> Iterator[tuple]:
        """Blocks of recomputed steps from x to a later node, with a cotangent entering after the last."""
        if n_steps <= self.block:
            y = self._nodes(arrays, x, number, n_steps, 1)
            if not self._same(y[:, -1], after):
                y = self._nodes(arrays, x, number, n_steps, 1, before())
            y_bar = np.zeros_like(y)
            y_bar[:, -1] = last
            yield number, y, n_steps, y_bar, before
            return
        stride = self.block * -(-n_steps // self.block**2)
        n_nodes = (n_steps - 1) // stride
        path = self._nodes(arrays, x, number, n_nodes, stride, before())
        known = cache(lambda: self._recalled(arrays, x, number, n_nodes, stride, before()))
        parts = [*((i, stride, path[:, i + 1]) for i in range(n_nodes)), (n_nodes, n_steps - n_nodes * stride, after)]
        for i, steps, end in reversed(parts):
            entering = last if i == n_nodes else np.zeros_like(last)
            here = partial(_at, known, i)
            yield from self._within(arrays, path[:, i], end, number + i * stride, steps, entering, here)

    @staticmethod
    def _same(node: np.ndarray, other: np.ndarray) -> bool:
        """True if all members are at the same nodes with the same status; after a failure, at the last good one."""
        near = SAME * (1 + np.abs(other[:, :-1]).max(axis=1, initial=0.0, keepdims=True))
        alike = np.abs(node[:, :-1] - other[:, :-1]) <= near
        return bool(np.all(alike) and np.array_equal(node[:, -1], other[:, -1]))

    def _padded(self, values: np.ndarray) -> np.ndarray:
        """Pad to as many rows as a block has nodes."""
        if values.shape[1] == self.block + 1:
            return values
        padded = np.zeros((len(values), self.block + 1, values.shape[2]))
        padded[:, : values.shape[1]] = values
        return padded


def _at(known: Callable[[], np.ndarray], i: int) -> np.ndarray:
    """Warm-start vector of a run at the i-th of some nodes."""
    return known()[:, i]


def _numbers(*shape: int) -> Any:
    return jax.ShapeDtypeStruct(shape, np.float64)
