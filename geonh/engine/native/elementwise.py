"""Lowerings of elementwise primitives: ``ELEMENTWISE[name](emitter, equation)`` is a function of entries."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from jax import lax

from geonh.engine.native import elementary
from geonh.engine.native.arithmetic import Arithmetic, fold
from geonh.engine.native.values import DTYPES, Entry, NotLowered, kind_of, known

UNCHANGED = frozenset(("copy", "copy_p", "stop_gradient", "name", "real"))
"""Primitives that are the identity on real arrays."""
Rule: TypeAlias = Callable[[Arithmetic, Any], Callable[..., Entry]]


def _kinds(eqn: Any) -> tuple[str, str]:
    """Kinds of the first input and of the first output."""
    return kind_of(eqn.invars[0].aval), kind_of(eqn.outvars[0].aval)


def _double(operation: Callable[..., Entry], integer: Callable[..., Entry] | None = None) -> Rule:
    """Rule by ``operation(em, *entries)`` in double precision, and ``integer(em, kind, *entries)`` for other kinds."""

    def rule(em: Arithmetic, eqn: Any) -> Callable[..., Entry]:
        kind = _kinds(eqn)[0]
        if kind == "d":
            return partial(operation, em)
        if integer is None:
            raise NotLowered(f"{eqn.primitive.name} of integers")
        return partial(integer, em, kind)

    return rule


def _of_kind(operation: Callable[..., Entry]) -> Rule:
    """Rule by ``operation(em, kind, *entries)``."""
    return lambda em, eqn: partial(operation, em, _kinds(eqn)[0])


def _sum(name: str) -> Rule:
    return _double(getattr(Arithmetic, name), lambda em, kind, *xs: em.integer(name, kind, *xs))


def _library(name: str, numpy_name: str | None = None) -> Rule:
    """Rule by a function of the C library."""
    known_function = getattr(np, numpy_name or name, None)

    def operation(em: Arithmetic, *xs: Entry) -> Entry:
        if known_function is not None and known(*xs):
            return fold(known_function, "d", *xs)
        return em.external(name, *xs)

    return _double(operation)


def _intrinsic(name: str, numpy_function: Callable, integer: Callable[..., Entry] | None = None) -> Rule:
    """Rule by a correctly rounded CPU instruction."""

    def operation(em: Arithmetic, x: Entry) -> Entry:
        return em.intrinsic(name, "d", x) if isinstance(x, str) else fold(numpy_function, "d", x)

    return _double(operation, integer)


def _bitwise(name: str) -> Rule:
    return _of_kind(lambda em, kind, x, y: em.integer(name, kind, x, y))


def _compare(name: str) -> Rule:
    return _of_kind(lambda em, kind, x, y: em.compare(name, kind, x, y))


def _total_order(name: str) -> Rule:
    """Rule by a comparison in the total order, with nan ordered and −0 before 0."""

    def operation(em: Arithmetic, kind: str, x: Entry, y: Entry) -> Entry:
        if kind != "d":
            return em.compare(name, kind, x, y)
        return em.compare(name, "i64", *(_ordered_bits(em, z) for z in (x, y)))

    return _of_kind(operation)


def _ordered_bits(em: Arithmetic, x: Entry) -> Entry:
    if not isinstance(x, str):
        bits = int(np.float64(x).view(np.int64))
        return bits ^ ((bits >> 63) & (2**63 - 1))
    number = em.cast("bitcast", x, "d", "i64")
    return em.apply("xor", "i64", number, em.apply("and", "i64", em.apply("ashr", "i64", number, 63), 2**63 - 1))


def _neg(em: Arithmetic, kind: str, x: Entry) -> Entry:
    return em.integer("sub", kind, 0, x)


def _abs(em: Arithmetic, kind: str, x: Entry) -> Entry:
    return x if kind[0] in "ub" else em.select(em.compare("lt", kind, x, 0), _neg(em, kind, x), x, kind)


def _sign(em: Arithmetic, x: Entry) -> Entry:
    if not isinstance(x, str):
        return fold(np.sign, "d", x)
    positive, negative = em.compare("gt", "d", x, 0.0), em.compare("lt", "d", x, 0.0)
    return em.select(positive, 1.0, em.select(negative, -1.0, x, "d"), "d")


def _integer_sign(em: Arithmetic, kind: str, x: Entry) -> Entry:
    positive, negative = em.compare("gt", kind, x, 0), em.compare("lt", kind, x, 0)
    return em.select(positive, 1, em.select(negative, -1, 0, kind), kind)


def _not(em: Arithmetic, kind: str, x: Entry) -> Entry:
    ones = True if kind == "b" else np.array(-1).astype(DTYPES[kind]).item()
    return em.integer("xor", kind, ones, x)


def _is_finite(em: Arithmetic, x: Entry) -> Entry:
    if not isinstance(x, str):
        return fold(np.isfinite, "d", x)
    return em.compare("lt", "d", em.intrinsic("fabs", "d", x), float("inf"))


def _logistic(em: Arithmetic, x: Entry) -> Entry:
    return em.div(1.0, em.add(1.0, em.external("exp", em.neg(x))))


def _remainder(em: Arithmetic, x: Entry, y: Entry) -> Entry:
    return fold(np.fmod, "d", x, y) if known(x, y) else em.external("fmod", x, y)


def _integer_pow(em: Arithmetic, eqn: Any) -> Callable[..., Entry]:
    kind, exponent = _kinds(eqn)[0], eqn.params["y"]
    one: Entry = 1.0 if kind == "d" else 1
    times = em.mul if kind == "d" else partial(em.integer, "mul", kind)

    def power(x: Entry) -> Entry:
        result, factor, n = None, x, abs(exponent)
        while n:
            if n & 1:
                result = factor if result is None else times(result, factor)
            n >>= 1
            factor = times(factor, factor) if n else factor
        if result is None:
            return one
        return result if exponent > 0 else em.div(1.0, result)

    return power


def _round(em: Arithmetic, eqn: Any) -> Callable[..., Entry]:
    to_even = eqn.params["rounding_method"] == lax.RoundingMethod.TO_NEAREST_EVEN
    return lambda x: em.intrinsic("rint" if to_even else "round", "d", x)


def _select(em: Arithmetic, eqn: Any) -> Callable[..., Entry]:
    selector, kind = _kinds(eqn)

    def select(which: Entry, *cases: Entry) -> Entry:
        if selector == "b":
            return em.select(which, cases[-1], cases[0], kind)
        chosen = cases[-1]
        for i in reversed(range(len(cases) - 1)):
            chosen = em.select(em.compare("le", selector, which, i), cases[i], chosen, kind)
        return chosen

    return select


def _clamp(em: Arithmetic, eqn: Any) -> Callable[..., Entry]:
    kind = _kinds(eqn)[1]
    return lambda low, x, high: em.minimum(kind, em.maximum(kind, x, low), high)


def _convert(em: Arithmetic, eqn: Any) -> Callable[..., Entry]:
    before, after = _kinds(eqn)
    return lambda x: em.convert(x, before, after)


def _reduce_precision(em: Arithmetic, eqn: Any) -> Callable[..., Entry]:
    if (eqn.params["exponent_bits"], eqn.params["mantissa_bits"]) != (11, 52):
        raise NotLowered("reduce_precision")
    return lambda x: x


def _shift(opcode: str) -> Rule:
    return _of_kind(lambda em, kind, x, y: em.shift(opcode, kind, x, y))


def _divide(remainder: bool) -> Callable[..., Entry]:
    return lambda em, kind, x, y: em.divide(kind, x, y, remainder=remainder)


def _same(em: Arithmetic, eqn: Any) -> Callable[..., Entry]:
    return lambda x: x


def _numbers(em: Arithmetic, eqn: Any) -> Callable[..., Entry]:
    name = {"population_count": "ctpop", "clz": "ctlz"}[eqn.primitive.name]
    kind = _kinds(eqn)[0]
    return lambda x: em.intrinsic(name, kind, x, more=", i1 false" if name == "ctlz" else "")


ELEMENTWISE: dict[str, Rule] = {
    "add": _sum("add"),
    "add_any": _sum("add"),
    "sub": _sum("sub"),
    "mul": _sum("mul"),
    "div": _double(Arithmetic.div, _divide(False)),
    "rem": _double(_remainder, _divide(True)),
    "neg": _double(Arithmetic.neg, _neg),
    "abs": _intrinsic("fabs", np.abs, _abs),
    "sign": _double(_sign, _integer_sign),
    "max": _of_kind(lambda em, kind, x, y: em.maximum(kind, x, y)),
    "min": _of_kind(lambda em, kind, x, y: em.minimum(kind, x, y)),
    "square": _double(lambda em, x: em.mul(x, x), lambda em, kind, x: em.integer("mul", kind, x, x)),
    "sqrt": _intrinsic("sqrt", np.sqrt),
    "rsqrt": _double(lambda em, x: em.div(1.0, em.intrinsic("sqrt", "d", x))),
    "floor": _intrinsic("floor", np.floor),
    "ceil": _intrinsic("ceil", np.ceil),
    "round": _round,
    "integer_pow": _integer_pow,
    "is_finite": _double(_is_finite, lambda em, kind, x: True),
    "sin": _double(elementary.sin),
    "cos": _double(elementary.cos),
    "logistic": _double(_logistic),
    **{
        name: _library(name) for name in ("tan", "exp", "exp2", "expm1", "log", "log1p", "cbrt", "sinh", "cosh", "tanh")
    },
    "atan": _double(elementary.atan),
    **{name: _library(name, f"arc{name[1:]}") for name in ("asin", "acos", "asinh", "acosh", "atanh")},
    "atan2": _library("atan2", "arctan2"),
    "nextafter": _library("nextafter"),
    "erf": _library("erf", "absent"),
    "erfc": _library("erfc", "absent"),
    "lgamma": _library("lgamma", "absent"),
    "and": _bitwise("and"),
    "or": _bitwise("or"),
    "xor": _bitwise("xor"),
    "not": _of_kind(_not),
    "shift_left": _shift("shl"),
    "shift_right_logical": _shift("lshr"),
    "shift_right_arithmetic": _shift("ashr"),
    "population_count": _numbers,
    "clz": _numbers,
    **{name: _compare(name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{f"{name}_to": _total_order(name) for name in ("eq", "lt", "le")},
    "select_n": _select,
    "clamp": _clamp,
    "convert_element_type": _convert,
    "reduce_precision": _reduce_precision,
    **dict.fromkeys(UNCHANGED, _same),
}


def _pow(em: Arithmetic, eqn: Any) -> Callable[..., Entry]:
    """x ** y, where y may be an integer."""
    before, exponent = (kind_of(v.aval) for v in eqn.invars)
    if before != "d":
        raise NotLowered("pow of integers")

    def power(x: Entry, y: Entry) -> Entry:
        y = em.convert(y, exponent, "d")
        return fold(np.power, "d", x, y) if known(x, y) else em.external("pow", x, y)

    return power


ELEMENTWISE["pow"] = _pow
