"""Analysis of the dependence of a function on its arguments, from its jaxpr."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

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
CALLS = frozenset(
    (
        *("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"),
        *("remat", "remat2", "checkpoint", "composite"),
    )
)
"""Primitives that evaluate a jaxpr on their arguments."""


def called_jaxpr(eqn: Any) -> Any:
    """Jaxpr that a call evaluates, closed or without constants."""
    return jaxpr_of(eqn.params)


def jaxpr_of(params: Mapping[str, Any]) -> Any:
    """Jaxpr that a call evaluates, from its parameters."""
    return next(params[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in params)


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
    jaxpr = jax.make_jaxpr(function)(at, *others).jaxpr
    n = len(jax.tree.leaves(at))
    return max(degrees(jaxpr, [AFFINE] * n + [ABSENT] * (len(jaxpr.invars) - n)), default=ABSENT) < OTHERWISE


def degrees(jaxpr: Any, inputs: Sequence[int], seen: dict[tuple, list[int]] | None = None) -> list[int]:
    """Degrees of the outputs of a jaxpr in the variable, from those of its inputs."""
    jaxpr, seen = getattr(jaxpr, "jaxpr", jaxpr), {} if seen is None else seen
    key = (id(jaxpr), *inputs)
    if key in seen:
        return seen[key]
    found = dict(zip(jaxpr.invars, inputs, strict=True))

    def degree(var: Any) -> int:
        return ABSENT if hasattr(var, "val") else found.get(var, ABSENT)

    for eqn in jaxpr.eqns:
        before = [degree(var) for var in eqn.invars]
        if any(before):
            found.update(zip(eqn.outvars, _of_outputs(eqn, before, seen), strict=True))
    seen[key] = [degree(var) for var in jaxpr.outvars]
    return seen[key]


def _of_outputs(eqn: Any, before: list[int], seen: dict[tuple, list[int]]) -> list[int]:
    name, highest, n = eqn.primitive.name, max(before), len(eqn.outvars)
    if name == "stop_gradient":
        return [ABSENT]
    if name in CALLS:
        return degrees(called_jaxpr(eqn), before, seen)
    if name == "scan":
        return round_a_loop(eqn, before, seen)
    if name == "cond" and not before[0]:
        ways = [degrees(branch, before[1:], seen) for branch in eqn.params["branches"]]
        return [max(way) for way in zip(*ways, strict=True)]
    linear = (
        (name in LINEAR and not any(d for d, var in zip(before, eqn.invars, strict=True) if not _is_real(var)))
        or (name in BILINEAR and not all(before))
        or (name in SOLVES and not before[0])
        or (name == "div" and not before[1])
    )
    return [highest if linear and _is_real(var) else OTHERWISE for var in eqn.outvars] if n else []


def round_a_loop(eqn: Any, before: list[int], seen: dict[tuple, list[int]] | None = None) -> list[int]:
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
