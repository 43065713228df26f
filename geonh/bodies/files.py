"""Robots from URDF files, read by yourdfpy (``pip install 'geonh[robots]'``): links and joints, with frames resolved.

What a file has and a tree does not use is listed in ``Robot.left_out``; what would change the motion is refused.
"""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from geonh.arguments.paths import FileError, checked_path
from geonh.arguments.signatures import judged
from geonh.arguments.validators import as_constant, as_names, one_of, shortly
from geonh.bodies import motion
from geonh.bodies.contacts import Contact, Wheel
from geonh.bodies.links import Joint, Link, Mimic, Shape
from geonh.bodies.system import TreeSystem, tree

LARGEST = 100_000_000
"""Largest size of a file that is read, bytes."""
KINDS = {"floating": "free"} | {
    kind: kind for kind in ("revolute", "continuous", "prismatic", "fixed", "planar", "spherical", "screw")
}
"""Kind of a joint by its word in files."""
USED = {
    "robot": {"link", "joint", "material"},
    "link": {"inertial", "visual"},
    "joint": {"parent", "child", "origin", "axis", "limit", "dynamics", "mimic"},
}
"""Elements that are used; others are listed."""
REQUIRED: dict[str, dict[str, tuple[str, ...]]] = {
    "inertial": {"mass": ("value",), "inertia": ("ixx", "iyy", "izz")},
    "link": {},
    "joint": {"parent": ("link",), "child": ("link",)},
}
"""Elements that another must have, with their attributes."""


@dataclass(frozen=True)
class Robot:
    """Links of a file; returned by ``read``.

    Attributes
    ----------
    name : str
        Name in the file.
    links : tuple of Link
        Its links; the root is fixed in space.
    left_out : tuple of str
        What the file has besides, and a tree does not use.
    """

    name: str
    links: tuple[Link, ...]
    left_out: tuple[str, ...]


@judged
def from_file(
    path: str | os.PathLike,
    *,
    root: str | Joint = "fixed",
    wheels: Mapping[str, Any] | None = None,
    contacts: Sequence = (),
    motors: Sequence[str] = (),
    locked: Mapping[str, float] | Sequence[str] = (),
    **options: Any,
) -> TreeSystem:
    """System of the robot in a URDF file.

    Parameters
    ----------
    path : str or os.PathLike
        The file.
    root : {"fixed", "planar", "free"} or Joint
        Joint that carries the root link, named "base" if it is a word.
    wheels : mapping of str to float or Wheel, optional
        Wheels by the names of their links: the radius, m, of one that turns about the axis of its joint; or a Wheel.
    contacts : sequence of Wheel or Blade, optional
        Further contacts.
    motors : sequence of str
        Joints whose torques or forces are controls; their order is that of the joints in ``group.velocity_names``.
    locked : mapping of str to float, or sequence of str
        Joints that do not move, with their positions, zero if there are only names. Joints that follow one are locked
        with it.
    **options : keyword arguments
        Those of ``tree``.

    Returns
    -------
    TreeSystem

    Raises
    ------
    ImportError
        If yourdfpy is not installed.
    FileError, TypeError, ValueError
        For a file that cannot be read or is no robot, naming the link or joint and its line; else as of ``tree``.
    """
    robot = read(path)
    carrier = root if isinstance(root, Joint) else Joint(one_of(root, "root", ("fixed", "planar", "free")), "base")
    driven = as_names(motors, "motors")
    given = locked if isinstance(locked, Mapping) else dict.fromkeys(as_names(locked, "locked"), 0.0)
    held = {name: float(as_constant(value, f"locked[{name!r}]")) for name, value in given.items()}
    links = [
        _driven(link if link.parent else replace(link, joint=carrier), driven) for link in _locked(robot.links, held)
    ]
    unknown = [name for name in driven if not any(link.joint.name == name and link.joint.motor for link in links)]
    if unknown:
        moving = [link.joint.name for link in links if link.joint.dim and link.joint.mimic is None]
        raise ValueError(f"motors: {unknown} are no joints that move by themselves; those are {moving}")
    rolling: list[Contact] = [
        wheel if isinstance(wheel, Wheel) else Wheel(link, wheel) for link, wheel in (wheels or {}).items()
    ]
    return tree(links, contacts=[*rolling, *contacts], **{"name": robot.name, **options})


