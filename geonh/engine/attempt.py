"""Steps that may fail, under derivatives: none flows through what did not happen.

Where a step fails its numbers are thrown away, but the derivative of a choice, ``jnp.where(well, new, old)``, still
multiplies the failed step's Jacobian by zero in reverse mode, and zero times nan is nan. Here the tangents that enter
a failed step are zeroed before they meet its Jacobian, so that in reverse mode the zero is chosen after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


def attempted(step: Callable[[Any], Any], example: Any, well: Callable[[Any], Array]) -> Callable[[Any], Any]:
    """``step`` with derivatives, of the state and of all it closes over, that are zero where it is not ``well``.

    Parameters
    ----------
    step : callable
        State to state, traceable.
    example : pytree of arrays
        A state; its structure and types are those of the result.
    well : callable
        Of the new state: whether the step happened, a boolean scalar.
    """
    structure = jax.tree.structure(example)
    closed = jax.make_jaxpr(step)(example)

    def run(consts: list[Array], leaves: list[Array]) -> list[Array]:
        return jax.core.eval_jaxpr(closed.jaxpr, consts, *leaves)

    guarded = jax.custom_jvp(run)

    @guarded.defjvp
    def rule(primals: tuple, tangents: tuple) -> tuple:
        new, push = jax.linearize(run, *primals)
        happened = well(jax.tree.unflatten(structure, new))
        return new, push(*jax.tree.map(lambda t: _chosen(happened, t), tangents))

    return lambda state: jax.tree.unflatten(structure, guarded(closed.consts, jax.tree.leaves(state)))


def _chosen(happened: Array, tangent: Any) -> Any:
    """The tangent where the step happened, else zero; integers have none to choose."""
    return tangent if tangent.dtype == jax.dtypes.float0 else jnp.where(happened, tangent, jnp.zeros_like(tangent))
