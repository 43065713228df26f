"""Robots' files, ``FILE.urdf`` and ``FILE.xml``, used like systems of the catalogue.

Parameters, set by ``--set``, are ``root`` and the radii of wheels by the names of their links.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from geonh import bodies
from geonh.arguments.paths import checked_path
from geonh.cli.console import message_of, refuse
from geonh.mechanics.system import System
from geonh.systems import Entry
from geonh.systems.entry import Start

SUFFIXES = (".urdf", ".xml", ".mjcf")


def is_robot_file(word: str) -> bool:
    """True if the argument names a robot's file rather than an entry of the catalogue."""
    return word.lower().endswith(SUFFIXES)


def robot_entry(word: str) -> Entry:
    """Catalogue entry for a robot's file: it starts at rest, with its joints at zero and contacts closed."""
    try:
        path = checked_path(word).expanduser()
        robot = bodies.read(path)
    except (ValueError, TypeError, RuntimeError, OSError, ImportError) as error:
        refuse(message_of(error))
    links = {re.sub(r"\W", "_", link.name): link.name for link in robot.links if link.name != "root"}
    links = {word: link for word, link in links.items() if word.isidentifier()}

    def build(root: str = "", **wheels: Any) -> System:
        try:
            radii = {links[word]: float(radius) for word, radius in wheels.items() if radius is not None}
            return bodies.from_file(path, root=root or None, wheels=radii)
        except (ValueError, TypeError) as error:
            refuse(message_of(error))

    kind = inspect.Parameter.KEYWORD_ONLY
    keywords = [inspect.Parameter("root", kind, default="")]
    keywords += [inspect.Parameter(link, kind, default=None) for link in links]
    build.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    meanings = {"root": "fixed, planar or free; that of the file when left out"}
    return Entry(
        name=Path(path).stem,
        build=build,
        title=f"{robot.name or path.stem}, of {path.name}",
        constraints="wheels given by --set LINK=RADIUS roll on the plane z = 0; loops of the file are closed",
        conserved={},
        source=str(path),
        start=_start,
        dt=0.001,
        n_steps=1000,
        notes="not used: " + "; ".join(robot.left_out) if robot.left_out else "",
        parameters={**meanings, **{word: f"radius of a wheel on the link {link!r}, m" for word, link in links.items()}},
    )


def _start(system: System) -> Start:
    try:
        return Start(*bodies.start(system))  # type: ignore[arg-type]
    except ValueError as error:
        refuse(message_of(error))
