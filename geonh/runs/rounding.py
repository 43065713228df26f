r"""Rounding of functions: how far their values may be off by that of the operations in them.

The result of each operation is changed by a part ±δ of itself, of random signs, where δ is so large that rounding by ε
is far below, and so small that the change of the value is linear in it: ε/δ times that change is the value's rounding.

Source: the random perturbation of Vignes' stochastic arithmetic (*Mathematics and Computers in Simulation* 35 (1993)),
larger than rounding here, so that few samples do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.jaxprs import CALLS, called_jaxpr, evaluate

CHANGE = 2.0**-36
"""δ, of each result."""
SAMPLES = 4
"""Number of choices of signs."""
MARGIN = 8.0
"""Factor of the largest change among them, by which it is a bound."""
EXACT = frozenset(
    (
        *("neg", "abs", "sign", "max", "min", "select_n", "copy", "stop_gradient", "convert_element_type"),
        *("slice", "dynamic_slice", "gather", "squeeze", "reshape", "broadcast_in_dim", "concatenate", "transpose"),
    )
)
"""Primitives that round nothing."""


def with_rounding(function: Callable, *arguments: Any) -> tuple[Array, Array]:
    """Values of a function of pytrees, an array, and bounds of their rounding, of the same shape."""
    closed, inputs = jax.make_jaxpr(function)(*arguments), jax.tree.leaves(arguments)
    values, *changed = (
        _changed(closed, inputs, size, np.random.default_rng(i)) for i, size in enumerate([0.0] + SAMPLES * [CHANGE])
    )
    part = MARGIN * float(np.finfo(float).eps) / CHANGE
    return values, part * jnp.max(jnp.abs(jnp.stack(changed) - values), axis=0)


def _changed(closed: Any, inputs: list[Any], size: float, signs: np.random.Generator) -> Array:
    """Values where results are changed by that part of themselves."""

    def results(eqn: Any, given: list[Any]) -> list[Any]:
        name, inner = eqn.primitive.name, called_jaxpr(eqn.params)
        if name in CALLS and inner is not None:
            return evaluate(inner, given, results, jnp.asarray)
        made = eqn.primitive.bind(*given, **eqn.params)
        made = list(made) if eqn.primitive.multiple_results else [made]
        if not size or name in EXACT:
            return made
        return [
            x * (1 + size * signs.choice([-1.0, 1.0], x.shape)) if jnp.issubdtype(x.dtype, jnp.floating) else x
            for x in made
        ]

    return evaluate(closed, inputs, results, jnp.asarray)[0]
