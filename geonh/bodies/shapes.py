"""Shapes of links, for drawings: primitive ones, and meshes of triangles."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from geonh.arguments.validators import as_constant, one_of
from geonh.bodies.values import ONE, as_rotation, set_fields
from geonh.drawing.part import as_colour
from geonh.drawing.shapes import as_triangles

LENGTHS = {"box": 3, "cylinder": 2, "capsule": 2, "ball": 1, "ellipsoid": 3, "mesh": 0}
"""Number of lengths that describe each kind of shape."""


@dataclass(frozen=True, eq=False)
class Mesh:
    """Triangles of a shape; two with the same numbers are equal.

    Parameters
    ----------
    vertices : array_like, shape=[k, 3]
        Metres.
    faces : array_like of int, shape=[f, 3]
        Triangles, as indices of vertices.

    Raises
    ------
    TypeError, ValueError
        For arrays of another shape, or indices of no vertex.
    """

    vertices: Any
    faces: Any

    def __post_init__(self) -> None:
        vertices, faces = as_triangles(self.vertices, self.faces)
        for name, array in (("vertices", vertices), ("faces", faces)):
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        digest = hashlib.sha256(vertices.tobytes() + b"|" + faces.tobytes()).digest()
        object.__setattr__(self, "_digest", digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and self._digest == other._digest  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self._digest)  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"Mesh({len(self.vertices)} vertices, {len(self.faces)} faces)"


@dataclass(frozen=True)
class Shape:
    """Shape of a link, for drawings.

    Parameters
    ----------
    kind : {"box", "cylinder", "capsule", "ball", "ellipsoid", "mesh"}
    size : tuple of float
        Three lengths of a box; radius and length of a cylinder along z, of a capsule without its round ends; radius of
        a ball; three semi-axes; metres. Empty for a mesh.
    place : array_like, shape=[3]
        Its centre, in the link's frame.
    rotation : array_like, shape=[3, 3]
        Its axes, as columns, in the link's frame.
    colour : str
        "#rrggbb"; by default from a palette.
    mesh : Mesh, optional
        Triangles of a mesh.

    Raises
    ------
    ValueError
        For an unknown kind, a size that is not positive, or arguments of another shape.
    """

    kind: str
    size: tuple[float, ...] = ()
    place: Any = (0.0, 0.0, 0.0)
    rotation: Any = ONE
    colour: str = ""
    mesh: Mesh | None = None

    def __post_init__(self) -> None:
        one_of(self.kind, "kind of a shape", tuple(LENGTHS))
        size = as_constant(self.size, f"size of a {self.kind}", (LENGTHS[self.kind],), positive=True)
        if isinstance(self.mesh, Mesh) != (self.kind == "mesh"):
            raise ValueError(f"mesh= goes with a shape of kind 'mesh', and is needed there; this one is {self.kind!r}")
        place, rotation = as_constant(self.place, "place", (3,)), as_rotation(self.rotation, "rotation")
        set_fields(self, size=size, place=place, rotation=rotation, colour=as_colour(self.colour, "colour"))
