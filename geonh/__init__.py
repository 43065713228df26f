"""geonh: geometric mechanics with nonholonomic constraints.

A system is a Lagrangian and an (affine) distribution on a Lie group or a product; ``solve`` integrates it with a
structure-preserving method and returns a labelled ``Trajectory``. What the first hour needs is here; the rest is in
``geonh.groups``, ``geometry``, ``mechanics``, ``integrators``, ``analysis``, ``diagnostics``, ``systems``, ``interop``,
``drawing`` and ``plotting``.
"""

from typing import Any

from geonh import (
    analysis,
    diagnostics,
    drawing,
    geometry,
    groups,
    integrators,
    interop,
    mechanics,
    plotting,
    systems,
    testing,
    trajectory,
)
from geonh.events import Event
from geonh.geometry.distribution import AffineDistribution, Distribution
from geonh.geometry.field import time_dependent
from geonh.integrators.composition import compose
from geonh.integrators.gni import GNI
from geonh.integrators.registry import methods
from geonh.integrators.runge_kutta import RKMK, Gauss
from geonh.integrators.symmetric_projection import SymmetricProjection
from geonh.mechanics.system import System
from geonh.netcdf import FileError
from geonh.numerics.precision import float64
from geonh.solve import IntegrationError, integrate, resume, solve
from geonh.trajectory import Trajectory
from geonh.version import __version__

__all__ = [
    "GNI",
    "RKMK",
    "AffineDistribution",
    "Distribution",
    "Event",
    "FileError",
    "Gauss",
    "IntegrationError",
    "SymmetricProjection",
    "System",
    "Trajectory",
    "__version__",
    "analysis",
    "compose",
    "diagnostics",
    "drawing",
    "float64",
    "geometry",
    "groups",
    "integrate",
    "integrators",
    "interop",
    "mechanics",
    "methods",
    "plotting",
    "resume",
    "solve",
    "systems",
    "testing",
    "time_dependent",
    "trajectory",
]


def __getattr__(name: str) -> Any:
    """Say where a name is that is not here."""
    for room in (integrators, geometry, mechanics, groups, analysis, diagnostics, interop, drawing):
        if name in room.__all__:
            raise AttributeError(f"module 'geonh' has no attribute {name!r}: it is {room.__name__}.{name}")
    raise AttributeError(f"module 'geonh' has no attribute {name!r}")
