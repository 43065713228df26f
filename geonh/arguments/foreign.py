"""Errors of the libraries below this one about arguments of a public call, made errors that name the call and them."""

from __future__ import annotations

import dis
from collections.abc import Mapping
from typing import Any

BELOW = ("jax", "jaxlib", "numpy", "equinox", "scipy")
RAISE = dis.opmap["RAISE_VARARGS"]


def is_foreign(error: Exception) -> bool:
    """True for an error that no statement ``raise`` of this library or of a user's function has raised, but a library
    below, or an operator.
    """
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return False
    below = last.tb_frame.f_globals.get("__name__", "").split(".")[0] in BELOW
    return below or last.tb_frame.f_code.co_code[last.tb_lasti] != RAISE


def with_call(error: Exception, called: str, arguments: Mapping[str, Any]) -> Exception:
    """Error that describes a call's arguments, in place of a foreign one."""
    given = ", ".join(f"{name} = {described(value)}" for name, value in arguments.items())
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(f"{called} could not be computed, given {given}: {error_text(error)}")


def described(value: Any) -> str:
    """Description of an argument for its author: its shape, or the names in it."""
    if value is None:
        return "None"
    if isinstance(value, dict):
        return f"parameters {list(value)}" if value else "no parameters, which System(parameters={…}) takes"
    if isinstance(value, tuple | list) and all(hasattr(part, "shape") for part in value):
        return f"a tuple of arrays of shapes {', '.join(str(part.shape) for part in value)}" if value else "()"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of length {len(value)}"
    shape = getattr(value, "shape", ())
    if shape:
        return f"an array of shape {shape}"
    return "a number" if hasattr(value, "shape") or isinstance(value, int | float) else f"a {type(value).__name__}"


def error_text(error: Exception) -> str:
    """First line of an error's text, with its type where the text alone is uninformative."""
    text = str(error).strip().split("\n")[0]
    if text.startswith("Error interpreting argument to"):  # JAX's words for an array that it does not take
        return (
            "it computes with an array that JAX does not take, of another byte order, of long doubles or of objects: "
            "make it one of float64 before, np.asarray(a, dtype=np.float64)"
        )
    return f"{type(error).__name__}: {text}" if isinstance(error, LookupError | ZeroDivisionError) or not text else text
