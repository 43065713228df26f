"""Templates of files: ``{{slot}}`` is filled, and the name ``robot`` becomes that of the model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources


def filled(file: str, name: str, slots: Mapping[str, object] | None = None) -> str:
    """Text of a template for a model of this name."""
    text = resources.files("geonh.export").joinpath("files", file).read_text(encoding="utf-8")
    text = text.replace("robot", name).replace("ROBOT", name.upper()).replace("Robot", name[:1].upper() + name[1:])
    return re.sub(r"\{\{(\w+)\}\}", lambda found: str((slots or {})[found[1]]), text)
