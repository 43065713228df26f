"""Target "wasm": a WebAssembly module, and a JavaScript class of a run, for browsers and node."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from geonh.engine import Export, Target
from geonh.export.c import FAILURES
from geonh.export.model import Model
from geonh.export.templates import filled
from geonh.export.wasm import TARGET, Module, module_of
from geonh.results.trajectory import describe
from geonh.version import __version__

FUNCTIONS = (
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    *("exp", "exp2", "expm1", "log", "log1p", "cbrt", "pow", "fmod"),
)
"""Functions that JavaScript has."""

GLOBALS = ("Array", "Error", "Float64Array", "JSON", "Math", "Number", "Object", "String", "Uint8Array", "WebAssembly")
"""Names that the class of a run may not have."""


def write(model: Model, name: str, folder: Path, target: Target) -> list[Path]:
    """Write the files into a folder, and return their paths; ValueError if the class would hide one that it needs."""
    if name[:1].upper() + name[1:] in GLOBALS:
        raise ValueError(
            f"the last part of path names the class of a run, and JavaScript has one of that name: {name!r}"
        )
    module = compiled(model, name)
    (folder / f"{name}.wasm").write_bytes(module.code)
    texts = {
        f"{name}.js": script(model, name, module),
        "example.mjs": filled("example.mjs", name),
        "package.json": PACKAGE,
    }
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")
    return [folder / file for file in (f"{name}.wasm", *texts)]


PACKAGE = '{ "type": "module" }\n'
"""Package file by which Node.js takes the files as modules."""


def compiled(model: Model, name: str, **more: Export) -> Module:
    """Module of a model, with ``more`` functions by their last names; ValueError if it needs a function that JavaScript
    has not.
    """
    code = model.compiled(name, TARGET, **more)
    module = module_of(code, [*model.functions(name), *(f"{name}_{key}" for key in more)])
    absent = [function for function in module.imports if function not in FUNCTIONS]
    if absent:
        raise ValueError(f"it cannot be exported for JavaScript, which has no {', '.join(absent)}")
    return module


def script(model: Model, name: str, module: Module) -> str:
    """Class of a run, with the module in it."""
    first = model.parameters[0].name if model.parameters else ""
    example = f"{json.dumps(first)}: {model.parameter_values[0]!r}" if first else ""
    slots = {
        "system": model.system.name.replace("\n", " "),
        "method": describe(model.method),
        "version": __version__,
        "size": f"{len(module.code) / 1e3:.1f}",
        "example": example,
        "data": json.dumps(data(model), indent=1, ensure_ascii=False, allow_nan=False),
        "code": base64.b64encode(module.code).decode(),
        "run": filled("run.js", name),
    }
    return filled("robot.js", name, slots)


def data(model: Model) -> dict[str, Any]:
    """Names, units and values by default of a model's vectors, for JSON."""
    return {
        **{key: [q._asdict() for q in getattr(model, key)] for key in ("parameters", "point", "velocity", "observed")},
        "sizes": sizes(model),
        "defaults": {key: values.tolist() for key, values in model.defaults.items()},
        "statuses": {int(result): result.message for result in FAILURES},
    }


def sizes(model: Model) -> dict[str, int]:
    """Numbers of the vectors of a run."""
    projected = len(model.point) + len(model.velocity)
    given = {key: len(values) for key, values in model.defaults.items()}
    return {**given, "state": model.state_size, "observed": len(model.observed), "projected": projected}
