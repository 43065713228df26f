"""Indices that are out of range, seen in a trace: JAX clamps them or drops what they name, without a word."""

from __future__ import annotations

from typing import Any

import jax
import jax.extend as jex
import numpy as np

_INNER = ("jaxpr", "call_jaxpr", "fun_jaxpr")


def out_of_range(closed: Any) -> str:
    """What a traced function asks for outside its arrays with indices that are constants: "" if nothing."""
    return _search(closed.jaxpr, dict(zip(closed.jaxpr.constvars, closed.consts, strict=True)))


def _search(jaxpr: Any, known: dict) -> str:
    """The first offence in the equations of a jaxpr, given the values of some of its variables."""

    def value(atom: Any) -> Any:
        return atom.val if isinstance(atom, jex.core.Literal) else known.get(atom)

    for eqn in jaxpr.eqns:
        inputs, name = [value(atom) for atom in eqn.invars], eqn.primitive.name
        if name == "dynamic_slice" and all(v is not None for v in inputs[1:]):
            shape, starts = eqn.invars[0].aval.shape, [int(v) for v in inputs[1:]]
            for axis, (start, size, length) in enumerate(zip(starts, eqn.params["slice_sizes"], shape, strict=True)):
                if not 0 <= start <= length - size:
                    return f"index {start} on axis {axis} of an array of shape {shape}"
        if name in ("gather", "scatter", "scatter-add") and inputs[1] is not None:
            numbers, shape = eqn.params["dimension_numbers"], eqn.invars[0].aval.shape
            axes = getattr(numbers, "start_index_map", None) or numbers.scatter_dims_to_operand_dims
            for axis, column in zip(axes, np.moveaxis(np.asarray(inputs[1]), -1, 0), strict=True):
                if np.any(column < 0) or np.any(column >= shape[axis]):
                    return f"index {np.ravel(column)} on axis {axis} of an array of shape {shape}"
        inner = next((eqn.params[key] for key in _INNER if key in eqn.params), None)
        if inner is not None:
            inside = getattr(inner, "jaxpr", inner)
            given = dict(zip(inside.constvars, getattr(inner, "consts", ()), strict=False))
            given |= {v: i for v, i in zip(inside.invars, inputs, strict=False) if i is not None}
            found = _search(inside, given)
            if found:
                return found
        elif all(v is not None for v in inputs) and all(o.aval.dtype.kind in "ib" for o in eqn.outvars):
            with jax.ensure_compile_time_eval():
                made = eqn.primitive.bind(*inputs, **eqn.params)
            known |= dict(zip(eqn.outvars, made if eqn.primitive.multiple_results else [made], strict=True))
    return ""
