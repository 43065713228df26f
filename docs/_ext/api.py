"""The API as Markdown: signatures, and docstrings read by numpydoc. Symbols such as |x|, ad* and ξ_k stay as written."""

import functools
import importlib
import inspect
import itertools
import re
import sys
import warnings
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from markup import escaped, prose
from numpydoc.docscrape import NumpyDocString

import geonh as gn

KEYWORD_ONLY, VAR_POSITIONAL = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_POSITIONAL
LISTS = ("Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns")
PACKAGES = {
    "geonh": (
        "System",
        "Distribution",
        "AffineDistribution",
        "solve",
        "integrate",
        "resume",
        "solve_ensemble",
        "Ensemble",
        "Sweep",
        "open_store",
        "stream",
        "compose",
        "Trajectory",
        "Event",
        "time_dependent",
        "float64",
        "IntegrationError",
        "FileError",
    ),
    "geonh.groups": None,
    "geonh.geometry": None,
    "geonh.mechanics": None,
    "geonh.integrators": None,
    "geonh.systems": None,
    "geonh.analysis": None,
    "geonh.diagnostics": None,
    "geonh.rolling": None,
    "geonh.bodies": None,
    "geonh.control": None,
    "geonh.ensembles": None,
    "geonh.interop": None,
    "geonh.drawing": None,
    "geonh.export": None,
    "geonh.plotting": None,
    "geonh.viewer": None,
    "geonh.testing": ("check_group",),
}
"""Packages with a page, and the names on it; all public names of the package if None."""


def page(package):
    """Every public name of a package; names of the page of geonh are links to it."""
    lines = [f"# {package}", ""]
    if package != "geonh":
        lines += [prose(importlib.import_module(package).__doc__), ""]
    for name, made in named(package).items():
        if package != "geonh" and named("geonh").get(name) is made:
            lines += [f"## {escaped(name)}", "", f"See [geonh.{escaped(name)}](geonh.md#{name.lower()}).", ""]
        else:
            lines += object_lines(name, made, 2)
    files = dict.fromkeys(made.__module__ for made in named(package).values() if file_of(made))
    if package != "geonh" and files:
        lines += ["## Formulas and sources", ""]
        for file in files:
            lines += [f"### Formulas of {escaped(file)}", "", prose(sys.modules[file].__doc__), ""]
    return linked("\n".join(lines))


def linked(text):
    """The page with links to that of the mathematics, outside formulas."""
    parts = re.split(r"(```.*?```)", text, flags=re.S)
    parts[::2] = [part.replace("mathematics.md §", "[mathematics](../../mathematics.md) §") for part in parts[::2]]
    return "".join(parts)


@functools.cache
def named(package):
    """The functions and classes of a package, by name."""
    module = importlib.import_module(package)
    found = {name: getattr(module, name) for name in PACKAGES[package] or module.__all__}
    return {name: made for name, made in found.items() if callable(made) and made.__module__.startswith("geonh")}


@functools.cache
def on_a_page():
    """All of these."""
    return {made for package in PACKAGES for made in named(package).values()}


def object_lines(name, made, level):
    """Heading, signature, docstring; of a class its methods and properties too."""
    lines = [f"{'#' * level} {escaped(name)}", "", "```python", call_of(name, made), "```", ""]
    lines += docstring(made) + told_elsewhere(made)
    for key, member in members(made).items() if inspect.isclass(made) else ():
        call = signature(key, member.target, bound=1) if member.called else ""
        lines += [f"{'#' * (level + 1)} {name}.{escaped(key)}", ""]
        lines += ["```python", call, "```", ""] if call else []
        lines += docstring(member.target)
    return lines


def call_of(name, made):
    """How it is called; of what is not made by users, such as results and bases, the name alone."""
    if inspect.isclass(made):
        doc = read(made)
        if inspect.isabstract(made) or issubclass(made, Enum) or (doc["Attributes"] and not doc["Parameters"]):
            return f"class {name}"
    return signature(name, made)


def file_of(made):
    """The anchor of the formulas and sources of its file, if it has some; those of methods and systems have pages."""
    words = sys.modules[made.__module__].__doc__ or ""
    on_own_page = made.__module__ in {type(m.make()).__module__ for m in gn.methods.values()}
    on_own_page |= made.__module__ in {entry.build.__module__ for entry in gn.systems.catalogue.values()}
    found = re.search(r"\b(19|20)\d\d\b|mathematics\.md|\n\n    ", words) and not on_own_page
    return f"#formulas-of-{made.__module__.replace('.', '')}" if found else ""


