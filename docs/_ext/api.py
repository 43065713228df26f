"""The API as Markdown: signatures, and docstrings read by numpydoc. Symbols such as |x|, ad* and ξ_k stay as written."""

import inspect
import re
import warnings

from markup import escaped, prose
from numpydoc.docscrape import NumpyDocString

LISTS = ("Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns")
WORDS = ("Notes", "Examples", "References")


def page(room, module, names):
    """Every public name of a room."""
    lines = [f"# {room}", ""]
    if room != "geonh":
        lines += [prose(module.__doc__), ""]
    for name in names or module.__all__:
        made = getattr(module, name)
        if not inspect.ismodule(made) and callable(made):
            lines += object_lines(name, made, 2)
    return "\n".join(lines)


def object_lines(name, made, level):
    """Heading, signature, docstring; of a class its methods and properties too."""
    lines = [f"{'#' * level} {escaped(name)}", "", "```python", signature(name, made), "```", ""]
    lines += docstring(made)
    if inspect.isclass(made):
        for key, member in vars(made).items():
            inner = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            target = inner.fget if isinstance(inner, property) else getattr(inner, "func", inner)
            if key.startswith("_") or not (callable(target) and getattr(target, "__doc__", None)):
                continue
            if inspect.isclass(target):
                continue
            kind = "" if isinstance(inner, property) or hasattr(inner, "func") else signature(key, target)
            lines += [f"{'#' * (level + 1)} {name}.{escaped(key)}", ""]
            lines += ["```python", kind, "```", ""] if kind else []
            lines += docstring(target)
    return lines


def signature(name, made):
    """The call, one argument a line where it is long; without annotations, which the words give."""
    try:
        found = inspect.signature(made)
    except (TypeError, ValueError):
        return name
    shown = [p.replace(annotation=p.empty) for p in found.parameters.values() if p.name not in ("self", "cls")]
    text = str(found.replace(parameters=shown, return_annotation=found.empty))
    text = re.sub(r"<(?:function|class) '?([\w.]+)'?[^>]*>", r"\1", text)
    if len(name + text) <= 88:
        return name + text
    return name + "(\n    " + ",\n    ".join(map(str, shown)) + ",\n)"


def docstring(made):
    """A docstring's sections."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parsed = NumpyDocString(inspect.cleandoc(made.__doc__ or ""))
    lines = [prose("\n".join(parsed["Summary"])), "", prose("\n".join(parsed["Extended Summary"])), ""]
    for section in LISTS:
        if parsed[section]:
            lines += [f"**{section}**", ""]
            for entry in parsed[section]:
                head = f"`{entry.name}`" if entry.name else ""
                kind = f" : {escaped(entry.type)}" if entry.type and entry.name else escaped(entry.type)
                lines += [head + kind, *[f": {prose(chr(10).join(entry.desc))}".replace("\n", "\n  ")], ""]
    for section in WORDS:
        if parsed[section]:
            lines += [f"**{section}**", "", prose("\n".join(parsed[section])), ""]
    return lines
