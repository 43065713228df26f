"""Evaluates a jaxpr on scalars, one equation after another."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal
from jax.extend.core.primitives import neg_p

from geonh.numerics.scalarize.control import CONTROL
from geonh.numerics.scalarize.entries import array_of, entries_of, is_constant, is_whole, literal_of, pack
from geonh.numerics.scalarize.folding import ELEMENTWISE, PUBLIC, fold
from geonh.numerics.scalarize.moves import RULES


def _bind(eqn: Any, inputs: Sequence) -> list:
    """Bind the primitive of an equation to inputs."""
    params = eqn.primitive.get_bind_params(eqn.params)
    functions, params = params if isinstance(params, tuple) else ((), params)  # JAX before 0.10
    outs = eqn.primitive.bind(*functions, *inputs, **params)
    return list(outs) if eqn.primitive.multiple_results else [outs]


class TooManyOps(Exception):
    """More operations than asked for."""


class Evaluator:
    """Evaluates jaxprs at one level of tracing; ``budget`` is shared with the evaluators of loop bodies."""

    def __init__(self, budget: list[int]) -> None:
        self.budget = budget
        self.memo: dict = {}

    def inner(self) -> Evaluator:
        """The evaluator of the body of a loop, with the same budget."""
        return Evaluator(self.budget)

    def spend(self, n: int) -> None:
        self.budget[0] -= n
        if self.budget[0] < 0:
            raise TooManyOps

    def run(self, jaxpr: Any, consts: Sequence, args: Sequence) -> list:
        """Values of the outputs of a jaxpr."""
        env = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True))

        def read(var: Any) -> Any:
            return entries_of(literal_of(var)) if isinstance(var, Literal) else env[var]

        for eqn in jaxpr.eqns:
            inputs = [read(var) for var in eqn.invars]
            env.update(zip(eqn.outvars, self.equation(eqn, inputs), strict=True))
        return [read(var) for var in jaxpr.outvars]

    def closed(self, jaxpr: Any, args: Sequence) -> list:
        if isinstance(jaxpr, ClosedJaxpr):
            return self.run(jaxpr.jaxpr, [entries_of(c) for c in jaxpr.consts], args)
        return self.run(jaxpr, [], args)

    def equation(self, eqn: Any, inputs: list) -> list:
        name = eqn.primitive.name
        outs = None
        if name in CONTROL:
            outs = CONTROL[name](self, eqn, inputs)
        elif not any(is_whole(var.aval) for var in (*eqn.invars, *eqn.outvars)):
            if name in ELEMENTWISE:
                outs = [self.elementwise(eqn.primitive, inputs, eqn.outvars[0].aval, eqn.params)]
            elif name in RULES:
                outs = RULES[name](self, eqn, inputs)
        return self.on_arrays(eqn, inputs) if outs is None else outs

    def elementwise(
        self, primitive: Any, inputs: Sequence[np.ndarray], aval: Any, params: dict | None = None
    ) -> np.ndarray:
        single = len(inputs) == 1
        columns = [(x if single else np.broadcast_to(x, aval.shape)).ravel() for x in inputs]
        entries = [self.op(primitive, row, aval.dtype, params) for row in zip(*columns, strict=True)]
        return pack(entries, aval.shape)

    def op(self, primitive: Any, args: tuple, dtype: Any, params: dict | None = None) -> Any:
        """One scalar operation: folded, remembered, or bound; without parameters, by ``jax.lax``."""
        folded = fold(primitive.name, args, dtype, params or {})
        if folded is not None and folded[1].dtype == dtype:
            return self.op(neg_p, folded[1:], dtype) if folded[0] == "neg" else folded[1]
        told = repr([item for item in params.items() if item[1] is not None]) if params else "[]"
        key = (primitive, told, *((a.dtype, a.tobytes()) if is_constant(a) else id(a) for a in args))
        if key not in self.memo:
            self.spend(1)
            value = PUBLIC[primitive.name](*args) if params is None else primitive.bind(*args, **params)
            self.memo[key] = value, args  # the arguments are kept alive, so that an id names one value
        return self.memo[key][0]

    def total(self, primitive: Any, entries: Sequence, dtype: Any) -> Any:
        return functools.reduce(lambda a, b: self.op(primitive, (a, b), dtype), entries)

    def on_arrays(self, eqn: Any, inputs: list) -> list:
        """Any primitive at all, on stacked arrays; at trace time when all is known."""
        arrays = [array_of(x, var.aval) for x, var in zip(inputs, eqn.invars, strict=True)]
        known = all(isinstance(a, np.ndarray) for a in arrays) and not eqn.effects
        with jax.ensure_compile_time_eval() if known else contextlib.nullcontext():
            outs = _bind(eqn, arrays)
        if not known:
            self.spend(sum(var.aval.size for var in (*eqn.invars, *eqn.outvars) if not is_whole(var.aval)))
        return [entries_of(out) for out in outs]
