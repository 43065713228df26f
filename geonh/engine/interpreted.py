"""Interpreter of jaxprs in NumPy, equation by equation: for calls outside of programs.

XLA compiles each primitive for each new shape, some 20 ms and 1.4 MB for an addition of two vectors. A method that is
called a few times is evaluated here at once. Results agree with JAX on a CPU, up to rounding; primitives without a rule
are evaluated by JAX (``bind``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr

from geonh.arguments.jaxprs import CALLS, called_jaxpr, evaluate, linear_solution
from geonh.engine.moves import SPLITS, scattered
from geonh.engine.named import functions
from geonh.engine.numpy_rules import NUMPY_RULES, window_entries, window_starts

Arrays = list[np.ndarray]


def interpret(closed: Any, arguments: Sequence[Any]) -> Arrays:
    """Evaluate a closed jaxpr; the outputs are NumPy arrays of its types."""
    with np.errstate(all="ignore"):
        return _run(closed, list(map(np.asarray, arguments)))


def in_numpy(function: Callable, *examples: Any) -> Callable:
    """Traceable function of pytrees of arrays, evaluated in NumPy for arguments like the examples."""
    closed, results = jax.make_jaxpr(function, return_shape=True)(*examples)
    structure = jax.tree.structure(results)
    return lambda *args: jax.tree.unflatten(structure, interpret(closed, jax.tree.leaves(args)))


def _run(jaxpr: Any, arguments: Sequence[Any]) -> Arrays:
    """Evaluate a jaxpr, closed or without constants."""
    return evaluate(jaxpr, arguments, _equation, np.asarray)


def _equation(eqn: Any, xs: Arrays) -> Sequence[np.ndarray]:
    rule = rule_of(eqn.primitive)
    if rule is not None:
        return rule(eqn.params, *xs)
    with jax.ensure_compile_time_eval():  # also within a trace
        results = eqn.primitive.bind(*jax.device_put(xs), **eqn.params)
        return list(map(np.asarray, results if eqn.primitive.multiple_results else [results]))


def rule_of(primitive: Any) -> Callable[..., Sequence[np.ndarray]] | None:
    """NumPy rule of a primitive, a function of its parameters and arrays; None if there is none."""
    if primitive in functions:
        return RULES.get(primitive.name) or functools.partial(_inlined, functions[primitive])
    return RULES.get(primitive.name)


def _inlined(function: Callable, params: dict, *xs: np.ndarray) -> Arrays:
    """Evaluate a primitive of the library by its jaxpr."""
    types = tuple((x.shape, x.dtype) for x in xs)
    return _run(_jaxpr_of(function, types, tuple(params.items())), xs)


@functools.lru_cache(maxsize=256)
def _jaxpr_of(function: Callable, types: tuple, options: tuple) -> Any:
    """Jaxpr of the function of a primitive of the library."""
    return jax.make_jaxpr(functools.partial(function, **dict(options)))(*(jax.ShapeDtypeStruct(*t) for t in types))


def _scatter(combine: Any) -> Callable:
    def rule(params: dict, x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
        windows, parts = scattered(params, x.ndim, updates)
        starts, inside = window_starts(params, x, indices, windows)
        places, out = window_entries([start[inside] for start in starts], windows.sizes), np.array(x)
        update = params.get("update_jaxpr")
        update = getattr(update, "jaxpr", update)
        if combine is None and update is not None and update.eqns:  # .at[i].apply(f), number by number
            for at in zip(*(np.broadcast_to(axis, parts[inside].shape).ravel() for axis in places), strict=True):
                out[at] = _run(ClosedJaxpr(update, params["update_consts"]), [out[at], np.zeros((), x.dtype)])[0]
        elif combine is None:
            out[places] = parts[inside]
        else:
            combine.at(out, places, parts[inside])
        return out

    return rule


SCATTERS: dict[str, Callable] = {
    "scatter": _scatter(None),
    "scatter-add": _scatter(np.add),
    "scatter-mul": _scatter(np.multiply),
    "scatter-min": _scatter(np.minimum),
    "scatter-max": _scatter(np.maximum),
}


# --- loops and branches --------------------------------------------------------------------------------------
def _call(params: dict, *xs: np.ndarray) -> Arrays:
    return _run(called_jaxpr(params), xs)


def _while(params: dict, *xs: np.ndarray) -> Arrays:
    n, m = params["cond_nconsts"], params["body_nconsts"]
    of_condition, of_body, carried = xs[:n], xs[n : n + m], list(xs[n + m :])
    while True:
        going = _run(params["cond_jaxpr"], [*of_condition, *carried])[0]
        if not going.any():
            return carried
        new = _run(params["body_jaxpr"], [*of_body, *carried])
        if not going.all():  # under vmap: members that have finished keep their values
            members = [going.reshape(going.shape + (1,) * (x.ndim - going.ndim)) for x in new]
            new = [np.where(on, x, before) for on, x, before in zip(members, new, carried, strict=True)]
        carried = new


def _cond(params: dict, which: np.ndarray, *xs: np.ndarray) -> Arrays:
    branches = params["branches"]
    return _run(branches[min(max(int(which), 0), len(branches) - 1)], xs)


def _scan(params: dict, *xs: np.ndarray) -> Arrays:
    n, m, closed = params["num_consts"], params["num_carry"], params["jaxpr"]
    carried, rows = list(xs[n : n + m]), []
    order = range(params["length"])
    for i in reversed(order) if params["reverse"] else order:
        out = _run(closed, [*xs[:n], *carried, *(x[i] for x in xs[n + m :])])
        carried = out[:m]
        rows.append(out[m:])
    if params["reverse"]:
        rows.reverse()
    if rows:
        return [*carried, *map(np.stack, zip(*rows, strict=True))]
    return [*carried, *(np.zeros((0, *aval.shape), aval.dtype) for aval in closed.out_avals[m:])]


def _linear_solve(params: dict, *xs: np.ndarray) -> Arrays:
    return _run(*linear_solution(params, xs))


def _only(rule: Callable) -> Callable:
    return lambda params, *xs: [rule(params, *xs)]


RULES: dict[str, Callable[..., Sequence[np.ndarray]]] = {
    **{name: _only(rule) for name, rule in (NUMPY_RULES | SCATTERS).items()},
    **{name: _call for name in CALLS},
    "while": _while,
    "cond": _cond,
    "scan": _scan,
    "custom_linear_solve": _linear_solve,
    **SPLITS,
    "optimization_barrier": lambda params, *xs: xs,
}
"""Rules by name of the primitive."""
