"""Lowerings of operations of one's own: their registration, and the names that rules are written with.

An operation is a JAX ``Primitive``, made by ``Named`` from a function of arrays. Without a lowering it is inlined.
Rules use the ``Emitter``. Values are object arrays of ``Entry`` (``pack`` makes one) or ``Memory``; ``called`` and
``Rows`` write functions of rows of vectors, of ``WIDTH`` entries or the ``pieces`` of a row; ``Push`` is a JVP, of
``Tangent``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

from jax.extend.core import Primitive

from geonh.arguments.validators import shortly
from geonh.engine import dependence, interpreted
from geonh.engine.native.derivatives import TANGENTS, Push, Tangent, zero_tangent
from geonh.engine.native.emitter import RULES, Emitter, Rule
from geonh.engine.native.loops import in_memory as carried_in_memory
from geonh.engine.native.moves import combined
from geonh.engine.native.rows import Rows, called, pieces
from geonh.engine.native.values import WIDTH, Entry, Memory, Value, pack

__all__ = [
    "WIDTH",
    "Emitter",
    "Entry",
    "Memory",
    "Push",
    "Rows",
    "Rule",
    "Tangent",
    "Value",
    "called",
    "carried_in_memory",
    "combined",
    "pack",
    "pieces",
    "register_lowering",
    "zero_tangent",
]

DEGREES = ("linear in each", "solution")


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

    Raises
    ------
    TypeError, ValueError
        If an argument is not one of these. Errors raised by the rule during compilation name it.
    """
    if not isinstance(primitive, Primitive):
        hint = "; it has one, .primitive" if hasattr(primitive, "primitive") else ""
        raise TypeError(f"primitive must be a Primitive of JAX, got {shortly(primitive)}{hint}")
    for name, function in (("rule", rule), ("tangent", tangent), ("in_numpy", in_numpy)):
        if not callable(function) and (function is not None or name == "rule"):
            raise TypeError(f"{name} must be a function, got {shortly(function)}")
    if degree not in (None, *DEGREES):
        raise ValueError(f"degree must be one of {list(DEGREES)} or None, got {shortly(degree)}")

    @functools.wraps(rule)
    def noted(emitter: Emitter, equation: Any, inputs: list[Value]) -> Any:
        try:
            return rule(emitter, equation, inputs)
        except (AttributeError, IndexError, KeyError, NameError, TypeError, ValueError) as error:
            error.add_note(f"geonh: in the rule {shortly(rule)} that register_lowering has for {primitive.name}")
            raise

    RULES[primitive] = noted
    if degree is not None:
        (dependence.LINEAR_SOLUTIONS if degree == "solution" else dependence.BILINEAR).add(primitive.name)
    if tangent is not None:
        TANGENTS[primitive.name] = tangent
    if in_numpy is not None:
        interpreted.RULES[primitive.name] = lambda params, *xs: [in_numpy(params, *xs)]
