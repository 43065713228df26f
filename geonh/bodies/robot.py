"""Contents of a robot's file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from geonh.bodies.links import Link
from geonh.bodies.loops import Loop
from geonh.bodies.values import Vector


@dataclass(frozen=True)
class Robot:
    """Links of a file; returned by ``read``.

    Attributes
    ----------
    name : str
        Name in the file.
    links : tuple of Link
        Its links; the root of a URDF file is fixed in space.
    left_out : tuple of str
        Contents of the file that a tree does not use.
    loops : tuple of Loop
        Its loops, of MJCF files.
    motors : tuple of str
        Joints that actuators or transmissions of the file drive.
    gravity : tuple of float
        Acceleration, m/s².
    lines : mapping of str to int
        Lines of its links and joints in the file.
    """

    name: str
    links: tuple[Link, ...]
    left_out: tuple[str, ...]
    loops: tuple[Loop, ...] = ()
    motors: tuple[str, ...] = ()
    gravity: Vector = (0.0, 0.0, -9.81)
    lines: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        """A line for each link: its mass, and the joint that carries it."""
        total = sum(link.mass for link in self.links)
        width = max(len(link.name) for link in self.links)
        lines = [f"{self.name}: {len(self.links)} links, {total:.6g} kg"]
        for link in self.links:
            carried = f"{link.joint.kind} {link.joint.name!r} on {link.parent!r}" if link.parent else link.joint.kind
            lines.append(f"  {link.name:<{width}}  {link.mass:8.4g} kg  {carried}")
        return "\n".join([*lines, *(f"  not used: {what}" for what in self.left_out)])
