"""Steps that may fail, with derivatives: none flows through a failed step.

The result of a failed step is discarded, but the derivative of ``jnp.where(well, new, old)`` still multiplies the
failed step's Jacobian by zero in reverse mode, and zero times nan is nan. Here the tangents that enter a failed step
are zeroed before its Jacobian is applied, so that in reverse mode the zero is selected after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


def attempted(step: Callable[[Any], Any], example: Any, succeeded: Callable[[Any], Array]) -> Callable[[Any], Any]:
    """Wrap ``step`` so that derivatives, also of its captured variables, are zero where it is not ``succeeded``.

    Parameters
    ----------
    step : callable
        State to state, traceable.
    example : pytree of arrays
        A state; its structure and types are those of the result.
    succeeded : callable
        Predicate of the new state: true if the step succeeded, a boolean scalar.
    """
    structure = jax.tree.structure(example)
    closed = jax.make_jaxpr(step)(example)

    def run(consts: list[Array], leaves: list[Array]) -> list[Array]:
        return jax.core.eval_jaxpr(closed.jaxpr, consts, *leaves)

    guarded = jax.custom_jvp(run)

    @guarded.defjvp
    def rule(primals: tuple, tangents: tuple) -> tuple:
        new, push = jax.linearize(run, *primals)
        success = succeeded(jax.tree.unflatten(structure, new))
        return new, push(*jax.tree.map(lambda t: _tangent_of_success(success, t), tangents))

    return lambda state: jax.tree.unflatten(structure, guarded(closed.consts, jax.tree.leaves(state)))


def _tangent_of_success(success: Array, tangent: Any) -> Any:
    """Tangent if the step succeeded, else zero; integers have none."""
    return tangent if tangent.dtype == jax.dtypes.float0 else jnp.where(success, tangent, jnp.zeros_like(tangent))
