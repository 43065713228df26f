"""What a function depends on, seen from its trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.interpreters.partial_eval import dce_jaxpr


def depends(function: Callable, at: Any, *others: Any) -> bool:
    """Whether the traced values of ``function(at, *others)`` use ``at``; all are pytrees of arrays or of shapes.

    What is not used in the trace does not matter; the converse may fail where terms cancel.
    """
    jaxpr = jax.make_jaxpr(function)(at, *others).jaxpr
    used = dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))[1]
    return any(used[: len(jax.tree.leaves(at))])


def is_affine(function: Callable, at: Any) -> bool:
    """Whether the traced Jacobian of ``function`` does not use its argument."""
    return not depends(jax.jacfwd(function), at)
