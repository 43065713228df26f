"""Runs of many steps as JAX operations.

A run is differentiated step by step: in forward mode along with the steps, or in reverse mode from stored nodes, with
the steps between two of them recomputed (checkpointing). Solutions of equations are differentiated by the implicit
function theorem, never through iterations. No derivative flows through a failed step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.engine.attempt import attempted
from geonh.engine.backward import BackwardRun, foreign_pull
from geonh.engine.compiled import types
from geonh.engine.forward import Run, TangentRun, foreign_run
from geonh.engine.operations import COTANGENT, TANGENT, VALUE, Foreign, Operation, Transformed, foreign_call
from geonh.engine.steps import Carry, Plan


@dataclass(frozen=True)
class Steps(Plan, Operation):
    """Nodes of a run, shape=[n_nodes + 1, size], node 0 and one every ``stride`` steps, from x.

    The last entry of a node is its status. After a failure the last good node is repeated, with the status of the
    failed step; nothing is done from a start whose status is not 0. Parameters as for ``Plan``.
    """

    def shape(self, x: Any) -> tuple[int, ...]:
        return self.n_nodes + 1, self.size

    def plain(self, arrays: list[Any], x: Array) -> Array:
        x = self.first_node.plain(arrays, x)

        def stepped(carry: Carry) -> Carry:  # of a node with its status
            new, status = self.one_step(arrays, carry._replace(node=carry.node[:-1]))
            return new._replace(node=jnp.append(new.node, status.astype(carry.node.dtype)))

        begin = Carry(x, jnp.zeros(self.warm), jnp.asarray(0))
        attempt = attempted(stepped, begin, lambda carry: carry.node[-1] == 0)

        def once(carry: Carry, _: None) -> tuple[Carry, None]:
            after, node = attempt(carry), carry.node
            going = node[-1] == 0
            state = jnp.where(going & (after.node[-1] == 0), after.node[:-1], node[:-1])
            return after._replace(node=jnp.append(state, jnp.where(going, after.node[-1], node[-1]))), None

        def several(carry: Carry, _: None) -> tuple[Carry, Array]:
            carry = lax.scan(once, carry, None, length=self.stride)[0]
            return carry, carry.node

        return jnp.concatenate([x[None], lax.scan(several, begin, None, length=self.n_nodes)[1]])

    def foreign(self, part: Transformed, operands: list[Any], batched: tuple[bool, ...], n: int) -> Foreign | None:
        given = part.named(operands)
        if any(batched) or part.kind == TANGENT or (part.kind == COTANGENT and self.driven and part.active[-1]):
            return None
        n_steps, one = self.n_nodes * self.stride, replace(self, n_nodes=1, stride=1)  # programs of any numbers
        run = foreign_run(one, types([*given.arrays, given.x]))
        of_run = run.target if run.is_short(n_steps) else None
        if of_run is None:
            return None

        def nodes(*operands: Any, n: int, stride: int) -> list[Any]:
            return foreign_call(of_run, (*operands, jnp.int32(stride)), [(n + 1, self.size)])

        if part.kind == VALUE:
            return Foreign(partial(nodes, n=self.n_nodes, stride=self.stride))
        pair = jax.ShapeDtypeStruct((2, self.size), np.float64)
        pull = foreign_pull(one, part.active, types([*given.arrays, given.x, pair, pair]))
        of_pull = pull.target if pull.is_short(n_steps) else None
        if of_pull is None:
            return None
        shapes = part.result_shapes(given)

        def pulled(*operands: Any) -> list[Any]:
            *before, y, y_bar = operands
            if self.stride > 1:  # with the nodes between
                (y,) = nodes(*before, n=n_steps, stride=1)
                y_bar = jnp.zeros((n_steps + 1, self.size)).at[:: self.stride].set(y_bar)
            return foreign_call(of_pull, (*before, y, y_bar), shapes)

        return Foreign(pulled, is_tried=True)

    def native(self, part: Transformed, operands: list[Any], batched: tuple[bool, ...]) -> Callable | None:
        run = {VALUE: Run, TANGENT: TangentRun, COTANGENT: BackwardRun}[part.kind](self, part, operands, batched)
        return run if run.is_native else None
