"""Partial derivatives ∂f/∂xᵢ of elementwise primitives, for ``elementwise``.

Rules ``(em, parameters, flags of the active arguments, *arguments, value) -> tuple``, with None for an argument that is
not active.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from geonh.engine.native.arithmetic import Arithmetic
from geonh.engine.native.values import Entry

Partials: TypeAlias = Callable[..., tuple]


def zero(*arguments: object) -> tuple:
    """Derivatives that vanish almost everywhere, of steps."""
    return ()


def slope(derivative: Callable[..., Entry]) -> Partials:
    """Derivative of a function of one entry, by ``derivative(em, x, value)``."""
    return lambda em, params, moving, *entries: (derivative(em, *entries),)


def side(em: Arithmetic, x: Entry, out: Entry) -> Entry:
    """Sign of x, and 0 for ±0: the derivative of |x|."""
    return em.select(em.compare("lt", "d", x, 0.0), -1.0, em.select(em.compare("gt", "d", x, 0.0), 1.0, 0.0, "d"), "d")


def quotient(em: Arithmetic, params: dict, moving: list[bool], x: Entry, y: Entry, out: Entry) -> tuple:
    over = em.div(1.0, y)
    return over, em.neg(em.mul(out, over)) if moving[1] else None


def extreme(name: str) -> Partials:
    def slopes(em: Arithmetic, params: dict, moving: list[bool], x: Entry, y: Entry, out: Entry) -> tuple:
        def share(a: Entry, b: Entry) -> Entry:
            equal = em.select(em.compare("eq", "d", a, b), 0.5, 0.0, "d")
            return em.select(em.compare(name, "d", a, b), 1.0, equal, "d")

        return share(x, y), share(y, x)

    return slopes


def arctan2(em: Arithmetic, params: dict, moving: list[bool], y: Entry, x: Entry, out: Entry) -> tuple:
    over = em.div(1.0, em.add(em.mul(x, x), em.mul(y, y)))
    return em.mul(x, over), em.neg(em.mul(y, over))


def integer_power(em: Arithmetic, params: dict, moving: list[bool], x: Entry, out: Entry) -> tuple:
    n = params["y"]
    power: Entry = 1.0
    for _ in range(abs(n - 1)):
        power = em.mul(power, x)
    return (em.mul(float(n), power if n >= 1 else em.div(1.0, power)),)
