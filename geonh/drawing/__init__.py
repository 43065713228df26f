"""Drawings of systems: bodies made of parts, and their poses. Used by figures, animations and the viewer.

A drawing is a function ``draw(t, g, parameters)`` → list of ``Body``, passed to ``System(..., draw=)``. The parts of a
body are its shape, in its own axes and metres; its ``Pose`` is its position and attitude at g, in ``jax.numpy``.
"""

from geonh.drawing.bodies import Body, Pose, along, link, planar, shifted, turned
from geonh.drawing.momenta import Momenta, momenta
from geonh.drawing.part import Part
from geonh.drawing.picture import NoDrawingError
from geonh.drawing.scene import Moving, Scene, scene
from geonh.drawing.shapes import axes, ball, box, cylinder, ground, line, mesh, prism, surface

__all__ = [
    "Body",
    "Momenta",
    "Moving",
    "NoDrawingError",
    "Part",
    "Pose",
    "Scene",
    "along",
    "axes",
    "ball",
    "box",
    "cylinder",
    "ground",
    "line",
    "link",
    "mesh",
    "momenta",
    "planar",
    "prism",
    "scene",
    "shifted",
    "surface",
    "turned",
]
