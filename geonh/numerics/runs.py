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
from geonh.numerics.compiled import Crowd, Reached, example, is_array, lanes_of, loop_of, map_of, types
from geonh.numerics.operations import COTANGENT, TANGENT, VALUE, Operation, Part, chosen, joined, members
from geonh.numerics.tracing import differentiated

BLOCK = 512
"""Steps whose cotangents are computed in one call."""


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
        (tree, state) to (state, status) of vectors, shape=[n], and an integer; hashable, and named by its program.
    parts : Parts
        Of the tree.
    """

    step: Callable[[Any, Array], tuple[Array, Array]]
    parts: Parts
    n_nodes: int
    stride: int

    def shape(self, x: Any) -> tuple[int, ...]:
        return self.n_nodes, *x.shape

    def plain(self, arrays: list[Any], x: Array) -> Array:
        tree = self.parts.tree(arrays)

        def stepped(node: Array) -> Array:
            state, status = self.step(tree, node[:-1])
            return jnp.concatenate([state, status[None].astype(node.dtype)])

        attempt = attempted(stepped, x, lambda node: node[-1] == 0)

        def once(node: Array, _: None) -> tuple[Array, None]:
            new, going = attempt(node), node[-1] == 0
            state = jnp.where(going & (new[-1] == 0), new[:-1], node[:-1])
            return jnp.append(state, jnp.where(going, new[-1], node[-1])), None

        def several(node: Array, _: None) -> tuple[Array, Array]:
            node = lax.scan(once, node, None, length=self.stride)[0]
            return node, node

        return lax.scan(several, x, None, length=self.n_nodes)[1]

    def native(self, part: Part, operands: list[Any], batched: tuple[bool, ...]) -> Callable | None:
        run = _Run(self, part, operands, batched)
        return run if run.is_native else None


@dataclass(frozen=True)
class _Advance:
    """A step for the engine; its parameters are (arrays, [])."""

    step: Callable
    parts: Parts

    def __call__(self, given: tuple, state: Array) -> tuple[Array, Array]:
        new, status = self.step(self.parts.tree(given[0]), state)
        return new, status.astype(np.int32)


@dataclass(frozen=True)
class _AdvanceTangent:
    """A step with its tangent; the parameters are (arrays, tangents of the active ones)."""

    advance: _Advance
    active: tuple[bool, ...]

    def __call__(self, given: tuple, state: tuple) -> tuple[tuple, Array]:
        arrays, tangents = given
        with differentiated():
            x, x_dot, status = jax.jvp(
                lambda moving, x: self.advance((joined(arrays, moving, self.active), []), x),
                (chosen(arrays, self.active), state[0]),
                (tangents, state[1]),
                has_aux=True,
            )
        return (x, x_dot), status


@dataclass(frozen=True)
class _Retreat:
    """A step backwards with cotangents, in a block of steps.

    The parameters are arrays and, of each step of the block, the node before it, the cotangent that enters at the node
    after it, and whether it happened (1 or 0); the state is the index of the step, the cotangent of the node, and the
    cotangents of the active arrays so far.
    """

    advance: _Advance
    active: tuple[bool, ...]

    def __call__(self, given: tuple, state: tuple) -> tuple[tuple, Array]:
        (arrays, (nodes, entering, happened)), (i, x_bar, sums) = given, state
        x_bar = x_bar + entering[i]
        with differentiated():
            pull = jax.vjp(
                lambda moving, x: self.advance((joined(arrays, moving, self.active), []), x),
                chosen(arrays, self.active),
                nodes[i],
                has_aux=True,
            )[1]
            moved, before = pull(x_bar)
        well = happened[i] > 0
        sums = [jnp.where(well, a + b, a) for a, b in zip(sums, moved, strict=True)]
        return (i - 1, jnp.where(well, before, x_bar), sums), jnp.zeros((), np.int32)


def _whole(_: Any, state: Array) -> Array:
    return state


def _tangent(_: Any, state: tuple) -> Array:
    return state[1]


def _cotangents(_: Any, state: tuple) -> Array:
    return jnp.concatenate([state[1], *(x.reshape(-1) for x in state[2])])


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
        self.of, self.part, self.n = of, part, len(of.parts.types[1])
        self.flags, self.many = batched or (False,) * len(operands), any(batched)
        arrays, varies, node = operands[: self.n], list(self.flags[: self.n]), _numbers(operands[self.n].shape[0] - 1)
        advance = _Advance(of.step, of.parts)
        self.steps = _Program(advance, _whole, (arrays, []), varies, node, self.many)
        self.derived = self.steps
        if part.kind == TANGENT:
            varies += self.flags[self.n + 2 : -1]
            given = arrays, operands[self.n + 2 : -1]
            self.derived = _Program(
                _AdvanceTangent(advance, part.active), _tangent, given, varies, (node, node), self.many
            )
        elif part.kind == COTANGENT:
            block = _numbers(BLOCK, *node.shape), _numbers(BLOCK, *node.shape), _numbers(BLOCK)
            state = jax.ShapeDtypeStruct((), np.int64), node, chosen(arrays, part.active)
            varies += [True] * 3
            self.derived = _Program(
                _Retreat(advance, part.active), _cotangents, (arrays, block), varies, state, self.many
            )

    @property
    def is_native(self) -> bool:
        return self.steps.is_native and self.derived.is_native

    def __call__(self, *values: np.ndarray) -> list[np.ndarray]:
        n = members(values, self.flags) or 1
        arrays, tangents = list(values[: self.n]), list(values[self.n + 2 : -1])
        others = zip(values[self.n :], self.flags[self.n :], strict=True)
        x, *rest = [value if many else np.repeat(value[None], n, axis=0) for value, many in others]
        if self.part.kind == VALUE:
            found = [self._nodes(arrays, x, self.of.n_nodes, self.of.stride)]
        elif self.part.kind == TANGENT:
            found = [self._tangents(arrays, x, tangents, rest[-1])]
        else:
            found = self._cotangents(arrays, x, *rest)
        return found if self.many else [value[0] for value in found]

    def _nodes(self, arrays: list, x: np.ndarray, n_nodes: int, stride: int) -> np.ndarray:
        """shape=[members, n_nodes, n + 1] from x, shape=[members, n + 1]."""
        rows, reached = self.steps.run((arrays, []), x[:, :-1], n_nodes, stride)
        nodes = np.concatenate([rows, np.zeros((*rows.shape[:2], 1))], axis=-1)
        for i in np.flatnonzero(reached.status):
            nodes[i, reached.n_rows[i] :] = np.append(reached.state[i], reached.status[i])
        return np.where(x[:, None, -1:] == 0, nodes, x[:, None])

    def _tangents(self, arrays: list, x: np.ndarray, tangents: list, x_dot: np.ndarray) -> np.ndarray:
        states = x[:, :-1], x_dot[:, :-1]
        rows, reached = self.derived.run((arrays, tangents), states, self.of.n_nodes, self.of.stride)
        for i in np.flatnonzero(reached.status):
            rows[i, reached.n_rows[i] :] = reached.state[1][i]
        rows = np.where(x[:, None, -1:] == 0, rows, x_dot[:, None, :-1])
        return np.concatenate([rows, np.zeros((*rows.shape[:2], 1))], axis=-1)

    def _cotangents(self, arrays: list, x: np.ndarray, y: np.ndarray, y_bar: np.ndarray) -> list[np.ndarray]:
        known = jax.tree.leaves(example(self.of.parts.types))
        n, size, shapes = len(x), x.shape[1] - 1, [t.shape for t in chosen(known, self.part.active)]
        x_bar, sums = np.zeros((n, size)), [np.zeros((n, *shape)) for shape in shapes]
        cuts = np.cumsum([size, *(int(np.prod(shape)) for shape in shapes)])[:-1]
        for block in self._backwards(arrays, x, y, y_bar):
            steps, last = block[0].shape[1], np.full(n, block[0].shape[1] - 1)
            padded = [np.concatenate([v, np.zeros((n, BLOCK - steps, *v.shape[2:]))], axis=1) for v in block]
            rows = self.derived.run((arrays, tuple(padded)), (last, x_bar, sums), 1, steps)[0][:, 0]
            x_bar, *flat = np.split(rows, cuts, axis=1)
            sums = [value.reshape(n, *shape) for value, shape in zip(flat, shapes, strict=True)]
        return [*sums, np.append(x_bar, np.zeros((n, 1)), axis=1)]

    def _backwards(self, arrays: list, x: np.ndarray, y: np.ndarray, y_bar: np.ndarray) -> Iterator[tuple]:
        """Blocks of at most ``BLOCK`` steps, from the last on, with the members along the first axis.

        Of each step the node before it, the cotangent that enters at the node after it, and whether it happened.
        """
        path = np.concatenate([x[:, None], y], axis=1)
        for end in range(self.of.n_nodes, 0, -BLOCK) if self.of.stride == 1 else ():
            own = slice(max(end - BLOCK, 0), end)
            yield path[:, own, :-1], y_bar[:, own, :-1], 1.0 * (y[:, own, -1] == 0)
        for i in reversed(range(self.of.n_nodes)) if self.of.stride > 1 else ():
            yield from self._within(arrays, path[:, i], self.of.stride, y_bar[:, i, :-1])

    def _within(self, arrays: list, x: np.ndarray, n_steps: int, last: np.ndarray) -> Iterator[tuple]:
        """The same of steps from x on that are done again, a cotangent entering after the last."""
        if n_steps <= BLOCK:
            y = self._nodes(arrays, x, n_steps, 1)
            y_bar = np.zeros_like(y[..., :-1])
            y_bar[:, -1] = last
            yield np.concatenate([x[:, None], y[:, :-1]], axis=1)[..., :-1], y_bar, 1.0 * (y[..., -1] == 0)
            return
        stride = BLOCK * -(-n_steps // BLOCK**2)
        n_nodes = (n_steps - 1) // stride
        path = np.concatenate([x[:, None], self._nodes(arrays, x, n_nodes, stride)], axis=1)
        yield from self._within(arrays, path[:, -1], n_steps - n_nodes * stride, last)
        for i in reversed(range(n_nodes)):
            yield from self._within(arrays, path[:, i], stride, np.zeros_like(last))


def _numbers(*shape: int) -> Any:
    return jax.ShapeDtypeStruct(shape, np.float64)
