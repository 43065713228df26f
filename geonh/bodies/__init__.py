"""Trees of rigid bodies: links, joints and contacts → ``System``, and robots from their files.

``tree(links)`` returns the system on the product of the joints' groups; ``from_file`` reads the links from a
URDF or MJCF file.
"""

from geonh.bodies.contacts import Blade, Wheel
from geonh.bodies.files import from_file, read
from geonh.bodies.links import Joint, Link, Mimic, Spring
from geonh.bodies.loops import Loop
from geonh.bodies.robot import Robot
from geonh.bodies.shapes import Mesh, Shape
from geonh.bodies.starts import start
from geonh.bodies.system import TreeSystem, poses, tree
from geonh.bodies.touching import Rolling

__all__ = [
    "Blade",
    "Joint",
    "Link",
    "Loop",
    "Mesh",
    "Mimic",
    "Robot",
    "Rolling",
    "Shape",
    "Spring",
    "TreeSystem",
    "Wheel",
    "from_file",
    "poses",
    "read",
    "start",
    "tree",
]
