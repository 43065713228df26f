"""Target "ptx": kernels of an ensemble for NVIDIA's GPUs, their data, and an example in Python."""

from __future__ import annotations

import json
from pathlib import Path

from geonh.engine import GPU, Target
from geonh.export import javascript
from geonh.export.model import Model
from geonh.export.templates import filled

OLDEST = "sm_75"
"""Oldest GPU for which the code is, by default: newer ones run it too."""


def write(model: Model, name: str, folder: Path, target: Target) -> list[Path]:
    """Write the files into a folder, and return their paths, that of the kernels first."""
    code = model.compiled(name, Target(GPU, target.cpu or OLDEST))
    texts = {
        f"{name}.ptx": code.code.decode(),
        f"{name}.json": json.dumps(javascript.data(model), indent=1, ensure_ascii=False, allow_nan=False) + "\n",
        "example.py": filled("example.py", name),
    }
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")
    return [folder / file for file in texts]
