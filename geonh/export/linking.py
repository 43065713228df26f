"""Shared libraries from object code and a C file, by the system's compiler or the one of the ``ziglang`` wheel."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

SUFFIX = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
"""Suffix of shared libraries here."""


def compiler() -> list[str]:
    """Command of a C compiler; ValueError if there is none, with what to install."""
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            return [found]
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "cc"]
    raise ValueError("this target links a library, which takes a C compiler: install one, or pip install ziglang")


def linked(library: Path, files: Sequence[Path]) -> None:
    """Link C files and object files to a shared library; ValueError if there is no compiler, or it fails, with what it
    says.
    """
    math = [] if sys.platform == "win32" else ["-lm"]
    command = [*compiler(), "-O2", "-shared", "-fPIC", "-o", str(library), *map(str, files), *math]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        raise ValueError(f"{' '.join(command[:1])} could not link {library.name}: {ran.stderr.strip()}")
