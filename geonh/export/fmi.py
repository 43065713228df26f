"""Targets "fmi2" and "fmi3": a functional mock-up unit for co-simulation, by versions 2.0 and 3.0 of the interface.

The files of a unit are as the specifications say (Modelica Association, Functional Mock-up Interface 2.0.4 and 3.0.1):
a description in XML, and a library for this machine.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import sys
import tempfile
import zipfile
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree as xml

from geonh.engine import Target
from geonh.export import c
from geonh.export.linking import SUFFIX, linked
from geonh.export.model import Model, Quantity
from geonh.export.templates import filled
from geonh.results.trajectory import describe
from geonh.version import __version__

SHOWN = 1000
"""Number of steps of the experiment by default."""


class Variable(NamedTuple):
    """Variable of a unit; ``start`` is its value by default, None for an output."""

    name: str
    unit: str
    description: str
    kind: str
    start: float | None


def write(model: Model, name: str, folder: Path, target: Target, *, version: int) -> list[Path]:
    """Write the unit into a folder, and return its path."""
    unit = folder / f"{name}.fmu"
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        made = c.write(model, name, work, target)
        token = hashlib.sha256(made[0].read_bytes()).hexdigest()[:32]
        words = {int(r): json.dumps(r.message, ensure_ascii=False) for r in c.FAILURES}
        reasons = "\n".join(f"    case {number}: return {quoted};" for number, quoted in words.items())
        shared = filled("fmu.c", name, {"reasons": reasons, "token": token})
        source, library = work / "fmu.c", work / f"{name}{SUFFIX}"
        source.write_text(filled(f"fmi{version}.c", name, {"shared": shared}), encoding="utf-8")
        linked(library, [source, made[0]])
        with zipfile.ZipFile(unit, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("modelDescription.xml", description(model, name, token, version))
            archive.write(library, f"binaries/{_platform(version)}/{library.name}")
    return [unit]


WRITERS = {f"fmi{version}": partial(write, version=version) for version in (2, 3)}
"""Writers of units, by target."""


def variables(model: Model) -> list[Variable]:
    """Variables in the order of their references."""
    defaults, times = model.defaults, model.times

    def of(kind: str, quantities: list[Quantity], values: Any, prefix: str = "") -> list[Variable]:
        return [Variable(prefix + q.name, q.unit, "", kind, float(v)) for q, v in zip(quantities, values, strict=True)]

    inputs = [Quantity(f"u[{i}]") for i in range(len(model.inputs))]
    others = [
        Variable("step", model.observed[0].unit, "length of a step of the method", "parameter", float(times.dt)),
        *of("parameter", model.point, defaults["point"], "start."),
        *of("parameter", model.velocity, defaults["velocity"], "start."),
        *of("input", inputs, defaults["inputs"]),
        *(Variable(q.name, q.unit, "", "output", None) for q in model.observed),
    ]
    taken = {"time", *(variable.name for variable in others)}
    parameters = [
        Variable("parameters." * (q.name in taken) + q.name, _unit_in(q.unit), q.unit, "parameter", float(v))
        for q, v in zip(model.parameters, defaults["parameters"], strict=True)
    ]
    return [variable._replace(name=_quoted(variable.name)) for variable in (*parameters, *others)]


def _quoted(name: str) -> str:
    """Name by FMI's structured convention: what is no identifier between dots and indices stands in quotes."""

    def part(text: str) -> str:
        text = text.replace("][", ",")
        word, index = re.fullmatch(r"(.*?)((?:\[[\d,]+\])*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
        plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", word)
        return (word if plain else "'" + re.sub(r"(['\\\\])", r"\\\1", word) + "'") + index

    return ".".join(map(part, name.split(".")))


def description(model: Model, name: str, token: str, version: int) -> str:
    """``modelDescription.xml``."""
    every = variables(model)
    attributes = {
        "fmiVersion": f"{version}.0",
        "modelName": name,
        "description": f"{model.system.name} with {describe(model.method)}",
        "generationTool": f"geonh {__version__}",
        "variableNamingConvention": "structured" if all(v.name.isascii() for v in every) else "flat",
        {2: "guid", 3: "instantiationToken"}[version]: token,
    }
    root = xml.Element("fmiModelDescription", attributes)
    xml.SubElement(root, "CoSimulation", modelIdentifier=name, canHandleVariableCommunicationStepSize="true")
    units = xml.SubElement(root, "UnitDefinitions")
    for unit in sorted({variable.unit for variable in every if variable.unit}):
        xml.SubElement(units, "Unit", name=unit)
    begin, step = (float(x) for x in model.times)
    experiment = {"startTime": begin, "stopTime": begin + SHOWN * step, "stepSize": step}
    xml.SubElement(root, "DefaultExperiment", {key: repr(value) for key, value in experiment.items()})
    listed, structure = xml.SubElement(root, "ModelVariables"), xml.Element("ModelStructure")
    outputs = []
    for reference, variable in enumerate(every):
        is_time = variable.kind == "output" and variable.name == "t"
        if is_time and version == 2:
            continue
        given = {"name": "time" if is_time else variable.name, "valueReference": str(reference)}
        given |= {"causality": "independent" if is_time else variable.kind}
        given |= {"variability": "fixed" if variable.kind == "parameter" else "continuous"}
        given |= {"description": variable.description} if variable.description else {}
        typed = {"unit": variable.unit} if variable.unit else {}
        typed |= {"start": repr(variable.start)} if variable.start is not None else {}
        if variable.kind == "parameter":
            given["initial"] = "exact"
        elif variable.kind == "output" and not is_time:
            given["initial"] = "calculated"
            outputs.append(str(len(listed) + 1) if version == 2 else str(reference))
        if version == 2:
            xml.SubElement(xml.SubElement(listed, "ScalarVariable", given), "Real", typed)
        else:
            xml.SubElement(listed, "Float64", given | typed)
    root.append(structure)
    if version == 2:
        for kind in ("Outputs", "InitialUnknowns"):
            group = xml.SubElement(structure, kind)
            for output in outputs:
                xml.SubElement(group, "Unknown", index=output)
    else:
        for kind in ("Output", "InitialUnknown"):
            for output in outputs:
                xml.SubElement(structure, kind, valueReference=output)
    xml.indent(root)
    return xml.tostring(root, encoding="unicode", xml_declaration=True).replace(
        "encoding='us-ascii'", "encoding='UTF-8'"
    )


def _unit_in(meaning: str) -> str:
    """Unit at the end of the description of a parameter, "Mass, kg"."""
    unit = meaning.rpartition(", ")[2]
    return unit if unit != meaning and len(unit) < 12 and "=" not in unit else ""


def _platform(version: int) -> str:
    """Folder of the library for this machine."""
    system = {"linux": "linux", "darwin": "darwin", "win32": "win" if version == 2 else "windows"}[sys.platform]
    if version == 2:
        return f"{system}64"
    machine = {"arm64": "aarch64", "AMD64": "x86_64"}.get(platform.machine(), platform.machine())
    return f"{machine}-{system}"
