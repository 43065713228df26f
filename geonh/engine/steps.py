"""Steps of a run for the engine: forward, with tangents, and backward with cotangents; and node 0.

Each is a function of parameters and a state, both with names, and part of the cache key of its program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.engine.evaluation import Parts
from geonh.engine.operations import Operation, active_values, with_active

SAME = 1e-8
"""Tolerance, relative to 1 and their largest entry, below which two nodes are the same solution of a step."""


class Carry(NamedTuple):
    """State of a run between two steps.

    Attributes
    ----------
    node : array, shape=[size]
        Node without its status; with its tangent it is a ``Dual``.
    warm : array
        Warm-start vector.
    number : int
        Number of the next step.
    """

    node: Any
    warm: Any
    number: Any


class Dual(NamedTuple):
    """Value and its tangent."""

    value: Any
    tangent: Any


class Forwards(NamedTuple):
    """Parameters of a forward loop: arrays, and the tangents of the active ones where these are pushed along."""

    arrays: list[Any]
    tangents: list[Any]


class Block(NamedTuple):
    """Steps that are differentiated backwards in one call.

    Attributes
    ----------
    nodes, entering : array, shape=[steps + 1, size]
        Nodes with their status, from the one before the block on, and the cotangents that enter at them.
    known : array, shape=[steps, warm]
        Warm-start vectors of the run at each step, zeros if not available.
    begin : int
        Number of the first step.
    """

    nodes: Any
    entering: Any
    known: Any
    begin: Any


class Backwards(NamedTuple):
    """Parameters of a backward loop."""

    arrays: list[Any]
    block: Block


class Cotangents(NamedTuple):
    """State of a backward loop.

    Attributes
    ----------
    i : int
        Index of the step in its block.
    node : array
        Cotangent of the node after the step.
    arrays : list of arrays
        Cotangents of the active arrays, summed so far, without those with a row for each node.
    warm : array
        Warm-start vector.
    node_rows : list of arrays
        Cotangent of the rows of the step, in an array with a row for each node; else empty.
    """

    i: Any
    node: Any
    arrays: list[Any]
    warm: Any
    node_rows: list[Any]


@dataclass(frozen=True)
class Step:
    """Step of a ``Carry``."""

    step: Callable
    parts: Parts
    driven: bool

    def __call__(self, arrays: list[Any], state: Carry) -> tuple[Carry, Array]:
        arrays, node_rows = self.step_arguments(arrays, state.number)
        node, warm, status = self.step(self.parts.tree(arrays), state.node, state.warm, node_rows)
        return Carry(node, warm, state.number + 1), status.astype(np.int32)

    def step_arguments(self, arrays: list[Any], number: Any) -> tuple[list[Any], Any]:
        """Arguments of the i-th step: arrays for the tree, and the rows of its two nodes."""
        return (arrays[:-1], lax.dynamic_slice_in_dim(arrays[-1], number, 2)) if self.driven else (arrays, None)


@dataclass(frozen=True)
class FirstNode(Operation):
    """Operation that gives node 0 of a run, shape=[size], from x."""

    first: Callable
    step: Step
    size: int

    def shape(self, x: Any) -> tuple[int, ...]:
        return (self.size,)

    def plain(self, arrays: list[Any], x: Array) -> Array:
        arrays, node_rows = self.step.step_arguments(arrays, 0)
        return self.first(self.step.parts.tree(arrays), x, node_rows)


@dataclass(frozen=True)
class ForwardStep:
    """Forward step for the engine."""

    step: Step

    def __call__(self, given: Forwards, state: Carry) -> tuple[Carry, Array]:
        return self.step(given.arrays, state)


@dataclass(frozen=True)
class TangentStep:
    """Step with its tangent: the node of the state is a ``Dual``."""

    step: Step
    active: tuple[bool, ...]

    def __call__(self, given: Forwards, state: Carry) -> tuple[Carry, Array]:
        def function(moving: list, x: Array) -> tuple:
            new, status = self.step(with_active(given.arrays, moving, self.active), state._replace(node=x))
            return new.node, (new, status)

        at, directions = (
            (active_values(given.arrays, self.active), state.node.value),
            (given.tangents, state.node.tangent),
        )
        x, x_dot, (new, status) = jax.jvp(function, at, directions, has_aux=True)
        return new._replace(node=Dual(x, x_dot)), status


@dataclass(frozen=True)
class BackwardStep:
    """Backward step with cotangents, in a block of steps.

    A step that is long for its system may have several solutions. It starts warm from the later step, and may converge
    to another solution than in the run: then it is repeated with the warm start of the run, and if that fails too the
    cotangents are nan.
    """

    step: Step
    active: tuple[bool, ...]

    def __call__(self, given: Backwards, state: Cotangents) -> tuple[Cotangents, Array]:
        block, i = given.block, state.i
        n = len(given.arrays) - self.step.driven
        active, driven = self.active[:n], any(self.active[n:])
        arrays, node_rows = self.step.step_arguments(given.arrays, block.begin + i)

        def function(warm: Array, moving: list, x: Array, *rows: Array) -> tuple[Array, Array]:
            tree = self.step.parts.tree(with_active(arrays, moving, active))
            node, new, _ = self.step.step(tree, x, warm, *rows or (node_rows,))
            return node, new

        at = active_values(arrays, active), block.nodes[i, :-1], *([node_rows] if driven else [])
        reached, outgoing = block.nodes[i + 1, :-1], state.node + block.entering[i + 1, :-1]

        def pulled(warm: Array) -> tuple:
            node, pull, later = jax.vjp(lambda *at: function(warm, *at), *at, has_aux=True)
            same = jnp.max(jnp.abs(node - reached)) <= SAME * (1 + jnp.max(jnp.abs(reached)))
            return same, later, *pull(outgoing)

        def again(carry: tuple) -> tuple:
            tries, warm, *_ = carry
            return tries + 1, block.known[i], *pulled(warm)

        nothing = jax.tree.map(jnp.zeros_like, (jnp.asarray(False), state.warm, *at))
        _, _, same, later, moved, x_bar, *rows = lax.while_loop(
            lambda carry: (carry[0] < 2) & ~carry[2], again, (jnp.asarray(0), state.warm, *nothing)
        )
        sums = [a + b for a, b in zip(state.arrays, moved, strict=True)]
        return Cotangents(i - 1, jnp.where(same, x_bar, jnp.nan), sums, later, rows), (i < 0).astype(np.int32)


def node_row(_: Any, state: Carry) -> Array:
    return jnp.append(state.node, 0.0)


def warm_row(_: Any, state: Carry) -> Array:
    return state.warm


def tangent_row(_: Any, state: Carry) -> Array:
    return jnp.append(state.node.tangent, 0.0)


def driven_row(_: Any, state: Cotangents) -> Array:
    return jnp.concatenate([jnp.zeros(0), *(x.reshape(-1) for x in state.node_rows)])


@dataclass(frozen=True)
class Plan:
    """Static description of a run.

    Parameters
    ----------
    first : callable
        (tree, x, rows) to node 0.
    step : callable
        (tree, node, warm, rows) to (node, warm, status), nodes without their status. Both are hashable, and part of
        the cache keys of their programs.
    parts : Parts
        Static part of the tree.
    n_nodes, stride : int
        Number of nodes after node 0, and of steps between two of them.
    size : int
        Length of a node, with its status.
    warm : int
        Length of the warm-start vector that is passed from step to step and only saves iterations: zeros for a cold
        start. It is not part of the nodes.
    driven : bool
        True if the last array has a row for each node, of which a step is given its own and the next: ``node_rows``.
    """

    first: Callable[..., Array]
    step: Callable[..., tuple[Array, Array, Array]]
    parts: Parts
    n_nodes: int
    stride: int
    size: int
    warm: int
    driven: bool

    @property
    def one_step(self) -> Step:
        """Operation of one step."""
        return Step(self.step, self.parts, self.driven)

    @property
    def first_node(self) -> FirstNode:
        """Operation that gives node 0."""
        return FirstNode(self.first, self.one_step, self.size)
