"""The form that data from a file must have: looked at once, before anything is made of it."""

from __future__ import annotations

from typing import Any

from geonh.arguments.validators import shortly

COUNT = range(1, 2**53)
"""Form of a number of things, at least one."""


def misfit(value: Any, form: Any, name: str = "") -> str:
    """Where a value that JSON can hold has another form than it should, and what is there.

    Parameters
    ----------
    value : object
        What was read.
    form : type, range, tuple, list or dict
        A type, exactly; a range or a tuple, of which the value is one; a list of one form for entries that all have it,
        or of the forms of each; a dict of the forms of some keys, or ``{str: form}`` for all values of a mapping.
    name : str
        Of the value, for what is said.

    Returns
    -------
    str
        "" if the form is right.
    """
    if isinstance(form, dict) and isinstance(value, dict):
        of_keys = dict.fromkeys(value, form[str]) if str in form else form
        missing = [key for key in of_keys if key not in value]
        if missing:
            return f"{name + ': ' if name else ''}{missing[0]} is missing"
        return _first((value[key], one, f"{name}.{key}" if name else key) for key, one in of_keys.items())
    if isinstance(form, list) and isinstance(value, list) and len(form) in (1, len(value)):
        forms = form * len(value) if len(form) == 1 else form
        return _first((entry, one, f"{name}[{i}]") for i, (entry, one) in enumerate(zip(value, forms, strict=True)))
    if isinstance(form, type):
        right = type(value) is form
    else:
        right = type(value) is int or (type(value) is str and isinstance(form, tuple))  # no text is sought in a range
        right = right and isinstance(form, range | tuple) and value in form
    return "" if right else f"{name} is {shortly(value)}"


def _first(cases: Any) -> str:
    return next(filter(None, (misfit(*case) for case in cases)), "")
