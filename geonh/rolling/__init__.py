"""Rolling bodies: contact point, height and forms from one support function.

``geonh.rolling(support, inertia, mass, on=...)`` returns the system; supports, surfaces, wheels and joints are here.
"""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Any

from geonh.rolling.body import rolling
from geonh.rolling.body_drawing import drawing
from geonh.rolling.contacts import Contact, contact, overlap, start
from geonh.rolling.forces import ContactForce, contact_force
from geonh.rolling.planar_system import planar
from geonh.rolling.slipping import slipping
from geonh.rolling.supports import Support, ball, disc, ellipsoid, implicit, support, torus
from geonh.rolling.surfaces import Surface, cylinder, plane, sphere, surface
from geonh.rolling.wheels import PlanarBody, Wheel, knife_edge, planar_body, trailer, wheel

__all__ = [
    "Contact",
    "ContactForce",
    "PlanarBody",
    "Support",
    "Surface",
    "Wheel",
    "ball",
    "contact",
    "contact_force",
    "cylinder",
    "disc",
    "drawing",
    "ellipsoid",
    "implicit",
    "knife_edge",
    "overlap",
    "planar",
    "planar_body",
    "plane",
    "rolling",
    "slipping",
    "sphere",
    "start",
    "support",
    "surface",
    "torus",
    "trailer",
    "wheel",
]


class _CallableModule(ModuleType):
    """Callable module: ``geonh.rolling(...)`` is ``geonh.rolling.rolling(...)``."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return rolling(*args, **options)


sys.modules[__name__].__class__ = _CallableModule
__signature__ = inspect.signature(rolling)
