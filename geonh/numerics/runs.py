"""Functions, and runs of many steps, as operations of JAX.

The derivative of a run is that of its steps one after another: forwards beside the steps, or backwards from nodes that
were kept, with the steps between two of them done again. Solutions of equations are differentiated by the implicit
function, never through iterations. Where a step fails no derivative flows through it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import equinox.internal as eqxi
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.numerics import native
from geonh.numerics.attempt import attempted
from geonh.numerics.compiled import Crowd, Reached, is_array, lanes_of, loop_of, map_of, types
from geonh.numerics.operations import COTANGENT, TANGENT, VALUE, Operation, Part, chosen, joined, members
from geonh.numerics.tracing import differentiated

BLOCK, OF_MANY = 4096, 512
"""Steps whose cotangents are computed in one call, of one member and of each of many."""


@dataclass(frozen=True)
class Layout:
    """How a pytree of arrays and numbers is laid out as a vector in double precision."""

    structure: Any
    types: tuple[tuple[tuple[int, ...], str], ...]

    @classmethod
    def of(cls, tree: Any) -> Layout:
        """That of an example, of arrays or of their shapes."""
        return cls(*types(tree))

    @property
    def size(self) -> int:
        """Length of the vector."""
        return sum(int(np.prod(shape)) for shape, _ in self.types)

    def flat(self, tree: Any) -> Array:
        """The vector, shape=[size]."""
        leaves = [jnp.asarray(x).reshape(-1).astype(jnp.float64) for x in jax.tree.leaves(tree)]
        return jnp.concatenate(leaves) if leaves else jnp.zeros(0)

    def tree(self, vectors: Array) -> Any:
        """The pytree of vectors, shape=[..., size], whose leading axes all its arrays have."""
        leaves, begin, lead = [], 0, vectors.shape[:-1]
        for shape, dtype in self.types:
            end = begin + int(np.prod(shape))
            leaves.append(vectors[..., begin:end].reshape(*lead, *shape).astype(dtype))
            begin = end
        return jax.tree.unflatten(self.structure, leaves)


@dataclass(frozen=True)
class Parts:
    """What is left of a pytree without its arrays: ``static``, and structure and types of the arrays; hashable."""

    static: Any
    types: Any

    @classmethod
    def of(cls, tree: Any) -> tuple[list[Any], Parts]:
        """Arrays and the rest."""
        arrays, static = eqxi.hashable_partition(tree, is_array)
        return jax.tree.leaves(arrays), cls(static, types(arrays))

    def tree(self, arrays: list[Any]) -> Any:
        return eqxi.hashable_combine(jax.tree.unflatten(self.types[0], arrays), self.static)


# --- one evaluation ----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Evaluation(Operation):
    """y = function(tree, x), shape=[size]; the function is hashable, and named by its program."""

    function: Callable[[Any, Array], Array]
    parts: Parts
    size: int

    def shape(self, x: Any) -> tuple[int, ...]:
        return (self.size,)

    def plain(self, arrays: list[Any], x: Array) -> Array:
        return self.function(self.parts.tree(arrays), x)

    def native(self, part: Part, operands: list[Any], batched: tuple[bool, ...]) -> Callable | None:
        program = map_of(_Mapped(part), types(()), types(operands))
        if not isinstance(program, native.Map):
            return None

        def call(*values: np.ndarray) -> list[np.ndarray]:
            n, flags = members(values, batched), batched or (False,) * len(values)
            many = [x if b else np.repeat(x[None], n or 1, axis=0) for x, b in zip(values, flags, strict=True)]
            found = program.run((), many)
            return found if n is not None else [x[0] for x in found]

        return call


@dataclass(frozen=True)
class _Mapped:
    part: Part

    def __call__(self, _: tuple, operands: list[Any]) -> list[Any]:
        return self.part(*operands)


# --- many steps --------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Steps(Operation):
    """Nodes of a run, shape=[n_nodes, n + 1], one every ``stride`` steps, from x, shape=[n + 1].

    The last entry of a node is its status. From a failure on the last good node is repeated, with the status of the
    step after it; a start whose status is not 0 goes nowhere.

    Parameters
    ----------
    step : callable
        (tree, node, quick, near) to (node, quick, status) of vectors and an integer; hashable, and named by its
        program.
    parts : Parts
        Of the tree.
    quick : int
        Length of the vector that goes from step to step and only saves iterations: zeros where nothing is known. It
        is not in the nodes.
    driven : bool
        Whether the last array has a row for each node, of which a step is given its own and the next: ``near``.
    """

    step: Callable[..., tuple[Array, Array, Array]]
    parts: Parts
    n_nodes: int
    stride: int
    quick: int
    driven: bool

    def shape(self, x: Any) -> tuple[int, ...]:
        return self.n_nodes, *x.shape

    @property
    def once(self) -> _Step:
        """A step."""
        return _Step(self.step, self.parts, self.driven)

    def plain(self, arrays: list[Any], x: Array) -> Array:
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

        return lax.scan(several, begin, None, length=self.n_nodes)[1]

    def native(self, part: Part, operands: list[Any], batched: tuple[bool, ...]) -> Callable | None:
        run = _Run(self, part, operands, batched)
        return run if run.is_native else None


@dataclass(frozen=True)
class _Step:
    """A step of (node, quick, its number)."""

    step: Callable
    parts: Parts
    driven: bool

    def __call__(self, arrays: list[Any], state: tuple) -> tuple[tuple, Array]:
        (arrays, near), (node, quick, i) = self.sees(arrays, state[2]), state
        node, quick, status = self.step(self.parts.tree(arrays), node, quick, near)
        return (node, quick, i + 1), status.astype(np.int32)

    def sees(self, arrays: list[Any], i: Any) -> tuple[list[Any], Any]:
        """What the i-th step is given: arrays for the tree, and the rows of its two nodes."""
        return (arrays[:-1], lax.dynamic_slice_in_dim(arrays[-1], i, 2)) if self.driven else (arrays, None)


@dataclass(frozen=True)
class _Advance:
    """A step for the engine; its parameters are (arrays, [])."""

    step: _Step

    def __call__(self, given: tuple, state: tuple) -> tuple[tuple, Array]:
        return self.step(given[0], state)


@dataclass(frozen=True)
class _AdvanceTangent:
    """A step with its tangent; the parameters are (arrays, tangents of the active ones)."""

    step: _Step
    active: tuple[bool, ...]

    def __call__(self, given: tuple, state: tuple) -> tuple[tuple, Array]:
        (arrays, tangents), ((x, x_dot), *rest) = given, state

        def function(moving: list, x: Array) -> tuple:
            (node, *rest), status = self.step(joined(arrays, moving, self.active), (x, *state[1:]))
            return node, (rest, status)

        with differentiated():
            x, x_dot, (rest, status) = jax.jvp(
                function, (chosen(arrays, self.active), x), (tangents, x_dot), has_aux=True
            )
        return ((x, x_dot), *rest), status


@dataclass(frozen=True)
class _Retreat:
    """A step backwards with cotangents, in a block of steps.

    The parameters are arrays, the nodes before each step of the block, the cotangents that enter at the nodes after
    each, and the number of its first step. The state is the index of the step, the cotangents of the node and, so far,
    of the active arrays, what saves iterations, and the cotangent of the rows that the step saw.
    """

    step: _Step
    active: tuple[bool, ...]

    def __call__(self, given: tuple, state: tuple) -> tuple[tuple, Array]:
        (arrays, (nodes, entering, begin)), (i, x_bar, sums, quick, _) = given, state
        n = len(arrays) - self.step.driven
        active, driven = self.active[:n], any(self.active[n:])
        arrays, near = self.step.sees(arrays, begin + i)

        def function(moving: list, x: Array, near: Any) -> tuple:
            node, new, _ = self.step.step(self.step.parts.tree(joined(arrays, moving, active)), x, quick, near)
            return node, new

        at = chosen(arrays, active), nodes[i, :-1]
        with differentiated():
            if driven:
                _, pull, quick = jax.vjp(function, *at, near, has_aux=True)
            else:
                _, pull, quick = jax.vjp(lambda *at: function(*at, near), *at, has_aux=True)
            moved, x_bar, *rows = pull(x_bar + entering[i, :-1])
        sums = [a + b for a, b in zip(sums, moved, strict=True)]
        return (i - 1, x_bar, sums, quick, rows), (i < 0).astype(np.int32)


def _node(_: Any, state: tuple) -> Array:
    return jnp.append(state[0], 0.0)


def _tangent(_: Any, state: tuple) -> Array:
    return jnp.append(state[0][1], 0.0)


def _rows(_: Any, state: tuple) -> Array:
    return jnp.concatenate([jnp.zeros(0), *(x.reshape(-1) for x in state[4])])


class _Program:
    """A loop in machine code for members, which stand along the first axis of states and of what varies."""

    def __init__(self, step: Callable, row: Callable, given: Any, varies: list[bool], state: Any, many: bool) -> None:
        kinds, self.varies = (types(given), types(state)), tuple(varies)
        self.loop: Any = (lanes_of(step, row, *kinds, self.varies) if many else None) or loop_of(step, row, *kinds)
        self.is_native = isinstance(self.loop, native.Loop | native.Lanes)

    def run(self, given: Any, states: Any, n_nodes: int, stride: int) -> tuple[np.ndarray, Reached]:
        every = np.arange(len(jax.tree.leaves(states)[0]))
        return Crowd(given, self.varies, self.loop).run(every, states, n_nodes, stride, os.cpu_count() or 1)


class _Run:
    """A part of a run in machine code; within, one member too stands along a first axis."""

    def __init__(self, of: Steps, part: Part, operands: list[Any], batched: tuple[bool, ...]) -> None:
        self.of, self.part, self.n = of, part, len(of.parts.types[1]) + of.driven
        self.flags, self.many = batched or (False,) * len(operands), any(batched)
        self.block = OF_MANY if self.many else BLOCK
        arrays, varies, node = operands[: self.n], list(self.flags[: self.n]), _numbers(operands[self.n].shape[0] - 1)
        rest = _numbers(of.quick), jax.ShapeDtypeStruct((), np.int64)
        self.steps = _Program(_Advance(of.once), _node, (arrays, []), varies, (node, *rest), self.many)
        self.derived = self.steps
        if part.kind == TANGENT:
            varies += self.flags[self.n + 2 : -1]
            given = arrays, operands[self.n + 2 : -1]
            advance = _AdvanceTangent(of.once, part.active)
            self.derived = _Program(advance, _tangent, given, varies, ((node, node), *rest), self.many)
        elif part.kind == COTANGENT:
            path = _numbers(self.block, node.shape[0] + 1)
            moving = chosen(arrays, part.active)
            self.seen = [_numbers(2, *x.shape[1:]) for x in moving[-1:]] if of.driven and part.active[-1] else []
            self.summed = moving[: len(moving) - len(self.seen)]
            given = arrays, (path, path, rest[1])
            varies += [True, True, False]
            state = rest[1], node, self.summed, rest[0], self.seen
            self.derived = _Program(_Retreat(of.once, part.active), _rows, given, varies, state, self.many)

    @property
    def is_native(self) -> bool:
        return self.steps.is_native and self.derived.is_native

    def __call__(self, *values: np.ndarray) -> list[np.ndarray]:
        n = members(values, self.flags) or 1
        arrays, tangents = list(values[: self.n]), list(values[self.n + 2 : -1])
        others = zip(values[self.n :], self.flags[self.n :], strict=True)
        x, *rest = [value if many else np.broadcast_to(value, (n, *value.shape)) for value, many in others]
        if self.part.kind == VALUE:
            found = [self._nodes(arrays, x, 0, self.of.n_nodes, self.of.stride)]
        elif self.part.kind == TANGENT:
            found = [self._tangents(arrays, x, tangents, rest[-1])]
        else:
            found = self._cotangents(arrays, x, *rest)
        return found if self.many else [value[0] for value in found]

    def _begin(self, n: int, number: int) -> tuple[np.ndarray, np.ndarray]:
        """What goes with the nodes before the step of a number."""
        return np.zeros((n, self.of.quick)), np.full(n, number)

    def _nodes(self, arrays: list, x: np.ndarray, number: int, n_nodes: int, stride: int) -> np.ndarray:
        """shape=[members, n_nodes, n + 1] from x, shape=[members, n + 1], the node before the step of a number."""
        nodes, reached = self.steps.run((arrays, []), (x[:, :-1], *self._begin(len(x), number)), n_nodes, stride)
        for i in np.flatnonzero(reached.status):
            nodes[i, reached.n_rows[i] :] = np.append(reached.state[0][i], reached.status[i])
        for i in np.flatnonzero(x[:, -1]):
            nodes[i] = x[i]
        return nodes

    def _tangents(self, arrays: list, x: np.ndarray, tangents: list, x_dot: np.ndarray) -> np.ndarray:
        states = (x[:, :-1], x_dot[:, :-1]), *self._begin(len(x), 0)
        rows, reached = self.derived.run((arrays, tangents), states, self.of.n_nodes, self.of.stride)
        for i in np.flatnonzero(reached.status):
            rows[i, reached.n_rows[i] :, :-1] = reached.state[0][1][i]
        for i in np.flatnonzero(x[:, -1]):
            rows[i, :, :-1] = x_dot[i, :-1]
        rows[..., -1] = 0.0
        return rows

    def _cotangents(self, arrays: list, x: np.ndarray, y: np.ndarray, y_bar: np.ndarray) -> list[np.ndarray]:
        n = len(x)
        x_bar, sums = np.zeros((n, x.shape[1] - 1)), [np.zeros((n, *a.shape)) for a in self.summed]
        quick, seen = np.zeros((n, self.of.quick)), [np.zeros((n, *a.shape)) for a in self.seen]
        driven = [np.zeros((n, self._length(arrays), *a.shape[1:])) for a in self.seen]
        for number, nodes, status, entering in self._backwards(arrays, x, y, y_bar):
            good, steps = np.count_nonzero(status == 0, axis=1), status.shape[1]  # after a failure there are none
            for i in np.flatnonzero(good < steps):
                x_bar[i] += entering[i, good[i] :, :-1].sum(axis=0)
            most = int(good.max())
            if not most:
                continue
            given = arrays, (self._padded(nodes), self._padded(entering), number)
            state = good - 1, x_bar, sums, quick, seen
            stride = 1 if seen else most
            rows, reached = self.derived.run(given, state, most // stride, stride)
            _, x_bar, sums, quick, _ = reached.state
            for total, (i, count) in ((total, pair) for total in driven for pair in enumerate(good)):
                pairs = rows[i, :count].reshape(count, *self.seen[0].shape)[::-1]
                for side in (0, 1):
                    total[i, number + side : number + side + count] += pairs[:, side]
        return [*sums, *driven, np.append(x_bar, np.zeros((n, 1)), axis=1)]

    def _length(self, arrays: list) -> int:
        """Rows of the last array."""
        return arrays[-1].shape[int(self.flags[self.n - 1])]

    def _backwards(self, arrays: list, x: np.ndarray, y: np.ndarray, y_bar: np.ndarray) -> Iterator[tuple]:
        """Blocks of at most ``self.block`` steps, from the last on, with the members along the first axis.

        The number of the first step; of each the node before it, the status of the node after it, and the cotangent
        that enters there.
        """
        of, stride = self.of, self.of.stride
        for end in range(of.n_nodes, 0, -self.block) if stride == 1 else ():
            begin = max(end - self.block, 0)
            nodes = y[:, begin - 1 : end - 1] if begin else np.concatenate([x[:, None], y[:, : end - 1]], axis=1)
            yield begin, nodes, y[:, begin:end, -1], y_bar[:, begin:end]
        for i in reversed(range(of.n_nodes)) if stride > 1 else ():
            yield from self._within(arrays, y[:, i - 1] if i else x, i * stride, stride, y_bar[:, i])

    def _within(self, arrays: list, x: np.ndarray, number: int, n_steps: int, last: np.ndarray) -> Iterator[tuple]:
        """The same of steps from x on that are done again, a cotangent entering after the last."""
        if n_steps <= self.block:
            y = self._nodes(arrays, x, number, n_steps, 1)
            y_bar = np.zeros_like(y)
            y_bar[:, -1] = last
            yield number, np.concatenate([x[:, None], y[:, :-1]], axis=1), y[..., -1], y_bar
            return
        stride = self.block * -(-n_steps // self.block**2)
        n_nodes = (n_steps - 1) // stride
        path = np.concatenate([x[:, None], self._nodes(arrays, x, number, n_nodes, stride)], axis=1)
        done = n_nodes * stride
        yield from self._within(arrays, path[:, -1], number + done, n_steps - done, last)
        for i in reversed(range(n_nodes)):
            yield from self._within(arrays, path[:, i], number + i * stride, stride, np.zeros_like(last))

    def _padded(self, values: np.ndarray) -> np.ndarray:
        """With as many rows as a block has."""
        missing = self.block - values.shape[1]
        return np.pad(values, ((0, 0), (0, missing), (0, 0))) if missing else values


def _numbers(*shape: int) -> Any:
    return jax.ShapeDtypeStruct(shape, np.float64)
