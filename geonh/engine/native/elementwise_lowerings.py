"""Lowerings of elementwise primitives: rules ``(emitter, equation) -> function of entries``, for ``elementwise``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from jax import lax

from geonh.engine.native.arithmetic import Arithmetic, fold
from geonh.engine.native.values import DTYPES, Entry, NotLowered, kind_of, known

Rule: TypeAlias = Callable[[Arithmetic, Any], Callable[..., Entry]]


def _kind(eqn: Any) -> str:
    """Kind of the first input."""
    return kind_of(eqn.invars[0].aval)


def _kinds(eqn: Any) -> tuple[str, str]:
    """Kinds of the first input and of the first output."""
    return _kind(eqn), kind_of(eqn.outvars[0].aval)


def double(operation: Callable[..., Entry], integer: Callable[..., Entry] | None = None) -> Rule:
    """Rule by ``operation(em, *entries)`` in double precision, and ``integer(em, kind, *entries)`` for other kinds."""

    def rule(em: Arithmetic, eqn: Any) -> Callable[..., Entry]:
        kind = _kind(eqn)
        if kind == "d":
            return partial(operation, em)
        if integer is None:
            raise NotLowered(f"{eqn.primitive.name} of integers")
        return partial(integer, em, kind)

    return rule


def of_kind(operation: Callable[..., Entry]) -> Rule:
    """Rule by ``operation(em, kind, *entries)``."""
    return lambda em, eqn: partial(operation, em, _kind(eqn))


def summed(name: str) -> Rule:
    return double(getattr(Arithmetic, name), lambda em, kind, *xs: em.integer(name, kind, *xs))


def library(name: str, folded: Callable | None = None) -> Rule:
    """Rule by a function of the C library, and one of NumPy by which it is folded where the arguments are known."""

    def operation(em: Arithmetic, *xs: Entry) -> Entry:
        if folded is not None and known(*xs):
            return fold(folded, "d", *xs)
        return em.external(name, *xs)

    return double(operation)


def intrinsic(name: str, numpy_function: Callable, integer: Callable[..., Entry] | None = None) -> Rule:
    """Rule by a correctly rounded CPU instruction."""

    def operation(em: Arithmetic, x: Entry) -> Entry:
        return em.intrinsic(name, "d", x) if isinstance(x, str) else fold(numpy_function, "d", x)

    return double(operation, integer)


def bitwise(name: str) -> Rule:
    return of_kind(lambda em, kind, x, y: em.integer(name, kind, x, y))


def comparison(name: str) -> Rule:
    return of_kind(lambda em, kind, x, y: em.compare(name, kind, x, y))


def total_order(name: str) -> Rule:
    """Rule by a comparison in the total order, with nan ordered and −0 before 0."""

    def operation(em: Arithmetic, kind: str, x: Entry, y: Entry) -> Entry:
        if kind != "d":
            return em.compare(name, kind, x, y)
        return em.compare(name, "i64", *(_ordered_bits(em, z) for z in (x, y)))

    return of_kind(operation)


def _ordered_bits(em: Arithmetic, x: Entry) -> Entry:
    if not isinstance(x, str):
        bits = int(np.float64(x).view(np.int64))
        return bits ^ ((bits >> 63) & (2**63 - 1))
    number = em.cast("bitcast", x, "d", "i64")
    return em.apply("xor", "i64", number, em.apply("and", "i64", em.apply("ashr", "i64", number, 63), 2**63 - 1))


def integer_negative(em: Arithmetic, kind: str, x: Entry) -> Entry:
    return em.integer("sub", kind, 0, x)


def integer_absolute(em: Arithmetic, kind: str, x: Entry) -> Entry:
    return x if kind[0] in "ub" else em.select(em.compare("lt", kind, x, 0), integer_negative(em, kind, x), x, kind)


def sign(em: Arithmetic, x: Entry) -> Entry:
    if not isinstance(x, str):
        return fold(np.sign, "d", x)
    positive, negative = em.compare("gt", "d", x, 0.0), em.compare("lt", "d", x, 0.0)
    return em.select(positive, 1.0, em.select(negative, -1.0, x, "d"), "d")


def integer_sign(em: Arithmetic, kind: str, x: Entry) -> Entry:
    positive, negative = em.compare("gt", kind, x, 0), em.compare("lt", kind, x, 0)
    return em.select(positive, 1, em.select(negative, -1, 0, kind), kind)


def inverted(em: Arithmetic, kind: str, x: Entry) -> Entry:
    ones = True if kind == "b" else np.array(-1).astype(DTYPES[kind]).item()
    return em.integer("xor", kind, ones, x)


def is_finite(em: Arithmetic, x: Entry) -> Entry:
    if not isinstance(x, str):
        return fold(np.isfinite, "d", x)
    return em.compare("lt", "d", em.intrinsic("fabs", "d", x), float("inf"))


def logistic(em: Arithmetic, x: Entry) -> Entry:
    return em.div(1.0, em.add(1.0, em.external("exp", em.neg(x))))


def remainder(em: Arithmetic, x: Entry, y: Entry) -> Entry:
    return fold(np.fmod, "d", x, y) if known(x, y) else em.external("fmod", x, y)


def integer_power(em: Arithmetic, eqn: Any) -> Callable[..., Entry]:
    kind, exponent = _kind(eqn), eqn.params["y"]
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


def rounded(em: Arithmetic, eqn: Any) -> Callable[..., Entry]:
    to_even = eqn.params["rounding_method"] == lax.RoundingMethod.TO_NEAREST_EVEN
    return lambda x: em.intrinsic("rint" if to_even else "round", "d", x)


def selected(em: Arithmetic, eqn: Any) -> Callable[..., Entry]:
    selector, kind = _kinds(eqn)

    def select(which: Entry, *cases: Entry) -> Entry:
        if selector == "b":
            return em.select(which, cases[-1], cases[0], kind)
        chosen = cases[-1]
        for i in reversed(range(len(cases) - 1)):
            chosen = em.select(em.compare("le", selector, which, i), cases[i], chosen, kind)
        return chosen

    return select


def clamped(em: Arithmetic, eqn: Any) -> Callable[..., Entry]:
    kind = _kinds(eqn)[1]
    return lambda low, x, high: em.minimum(kind, em.maximum(kind, x, low), high)


def converted(em: Arithmetic, eqn: Any) -> Callable[..., Entry]:
    before, after = _kinds(eqn)
    return lambda x: em.convert(x, before, after)


def same_precision(em: Arithmetic, eqn: Any) -> Callable[..., Entry]:
    if (eqn.params["exponent_bits"], eqn.params["mantissa_bits"]) != (11, 52):
        raise NotLowered("reduce_precision")
    return lambda x: x


def shift(opcode: str) -> Rule:
    return of_kind(lambda em, kind, x, y: em.shift(opcode, kind, x, y))


def integer_division(remainder: bool) -> Callable[..., Entry]:
    return lambda em, kind, x, y: em.divide(kind, x, y, remainder=remainder)


def identity(em: Arithmetic, eqn: Any) -> Callable[..., Entry]:
    return lambda x: x


def bit_count(em: Arithmetic, eqn: Any) -> Callable[..., Entry]:
    name = {"population_count": "ctpop", "clz": "ctlz"}[eqn.primitive.name]
    kind = _kind(eqn)
    return lambda x: em.intrinsic(name, kind, x, more=", i1 false" if name == "ctlz" else "")


def power_of(em: Arithmetic, eqn: Any) -> Callable[..., Entry]:
    """x ** y, where y may be an integer."""
    before, exponent = (kind_of(v.aval) for v in eqn.invars)
    if before != "d":
        raise NotLowered("pow of integers")

    def power(x: Entry, y: Entry) -> Entry:
        y = em.convert(y, exponent, "d")
        return fold(np.power, "d", x, y) if known(x, y) else em.external("pow", x, y)

    return power
