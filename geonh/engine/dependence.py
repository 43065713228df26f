"""Analysis of the dependence of a function on its arguments, from its jaxpr."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax

from geonh.arguments.jaxprs import CALLS, called_jaxpr, evaluate, linear_solution
from geonh.engine.internals import dce_jaxpr

ABSENT, AFFINE, NONLINEAR = 0, 1, 2
"""Degree of the dependence on the variable: none, affine, or other."""

LINEAR = frozenset(
    (
        *("add", "sub", "add_any", "neg", "convert_element_type", "copy", "copy_p", "real", "optimization_barrier"),
        *("broadcast_in_dim", "concatenate", "expand_dims", "pad", "reshape", "rev", "slice", "split", "squeeze"),
        *("stack", "tile", "transpose", "unstack", "reduce_sum", "cumsum", "reduce_precision", "select_n"),
        *("gather", "dynamic_slice", "dynamic_update_slice", "scatter", "scatter-add"),
    )
)
"""Primitives jointly linear in all their real arguments; other arguments are indices or conditions."""
CONSTANT = {"stop_gradient", "geonh_constant_to_first_order"}
"""Primitives through which no derivative flows."""
BILINEAR = {"mul", "dot_general", "conv_general_dilated"}
"""Primitives linear in each of two arguments."""
LINEAR_SOLUTIONS = {"triangular_solve"}
"""Primitives that solve linear systems (A, b)."""


def depends(function: Callable, at: Any, *others: Any) -> bool:
    """True if the traced values of ``function(at, *others)`` use ``at``; all are pytrees of arrays or of shapes.

    False is exact; True may be wrong where terms cancel.
    """
    jaxpr = jax.make_jaxpr(function)(at, *others).jaxpr
    used = dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))[1]
    return any(used[: len(jax.tree.leaves(at))])


def is_affine(function: Callable, at: Any, *others: Any) -> bool:
    """True if the jaxpr of ``function(at, *others)`` is affine in ``at``; terms that cancel are not detected.

    All are pytrees of arrays or of shapes.
    """
    closed = jax.make_jaxpr(function)(at, *others)
    n = len(jax.tree.leaves(at))
    return max(degrees(closed, [AFFINE] * n + [ABSENT] * (len(closed.in_avals) - n)), default=ABSENT) < NONLINEAR


def degrees(jaxpr: Any, inputs: Sequence[int], cache: dict[tuple, list[int]] | None = None) -> list[int]:
    """Degrees of the outputs of a jaxpr in the variable, from those of its inputs."""
    cache = {} if cache is None else cache
    key = (id(getattr(jaxpr, "jaxpr", jaxpr)), *inputs)
    if key not in cache:
        rule = functools.partial(_output_degrees, cache)
        cache[key] = evaluate(jaxpr, inputs, rule, lambda _: ABSENT)
    return cache[key]


def _output_degrees(cache: dict[tuple, list[int]], eqn: Any, inputs: list[int]) -> list[int]:
    name, n = eqn.primitive.name, len(eqn.outvars)
    if name in CONSTANT or not any(inputs):
        return [ABSENT] * n
    if name in CALLS:
        return degrees(called_jaxpr(eqn.params), inputs, cache)
    if name == "custom_linear_solve" and not any(inputs[: sum(eqn.params["const_lengths"])]):
        return degrees(*linear_solution(eqn.params, inputs), cache)
    if name == "scan":
        return degrees_of_loop(eqn, inputs, cache)
    if name == "cond" and not inputs[0]:
        ways = [degrees(branch, inputs[1:], cache) for branch in eqn.params["branches"]]
        return [max(way) for way in zip(*ways, strict=True)]
    linear = (
        (name in LINEAR and not any(d for d, var in zip(inputs, eqn.invars, strict=True) if not _is_real(var)))
        or (name in BILINEAR and not all(inputs))
        or (name in LINEAR_SOLUTIONS and not inputs[0])
        or (name == "div" and not inputs[1])
    )
    return [max(inputs) if linear and _is_real(var) else NONLINEAR for var in eqn.outvars]


def degrees_of_loop(eqn: Any, before: list[int], cache: dict[tuple, list[int]] | None = None) -> list[int]:
    """Degrees of the results of a loop of known length in the variable, from those of its arguments."""
    cache = {} if cache is None else cache
    first, m = eqn.params["num_consts"], eqn.params["num_carry"]
    while True:
        out = degrees(eqn.params["jaxpr"], before, cache)
        carried = [max(pair) for pair in zip(before[first : first + m], out[:m], strict=True)]
        if carried == before[first : first + m]:
            return out
        before = [*before[:first], *carried, *before[first + m :]]


def _is_real(var: Any) -> bool:
    return jax.numpy.issubdtype(var.aval.dtype, jax.numpy.floating)
