"""Calls, loops and branches: rule(evaluator, eqn, inputs) -> outputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr
from jax.extend.core.primitives import ne_p, select_n_p

from geonh.numerics.scalarize.entries import (
    array_of,
    entries_of,
    flatten,
    is_constant,
    is_whole,
    pack,
    strong,
    unflatten,
)
from geonh.numerics.scalarize.folding import ELEMENTWISE
from geonh.numerics.scalarize.moves import RULES

if TYPE_CHECKING:
    from geonh.numerics.scalarize.evaluator import Evaluator

BRANCH_OPS = 64
"""A conditional whose branches have fewer operations than this computes all of them and selects."""


_FORMS: dict[str, tuple[int, Callable]] = {}


def scalar_form(form: Callable) -> Callable[[Callable], Callable]:
    """Decorator: on scalars a call of the function is evaluated as ``form``, where that does not return None.

    Parameters
    ----------
    form : callable
        The same mathematical function of the same arrays, or None for shapes that it is not for.
    """

    def decorate(function: Callable) -> Callable:
        _FORMS[function.__name__] = len(inspect.signature(form).parameters), form
        return jax.jit(function)

    return decorate


def kept_whole(function: Callable) -> Callable:
    """Decorator: a call of the function, without derivatives, stays what it is, on arrays: short, and rarely made."""
    _WHOLE_CALLS.add(function.__name__)
    return jax.jit(function)


_WHOLE_CALLS: set[str] = set()


def _inline(ev: Evaluator, eqn: Any, xs: list) -> list | None:
    if eqn.params.get("name") in _WHOLE_CALLS:
        return None
    arity, form = _FORMS.get(eqn.params.get("name", ""), (-1, None))
    if form is not None and arity == len(xs):  # a derivative of the function has its name, but more arguments
        avals = [jax.ShapeDtypeStruct(var.aval.shape, var.aval.dtype) for var in eqn.invars]
        if jax.eval_shape(form, *avals) is not None:
            return ev.closed(jax.make_jaxpr(form)(*avals), xs)
    return ev.closed(eqn.params["jaxpr" if "jaxpr" in eqn.params else "call_jaxpr"], xs)


def _linear_solve(ev: Evaluator, eqn: Any, xs: list) -> list:
    lengths = eqn.params["const_lengths"]
    before, n = lengths.matvec + lengths.vecmat, sum(lengths)
    return ev.closed(eqn.params["jaxprs"].solve, [*xs[before : before + lengths.solve], *xs[n:]])


def _platform_index(ev: Evaluator, eqn: Any, xs: list) -> list | None:
    platforms = eqn.params["platforms"]  # the branch for every platform, where there is one
    return [entries_of(np.asarray(platforms.index(None), eqn.outvars[0].aval.dtype))] if None in platforms else None


def _carried(jaxpr: Any, n_consts: int, values: list) -> tuple[list[int], list, Callable]:
    """What a loop carries: which values change, their types, and how to put all values together again."""
    inner = jaxpr.jaxpr
    changing = [i for i in range(len(values)) if inner.outvars[i] is not inner.invars[n_consts + i]]
    avals = [inner.invars[n_consts + i].aval for i in changing]

    def together(flat: Sequence) -> list:
        whole = list(values)
        for i, value in zip(changing, unflatten(flat, avals), strict=True):
            whole[i] = value
        return whole

    return changing, avals, together


def _while(ev: Evaluator, eqn: Any, xs: list) -> list:
    cond, body = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
    n, m = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    cond_consts, body_consts, first = xs[:n], xs[n : n + m], xs[n + m :]
    changing, avals, together = _carried(body, m, first)

    def going(flat: tuple) -> Any:
        (go,) = ev.inner().closed(cond, [*cond_consts, *together(flat)])
        return strong(go[()], np.bool_)

    def step(flat: tuple) -> tuple:
        outs = ev.inner().closed(body, [*body_consts, *together(flat)])
        return flatten([outs[i] for i in changing], avals)

    return together(lax.while_loop(going, step, flatten([first[i] for i in changing], avals)))


def _scan(ev: Evaluator, eqn: Any, xs: list) -> list:
    body, length = eqn.params["jaxpr"], eqn.params["length"]
    n, m = eqn.params["num_consts"], eqn.params["num_carry"]
    consts, first = xs[:n], xs[n : n + m]
    changing, avals, together = _carried(body, n, first)
    rows = [array_of(x, var.aval) for x, var in zip(xs[n + m :], eqn.invars[n + m :], strict=True)]

    def step(flat: tuple, slices: list) -> tuple[tuple, list]:
        outs = ev.inner().closed(body, [*consts, *together(flat), *map(entries_of, slices)])
        kept: list = [array_of(out, var.aval) for out, var in zip(outs[m:], body.jaxpr.outvars[m:], strict=True)]
        return flatten([outs[i] for i in changing], avals), kept

    start = flatten([first[i] for i in changing], avals)
    flat, kept = lax.scan(step, start, rows, length=length, reverse=eqn.params["reverse"])
    return [*together(flat), *map(entries_of, kept)]


def _cond(ev: Evaluator, eqn: Any, xs: list) -> list:
    branches, index, args = eqn.params["branches"], xs[0][()], xs[1:]
    if is_constant(index):
        return ev.closed(branches[int(index)], args)
    avals = [var.aval for var in eqn.outvars]
    cheap = all(_is_cheap(branch) for branch in branches) and not any(map(is_whole, avals))
    if cheap:
        cases = [ev.closed(branch, args) for branch in branches]
        if len(branches) == 2:
            index = ev.op(ne_p, (index, index.dtype.type(0)), np.bool_)
        return [
            ev.elementwise(select_n_p, [pack([index], ()), *outs], aval)
            for *outs, aval in zip(*cases, avals, strict=True)
        ]
    functions = [lambda b=branch: flatten(ev.inner().closed(b, args), avals) for branch in branches]
    return unflatten(lax.switch(index, functions), avals)


def _is_cheap(branch: ClosedJaxpr) -> bool:
    cost = sum(var.aval.size for eqn in branch.jaxpr.eqns for var in eqn.outvars if hasattr(var.aval, "size"))
    simple = all(eqn.primitive.name in ELEMENTWISE or eqn.primitive.name in RULES for eqn in branch.jaxpr.eqns)
    return simple and cost <= BRANCH_OPS


CONTROL: dict[str, Callable] = {
    **dict.fromkeys(("jit", "pjit", "closed_call", "core_call", "composite"), _inline),
    **dict.fromkeys(
        ("remat", "remat2", "checkpoint", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"),
        _inline,
    ),
    "custom_linear_solve": _linear_solve,
    "platform_index": _platform_index,
    "while": _while,
    "scan": _scan,
    "cond": _cond,
    "optimization_barrier": lambda ev, eqn, xs: xs,
}