def _locked(links: Sequence[Link], held: Mapping[str, float]) -> list[Link]:
    """Links with some of their joints fixed."""
    scalar = [link.joint.name for link in links if link.joint.dim == 1 and link.joint.mimic is None]
    unknown = [name for name in held if name not in scalar]
    if unknown:
        raise ValueError(f"locked: {unknown} are no joints with one coordinate of their own; those are {scalar}")
    found = []
    for link in links:
        joint, mimic = link.joint, link.joint.mimic
        value = held.get(joint.name)
        if mimic is not None and mimic.joint in held:
            value = mimic.factor * held[mimic.joint] + mimic.offset
        if value is not None:
            R, p = motion.displaced(joint, value)
            link = replace(link, joint=Joint("fixed", joint.name, place=p, rotation=R))
        found.append(link)
    return found


def _driven(link: Link, motors: Sequence[str]) -> Link:
    moves = link.joint.name in motors and link.joint.dim and link.joint.mimic is None
    return replace(link, joint=replace(link.joint, motor=True)) if moves else link


@judged
def read(path: str | os.PathLike) -> Robot:
    """Links and joints of a URDF file.

    Parameters
    ----------
    path : str or os.PathLike
        The file.

    Returns
    -------
    Robot
        Its links in the order of the file. Joints have the limits, damping and friction of the file as data;
        primitive shapes of visuals are kept for drawings.

    Raises
    ------
    ImportError
        If yourdfpy is not installed.
    TypeError, FileError, ValueError
        For a path that is none, and a file that cannot be read or is no robot, naming the link or joint and its line.
    """
    try:
        import yourdfpy
        from lxml import etree
    except ImportError as error:
        raise ImportError("robots are read from files by yourdfpy: pip install 'geonh[robots]'") from error
    place = checked_path(path, "path")
    try:
        if os.path.getsize(place) > LARGEST:
            raise FileError(f"{path} has more than {LARGEST} bytes: it is no robot")
        with open(place, "rb") as file:
            text = file.read()
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}") from error
    parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True)
    try:
        top = etree.fromstring(text, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise FileError(f"{path} is not XML: {error}") from error
    if top.getroottree().docinfo.internalDTD is not None:
        raise FileError(f"{path} declares entities or a document type, which files of robots do not have")
    if top.tag != "robot":
        raise FileError(f"{path} has <{top.tag}> at its top, not <robot>: it is no URDF file")
    _refuse_incomplete(top, path)
    links = [_loaded(yourdfpy, etree, element, path) for element in top.iterchildren("link", "joint")]
    found = _links([part for part in links if part.links], [part for part in links if part.joints], path)
    return Robot(top.get("name", ""), found, _left_out(top))


def _loaded(yourdfpy: Any, etree: Any, element: Any, path: Any) -> Any:
    """One link or joint, as yourdfpy reads it."""
    own = etree.tostring(element, with_tail=False)
    try:
        alone = io.BytesIO(b'<robot name="alone">' + own + b"</robot>")
        found = yourdfpy.URDF.load(alone, load_meshes=False, build_scene_graph=False).robot
    except Exception as error:
        raise ValueError(f"{_where(element, path)} cannot be read: {type(error).__name__}: {error}") from error
    found.line = element.sourceline
    return found


def _where(element: Any, path: Any) -> str:
    return f"{path}, line {element.sourceline}: {element.tag} {element.get('name')!r}"


def _refuse_incomplete(top: Any, path: Any) -> None:
    """Raise ValueError for a link or joint without a name, or without what it must have."""
    for element in top.iterchildren("link", "joint"):
        if not element.get("name"):
            raise ValueError(f"{path}, line {element.sourceline}: a {element.tag} has no name")
        if element.tag == "joint" and element.get("type") not in KINDS:
            raise ValueError(f"{_where(element, path)} is of type {element.get('type')!r}; known are {list(KINDS)}")
        for inner in (element, *element.iterchildren("inertial")):
            for tag, attributes in REQUIRED[inner.tag].items():
                part = inner.find(tag)
                missing = [name for name in attributes if part is None or not part.get(name)]
                if missing:
                    raise ValueError(f"{_where(element, path)} has no <{tag} {missing[0]}=…>")


def _left_out(top: Any) -> tuple[str, ...]:
    """Elements that are not used, with their numbers."""
    unused = Counter(f"<{e.tag}>" for e in top.iterchildren("*") if e.tag not in USED["robot"])
    for part in top.iterchildren("link", "joint"):
        unused.update(f"<{e.tag}> of a {part.tag}" for e in part.iterchildren("*") if e.tag not in USED[part.tag])
        unused.update("mesh of a visual" for mesh in part.iterfind("visual/geometry/mesh"))
        unused.update("dry friction of a joint" for e in part.iterfind("dynamics") if float(e.get("friction") or 0))
    return tuple(f"{count} × {what}" for what, count in sorted(unused.items()))


def _links(bodies: Sequence[Any], joints: Sequence[Any], path: Any) -> tuple[Link, ...]:
    """Links with the joints that carry them."""
    names = [part.links[0].name for part in bodies]
    carried: dict[str, Joint] = {}
    parents: dict[str, str] = {}
    for part in joints:
        joint = part.joints[0]
        where = f"{path}, line {part.line}: joint {joint.name!r}"
        for link in (joint.parent, joint.child):
            if link not in names:
                raise ValueError(f"{where} is on {link!r}, which is not among the links")
        if joint.child in carried:
            raise ValueError(f"{where} carries {joint.child!r}, as does joint {carried[joint.child].name!r}: a loop")
        try:
            carried[joint.child], parents[joint.child] = _joint(joint), joint.parent
        except (TypeError, ValueError) as error:
            raise ValueError(f"{where}: {error}") from error
    found = []
    for part in bodies:
        link = part.links[0]
        try:
            found.append(_link(link, parents.get(link.name, ""), carried.get(link.name, Joint())))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}, line {part.line}: {error}") from error
    return tuple(found)


