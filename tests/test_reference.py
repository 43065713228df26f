"""The reference of the API is complete: its pages name every argument, the shapes, the result and the errors."""

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
"""Annotations of what has a shape."""
SHAPED = re.compile(r"\bshapes?\b|\[(\.\.\.|\w)[^]]*\]|of the group|base point|\bscalars?\b|\bas of\b")
"""Words that say a shape, or where it is said."""

REFUSING = re.compile(r"^\s+raise (?!NotImplementedError$)\w|\b(as_(float64|count|flag|names)|one_of|positive)\(", re.M)
"""Code that raises for a wrong argument."""


def arguments(made):
    """Names of the arguments of a call, and what the signature says of them."""
    if inspect.isclass(made) and issubclass(made, Enum):
        return {}
    try:
        found = inspect.signature(made).parameters.values()
    except (TypeError, ValueError):
        return {}
    return {p.name: str(p.annotation) for p in found if p.name not in ("self", "cls") and not p.name.startswith("_")}


def bodies(made):
    """The functions that judge the arguments of a call; not what a dataclass makes."""
    makers = ("__init__", "__check_init__", "__post_init__")
    found = map(vars(made).get, makers) if inspect.isclass(made) else [made]
    return [body for body in found if inspect.isfunction(body) and body.__code__.co_filename != "<string>"]


def is_judged(made):
    """Whether arguments of another type than the signature says are refused."""
    return any(Path(body.__code__.co_filename).stem == "signatures" for body in bodies(made))


def raises(made):
    """Whether a call refuses arguments by itself, or because it is judged."""
    sources = (inspect.getsource(inspect.unwrap(body)) for body in bodies(made))
    return is_judged(made) or any(map(REFUSING.search, sources))


def gaps(made):
    """What the words of a function or a class leave out."""
    doc = api.read(made)
    if not 0 < len(" ".join(doc["Summary"])) < 400:
        yield "no summary in a line or two"
    entries = [*doc["Parameters"], *doc["Other Parameters"], *doc["Attributes"]]
    named = {name.strip().lstrip("*") for entry in entries for name in entry.name.split(",")}
    yield from (f"no word of the argument {name}" for name in arguments(made) if name not in named)
    yield from (f"no type of {entry.name}" for entry in entries if not entry.type)
    if not inspect.isclass(made):
        nothing = str(inspect.signature(made).return_annotation) in ("None", "NoReturn")
        if not nothing and not doc["Returns"] and not doc["Yields"]:
            yield "no Returns"
    for entry in [*entries, *doc["Returns"], *doc["Yields"]]:
        if re.search(r"array(?!\.)|\bpoints?\b", entry.type) and not SHAPED.search(" ".join([entry.type, *entry.desc])):
            yield f"no shape of {entry.name or 'the result'}: {entry.type}"
    if raises(made) and not doc["Raises"]:
        yield "no Raises"
    elif is_judged(made) and not any("TypeError" in entry.type for entry in doc["Raises"]):
        yield "no TypeError among Raises"


def member_gaps(target, called):
    """What the words of a method or a property leave out: a sentence will do, where it tells the shapes."""
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
        yield "no word of what it raises"


def silent(kind):
    """Public methods that neither the class nor a base tells of."""
    for key, member in vars(kind).items():
        words = [getattr(vars(base).get(key), "__doc__", None) for base in kind.__mro__]
        if not key.startswith("_") and inspect.isfunction(member) and not any(words):
            yield f"{key} has no words"


def found_gaps(package):
    for name, made in api.named(package).items():
        if package != "geonh" and api.named("geonh").get(name) is made:
            continue
        yield from (f"{package}.{name}: {gap}" for gap in gaps(made))
        if inspect.isclass(made):
            yield from (f"{package}.{name}: {gap}" for gap in silent(made))
            for key, member in api.members(made).items():
                yield from (f"{package}.{name}.{key}: {gap}" for gap in member_gaps(*member))


@pytest.mark.parametrize("package", api.PACKAGES)
def test_every_public_name_tells_arguments_shapes_results_and_errors(package):
    found = list(found_gaps(package))
    assert not found, f"{len(found)} gaps in docstrings:\n" + "\n".join(found)
