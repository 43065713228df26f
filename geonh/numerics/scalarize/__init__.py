r"""Evaluation of an array function on scalars: generic stepping loops at the speed of hand-written ones.

A step written with small arrays compiles to many small kernels, because slices, products and concatenations
of arrays stop XLA from fusing. Here the step is traced to a jaxpr, and the jaxpr is evaluated with every
entry of every array as a scalar of its own; what is known at trace time is folded (x + 0, x · 1, x · 0,
constants), so the zeros of a structure matrix or of an identity tangent cost nothing. XLA then sees
straight-line scalar code and fuses it.

How a value is held: a NumPy object array whose entries are NumPy scalars (known constants) or JAX scalars; an
array of more than ``WHOLE`` entries, such as the buffer of a stepping loop, or of rank ``RANK``, such as a kept
inverse, stays a JAX array. How an operation is evaluated: ``folding.ELEMENTWISE`` primitives act entry by entry,
``moves.RULES`` move or sum entries, ``control.CONTROL`` are calls and loops; a function under ``kept_whole``, and
anything else (LAPACK, sort, traced indices), is done as it is, on stacked arrays.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jax.extend.core import ClosedJaxpr, Jaxpr
from jax.interpreters.partial_eval import dce_jaxpr

from geonh.numerics.scalarize.control import kept_whole, scalar_form
from geonh.numerics.scalarize.entries import WHOLE, array_of, entries_of
from geonh.numerics.scalarize.evaluator import Evaluator, TooManyOps
from geonh.numerics.scalarize.folding import ELEMENTWISE

__all__ = ["WHOLE", "kept_whole", "scalar_form", "scalar_operations", "scalarize"]

MAX_OPS = 16_000
"""Programs of more scalar operations than this are left as they are."""


def scalarize(fn: Callable, max_ops: int = MAX_OPS) -> Callable:
    """The same function, evaluated on scalars when it is traced.

    Use it only for the primal evaluation of a step in a compiled loop. Custom derivative rules are inlined
    and lost, so differentiate ``fn`` itself, not the result: a derivative here would be that of Newton's
    iterates, and reverse mode does not pass a ``while_loop``. Zeros known at trace time absorb what they
    multiply, also inf and nan.

    Parameters
    ----------
    fn : callable
        Any traceable function of pytrees. Array leaves of its arguments are traced, or folded if they are
        concrete while others are traced; other leaves (Python numbers too) are static.
    max_ops : int
        Largest number of scalar operations, counted after folding; beyond it ``fn`` itself is called.

    Returns
    -------
    callable
        Same signature, pytrees, shapes and dtypes. Outside a trace every call compiles anew: enclose in
        ``jit``.
    """

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        closed, struct, static = eqx.filter_make_jaxpr(fn)(*args, **kwargs)
        if closed.effects:
            return fn(*args, **kwargs)
        values = [*closed.consts, *jax.tree.leaves(eqx.filter((args, kwargs), eqx.is_array))]
        traced = [i for i, value in enumerate(values) if isinstance(value, jax.core.Tracer)]
        traced = traced or list(range(len(closed.consts), len(values)))

        def scalar_program(*inputs: Any) -> list:
            known = [None if i in traced else value for i, value in enumerate(values)]
            for i, value in zip(traced, inputs, strict=True):
                known[i] = value
            n = len(closed.consts)
            jaxpr, _ = dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True)
            evaluator = Evaluator([max_ops])
            outs = evaluator.run(jaxpr, [entries_of(v) for v in known[:n]], [entries_of(v) for v in known[n:]])
            return [array_of(out, var.aval) for out, var in zip(outs, jaxpr.outvars, strict=True)]

        try:  # inside a trace of its own, so that nothing is left behind when the count is exceeded
            flat = jax.jit(scalar_program)(*(values[i] for i in traced))
        except TooManyOps:
            return fn(*args, **kwargs)
        return eqx.combine(jax.tree.unflatten(jax.tree.structure(struct), flat), static)

    return wrapped


def scalar_operations(closed: ClosedJaxpr) -> int:
    """Operations in the longest piece without a loop or a branch of the functions evaluated on scalars in a jaxpr."""
    programs = [eqn for eqn in closed.jaxpr.eqns if eqn.params.get("name") == "scalar_program"]
    return max((max(_operations(eqn.params["jaxpr"].jaxpr)) for eqn in programs), default=0)


def _operations(jaxpr: Jaxpr) -> list[int]:
    """Numbers of operations: of the jaxpr itself, and of each body of a loop or branch within."""
    own, bodies = 0, []
    for eqn in jaxpr.eqns:
        own += eqn.primitive.name in ELEMENTWISE
        params = [x for value in eqn.params.values() for x in (value if isinstance(value, tuple) else (value,))]
        for inner in (x.jaxpr for x in params if isinstance(x, ClosedJaxpr)):
            here, *below = _operations(inner)
            bodies += below
            if eqn.primitive.name in ("while", "scan", "cond"):
                bodies.append(here)
            else:
                own += here
    return [own, *bodies]
