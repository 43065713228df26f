"""Trees of rigid bodies: links, joints and contacts → ``System``, and robots from their files.

``tree(links)`` returns the system on the product of the joints' groups; ``from_file`` reads the links from a URDF file.
"""

from geonh.bodies.contacts import Blade, Wheel
from geonh.bodies.files import Robot, from_file, read
from geonh.bodies.links import Joint, Link, Mimic, Shape
from geonh.bodies.starts import start
from geonh.bodies.system import TreeSystem, poses, tree

__all__ = [
    "Blade",
    "Joint",
    "Link",
    "Mimic",
    "Robot",
    "Shape",
    "TreeSystem",
    "Wheel",
    "from_file",
    "poses",
    "read",
    "start",
    "tree",
]
