"""Drawing of a tree of bodies: shapes of the links, or rods between the joints of a tree without any, and wheels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from geonh.bodies.contacts import Seated, Wheel
from geonh.bodies.kinematic_tree import Tree
from geonh.bodies.links import Link
from geonh.bodies.motion import poses
from geonh.bodies.shapes import Mesh, Shape
from geonh.bodies.touching import Touching
from geonh.drawing import Body, Part, Pose, along, ball, box, cylinder, ground, mesh, surface
from geonh.engine import in_numpy
from geonh.rolling.body_drawing import boundary_point, drawn_surface
from geonh.rolling.surfaces import Surface


@dataclass(frozen=True)
class Drawing:
    """Drawing function of a tree with contacts."""

    tree: Tree
    contacts: tuple[Seated, ...]

    def __call__(self, t: Any, g: Any, parameters: Mapping[str, Any]) -> list[Body]:
        at = poses(self.tree, g, parameters)
        size, bare = _size(self.tree), not any(link.shapes for link in self.tree.links)
        drawn = []
        for link in self.tree.links:
            parts = [part for shape in link.shapes for part in _parts(shape)]
            parts += [_wheel(c) for c in self.contacts if isinstance(c, Wheel) and c.link == link.name]
            touching = [c for c in self.contacts if isinstance(c, Touching) and c.link == link.name]
            if not parts:
                supports = [parameters[f"{c.name}.support"] for c in touching]
                parts += [surface(boundary_point(s)).moved(*c.centre) for c, s in zip(touching, supports, strict=True)]
            if not parts and bare:
                parts = _rods(self.tree, link, size)
            if parts:
                drawn.append(Body(link.name, parts, at=Pose(*at[link.name]), trace=None))
        on_plane = [c for c in self.contacts if not isinstance(c, Touching)]
        surfaces = {c.name: parameters[f"{c.name}.on"] for c in self.contacts if isinstance(c, Touching)}
        if on_plane or any(_is_ground(on) for on in surfaces.values()):
            drawn.append(Body("ground", ground()))
        below = {name: on for name, on in surfaces.items() if not _is_ground(on)}
        return [*drawn, *(drawn_surface(on, parameters, f"surface of {name}") for name, on in below.items())]


def _is_ground(on: Surface) -> bool:
    """True for the plane z = 0."""
    flat = on.as_plane
    return flat is not None and not np.any([*flat[0][:2], flat[1]])


MADE: dict[str, Callable[..., Part]] = {
    "box": box,
    "ball": ball,
    "cylinder": cylinder,
    "ellipsoid": lambda *axes: ball(axes),
}
"""Parts by the kinds of shapes."""


def _parts(shape: Shape) -> list[Part]:
    R, place = np.asarray(shape.rotation), shape.place
    if shape.kind == "mesh":
        assert isinstance(shape.mesh, Mesh)
        parts = [mesh(shape.mesh.vertices, shape.mesh.faces)]
    elif shape.kind == "capsule":
        radius, length = shape.size
        parts = [cylinder(radius, length), *(ball(radius, 8).moved(z=side * length / 2) for side in (-1, 1))]
    else:
        parts = [MADE[shape.kind](*shape.size)]
    parts = [_placed(part, R, place) for part in parts]
    return [part.painted(shape.colour) for part in parts] if shape.colour else parts


def _placed(part: Part, R: np.ndarray, place: Any) -> Part:
    return part._mapped(lambda points: points @ R.T).moved(*place)


def _wheel(contact: Wheel) -> Part:
    R = np.asarray(in_numpy(lambda axis: along(axis, axis="z").R, np.asarray(contact.axis))(np.asarray(contact.axis)))
    part = cylinder(contact.radius, 0.3 * contact.radius)
    return _placed(part, R, contact.centre).painted("#444444")


def _size(tree: Tree) -> float:
    """Greatest distance between joints or to centres of mass, 1 m if there is none."""
    lengths = [np.linalg.norm(v) for link in tree.links for v in (link.joint.place, link.centre)]
    return float(max(lengths)) or 1.0


def _rods(tree: Tree, link: Link, size: float) -> list[Part]:
    """Rods from the joint of a link to the joints that it carries, or to its centre of mass, where it ends a branch."""
    ends = [np.asarray(other.joint.place) for other in tree.links if other.parent == link.name]
    ends = ends or [2 * np.asarray(link.centre)]
    parts = [ball(0.05 * size, 12)]
    for end in ends:
        length = float(np.linalg.norm(end))
        if length > 1e-3 * size:
            R = np.asarray(in_numpy(lambda v: along(v, axis="z").R, end)(end))
            parts.append(_placed(cylinder(0.03 * size, length), R, end / 2))
    return parts
