"""Schema validation of data read from files, before anything is constructed from it."""

from __future__ import annotations

from typing import Any

from geonh.arguments.validators import shortly

COUNT = range(1, 2**53)
"""Schema of a count, at least one."""


def misfit(value: Any, form: Any, name: str = "") -> str:
    """Location and value of the first mismatch between JSON data and a schema.

    Parameters
    ----------
    value : object
        The data that was read.
    form : type, range, tuple, list or dict
        An exact type; a range or a tuple that contains the value; a list of one schema for all entries, or of the
        schemas of each; a dict of the schemas of some keys, or ``{str: form}`` for all values of a mapping.
    name : str
        Name of the value in the message.

    Returns
    -------
    str
        "" if the data match.
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
