"""Target "casadi": a library with functions of CasADi: a step and the equations of motion, with their Jacobians."""

from __future__ import annotations

from pathlib import Path

from geonh.engine import Target
from geonh.export import c
from geonh.export.derivatives import solver_functions
from geonh.export.linking import SUFFIX, linked
from geonh.export.model import Model
from geonh.export.templates import filled


def write(model: Model, name: str, folder: Path, target: Target) -> list[Path]:
    """Write the files into a folder, and return their paths."""
    files = c.write(model, name, folder, target, more=solver_functions(model))
    source, library = folder / f"{name}_casadi.c", folder / f"{name}_casadi{SUFFIX}"
    source.write_text(filled("casadi.c", name, {"library": library.name}), encoding="utf-8")
    linked(library, [source, files[0]])
    return [library, source, *files]