def _joint(joint: Any) -> Joint:
    kind = KINDS[joint.type]
    place, rotation = _pose(joint.origin)
    if kind == "fixed":
        return Joint(kind, joint.name, place=place, rotation=rotation)
    numbers: dict[str, Any] = {}
    if joint.limit is not None:
        limit = joint.limit
        numbers |= {"lower": limit.lower, "upper": limit.upper, "speed": limit.velocity, "effort": limit.effort}
        if kind == "continuous":
            numbers |= {"lower": None, "upper": None}
    if joint.dynamics is not None:
        numbers["damping"] = float(joint.dynamics.damping or 0)
        numbers["friction"] = float(joint.dynamics.friction or 0)
    if joint.mimic is not None:
        factor, offset = joint.mimic.multiplier, joint.mimic.offset
        numbers["mimic"] = Mimic(joint.mimic.joint, 1.0 if factor is None else factor, offset or 0.0)
    return Joint(kind, joint.name, joint.axis, place, rotation, **numbers)


def _link(link: Any, parent: str, joint: Joint) -> Link:
    shapes = tuple(shape for visual in link.visuals if (shape := _shape(visual)) is not None)
    if link.inertial is None:
        return Link(link.name, parent=parent, joint=joint, shapes=shapes)
    centre, R = _pose(link.inertial.origin)
    inertia = R @ link.inertial.inertia @ R.T
    return Link(link.name, link.inertial.mass, centre, (inertia + inertia.T) / 2, parent, joint, shapes)


def _shape(visual: Any) -> Shape | None:
    """Primitive shape of a visual; None for a mesh."""
    given = visual.geometry
    if given is None or given.mesh is not None:
        return None
    place, rotation = _pose(visual.origin)
    colour = ""
    if visual.material is not None and visual.material.color is not None:
        colour = "#" + "".join(f"{round(255 * min(max(c, 0.0), 1.0)):02x}" for c in visual.material.color.rgba[:3])
    if given.box is not None:
        return Shape("box", given.box.size, place, rotation, colour)
    if given.cylinder is not None:
        return Shape("cylinder", (given.cylinder.radius, given.cylinder.length), place, rotation, colour)
    return Shape("ball", (given.sphere.radius,), place, rotation, colour)


def _pose(origin: Any) -> tuple[np.ndarray, np.ndarray]:
    """Place and rotation of a 4 × 4 matrix."""
    if origin is None:
        return np.zeros(3), np.eye(3)
    if not np.all(np.isfinite(origin)):
        raise ValueError(f"origin has entries that are not finite: {shortly(origin.tolist())}")
    return origin[:3, 3], origin[:3, :3]
