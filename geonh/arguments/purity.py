"""Check that functions are pure, by comparing two traces, and that no half-precision scalar becomes a constant of one.

A trace captures everything but the arguments as constants: random numbers of NumPy, the time of day, the next item of
an iterator would silently be constants of a program. A function whose second trace differs is refused.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.extend as jex
import numpy as np

WORDS = (
    "gives another result each time that it is traced (random numbers of NumPy, the time, an iterator?), and programs "
    "would have one of them as a constant: what changes is a parameter. Noise is controls=geonh.Wiener(size, dt, "
    "seed=…); other random numbers are drawn before, and given as parameters="
)

JAXPRS = (jex.core.Jaxpr, jex.core.ClosedJaxpr)
HALF = (
    "computes with float16 data, whose digits are lost already: write its numbers as Python floats, or pass parameters="
)

_known: weakref.WeakSet[Callable] = weakref.WeakSet()
"""Functions that have passed the check."""


class Pure:
    """Base of functions of the library that are frozen dataclasses: they depend on their arguments and fields alone."""


def is_pure(function: Callable) -> bool:
    """True for a function of the library, or a method of one, that is known to be pure."""
    return isinstance(getattr(function, "__self__", function), Pure)


class ChangingError(ValueError):
    """Error of an impure function: it gives another result each time that it is traced."""


class HalfPrecisionError(TypeError):
    """Error of a function that computes with scalars in half precision, which JAX converts without a trace of it."""


def refuse_changing(function: Callable, args: tuple, traced: Callable[..., Any] | None = None) -> None:
    """Trace a function twice, unless it was checked before, and raise if the traces differ.

    Parameters
    ----------
    traced : callable, optional
        Returns the first of the two traces, if there is one already.

    Raises
    ------
    ChangingError
        If the traces differ. A function that cannot be traced, or captures tracers, is left to its caller.
    HalfPrecisionError
        If it computes with scalars in half precision.
    """
    if is_pure(function):
        return
    try:
        if function in _known:
            return
        first, second = (jax.make_jaxpr(lambda *args: function(*args)) for _ in range(2))  # uncached by JAX
        pair = (traced or first)(*args), second(*args)
    except Exception:
        return
    if any(isinstance(const, jax.core.Tracer) for one in pair for const in getattr(one, "consts", ())):
        return  # it captures tracers, for which nested traces differ
    if not _alike(*pair):
        raise ChangingError(WORDS)
    if any(map(_is_half, _literals(pair[0]))) and _mixes_halves(function, args):
        raise HalfPrecisionError(HALF)
    with contextlib.suppress(TypeError):  # not all callables support weak references
        _known.add(function)


def _literals(jaxpr: Any) -> Iterator[Any]:
    """Literal constants of a jaxpr, and of those in its equations."""
    for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        yield from (atom.val for atom in eqn.invars if isinstance(atom, jex.core.Literal))
        for part in jax.tree.leaves(list(eqn.params.values()), is_leaf=lambda p: isinstance(p, JAXPRS)):
            if isinstance(part, JAXPRS):
                yield from _literals(part)


def _is_half(value: Any) -> bool:
    """True for a float64 scalar that may be rounded to float16: exact there, and no decimal number of its digits."""
    if np.shape(value) != () or getattr(value, "dtype", None) != np.float64 or not abs(value) < 65504:
        return False
    half = np.float16(value)
    return bool(half == value) and float(str(half)) != value


def _mixes_halves(function: Callable, args: tuple) -> bool:
    """True if float16 data are converted within a function: strict type promotion refuses that."""
    try:
        with jax.numpy_dtype_promotion("strict"):
            jax.make_jaxpr(lambda *args: function(*args))(*args)
    except Exception as error:
        return "float16" in str(error)
    return False


def _alike(first: Any, second: Any) -> bool:
    """True if two jaxprs are the same computation."""
    if first is second:
        return True
    a, b = (getattr(one, "jaxpr", one) for one in (first, second))
    if len(a.eqns) != len(b.eqns) or not _same(*([*getattr(one, "consts", ())] for one in (first, second))):
        return False
    places: list[dict[Any, int]] = [{}, {}]

    def place(which: int, atom: Any) -> Any:
        if isinstance(atom, jex.core.Literal):
            return atom.val
        return (places[which].setdefault(atom, len(places[which])),)

    for which, one in enumerate((a, b)):
        for variable in (*one.constvars, *one.invars):
            place(which, variable)
    for x, y in zip(a.eqns, b.eqns, strict=True):
        if x.primitive is not y.primitive or not _same(x.params, y.params):
            return False
        atoms = ([place(which, atom) for atom in (*e.invars, *e.outvars)] for which, e in enumerate((x, y)))
        if not _same(*atoms):
            return False
    return _same(*([place(which, atom) for atom in one.outvars] for which, one in enumerate((a, b))))


def _same(x: Any, y: Any) -> bool:
    """True if parts of two jaxprs are equal; objects other than numbers and jaxprs are not compared."""
    if x is y:
        return True
    if isinstance(x, jax.core.Tracer) or type(x) is not type(y):
        return isinstance(y, jax.core.Tracer) == isinstance(x, jax.core.Tracer)
    if isinstance(x, list | tuple):
        return len(x) == len(y) and all(map(_same, x, y))
    if isinstance(x, dict):
        return x.keys() == y.keys() and all(_same(x[key], y[key]) for key in x)
    if isinstance(x, jex.core.Jaxpr | jex.core.ClosedJaxpr):
        return _alike(x, y)
    if isinstance(x, np.ndarray | np.generic | jax.Array) and isinstance(x.dtype, np.dtype):
        return np.asarray(x).tobytes() == np.asarray(y).tobytes()
    return not isinstance(x, bool | int | float | complex | str) or repr(x) == repr(y)
