"""Arithmetic on entries: known numbers are folded (constant folding), others become instructions.

Sums of products are fused here, not by LLVM, so that the bits of a program depend neither on the optimization level
nor on the number of lanes. Numbers follow JAX on a CPU: integer division truncates, division by zero gives −1 and a
remainder the dividend, a shift past the width gives zero; nan passes through max and min; comparisons with nan are
false, ``ne`` is true. A zero known at compile time absorbs its factors, inf and nan too, and x + 0 is x, also for −0.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import numpy as np

from geonh.engine.native.storage import Storage
from geonh.engine.native.values import DTYPES, Entry, is_wide, known, same

_COMPARISONS = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
_INTEGER = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def fold(function: Callable, kind: str, *args: Entry) -> Entry:
    """Constant folding of a function of known numbers in their type; returns a Python number."""
    with np.errstate(all="ignore"):
        return np.asarray(function(*(DTYPES[kind].type(x) for x in args))).item()


class Arithmetic(Storage):
    """Builder with arithmetic."""

    # double precision

    def add(self, x: Entry, y: Entry) -> Entry:
        if isinstance(x, str):
            if not isinstance(y, str) and y == 0:
                return x
        elif isinstance(y, str):
            if x == 0:
                return y
        else:
            return x + y
        if x == y:
            return self.mul(2.0, x)
        if self.fused:
            products = self.function.products
            if y in products:
                return self.multiply_add(*products[y], x)
            if x in products:
                return self.multiply_add(*products[x], y)
        return self.apply("fadd", "d", *_ordered(x, y))

    def sub(self, x: Entry, y: Entry) -> Entry:
        if not isinstance(y, str):
            if not isinstance(x, str):
                return x - y
            if y == 0:
                return x
        elif not isinstance(x, str) and x == 0:
            return self.neg(y)
        if self.fused:
            products = self.function.products
            if y in products:
                a, b = products[y]
                return self.multiply_add(self.neg(a), b, x)
            if x in products:
                return self.multiply_add(*products[x], self.neg(y))
        return self.apply("fsub", "d", x, y)

    def mul(self, x: Entry, y: Entry) -> Entry:
        if isinstance(x, str):
            if not isinstance(y, str):
                x, y = y, x
        elif not isinstance(y, str):
            return x * y
        if not isinstance(x, str):
            if x == 0:
                return 0.0
            if x == 1:
                return y
            if x == -1:
                return self.neg(y)
            rest, factor = self.function.products.get(str(y), (y, y))
            if not isinstance(factor, str) and (_scales(x) or _scales(factor)):
                return self.mul(x * factor, rest)
        x, y = _ordered(x, y)
        result = self.apply("fmul", "d", x, y)
        self.function.products[result] = x, y  # a known factor last
        return result

    def div(self, x: Entry, y: Entry) -> Entry:
        if not isinstance(y, str):
            if not isinstance(x, str):
                return fold(np.divide, "d", x, y)
            if y == 1:
                return x
            if y == -1:
                return self.neg(x)
            if y != 0 and math.isfinite(y) and math.frexp(y)[0] == 0.5 and abs(math.frexp(y)[1]) < 1000:
                return self.mul(x, 1 / y)
        elif not isinstance(x, str) and x == 0:
            return 0.0
        return self.apply("fdiv", "d", x, y)

    def neg(self, x: Entry) -> Entry:
        return self.apply("fneg", "d", x) if isinstance(x, str) else -x

    def multiply_add(self, x: Entry, y: Entry, z: Entry) -> Entry:
        """x y + z, fused and rounded once where the CPU does that."""
        if not self.fused:
            return self.apply("fadd", "d", self.apply("fmul", "d", x, y), z)
        return self.intrinsic("fma", "d", x, y, z)

    # integers and bools

    def integer(self, name: str, kind: str, x: Entry, y: Entry) -> Entry:
        """Integer add, sub, mul, and, or, xor."""
        if known(x, y):
            return fold(_INTEGER[name], kind, x, y)
        if name == "sub":
            return x if _equals(y, 0) else self.apply("sub", kind, x, y)
        if not isinstance(y, str):
            x, y = y, x
        ones = True if kind == "b" else -1
        if name in ("mul", "and") and _equals(x, 0):
            return False if kind == "b" else 0
        if _equals(x, {"mul": 1, "and": ones}.get(name, 0)):
            return y
        if name == "or" and kind == "b" and _equals(x, True):
            return True
        return self.apply(name, kind, *_ordered(x, y))

    def both(self, x: Entry, y: Entry) -> Entry:
        return self.integer("and", "b", x, y)

    def either(self, x: Entry, y: Entry) -> Entry:
        return self.integer("or", "b", x, y)

    def negated(self, x: Entry) -> Entry:
        return self.integer("xor", "b", True, x)

    def divide(self, kind: str, x: Entry, y: Entry, *, remainder: bool) -> Entry:
        """Truncated integer quotient, or its remainder."""
        if not isinstance(y, str) and y not in (0, -1):
            if not isinstance(x, str):
                quotient = abs(int(x)) // abs(int(y)) * (1 if (x < 0) == (y < 0) else -1)
                return int(x) - quotient * int(y) if remainder else quotient
            return self.apply(f"{kind[0].replace('i', 's')}{'rem' if remainder else 'div'}", kind, x, y)
        zero = self.compare("eq", kind, y, 0)
        if kind[0] == "u":
            some = self.select(zero, 1, y, kind)
            result = self.apply("urem" if remainder else "udiv", kind, x, some)
            return self.select(zero, x if remainder else 2 ** int(kind[1:]) - 1, result, kind)
        minus = self.compare("eq", kind, y, -1)  # the least integer divided by −1 overflows in LLVM
        some = self.select(self.either(zero, minus), 1, y, kind)
        result = self.apply("srem" if remainder else "sdiv", kind, x, some)
        if remainder:
            return self.select(zero, x, self.select(minus, 0, result, kind), kind)
        return self.select(zero, -1, self.select(minus, self.integer("sub", kind, 0, x), result, kind), kind)

    def shift(self, opcode: str, kind: str, x: Entry, y: Entry) -> Entry:
        """shl, lshr or ashr; past the width, the result of repeated single shifts."""
        width = int(kind[1:])
        unsigned = "u" + kind[1:]
        inside = 0 <= y < width if not isinstance(y, str) else self.compare("lt", unsigned, y, width)
        if opcode == "ashr":
            return self.apply(opcode, kind, x, self.select(inside, y, width - 1, kind))
        return self.select(inside, self.apply(opcode, kind, x, self.select(inside, y, 0, kind)), 0, kind)

    # all kinds

    def compare(self, name: str, kind: str, x: Entry, y: Entry) -> Entry:
        """Comparison eq, ne, lt, le, gt or ge."""
        if known(x, y):
            return bool(_COMPARISONS[name](x, y))
        if kind == "d":
            opcode = f"fcmp {'u' if name == 'ne' else 'o'}{name}"
        else:
            sign = "" if name in ("eq", "ne") else "u" if kind[0] in "ub" else "s"
            opcode = f"icmp {sign}{name}"
        return self.apply(opcode, kind, x, y)

    def select(self, condition: Entry, yes: Entry, no: Entry, kind: str) -> Entry:
        if not isinstance(condition, str):
            return yes if condition else no
        if same(yes, no):
            return yes
        if kind == "b" and known(yes, no):
            return condition if yes else self.negated(condition)
        wide = self.lanes > 1 and any(map(is_wide, (condition, yes, no)))
        t, c = self.type(kind, wide), self.operand(condition, "b", wide)
        yes, no = self.operand(yes, kind, wide), self.operand(no, kind, wide)
        return self.emit(f"select {self.type('b', wide)} {c}, {t} {yes}, {t} {no}", wide)

    def convert(self, x: Entry, before: str, after: str) -> Entry:
        if before == after:
            return x
        if after == "b":
            return self.compare("ne", before, x, 0.0 if before == "d" else 0)
        if not isinstance(x, str):
            if before == "d":
                return self._saturated(x, after)
            return float(x) if after == "d" else fold(lambda n: np.asarray(n).astype(DTYPES[after]), before, x)
        if after == "d":
            return self.cast("sitofp" if before[0] == "i" else "uitofp", x, before, after)
        if before == "d":
            return self._to_integer(x, after)
        if DTYPES[before].itemsize == DTYPES[after].itemsize and before != "b":
            return x
        if before != "b" and int(after[1:]) < int(before[1:]):
            return self.cast("trunc", x, before, after)
        return self.cast("sext" if before[0] == "i" else "zext", x, before, after)

    def _saturated(self, x: Entry, kind: str) -> int:
        """Saturating conversion to an integer; nan gives 0."""
        info = np.iinfo(DTYPES[kind])
        if math.isnan(x):  # type: ignore[arg-type]
            return 0
        return int(info.min if x <= info.min else info.max if x >= info.max else x)  # type: ignore[operator]

    def _to_integer(self, x: str, kind: str) -> str:
        wide = is_wide(x)
        t, before = self.type(kind, wide), self.type("d", wide)
        vector = f"v{self.lanes}" if wide else ""
        sign = "s" if kind[0] == "i" else "u"
        name = f"@llvm.fpto{sign}i.sat.{vector}i{kind[1:]}.{vector}f64"
        self.declare(f"declare {t} {name}({before})")
        return self.emit(f"call {t} {name}({before} {x})", wide)

    def maximum(self, kind: str, x: Entry, y: Entry) -> Entry:
        return self._extreme("max", kind, x, y)

    def minimum(self, kind: str, x: Entry, y: Entry) -> Entry:
        return self._extreme("min", kind, x, y)

    def _extreme(self, name: str, kind: str, x: Entry, y: Entry) -> Entry:
        if known(x, y):
            return fold(np.maximum if name == "max" else np.minimum, kind, x, y)
        if same(x, y):
            return x
        if kind == "b":
            return self.either(x, y) if name == "max" else self.both(x, y)
        if kind == "d":
            return self.intrinsic(f"{name}imum", kind, *_ordered(x, y), flags="nsz ")
        return self.intrinsic(f"{'u' if kind[0] == 'u' else 's'}{name}", kind, x, y)


def _ordered(x: Entry, y: Entry) -> tuple[Entry, Entry]:
    """Operands of a commutative instruction in canonical order, so that its text is a key."""
    return (y, x) if str(x) > str(y) else (x, y)


def _scales(x: float) -> bool:
    """True for a power of two, by which multiplication is exact, up to underflow and overflow."""
    return abs(math.frexp(x)[0]) == 0.5 and abs(math.frexp(x)[1]) < 64


def _equals(x: Entry, value: Entry) -> bool:
    return not isinstance(x, str) and x == value
