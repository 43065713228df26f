"""Digests of numbers and of traces of functions, which tell whether two runs were made with the same."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

SAME = 1e-10
"""Relative tolerance, with respect to the largest value: rounding differs between machines."""


def trace_of(function: Callable, *arguments: Any) -> str:
    """Digest of the trace of a function."""
    jaxpr = jax.make_jaxpr(function)(*arguments)
    return digest(re.sub(r"0x[0-9a-f]+", "", str(jaxpr)), constants(jaxpr))


def constants(tree: Any) -> Iterator[np.ndarray]:
    """Constant arrays of a trace, whose values its text omits."""
    if isinstance(tree, ClosedJaxpr):
        yield from constants([*tree.consts, tree.jaxpr])
    elif isinstance(tree, Jaxpr):
        for equation in tree.eqns:
            yield from constants([v.val for v in equation.invars if isinstance(v, Literal)])
            yield from constants(list(equation.params.values()))
    elif isinstance(tree, list | tuple):
        for part in tree:
            yield from constants(part)
    elif isinstance(tree, np.ndarray | jax.Array) and np.asarray(tree).dtype.kind in "biufc":
        yield np.asarray(tree)


def digest(text: str, arrays: Iterable[np.ndarray]) -> str:
    """Digest of a text and of arrays, unaffected by differences at rounding level."""
    sha = hashlib.sha256(text.encode())
    for array in arrays:
        sha.update(str(array.shape).encode())
        if array.dtype.kind in "fc":
            parts = np.stack([array.real, array.imag]).astype(np.float64)
            largest = np.abs(parts[np.isfinite(parts)]).max(initial=0.0)
            exponent = int(np.frexp(1.1 * largest)[1]) if 1e-290 < largest < 1e300 else 0
            sha.update(str(exponent).encode())
            unit = np.ldexp(SAME, exponent)
            with np.errstate(over="ignore"):  # of the largest numbers there are
                array = np.where(np.isfinite(parts), np.rint(parts / unit), parts) + 0.0  # normalise -0.0
        sha.update(array.tobytes())
    return sha.hexdigest()[:16]
