"""Steps of a run for the engine: forward, with tangents, and backward with cotangents; and node 0.

Each is a function of parameters and a state, and part of the cache key of its program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.engine.evaluation import Parts
from geonh.engine.operations import Operation, chosen, joined

SAME = 1e-8
"""Tolerance, relative to 1 and their largest entry, below which two nodes are the same solution of a step."""


@dataclass(frozen=True)
class Step:
    """Step of the state (node, quick, step number)."""

    step: Callable
    parts: Parts
    driven: bool

    def __call__(self, arrays: list[Any], state: tuple) -> tuple[tuple, Array]:
        (arrays, near), (node, quick, i) = self.sees(arrays, state[2]), state
        node, quick, status = self.step(self.parts.tree(arrays), node, quick, near)
        return (node, quick, i + 1), status.astype(np.int32)

    def sees(self, arrays: list[Any], i: Any) -> tuple[list[Any], Any]:
        """Arguments of the i-th step: arrays for the tree, and the rows of its two nodes."""
        return (arrays[:-1], lax.dynamic_slice_in_dim(arrays[-1], i, 2)) if self.driven else (arrays, None)


@dataclass(frozen=True)
class Begun(Operation):
    """Operation that gives node 0 of a run, shape=[size], from x."""

    first: Callable
    step: Step
    size: int

    def shape(self, x: Any) -> tuple[int, ...]:
        return (self.size,)

    def plain(self, arrays: list[Any], x: Array) -> Array:
        arrays, near = self.step.sees(arrays, 0)
        return self.first(self.step.parts.tree(arrays), x, near)


@dataclass(frozen=True)
class Advance:
    """Forward step for the engine; its parameters are (arrays, [])."""

    step: Step

    def __call__(self, given: tuple, state: tuple) -> tuple[tuple, Array]:
        return self.step(given[0], state)


@dataclass(frozen=True)
class AdvanceTangent:
    """Step with its tangent; the parameters are (arrays, tangents of the active ones)."""

    step: Step
    active: tuple[bool, ...]

    def __call__(self, given: tuple, state: tuple) -> tuple[tuple, Array]:
        (arrays, tangents), ((x, x_dot), *rest) = given, state

        def function(moving: list, x: Array) -> tuple:
            (node, *rest), status = self.step(joined(arrays, moving, self.active), (x, *state[1:]))
            return node, (rest, status)

        x, x_dot, (rest, status) = jax.jvp(function, (chosen(arrays, self.active), x), (tangents, x_dot), has_aux=True)
        return ((x, x_dot), *rest), status


@dataclass(frozen=True)
class Retreat:
    """Backward step with cotangents, in a block of steps.

    The parameters are arrays, the nodes of the block from the one before it on, the cotangents that enter at them, the
    warm starts of the run at each of its steps (zeros if not available), and the number of its first step. The state is
    the index of the step, the cotangents of the node and, summed so far, of the active arrays, the warm-start vector,
    and the cotangent of the rows of the step.

    A step that is long for its system may have several solutions. It starts warm from the later step, and may converge
    to another solution than in the run: then it is repeated with the warm start of the run, and if that fails too the
    cotangents are nan.
    """

    step: Step
    active: tuple[bool, ...]

    def __call__(self, given: tuple, state: tuple) -> tuple[tuple, Array]:
        (arrays, (nodes, entering, known, begin)), (i, x_bar, sums, quick, _) = given, state
        n = len(arrays) - self.step.driven
        active, driven = self.active[:n], any(self.active[n:])
        arrays, near = self.step.sees(arrays, begin + i)

        def function(quick: Array, moving: list, x: Array, *seen: Array) -> tuple[Array, Array]:
            tree = self.step.parts.tree(joined(arrays, moving, active))
            node, new, _ = self.step.step(tree, x, quick, *seen or (near,))
            return node, new

        at = chosen(arrays, active), nodes[i, :-1], *([near] if driven else [])
        reached, outgoing = nodes[i + 1, :-1], x_bar + entering[i + 1, :-1]

        def pulled(quick: Array) -> tuple:
            node, pull, later = jax.vjp(lambda *at: function(quick, *at), *at, has_aux=True)
            same = jnp.max(jnp.abs(node - reached)) <= SAME * (1 + jnp.max(jnp.abs(reached)))
            return same, later, *pull(outgoing)

        def again(carry: tuple) -> tuple:
            tries, quick, *_ = carry
            return tries + 1, known[i], *pulled(quick)

        nothing = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(pulled, quick))
        _, _, same, later, moved, x_bar, *rows = lax.while_loop(
            lambda carry: (carry[0] < 2) & ~carry[2], again, (jnp.asarray(0), quick, *nothing)
        )
        sums = [a + b for a, b in zip(sums, moved, strict=True)]
        return (i - 1, jnp.where(same, x_bar, jnp.nan), sums, later, rows), (i < 0).astype(np.int32)


def node_row(_: Any, state: tuple) -> Array:
    return jnp.append(state[0], 0.0)


def quick_row(_: Any, state: tuple) -> Array:
    return state[1]


def tangent_row(_: Any, state: tuple) -> Array:
    return jnp.append(state[0][1], 0.0)


def near_row(_: Any, state: tuple) -> Array:
    return jnp.concatenate([jnp.zeros(0), *(x.reshape(-1) for x in state[4])])
