"""Analysis of the dependence of a function on its arguments, from its jaxpr."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax

from geonh.arguments.jaxprs import CALLS, called_jaxpr, evaluate
from geonh.engine.internals import dce_jaxpr

ABSENT, AFFINE, OTHERWISE = 0, 1, 2
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
BILINEAR = {"mul", "dot_general"}
"""Primitives linear in each of two arguments."""
SOLVES = {"triangular_solve"}
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
    return max(degrees(closed, [AFFINE] * n + [ABSENT] * (len(closed.in_avals) - n)), default=ABSENT) < OTHERWISE


def degrees(jaxpr: Any, inputs: Sequence[int], seen: dict[tuple, list[int]] | None = None) -> list[int]:
    """Degrees of the outputs of a jaxpr in the variable, from those of its inputs."""
    seen = {} if seen is None else seen
    key = (id(getattr(jaxpr, "jaxpr", jaxpr)), *inputs)
    if key not in seen:
        rule = functools.partial(_of_outputs, seen)
        seen[key] = evaluate(jaxpr, inputs, rule, lambda _: ABSENT)
    return seen[key]


def _of_outputs(seen: dict[tuple, list[int]], eqn: Any, before: list[int]) -> list[int]:
    name, n = eqn.primitive.name, len(eqn.outvars)
    if name == "stop_gradient" or not any(before):
        return [ABSENT] * n
    if name in CALLS:
        return degrees(called_jaxpr(eqn.params), before, seen)
    if name == "scan":
        return degrees_of_loop(eqn, before, seen)
    if name == "cond" and not before[0]:
        ways = [degrees(branch, before[1:], seen) for branch in eqn.params["branches"]]
        return [max(way) for way in zip(*ways, strict=True)]
    linear = (
        (name in LINEAR and not any(d for d, var in zip(before, eqn.invars, strict=True) if not _is_real(var)))
        or (name in BILINEAR and not all(before))
        or (name in SOLVES and not before[0])
        or (name == "div" and not before[1])
    )
    return [max(before) if linear and _is_real(var) else OTHERWISE for var in eqn.outvars]


def degrees_of_loop(eqn: Any, before: list[int], seen: dict[tuple, list[int]] | None = None) -> list[int]:
    """Degrees of the results of a loop of known length in the variable, from those of its arguments."""
    seen = {} if seen is None else seen
    first, m = eqn.params["num_consts"], eqn.params["num_carry"]
    while True:
        out = degrees(eqn.params["jaxpr"], before, seen)
        carried = [max(pair) for pair in zip(before[first : first + m], out[:m], strict=True)]
        if carried == before[first : first + m]:
            return out
        before = [*before[:first], *carried, *before[first + m :]]


def _is_real(var: Any) -> bool:
    return jax.numpy.issubdtype(var.aval.dtype, jax.numpy.floating)
