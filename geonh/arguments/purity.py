"""Whether functions depend on what they are given alone, as far as two traces tell.

A trace takes everything else as it is: random numbers of NumPy, the time of day, the next of an iterator would be
constants of a program in silence. Where another trace has others, the function is refused.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.extend as jex
import numpy as np

WORDS = (
    "gives another result each time that it is traced (random numbers of NumPy, the time, an iterator?), and programs "
    "would have one of them as a constant: what changes is a parameter. Draw noise before, and give it as controls= at "
    "the nodes or as parameters="
)

_known: weakref.WeakSet[Callable] = weakref.WeakSet()
"""Functions that are not looked at again."""


class ChangingError(ValueError):
    """A function gives another result each time that it is traced."""


def refuse_changing(function: Callable, args: tuple, traced: Callable[..., Any] | None = None) -> None:
    """Trace a function twice, where it is new, and raise for one that changes.

    Parameters
    ----------
    traced : callable, optional
        Gives the first of the two traces, where there is one already.

    Raises
    ------
    ChangingError
        If the traces differ. A function that cannot be traced, or closes over what is, is left to its caller.
    """
    try:
        if function in _known:
            return
        first, second = (jax.make_jaxpr(lambda *args: function(*args)) for _ in range(2))  # which JAX takes for new
        pair = (traced or first)(*args), second(*args)
    except Exception:
        return
    if any(isinstance(const, jax.core.Tracer) for one in pair for const in getattr(one, "consts", ())):
        return  # it closes over what is being traced, of which traces within make different things
    if not _alike(*pair):
        raise ChangingError(WORDS)
    with contextlib.suppress(TypeError):  # of what is not referred to weakly
        _known.add(function)


def _alike(first: Any, second: Any) -> bool:
    """Whether two traces compute the same."""
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
    """Whether parts of two traces are the same; what is neither numbers nor traces does not count."""
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