def told_elsewhere(made):
    """Where the equations and the source are told."""
    pages = [f"[{n}](../methods/{n}.md)" for n, m in gn.methods.items() if type(m.make()) is made]
    pages += [f"[{n}](../systems/{n}.md)" for n, entry in gn.systems.catalogue.items() if entry.build is made]
    home = next((package for package in PACKAGES if package != "geonh" and made in named(package).values()), None)
    if not pages and home and file_of(made):
        pages = [f"[{escaped(made.__module__)}]({home}.md{file_of(made)})"]
    return [f"Equations and source: {', '.join(pages)}.", ""] if pages else []


class Member(NamedTuple):
    """A public method or property of a class."""

    target: Callable
    called: bool


def members(kind):
    """What a page shows of a class: its members with words, those of bases without a page among them.

    What is there for other parts of geonh comes last; its words begin with "For".
    """
    found = {}
    bases = itertools.takewhile(lambda base: base is kind or base not in on_a_page(), kind.__mro__)
    for base in (base for base in bases if base.__module__.startswith("geonh")):
        for key, member in vars(base).items():
            inner = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            target = inner.fget if isinstance(inner, property) else getattr(inner, "func", inner)
            if key.startswith("_") or key in found or not callable(target) or inspect.isclass(target):
                continue
            if getattr(target, "__doc__", None):
                found[key] = Member(target, inner is target)
    return dict(sorted(found.items(), key=lambda item: item[1].target.__doc__.startswith("For ")))


def signature(name, made, bound=0):
    """The call, one argument a line where it is long; without annotations, which the words give, and ``self``."""
    try:
        found = inspect.signature(made)
    except (TypeError, ValueError):
        return name
    shown = [p.replace(annotation=p.empty) for p in found.parameters.values()][bound:]
    text = str(found.replace(parameters=shown, return_annotation=found.empty))
    text = re.sub(r"<(?:function|class) '?([\w.]+)'?[^>]*>", r"\1", text)
    if len(name + text) <= 72:
        return name + text
    lines = [re.sub(r"<(?:function|class) '?([\w.]+)'?[^>]*>", r"\1", str(p)) for p in shown]
    kinds = [p.kind for p in shown]
    if KEYWORD_ONLY in kinds and VAR_POSITIONAL not in kinds:
        lines.insert(kinds.index(KEYWORD_ONLY), "*")
    return name + "(\n    " + ",\n    ".join(lines) + ",\n)"


def references(section):
    """Entries of a section of references, ``.. [key] words``, with the citation of their key in docs/references.bib."""
    entries = re.findall(r"^\.\. \[(\w+)\] (.*?)(?=^\.\. |\Z)", "\n".join(section), flags=re.M | re.S)
    return [f"{prose(' '.join(words.split()))} {{cite}}`{key}`" for key, words in entries]


def read(made):
    """A docstring in numpydoc's sections."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return NumpyDocString(inspect.cleandoc(made.__doc__ or ""))


def docstring(made):
    """A docstring's sections."""
    parsed = read(made)
    lines = [prose("\n".join(parsed["Summary"])), "", prose("\n".join(parsed["Extended Summary"])), ""]
    for section in LISTS:
        if parsed[section]:
            lines += [f"**{section}**", ""]
            for entry in parsed[section]:
                head = f"`{entry.name}`" if entry.name else ""
                kind = f" : {escaped(entry.type)}" if entry.type and entry.name else escaped(entry.type)
                said = prose("\n".join(entry.desc)).replace("\n", "\n  ")
                lines += [head + kind, *([f": {said}"] if said.strip() else []), ""]
    if parsed["Notes"]:
        lines += ["**Notes**", "", prose("\n".join(parsed["Notes"])), ""]
    if parsed["References"]:
        lines += ["**References**", "", *(f"- {line}" for line in references(parsed["References"])), ""]
    if parsed["Examples"]:
        lines += ["**Examples**", "", "```pycon", *parsed["Examples"], "```", ""]
    return lines
