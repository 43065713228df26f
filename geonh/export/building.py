"""``build``: a system and a method as code for another program."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geonh.arguments.paths import checked_path
from geonh.arguments.validators import as_flag, one_of, shortly
from geonh.engine import Target
from geonh.export import c, casadi, fmi, javascript, ptx
from geonh.export.model import Model
from geonh.integrators.base import Integrator
from geonh.mechanics.system import System
from geonh.results.replacing import naming
from geonh.systems import catalogue

TARGETS: dict[str, Callable[[Model, str, Path, Target], list[Path]]] = {
    "c": c.write,
    "wasm": javascript.write,
    "casadi": casadi.write,
    "ptx": ptx.write,
    **fmi.WRITERS,
}
"""Writers of files, by the name of the target."""
FEATURES = re.compile(r"[+-][\w.-]+(,[+-][\w.-]+)*", re.ASCII)
"""Features of a CPU, as LLVM takes them."""


@dataclass(frozen=True)
class Built:
    """Files of an exported model.

    Attributes
    ----------
    folder : Path
    files : tuple of Path
    model : Model
        Its vectors: their sizes, names and values by default.
    """

    folder: Path
    files: tuple[Path, ...]
    model: Model

    def __repr__(self) -> str:
        sizes = (f"{file.name} ({file.stat().st_size / 1e3:.1f} kB)" for file in self.files if file.exists())
        return f"{self.folder}: {', '.join(sizes)}"


def build(
    system: System,
    method: Integrator | str | None = None,
    path: str | os.PathLike = "robot",
    *,
    target: str = "c",
    triple: str = "",
    cpu: str = "",
    features: str = "",
    derivatives: bool = False,
    xi0: Any = None,
    g0: Any = None,
    dt: float = 0.01,
    t0: float = 0.0,
    controls: Any = None,
) -> Built:
    """Write a system and a method as code that runs without Python.

    The code is that of ``solve``: on this machine it gives the same bits.

    Parameters
    ----------
    system : System
        System to export; the numbers in its ``parameters`` stay free.
    method : Integrator or str, optional
        One-step method, as for ``solve``.
    path : path
        Folder for the files, made where there is none. Its last part, an identifier, is the prefix of all names.
    target : str
        "c": an object file with its header, and an example in C and in C++. "wasm": a WebAssembly module with a
        JavaScript class of a run. "casadi": a library with functions of CasADi, a step and the equations of motion with
        their Jacobians. "fmi2", "fmi3": a functional mock-up unit for co-simulation. These three take a C compiler, or
        the ``ziglang`` wheel. "ptx": kernels for ensembles on a GPU of NVIDIA, their data, and an example in Python.
    triple, cpu, features : str
        Machine, as LLVM names it, such as "aarch64-unknown-linux-gnu", or "thumbv7em-none-eabihf" with "cortex-m7";
        this machine when left out. Only for "c"; for "ptx" ``cpu`` is the oldest GPU, "sm_75" by default.
    derivatives : bool
        True to export the derivatives of a step by state, inputs and parameters, too. Only for "c".
    xi0 : array_like, shape=[n], optional
        Velocity at the start by default, on the constraints; the nearest to zero when left out.
    g0 : point of the group, optional
        Group element there; the identity when left out.
    dt, t0 : float
        Time step and initial time by default, seconds.
    controls : callable or array_like, shape=[…], optional
        u(t), which becomes a part of the code; or values by default of u, which is an input then, held through a step.

    Returns
    -------
    Built
        The paths, and the model with the sizes and names of its vectors.

    Raises
    ------
    TypeError, ValueError
        For invalid input, as of ``solve``; if a function has an operation for which the engine has no code; if LLVM has
        no such machine.
    OSError
        If the files cannot be written.
    """
    one_of(target, "target", tuple(TARGETS))
    for name, text in (("triple", triple), ("cpu", cpu), ("features", features)):
        if not isinstance(text, str):
            raise TypeError(f"{name} must be text, got {shortly(text)}")
        if not text.isascii():
            raise ValueError(f"{name} must be ASCII, got {shortly(text)}")
        if text and target != "c" and (name, target) != ("cpu", "ptx"):
            raise ValueError(f"{name} goes with target='c', not {target!r}")
    if triple.startswith("nvptx"):
        raise ValueError("triple is a GPU of NVIDIA, whose code is that of target='ptx'")
    if features and not FEATURES.fullmatch(features):  # LLVM would end the process
        raise ValueError(f"features must be names with + or -, such as '+neon,-vfp2', got {shortly(features)}")
    if as_flag(derivatives, "derivatives") and target != "c":
        raise ValueError(f"derivatives goes with target='c', not {target!r}")
    folder, prefix = _destination(path)
    model = Model.of(system, method, xi0=xi0, g0=g0, dt=dt, t0=t0, controls=controls, meanings=_meanings(system))
    write = c.write_with_derivatives if derivatives else TARGETS[target]
    with naming(folder):
        folder.mkdir(parents=True, exist_ok=True)
        files = write(model, prefix, folder, Target(triple, cpu, features))
    return Built(folder, tuple(files), model)


def _destination(path: Any) -> tuple[Path, str]:
    """Folder and prefix of names."""
    folder = checked_path(path).expanduser()
    name = folder.name
    if not (name.isascii() and name.isidentifier()):
        raise ValueError(
            f"the last part of path is the prefix of names in the code: an identifier such as robot, got {name!r}"
        )
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"path must be a folder, and {folder} is a file")
    return folder, name


def _meanings(system: Any) -> Mapping[str, str]:
    """Meaning and unit of the parameters of a system of the catalogue."""
    entry = catalogue.get(catalogue.name_of(system)) if isinstance(system, System) else None
    return {} if entry is None else entry.parameters
