"""Elementary functions by polynomials, the same for scalars and lanes; others from the C library.

Sine and cosine are computed together: Cody-Waite reduction, then fdlibm's polynomials, below 1.5 units in the last
place; by three fused multiply-adds up to 10⁹, or without them, by parts of π/2 of 33 bits whose multiples are exact and
with the remainder of the reduced angle, up to 8·10⁵; beyond it by the C library. The arctangent: reduced to |r| ≤
tan(π/8) by arctan x = φ + arctan r with φ = 0, π/4, π/2, then a polynomial through Chebyshev points, below 2 units in
the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from geonh.engine.native.arithmetic import Arithmetic
from geonh.engine.native.builder import Function
from geonh.engine.native.values import Entry, is_wide

_SIN = [
    -1.66666666666666324348e-01,
    8.33333333332248946124e-03,
    -1.98412698298579493134e-04,
    2.75573137070700676789e-06,
    -2.50507602534068634195e-08,
    1.58969099521155010221e-10,
]
_COS = [
    4.16666666666666019037e-02,
    -1.38888888888741095749e-03,
    2.48015872894767294178e-05,
    -2.75573143513906633035e-07,
    2.08757232129817482790e-09,
    -1.13596475577881948265e-11,
]
_HALF_PI = [1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33]
"""π/2 as a sum of three numbers."""
_HALF_PI_EXACTLY = [1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21]
"""The same: two of 33 bits, and the rest."""
_ROUND = 1.5 * 2**52
"""Constant that, added to a number, leaves the nearest integer in the low bits."""
_FAR = {True: 1e9, False: 8e5}
"""Angles beyond which the C library takes over, with and without fused multiply-add."""
_ATAN = [
    -0.3333333333333333,
    0.1999999999999552,
    -0.14285714284666542,
    0.11111111015256361,
    -0.09090904578123903,
    0.07692183190826087,
    -0.06664511447381948,
    0.0585814891280221,
    -0.0508544973794026,
    0.03923165829558719,
    -0.01917688711906226,
]
"""Coefficients of (arctan r − r)/r³ in powers of r², to 7e-18 of r."""
_EIGHTH = math.sqrt(2) - 1
"""tan(π/8)."""


def sin(em: Arithmetic, x: Entry) -> Entry:
    return math.sin(x) if not isinstance(x, str) and math.isfinite(x) else _sin_cos(em, x, 0)


def cos(em: Arithmetic, x: Entry) -> Entry:
    return math.cos(x) if not isinstance(x, str) and math.isfinite(x) else _sin_cos(em, x, 1)


def atan(em: Arithmetic, x: Entry) -> Entry:
    if not isinstance(x, str):
        return math.atan(x)
    size = em.intrinsic("fabs", "d", x)
    middle, large = (em.compare("gt", "d", size, edge) for edge in (_EIGHTH, 1 / _EIGHTH))

    def by_part(zero: Entry, quarter: Entry, half: Entry) -> Entry:
        return em.select(large, half, em.select(middle, quarter, zero, "d"), "d")

    above = by_part(size, em.apply("fsub", "d", size, 1.0), -1.0)
    r = em.apply("fdiv", "d", above, by_part(1.0, em.apply("fadd", "d", size, 1.0), size))
    square = em.apply("fmul", "d", r, r)
    bent = em.apply("fmul", "d", _polynomial(em, _ATAN, square), em.apply("fmul", "d", square, r))
    low = em.apply("fadd", "d", bent, by_part(0.0, _HALF_PI[1] / 2, _HALF_PI[1]))
    angle = em.apply("fadd", "d", by_part(0.0, _HALF_PI[0] / 2, _HALF_PI[0]), em.apply("fadd", "d", r, low))
    return em.intrinsic("copysign", "d", angle, x)


def _sin_cos(em: Arithmetic, x: Entry, which: int) -> Entry:
    if not isinstance(x, str):
        return math.nan
    wide = is_wide(x)
    t = em.type("d", wide)
    name = f"@sincos{f'.{em.lanes}' if wide else ''}"
    if name not in em.functions:
        em.functions[name] = ""  # being emitted
        em.functions[name] = _pair_function(em, name, wide, "alwaysinline", _near)
    pair = em.emit(f"call {{{t}, {t}}} {name}({t} {x})", wide)
    return em.emit(f"extractvalue {{{t}, {t}}} {pair}, {which}", wide)


def _pair_function(em: Arithmetic, name: str, wide: bool, attributes: str, write: Callable) -> str:
    """Text of an LLVM function of one number that returns two, emitted by ``write(em, x)``."""
    outer, em.function = em.function, Function()
    t = em.type("d", wide)
    x = em.function.name(wide)
    first, second = write(em, x)
    pair = f"{{{t}, {t}}}"
    half = em.emit(f"insertvalue {pair} poison, {t} {first}, 0", wide)
    results = em.emit(f"insertvalue {pair} {half}, {t} {second}, 1", wide)
    em.line(f"ret {pair} {results}")
    text = f"define internal {pair} {name}({t} {x}) {attributes} #0 {{\n{em.function.body}\n}}"
    em.function = outer
    return text


def _near(em: Arithmetic, x: str) -> tuple[Entry, Entry]:
    wide = is_wide(x)

    def cast(entry: Entry, before: str, after: str) -> str:
        return em.cast("bitcast", str(entry), before, after)

    shifted = em.multiply_add(x, 2 / math.pi, _ROUND)
    quarter, turns = cast(shifted, "d", "i64"), em.neg(em.apply("fsub", "d", shifted, _ROUND))
    r, rest = _reduced(em, x, turns)
    square = em.apply("fmul", "d", r, r)
    s, c = _polynomial(em, _SIN, square), _polynomial(em, _COS, square)
    cube = em.apply("fmul", "d", square, r)
    sine: Entry
    if rest is None:
        sine = em.multiply_add(s, cube, r)
    else:  # sin(r + rest) and cos(r + rest), to first order
        lower = em.apply("fmul", "d", rest, em.multiply_add(square, -0.5, 1.0))
        sine = em.apply("fadd", "d", r, em.multiply_add(s, cube, lower))
    sine = em.select(em.compare("eq", "d", x, 0.0), x, sine, "d")  # −0 stays −0
    half = em.apply("fmul", "d", square, 0.5)
    head = em.apply("fsub", "d", 1.0, half)
    tail = em.apply("fsub", "d", em.apply("fsub", "d", 1.0, head), half)
    if rest is not None:
        tail = em.apply("fsub", "d", tail, em.apply("fmul", "d", r, rest))
    cosine = em.apply("fadd", "d", head, em.multiply_add(em.apply("fmul", "d", square, square), c, tail))
    odd = em.cast("trunc", quarter, "i64", "b")

    def turned(entry: Entry, quarter: Entry) -> Entry:
        sign = em.apply("shl", "i64", em.apply("and", "i64", quarter, 2), 62)
        return cast(em.apply("xor", "i64", cast(entry, "d", "i64"), sign), "i64", "d")

    near = [
        turned(em.select(odd, cosine, sine, "d"), quarter),
        turned(em.select(odd, sine, cosine, "d"), em.apply("add", "i64", quarter, 1)),
    ]
    far = em.compare("gt", "d", em.intrinsic("fabs", "d", x), _FAR[em.fused])
    start, beyond, end = em.function.block, em.function.label(), em.function.label()
    em.branch(em.any_lane(far), beyond, end)
    em.begin(beyond)
    t = em.type("d", wide)
    name = f"@sincos.far{f'.{em.lanes}' if wide else ''}"
    em.functions[name] = _pair_function(
        em, name, wide, "noinline cold", lambda em, x: (em.external("sin", x), em.external("cos", x))
    )
    pair = em.emit(f"call {{{t}, {t}}} {name}({t} {x})", wide)
    results = [em.emit(f"extractvalue {{{t}, {t}}} {pair}, {i}", wide) for i in (0, 1)]
    results = [
        str(em.select(far, f, n, "d")) for f, n in zip(results, near, strict=True)
    ]  # other lanes keep their bits
    em.jump(end)
    em.begin(end)
    a, b = (em.emit(f"phi {t} [{n}, %{start}], [{f}, %{beyond}]", wide) for n, f in zip(near, results, strict=True))
    return a, b


def _reduced(em: Arithmetic, x: Entry, turns: Entry) -> tuple[Entry, Entry | None]:
    """x + turns·π/2, of at most π/4, and what is lost by rounding it, if that is to be added."""
    r: Entry = x
    if em.fused:
        for part in _HALF_PI:
            r = em.multiply_add(turns, part, r)
        return r, None
    first, second, third = (em.apply("fmul", "d", turns, part) for part in _HALF_PI_EXACTLY)  # two of them exact
    whole = em.apply("fadd", "d", x, first)
    near = em.apply("fadd", "d", whole, second)
    lost = em.apply("fadd", "d", em.apply("fsub", "d", whole, near), second)
    lower = em.apply("fadd", "d", lost, third)
    r = em.apply("fadd", "d", near, lower)
    return r, em.apply("fadd", "d", em.apply("fsub", "d", near, r), lower)


def _polynomial(em: Arithmetic, coefficients: list[float], x: Entry) -> Entry:
    """Σ cᵢ xⁱ for three or more terms, by Estrin's scheme: in pairs, by powers of x², x⁴, …, for short dependencies."""
    terms: list[Entry] = list(coefficients)
    while len(terms) > 3:
        pairs = [em.multiply_add(b, x, a) for a, b in zip(terms[::2], terms[1::2], strict=False)]
        terms, x = pairs + terms[len(pairs) * 2 :], em.apply("fmul", "d", x, x)
    return em.multiply_add(em.multiply_add(terms[2], x, terms[1]), x, terms[0])
