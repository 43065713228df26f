"""Errors of the libraries below this one about arguments of a public call, made errors that name the call and them."""

from __future__ import annotations

import dis
from collections.abc import Iterable, Mapping
from typing import Any

from geonh.arguments.precision import UNTRACEABLE, TracedError, has_tracers

FOREIGN = (TypeError, ValueError, IndexError, AttributeError, OverflowError)
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


def raise_named(error: Exception, called: str, places: Iterable[str], args: tuple, kwargs: Mapping[str, Any]) -> None:
    """Raise, in place of a foreign error, or of JAX's about the value of a tracer, one that names a public call and
    its arguments; return where the given one says it itself.
    """
    arguments = {**dict(zip(places, args, strict=False)), **kwargs}
    if isinstance(error, UNTRACEABLE):
        if traced := [name for name, value in arguments.items() if has_tracers(value)]:
            words = f"{', '.join(traced)} of {called} must not be traced: the values are needed"
            raise TracedError(words) from error
    elif isinstance(error, FOREIGN) and is_foreign(error) and not _is_of_the_call(error, called):
        given = ", ".join(f"{name} = {described(value)}" for name, value in arguments.items())
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{called} could not be computed, given {given}: {error_text(error)}") from error


def _is_of_the_call(error: Exception, called: str) -> bool:
    """True for Python's own error about missing or surplus arguments of a call, which names both."""
    return isinstance(error, TypeError) and str(error).startswith(f"{called}() ")


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
