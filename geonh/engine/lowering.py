"""Registration of lowerings of user-defined primitives with the engine.

An operation is a JAX ``Primitive``, made by ``Named`` from a function of arrays. Without a lowering it is inlined.
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
    """Register the lowering of a primitive.

    Parameters
    ----------
    primitive : Primitive
        The operation.
    rule : callable
        (emitter, equation, inputs) → outputs, ``Value`` each: emits its instructions.
    degree : str, optional
        "linear in each" of its two arguments, or the "solution" x of Ax = b for the arguments A, b: equations detected
        as affine are solved by one correction.
    tangent : callable, optional
        (emitter, equation, inputs, outputs) → push, the JVP: a function from the tangents of the arguments (None for
        zero) to those of the results; or None to let JAX differentiate.
    in_numpy : callable, optional
        (parameters, *arrays) → array: evaluation outside of programs, where that is faster than evaluating its
        inlined jaxpr.
    """
    RULES[primitive] = rule
    if degree is not None:
        (dependence.SOLVES if degree == "solution" else dependence.BILINEAR).add(primitive.name)
    if tangent is not None:
        TANGENTS[primitive.name] = tangent
    if in_numpy is not None:
        interpreted.RULES[primitive.name] = lambda params, *xs: [in_numpy(params, *xs)]
