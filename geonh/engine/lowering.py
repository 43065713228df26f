"""How an operation of one's own is compiled: what it computes stands with it, and is told to the engine here.

An operation is a ``Primitive`` of JAX, made by ``Named`` for a function of arrays. Without a lowering it is written out
as what it is made of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from geonh.engine import dependence, interpreted
from geonh.engine.native.derivatives import TANGENTS
from geonh.engine.native.emitter import RULES, Rule


def register_lowering(
    primitive: Any,
    rule: Rule,
    *,
    degree: Literal["linear in each", "solution"] | None = None,
    tangent: Callable[..., Any] | None = None,
    in_numpy: Callable[..., Any] | None = None,
) -> None:
    """Tell the engine how an operation is written.

    Parameters
    ----------
    primitive : Primitive
        The operation.
    rule : callable
        (emitter, equation, inputs) → outputs, ``Value`` each: writes its instructions.
    degree : str, optional
        "linear in each" of its two arguments, or the "solution" x of Ax = b for the arguments A, b: what is found to
        be affine is solved by one correction.
    tangent : callable, optional
        (emitter, equation, inputs, outputs) → push, a function from the tangents of the arguments (None for zero) to
        those of the results; or None where JAX is to differentiate.
    in_numpy : callable, optional
        (parameters, *arrays) → array: what it computes outside of programs, where that is faster than what it is made
        of.
    """
    RULES[primitive] = rule
    if degree is not None:
        (dependence.SOLVES if degree == "solution" else dependence.BILINEAR).add(primitive.name)
    if tangent is not None:
        TANGENTS[primitive.name] = tangent
    if in_numpy is not None:
        interpreted.RULES[primitive.name] = lambda params, *xs: [in_numpy(params, *xs)]
