"""Elementwise primitives: what the engine knows of each, one row of a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from geonh.engine import numpy_elementwise as in_numpy
from geonh.engine.native import elementary, partials
from geonh.engine.native import elementwise_lowerings as to
from geonh.engine.native.arithmetic import Arithmetic
from geonh.engine.native.elementwise_lowerings import Rule, double, library
from geonh.engine.native.partials import Partials, slope
from geonh.engine.numpy_elementwise import by_numpy, by_scipy

UNCHANGED = frozenset(("copy", "copy_p", "stop_gradient", "geonh_constant_to_first_order", "name", "real"))
"""Primitives that are the identity on real arrays."""


class Elementwise(NamedTuple):
    """Rules of an elementwise primitive; without the optional ones it is slower, not wrong.

    Parameters
    ----------
    lower : callable
        Machine code: ``lower(em, equation) -> function of entries``. An entry is the name of a value, or a Python
        number where it is known while lowering. ``double(operation)`` makes this rule of ``operation(em, *entries)`` in
        double precision, which must take both kinds of entries, as the methods of ``em`` (``Arithmetic``) do.
    numpy : callable, optional
        Value outside of programs, as in first calls: ``numpy(params, *arrays) -> array``; by default by JAX.
    partials : callable, optional
        Partial derivatives, as in ``partials.py``; by default by JAX.
    """

    lower: Rule
    numpy: Callable | None = None
    partials: Partials | None = None


def _function(name: str, function: Callable, derivatives: Partials | None = None) -> Elementwise:
    """Row of a function of the C library that NumPy has too."""
    return Elementwise(library(name, function), by_numpy(function), derivatives)


def _sum(name: str, function: Callable) -> Elementwise:
    return Elementwise(to.summed(name), by_numpy(function))


def _comparison(name: str, function: Callable) -> Elementwise:
    return Elementwise(to.comparison(name), by_numpy(function))


ELEMENTWISE: dict[str, Elementwise] = {
    "add": _sum("add", np.add),
    "add_any": _sum("add", np.add),
    "sub": _sum("sub", np.subtract),
    "mul": _sum("mul", np.multiply),
    "div": Elementwise(double(Arithmetic.div, to.integer_division(False)), in_numpy.quotient, partials.quotient),
    "rem": Elementwise(double(to.remainder, to.integer_division(True)), in_numpy.remainder),
    "neg": Elementwise(double(Arithmetic.neg, to.integer_negative), by_numpy(np.negative)),
    "abs": Elementwise(to.intrinsic("fabs", np.abs, to.integer_absolute), by_numpy(np.abs), slope(partials.side)),
    "sign": Elementwise(double(to.sign, to.integer_sign), by_numpy(in_numpy.sign), partials.zero),
    "max": Elementwise(
        to.of_kind(lambda em, kind, x, y: em.maximum(kind, x, y)), by_numpy(np.maximum), partials.extreme("gt")
    ),
    "min": Elementwise(
        to.of_kind(lambda em, kind, x, y: em.minimum(kind, x, y)), by_numpy(np.minimum), partials.extreme("lt")
    ),
    "square": Elementwise(
        double(lambda em, x: em.mul(x, x), lambda em, kind, x: em.integer("mul", kind, x, x)),
        by_numpy(np.square),
        slope(lambda em, x, out: em.mul(2.0, x)),
    ),
    "sqrt": Elementwise(to.intrinsic("sqrt", np.sqrt), by_numpy(np.sqrt), slope(lambda em, x, out: em.div(0.5, out))),
    "rsqrt": Elementwise(
        double(lambda em, x: em.div(1.0, em.intrinsic("sqrt", "d", x))),
        by_numpy(lambda x: 1 / np.sqrt(x)),
        slope(lambda em, x, out: em.mul(-0.5, em.div(out, x))),
    ),
    "floor": Elementwise(to.intrinsic("floor", np.floor), by_numpy(np.floor), partials.zero),
    "ceil": Elementwise(to.intrinsic("ceil", np.ceil), by_numpy(np.ceil), partials.zero),
    "round": Elementwise(to.rounded, in_numpy.rounded, partials.zero),
    "integer_pow": Elementwise(to.integer_power, in_numpy.integer_power, partials.integer_power),
    "pow": Elementwise(to.power_of, by_numpy(np.power)),
    "is_finite": Elementwise(double(to.is_finite, lambda em, kind, x: True), by_numpy(np.isfinite)),
    "sin": Elementwise(double(elementary.sin), by_numpy(np.sin), slope(lambda em, x, out: elementary.cos(em, x))),
    "cos": Elementwise(
        double(elementary.cos), by_numpy(np.cos), slope(lambda em, x, out: em.neg(elementary.sin(em, x)))
    ),
    "tan": _function("tan", np.tan, slope(lambda em, x, out: em.add(1.0, em.mul(out, out)))),
    "asin": _function("asin", np.arcsin),
    "acos": _function("acos", np.arccos),
    "atan": Elementwise(
        double(elementary.atan),
        by_numpy(np.arctan),
        slope(lambda em, x, out: em.div(1.0, em.add(1.0, em.mul(x, x)))),
    ),
    "atan2": _function("atan2", np.arctan2, partials.arctan2),
    "exp": _function("exp", np.exp, slope(lambda em, x, out: out)),
    "exp2": _function("exp2", np.exp2),
    "expm1": _function("expm1", np.expm1, slope(lambda em, x, out: em.add(1.0, out))),
    "log": _function("log", np.log, slope(lambda em, x, out: em.div(1.0, x))),
    "log1p": _function("log1p", np.log1p, slope(lambda em, x, out: em.div(1.0, em.add(1.0, x)))),
    "cbrt": _function("cbrt", np.cbrt),
    "sinh": _function("sinh", np.sinh),
    "cosh": _function("cosh", np.cosh),
    "tanh": _function("tanh", np.tanh, slope(lambda em, x, out: em.sub(1.0, em.mul(out, out)))),
    "asinh": _function("asinh", np.arcsinh),
    "acosh": _function("acosh", np.arccosh),
    "atanh": _function("atanh", np.arctanh),
    "logistic": Elementwise(double(to.logistic), by_scipy("expit")),
    "erf": Elementwise(library("erf"), by_scipy("erf")),
    "erfc": Elementwise(library("erfc"), by_scipy("erfc")),
    "lgamma": Elementwise(library("lgamma"), by_scipy("gammaln")),
    "nextafter": _function("nextafter", np.nextafter),
    "and": Elementwise(to.bitwise("and"), by_numpy(np.bitwise_and)),
    "or": Elementwise(to.bitwise("or"), by_numpy(np.bitwise_or)),
    "xor": Elementwise(to.bitwise("xor"), by_numpy(np.bitwise_xor)),
    "not": Elementwise(to.of_kind(to.inverted), by_numpy(np.invert)),
    "shift_left": Elementwise(to.shift("shl")),
    "shift_right_logical": Elementwise(to.shift("lshr")),
    "shift_right_arithmetic": Elementwise(to.shift("ashr")),
    "population_count": Elementwise(to.bit_count),
    "clz": Elementwise(to.bit_count),
    "eq": _comparison("eq", np.equal),
    "ne": _comparison("ne", np.not_equal),
    "lt": _comparison("lt", np.less),
    "le": _comparison("le", np.less_equal),
    "gt": _comparison("gt", np.greater),
    "ge": _comparison("ge", np.greater_equal),
    **{f"{name}_to": Elementwise(to.total_order(name)) for name in ("eq", "lt", "le")},
    "select_n": Elementwise(to.selected, in_numpy.selected),
    "clamp": Elementwise(to.clamped, by_numpy(lambda low, x, high: np.clip(x, low, high))),
    "convert_element_type": Elementwise(to.converted, in_numpy.converted),
    "reduce_precision": Elementwise(to.same_precision),
    "copy": Elementwise(to.identity, by_numpy(np.asarray)),
    "copy_p": Elementwise(to.identity, by_numpy(np.asarray)),
    "real": Elementwise(to.identity, by_numpy(np.real)),
    "stop_gradient": Elementwise(to.identity, by_numpy(np.asarray), partials.zero),
    "name": Elementwise(to.identity),
}
"""Elementwise primitives by name. Their values, derivatives and folding are tested by one line in a list of
``tests/engine/native/test_primitives.py``."""
