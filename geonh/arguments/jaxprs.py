"""Evaluation of jaxprs, equation by equation, on values of any kind: arrays, degrees, known constants, instructions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

Of = TypeVar("Of")

CALLS = frozenset(
    (
        *("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"),
        *("remat", "remat2", "checkpoint", "composite"),
    )
)
"""Primitives that evaluate a jaxpr on their arguments."""


def evaluate(
    jaxpr: Any,
    inputs: Sequence[Of],
    equation: Callable[[Any, list[Of]], Iterable[Of]],
    constant: Callable[[Any], Of],
    equations: Iterable[Any] | None = None,
) -> list[Of]:
    """Evaluate a jaxpr on values of any kind.

    Parameters
    ----------
    jaxpr : ClosedJaxpr or Jaxpr
        Closed, or without constants.
    inputs : sequence of values
    equation : callable
        Rule (equation, values of its arguments) → values of its results.
    constant : callable
        Value of a known array.
    equations : iterable, optional
        The equations to evaluate, in order; all of them when left out. Variables that no other equation makes are None.

    Returns
    -------
    list of values
        The outputs.
    """
    values = [constant(const) for const in getattr(jaxpr, "consts", ())]
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    env = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*values, *inputs], strict=True))

    def read(var: Any) -> Any:
        return constant(np.asarray(var.val, var.aval.dtype)) if hasattr(var, "val") else env.get(var)

    for eqn in jaxpr.eqns if equations is None else equations:
        env.update(zip(eqn.outvars, equation(eqn, [read(var) for var in eqn.invars]), strict=True))
    return [read(var) for var in jaxpr.outvars]


def called_jaxpr(params: Mapping[str, Any]) -> Any:
    """Jaxpr that a call evaluates on its arguments, from its parameters; None if they have none."""
    return next((params[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in params), None)


def inner_jaxprs(eqn: Any) -> list[Any]:
    """Jaxprs within an equation that are evaluated: of calls, loops, branches, and solutions of linear systems."""
    if eqn.primitive.name == "custom_linear_solve":
        return [eqn.params["jaxprs"].solve.jaxpr]
    jaxprs = []
    for value in eqn.params.values():
        for inner in value if isinstance(value, tuple) else (value,):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                jaxprs.append(inner)
    return jaxprs


def linear_solution(params: Mapping[str, Any], inputs: Sequence[Of]) -> tuple[Any, list[Of]]:
    """Jaxpr that solves the linear system of an equation ``custom_linear_solve``, and its arguments."""
    lengths = params["const_lengths"]
    before = lengths.matvec + lengths.vecmat
    return params["jaxprs"].solve, [*inputs[before : before + lengths.solve], *inputs[sum(lengths) :]]
