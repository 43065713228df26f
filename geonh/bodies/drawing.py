"""Drawing of a tree of bodies: shapes of the links, or rods between their joints, and wheels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from geonh.bodies.contacts import Contact, Wheel
from geonh.bodies.links import Link, Shape
from geonh.bodies.motion import poses
from geonh.bodies.plan import Tree
from geonh.drawing import Body, Part, Pose, along, ball, box, cylinder, ground
from geonh.engine import in_numpy


@dataclass(frozen=True)
class Drawing:
    """Drawing function of a tree with contacts."""

    tree: Tree
    contacts: tuple[Contact, ...]

    def __call__(self, t: Any, g: Any, parameters: Mapping[str, Any]) -> list[Body]:
        at = poses(self.tree, g, parameters)
        size = _size(self.tree)
        found = []
        for link in self.tree.links:
            parts = [_part(shape) for shape in link.shapes]
            parts += [_wheel(c) for c in self.contacts if isinstance(c, Wheel) and c.link == link.name]
            if not parts:
                parts = _rods(self.tree, link, size)
            if parts:
                found.append(Body(link.name, parts, at=Pose(*at[link.name]), trace=None))
        return [*found, *([Body("ground", ground())] if self.contacts else [])]


MADE: dict[str, Callable[..., Part]] = {"box": box, "ball": ball, "cylinder": cylinder}
"""Parts by the kinds of shapes."""


def _part(shape: Shape) -> Part:
    part = _placed(MADE[shape.kind](*shape.size), np.asarray(shape.rotation), shape.place)
    return part.painted(shape.colour) if shape.colour else part


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
