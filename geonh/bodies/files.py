"""Robots from URDF and MJCF files (``pip install 'geonh[robots]'``): links and joints, with frames resolved.

What a file has and a tree does not use is listed in ``Robot.left_out``; what cannot be read is refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from geonh.arguments.paths import FileError, checked_path
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_constant, as_flag, as_names, one_of
from geonh.bodies import mjcf, motion, urdf
from geonh.bodies.contacts import Contact, Wheel
from geonh.bodies.links import Joint, Link
from geonh.bodies.robot import Robot
from geonh.bodies.system import TreeSystem, tree

LARGEST = 100_000_000
"""Largest size of a file that is read, bytes."""
READERS = {"robot": urdf.robot, "mujoco": mjcf.robot}
"""Readers by the element at the top of a file."""


@validated
def from_file(
    path: str | os.PathLike,
    *,
    root: str | Joint | None = None,
    wheels: Mapping[str, Any] | None = None,
    contacts: Sequence = (),
    motors: Sequence[str] = (),
    locked: Mapping[str, float] | Sequence[str] = (),
    loops: Sequence = (),
    meshes: bool = True,
    **options: Any,
) -> TreeSystem:
    """System of the robot in a URDF or MJCF file.

    Parameters
    ----------
    path : str or os.PathLike
        The file.
    root : {"fixed", "planar", "free"} or Joint, optional
        Joint that carries the root link, named "base" if it is a word; that of the file when left out, "fixed" for
        URDF.
    wheels : mapping of str to float or Wheel, optional
        Wheels by the names of their links: the radius, m, of one that turns about the axis of its joint; or a Wheel.
    contacts : sequence of Wheel, Blade or Rolling, optional
        Further contacts.
    motors : sequence of str
        Joints whose torques or forces are controls; their order is that of the joints in ``group.velocity_names``.
    locked : mapping of str to float, or sequence of str
        Joints that do not move, with their positions, zero if there are only names. Joints that follow one are locked
        with it.
    loops : sequence of Loop
        Loops besides those of the file.
    meshes : bool
        True to read the meshes of the file, for drawings.
    **options : keyword arguments
        Those of ``tree``.

    Returns
    -------
    TreeSystem

    Raises
    ------
    ImportError
        If yourdfpy, or for MJCF mujoco, is not installed.
    FileError, TypeError, ValueError
        For a file that cannot be read or is no robot, naming the link or joint and its line; else as of ``tree``.
    """
    robot = read(path, meshes=meshes)
    driven = as_names(motors, "motors")
    given = locked if isinstance(locked, Mapping) else dict.fromkeys(as_names(locked, "locked"), 0.0)
    held = {name: float(as_constant(value, f"locked[{name!r}]")) for name, value in given.items()}
    links = [_driven(link, driven) for link in _locked(_rooted(robot.links, root), held)]
    unknown = [name for name in driven if not any(link.joint.name == name and link.joint.motor for link in links)]
    if unknown:
        moving = [link.joint.name for link in links if link.joint.dim and link.joint.mimic is None]
        raise ValueError(f"motors: {unknown} are no joints that move by themselves; those are {moving}")
    for link, wheel in (wheels or {}).items():
        if isinstance(wheel, Wheel) and wheel.link != link:
            raise ValueError(f"wheels[{link!r}] is of the link {wheel.link!r}: Wheel({link!r}, …), or another key")
    rolling: list[Contact] = [
        wheel if isinstance(wheel, Wheel) else Wheel(link, wheel) for link, wheel in (wheels or {}).items()
    ]
    of_file = {"name": robot.name, "gravity": robot.gravity}
    try:
        return tree(links, contacts=[*rolling, *contacts], loops=[*robot.loops, *loops], **{**of_file, **options})
    except ValueError as error:
        named = [robot.lines[name] for name in re.findall("'([^']+)'", str(error)) if name in robot.lines]
        raise ValueError(f"{path}{f', line {named[0]}' if named else ''}: {error}") from error


def _rooted(links: Sequence[Link], root: str | Joint | None) -> list[Link]:
    """Links with the given joint of the root."""
    if root is None:
        return list(links)
    carrier = root if isinstance(root, Joint) else Joint(one_of(root, "root", ("fixed", "planar", "free")), "base")
    first = next(link for link in links if not link.parent)
    if first.joint.kind not in ("fixed", "free"):
        raise ValueError(
            f"root: link {first.name!r} is carried by the {first.joint.kind} joint {first.joint.name!r} of the file; "
            "leave root= out"
        )
    return [link if link.parent else replace(link, joint=carrier) for link in links]


def _locked(links: Sequence[Link], held: Mapping[str, float]) -> list[Link]:
    """Links with some of their joints fixed."""
    scalar = [link.joint.name for link in links if link.joint.dim == 1 and link.joint.mimic is None]
    unknown = [name for name in held if name not in scalar]
    if unknown:
        raise ValueError(f"locked: {unknown} are no joints with one coordinate of their own; those are {scalar}")
    held_links = []
    for link in links:
        joint, mimic = link.joint, link.joint.mimic
        value = held.get(joint.name)
        if mimic is not None and mimic.joint in held:
            value = mimic.factor * held[mimic.joint] + mimic.offset
        if value is not None:
            R, p = motion.displaced(joint, value)
            link = replace(link, joint=Joint("fixed", joint.name, place=p, rotation=R))
        held_links.append(link)
    return held_links


def _driven(link: Link, motors: Sequence[str]) -> Link:
    moves = link.joint.name in motors and link.joint.dim and link.joint.mimic is None
    return replace(link, joint=replace(link.joint, motor=True)) if moves else link


@validated
def read(path: str | os.PathLike, *, meshes: bool = True) -> Robot:
    """Links and joints of a URDF or MJCF file.

    Parameters
    ----------
    path : str or os.PathLike
        The file.
    meshes : bool
        True to read the meshes of the file, for drawings.

    Returns
    -------
    Robot
        Its links, in the order of the file. Joints have the limits, damping and friction of the file as data.

    Raises
    ------
    ImportError
        If yourdfpy, or for MJCF mujoco, is not installed.
    TypeError, FileError, ValueError
        For a path that is none, and a file that cannot be read or is no robot, naming the link or joint and its line.
    """
    try:
        from lxml import etree
    except ImportError as error:
        raise ImportError("robots are read from files by yourdfpy and mujoco: pip install 'geonh[robots]'") from error
    place, meshes = checked_path(path, "path"), as_flag(meshes, "meshes")
    try:
        if os.path.getsize(place) > LARGEST:
            raise FileError(f"{path} has more than {LARGEST} bytes: it is no robot")
        with open(place, "rb") as file:
            text = file.read()
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}") from error
    top = _parsed(etree, text, path)
    if top.tag not in READERS:
        raise FileError(f"{path} has <{top.tag}> at its top, not <robot> or <mujoco>: it is no URDF or MJCF file")
    lines = {element.get("name"): element.sourceline for element in top.iter("link", "joint", "body")}
    return replace(READERS[top.tag](top, Path(place), meshes), lines=lines)


def _parsed(etree: Any, text: bytes, path: Any) -> Any:
    """Element at the top of an XML text without entities."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)
    try:
        top = etree.fromstring(text, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise FileError(f"{path} is not XML: {error}") from error
    if top.getroottree().docinfo.internalDTD is not None:
        raise FileError(f"{path} declares entities or a document type, which files of robots do not have")
    return top
