"""Public docstrings are complete: every argument, the shapes, the result and the errors."""

import inspect
import re
import sys
from enum import Enum
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "docs" / "_ext"))
pytest.importorskip("numpydoc", reason="the pages of the API need the extra: pip install '.[docs]'")

import api

ARRAYS = re.compile(r"\b(Array|ArrayLike|ndarray|Point)\b")
"""Annotations of arguments and results that have a shape."""
SHAPED = re.compile(r"\bshapes?\b|\[(\.\.\.|\w)[^]]*\]|of the group|base point|\bscalars?\b|\bas of\b")
"""Words that give a shape, or refer to where it is given."""

RAISING = re.compile(r"^\s+raise (?!NotImplementedError$)\w|\b(as_(float64|count|flag|names)|one_of|positive)\(", re.M)
"""Code that raises an error for an argument."""


def arguments(target):
    """Names and annotations of the arguments of a function or class."""
    if inspect.isclass(target) and issubclass(target, Enum):
        return {}
    try:
        result = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):
        return {}
    return {p.name: str(p.annotation) for p in result if p.name not in ("self", "cls") and not p.name.startswith("_")}


def bodies(target):
    """Functions that validate the arguments, without those generated for a dataclass."""
    makers = ("__init__", "__check_init__", "__post_init__")
    result = map(vars(target).get, makers) if inspect.isclass(target) else [target]
    return [body for body in result if inspect.isfunction(body) and body.__code__.co_filename != "<string>"]


def is_validated(target):
    """True if arguments are validated by their annotations."""
    return any(Path(body.__code__.co_filename).stem == "signatures" for body in bodies(target))


def raises(target):
    """True if a call may raise an error for its arguments."""
    sources = (inspect.getsource(inspect.unwrap(body)) for body in bodies(target))
    return is_validated(target) or any(map(RAISING.search, sources))


def gaps(target):
    """Gaps in the docstring of a function or class."""
    doc = api.read(target)
    if not 0 < len(" ".join(doc["Summary"])) < 400:
        yield "no summary in a line or two"
    entries = [*doc["Parameters"], *doc["Other Parameters"], *doc["Attributes"]]
    named = {name.strip().lstrip("*") for entry in entries for name in entry.name.split(",")}
    yield from (f"argument missing: {name}" for name in arguments(target) if name not in named)
    yield from (f"no type of {entry.name}" for entry in entries if not entry.type)
    if not inspect.isclass(target):
        nothing = str(inspect.signature(target).return_annotation) in ("None", "NoReturn")
        if not nothing and not doc["Returns"] and not doc["Yields"]:
            yield "no Returns"
    for entry in [*entries, *doc["Returns"], *doc["Yields"]]:
        if re.search(r"array(?!\.)|\bpoints?\b", entry.type) and not SHAPED.search(" ".join([entry.type, *entry.desc])):
            yield f"no shape of {entry.name or 'the result'}: {entry.type}"
    if raises(target) and not doc["Raises"]:
        yield "no Raises"
    elif is_validated(target) and not any("TypeError" in entry.type for entry in doc["Raises"]):
        yield "no TypeError among Raises"


def member_gaps(target, called):
    """Gaps in the docstring of a method or property, for which a sentence with the shapes is enough."""
    doc = api.read(target)
    if not doc["Summary"][0]:
        yield "no summary"
    if doc["Parameters"] or doc["Returns"]:
        yield from gaps(target)
        return
    given = [*arguments(target).values(), str(inspect.signature(target).return_annotation)]
    if any(map(ARRAYS.search, given)) and not SHAPED.search(target.__doc__):
        yield "no shape"
    if called and raises(target) and not re.search(r"Raises|refuse|error|Error", target.__doc__):
        yield "no errors"


def undocumented(kind):
    """Public methods without a docstring in the class or a base."""
    for key, member in vars(kind).items():
        words = [getattr(vars(base).get(key), "__doc__", None) for base in kind.__mro__]
        if not key.startswith("_") and inspect.isfunction(member) and not any(words):
            yield f"{key} has no docstring"


def gaps_of_package(package):
    for name, target in api.named(package).items():
        if package != "geonh" and api.named("geonh").get(name) is target:
            continue
        yield from (f"{package}.{name}: {gap}" for gap in gaps(target))
        if inspect.isclass(target):
            yield from (f"{package}.{name}: {gap}" for gap in undocumented(target))
            for key, member in api.members(target).items():
                yield from (f"{package}.{name}.{key}: {gap}" for gap in member_gaps(*member))


@pytest.mark.parametrize("package", api.PACKAGES)
def test_public_docstrings_have_arguments_shapes_results_and_errors(package):
    result = list(gaps_of_package(package))
    assert not result, f"{len(result)} gaps in docstrings:\n" + "\n".join(result)
