"""Operations on entries, and what of them is known at trace time."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from jax import lax

from geonh.numerics.scalarize.entries import is_constant


def fold(name: str, args: tuple, dtype: Any, params: dict) -> tuple | None:
    """("is", entry) or ("neg", entry) where the operation needs no evaluation, else None."""
    if name in _IDENTITIES or (name == "convert_element_type" and args[0].dtype == dtype):
        return "is", args[0]
    if all(map(is_constant, args)) and name in _KNOWN and not (name == "div" and dtype.kind in "iu"):
        with np.errstate(all="ignore"):
            return "is", np.dtype(dtype).type(_KNOWN[name](*args, params))
    if name == "select_n":
        which, *cases = args
        if is_constant(which):
            return "is", cases[int(which)]
        return ("is", cases[0]) if all(_same(case, cases[0]) for case in cases) else None
    if len(args) != 2:
        return None
    x, y = args
    if name in ("add", "add_any", "or", "xor") and (_equals(x, 0) or _equals(y, 0)):
        return "is", y if _equals(x, 0) else x
    if name == "sub":
        return ("is", x) if _equals(y, 0) else ("neg", y) if _equals(x, 0) else None
    if name in ("mul", "and"):
        one = 1 if name == "mul" else True if np.dtype(dtype).kind == "b" else -1
        if _equals(x, 0) or _equals(y, 0):
            return "is", np.dtype(dtype).type(0)
        if _equals(x, one) or _equals(y, one):
            return "is", y if _equals(x, one) else x
    if name == "mul" and (_equals(x, -1) or _equals(y, -1)):
        return "neg", y if _equals(x, -1) else x
    if name == "div":
        return ("is", x) if _equals(x, 0) or _equals(y, 1) else ("neg", x) if _equals(y, -1) else None
    return None


def _equals(entry: Any, value: Any) -> bool:
    return is_constant(entry) and bool(entry == value)


def _same(a: Any, b: Any) -> bool:
    if is_constant(a) and is_constant(b):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    return a is b


PUBLIC: dict[str, Callable] = {
    "add": lax.add, "mul": lax.mul, "neg": lax.neg, "max": lax.max, "min": lax.min, "ne": lax.ne,
    "and": lax.bitwise_and, "or": lax.bitwise_or, "xor": lax.bitwise_xor, "select_n": lax.select_n,
}  # fmt: skip
"""How an operation that stands in no jaxpr is emitted; its parameters differ between versions of JAX."""

_IDENTITIES = {"copy", "copy_p", "stop_gradient", "name", "optimization_barrier"}

# fmt: off
_KNOWN: dict[str, Callable] = {name: lambda *a, f=f: f(*a[:-1]) for name, f in {
    "add": operator.add, "add_any": operator.add, "sub": operator.sub, "mul": operator.mul,
    "div": operator.truediv, "neg": np.negative, "abs": np.abs, "sign": np.sign, "max": np.maximum,
    "min": np.minimum, "rem": np.fmod, "floor": np.floor, "ceil": np.ceil, "square": np.square,
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "cbrt": np.cbrt, "exp": np.exp, "exp2": np.exp2,
    "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "sinh": np.sinh,
    "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "pow": np.power, "is_finite": np.isfinite, "not": np.invert, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge,
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high), "convert_element_type": lambda x: x,
}.items()}
# fmt: on
_KNOWN["integer_pow"] = lambda x, params: x ** params["y"]

ELEMENTWISE = (
    set(_KNOWN)
    | (_IDENTITIES - {"optimization_barrier"})
    | {"select_n", "round", "logistic", "erf", "erfc", "erf_inv", "lgamma", "digamma", "nextafter"}
    | {"reduce_precision", "igamma", "igammac", "bessel_i0e", "bessel_i1e", "population_count", "clz"}
    | {"shift_left", "shift_right_arithmetic", "shift_right_logical", "real", "imag", "conj", "complex"}
)
