"""Robots from URDF files, read element by element by yourdfpy, so that errors name link or joint, and line."""

from __future__ import annotations

import copy
import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from geonh.arguments.validators import shortly
from geonh.bodies.links import Joint, Link, Mimic
from geonh.bodies.meshes import loaded, located
from geonh.bodies.robot import Robot
from geonh.bodies.shapes import Mesh, Shape

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


def robot(top: Any, path: Path, meshes: bool) -> Robot:
    """Contents of a URDF file, from the element at its top."""
    try:
        import yourdfpy
        from lxml import etree
    except ImportError as error:
        raise ImportError("URDF files are read by yourdfpy: pip install 'geonh[robots]'") from error
    _refuse_incomplete(top, path)
    _resolve_materials(top)
    parts = [_loaded(yourdfpy, etree, element, path) for element in top.iterchildren("link", "joint")]
    left = _left_out(top)
    drawn = _Meshes(path.parent, left) if meshes else None
    links = _links([part for part in parts if part.links], [part for part in parts if part.joints], path, drawn)
    if not meshes:
        left.update("mesh of a visual" for _ in top.iterfind("link/visual/geometry/mesh"))
    driven = dict.fromkeys(joint.get("name", "") for joint in top.iterfind("transmission/joint"))
    moving = {link.joint.name for link in links if link.joint.dim and link.joint.mimic is None}
    told = tuple(f"{count} × {what}" for what, count in sorted(left.items()))
    return Robot(top.get("name", ""), links, told, motors=tuple(name for name in driven if name in moving))


def _resolve_materials(top: Any) -> None:
    """Give visuals the colours of the materials that they name."""
    colours = {m.get("name"): m.find("color") for m in top.iterfind("material") if m.find("color") is not None}
    for material in top.iterfind("link/visual/material"):
        if material.find("color") is None and material.get("name") in colours:
            material.append(copy.copy(colours[material.get("name")]))


class _Meshes:
    """Meshes of a file, each read once; those that cannot be had are counted among what is left out."""

    def __init__(self, folder: Path, left: Counter[str]) -> None:
        self.folder, self.left = folder, left
        self._known: dict[tuple, Mesh | str] = {}

    def __call__(self, name: str, scale: Any) -> Mesh | None:
        factors = np.ones(3) if scale is None else np.asarray(scale, dtype=np.float64) * np.ones(3)
        key = name, tuple(factors)
        if key not in self._known:
            path = located(name, self.folder)
            self._known[key] = "is not there" if path is None else loaded(path, factors)
        mesh = self._known[key]
        if isinstance(mesh, str):
            self.left[f"mesh {name}, which {mesh}"] += 1
            return None
        return mesh


def _loaded(yourdfpy: Any, etree: Any, element: Any, path: Any) -> Any:
    """One link or joint, as yourdfpy reads it."""
    text = etree.tostring(element, with_tail=False)
    try:
        alone = io.BytesIO(b'<robot name="alone">' + text + b"</robot>")
        robot = yourdfpy.URDF.load(alone, load_meshes=False, build_scene_graph=False).robot
    except Exception as error:
        raise ValueError(f"{_where(element, path)} cannot be read: {type(error).__name__}: {error}") from error
    robot.line = element.sourceline
    return robot


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


def _left_out(top: Any) -> Counter[str]:
    """Elements that are not used, with their numbers."""
    unused = Counter(f"<{e.tag}>" for e in top.iterchildren("*") if e.tag not in USED["robot"])
    for part in top.iterchildren("link", "joint"):
        unused.update(f"<{e.tag}> of a {part.tag}" for e in part.iterchildren("*") if e.tag not in USED[part.tag])
        unused.update("dry friction of a joint" for e in part.iterfind("dynamics") if float(e.get("friction") or 0))
    return unused


def _links(bodies: Sequence[Any], joints: Sequence[Any], path: Any, meshes: Any) -> tuple[Link, ...]:
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
            found.append(_link(link, parents.get(link.name, ""), carried.get(link.name, Joint()), meshes))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}, line {part.line}: {error}") from error
    return tuple(found)


def _joint(joint: Any) -> Joint:
    kind = KINDS[joint.type]
    place, rotation = _pose(joint.origin)
    if kind == "fixed":  # the axis, if it is one, serves those who make the joint another
        axis = {"axis": joint.axis} if np.any(joint.axis) else {}
        return Joint(kind, joint.name, place=place, rotation=rotation, **axis)
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


def _link(link: Any, parent: str, joint: Joint, meshes: Any) -> Link:
    shapes = tuple(shape for visual in link.visuals if (shape := _shape(visual, meshes)) is not None)
    if link.inertial is None:
        return Link(link.name, parent=parent, joint=joint, shapes=shapes)
    centre, R = _pose(link.inertial.origin)
    inertia = R @ link.inertial.inertia @ R.T
    return Link(link.name, link.inertial.mass, centre, (inertia + inertia.T) / 2, parent, joint, shapes)


def _shape(visual: Any, meshes: Any) -> Shape | None:
    """Shape of a visual; None for a mesh that is not read."""
    given = visual.geometry
    if given is None:
        return None
    place, rotation = _pose(visual.origin)
    colour = ""
    if visual.material is not None and visual.material.color is not None:
        colour = "#" + "".join(f"{round(255 * min(max(c, 0.0), 1.0)):02x}" for c in visual.material.color.rgba[:3])
    if given.mesh is not None:
        mesh = None if meshes is None else meshes(given.mesh.filename, given.mesh.scale)
        return None if mesh is None else Shape("mesh", (), place, rotation, colour, mesh)
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
