"""Target "c": an object file, a header that documents it, and an example program in C and in C++."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from geonh.engine import Export, ObjectCode, Target
from geonh.export import derivatives
from geonh.export.model import Model, Quantity, identifiers
from geonh.export.templates import filled
from geonh.integrators.validity import Result
from geonh.results.trajectory import describe
from geonh.version import __version__

FAILURES = [r for r in Result if r.failed and r is not Result.STEP]
"""Values that an exported function may return besides ``Result.SUCCESS``."""


def write(
    model: Model, name: str, folder: Path, target: Target, more: Mapping[str, Export] | None = None
) -> list[Path]:
    """Write the files into a folder, and return their paths, that of the object file first.

    ``more`` functions, by their last names, are in the object file beside those of ``robot.h``.
    """
    code = model.compiled(name, target, **(more or {}))
    (folder / f"{name}.o").write_bytes(code.code)
    texts = {
        f"{name}.h": header(model, name, code),
        "example.c": filled("example.c", name),
        "example.cpp": filled("example.cpp", name),
    }
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")
    return [folder / file for file in (f"{name}.o", *texts)]


def write_with_derivatives(model: Model, name: str, folder: Path, target: Target) -> list[Path]:
    """Write the files, with the derivatives of a step."""
    files = write(model, name, folder, target, more=derivatives.functions(model))
    header = files[1].read_text(encoding="utf-8")
    end = header.rindex("#ifdef __cplusplus")
    files[1].write_text(header[:end] + filled("linearise.h", name) + header[end:], encoding="utf-8")
    return files


def header(model: Model, name: str, code: ObjectCode) -> str:
    """Header of the object code, in C99 and C++."""
    capital = name.upper()
    places = {
        "PARAMETER": ("Places of the parameters.", model.parameters),
        "POINT": ("Places in a point, matrices row by row.", model.point),
        "VELOCITY": ("Places in a velocity g⁻¹dg/dt.", model.velocity),
        "OBSERVED": ("Places in what is observed.", model.observed),
    }
    statuses = (f"  {capital}_{r.name} = {int(r)}, /* {_plain(r.message)} */" for r in FAILURES)
    slots = {
        "system": _plain(model.system.name),
        "method": _plain(describe(model.method)),
        "triple": code.triple,
        "version": __version__,
        "stack": 2 * code.stack // 1024 + 1,
        "externals": ", ".join([*code.externals, "memcpy", "memset"]),
        "parameters": len(model.parameters),
        "inputs": len(model.inputs),
        "late": "" if model.method.guarantees.node == "velocity" else ", a change acts half a step later",
        "point": len(model.point),
        "velocity": len(model.velocity),
        "state": model.state_size,
        "observed": len(model.observed),
        "places": "\n".join(_enumeration(f"{capital}_{key}", *each) for key, each in places.items() if each[1]),
        "statuses": "\n".join(statuses),
        "defaults": "\n".join(
            f"static const double {name}_{what}[] = {{{', '.join(map(repr, values.tolist())) or '0'}}};"
            for what, values in model.defaults.items()
        ),
    }
    return filled("robot.h", name, slots)


def _enumeration(prefix: str, title: str, quantities: list[Quantity]) -> str:
    """Places by name."""
    lines = [f"/* {title} */", "enum {"]
    names = identifiers([quantity.name for quantity in quantities])
    for i, (name, quantity) in enumerate(zip(names, quantities, strict=True)):
        comment = _plain(", ".join(filter(None, (quantity.name, quantity.unit))))
        lines.append(f"  {prefix}_{name} = {i}, /* {comment} */")
    return "\n".join([*lines, "};", ""])


def _plain(text: str) -> str:
    """Text within a comment."""
    return text.replace("*/", "* /").replace("/*", "/ *").replace("\n", " ")
