"""geonh: geometric mechanics with nonholonomic constraints.

A system is a Lagrangian and an (affine) distribution on a Lie group or a product; ``solve`` integrates it with a
structure-preserving method and returns a labelled ``Trajectory``. What the first hour needs is here; the rest is in
``geonh.groups``, ``geometry``, ``mechanics``, ``integrators``, ``analysis``, ``control``, ``diagnostics``, ``rolling``,
``systems``, ``interop``, ``drawing`` and ``plotting``.
"""

from typing import Any

from geonh import (
    analysis,
    control,
    diagnostics,
    drawing,
    ensembles,
    geometry,
    groups,
    integrators,
    interop,
    mechanics,
    plotting,
    rolling,
    systems,
    testing,
    trajectory,
)
from geonh.ensembles import Ensemble, Sweep, open_store, solve_ensemble, stream
from geonh.events import Event
from geonh.geometry.distribution import AffineDistribution, Distribution
from geonh.geometry.field import time_dependent
from geonh.integrate import integrate
from geonh.integrators.composition import compose
from geonh.integrators.gni import GNI
from geonh.integrators.registry import methods
from geonh.integrators.runge_kutta import RKMK, Gauss
from geonh.integrators.symmetric_projection import SymmetricProjection
from geonh.mechanics.system import System
from geonh.netcdf import FileError
from geonh.numerics.precision import float64
from geonh.solve import IntegrationError, resume, solve
from geonh.trajectory import Trajectory
from geonh.version import __version__

__all__ = [
    "GNI",
    "RKMK",
    "AffineDistribution",
    "Distribution",
    "Ensemble",
    "Event",
    "FileError",
    "Gauss",
    "IntegrationError",
    "Sweep",
    "SymmetricProjection",
    "System",
    "Trajectory",
    "__version__",
    "analysis",
    "compose",
    "control",
    "diagnostics",
    "drawing",
    "ensembles",
    "float64",
    "geometry",
    "groups",
    "integrate",
    "integrators",
    "interop",
    "mechanics",
    "methods",
    "open_store",
    "plotting",
    "resume",
    "rolling",
    "solve",
    "solve_ensemble",
    "stream",
    "systems",
    "testing",
    "time_dependent",
    "trajectory",
]


def __getattr__(name: str) -> Any:
    """Say where a name is that is not here."""
    rooms = (integrators, geometry, rolling, mechanics, groups, analysis, control, diagnostics, interop, drawing)
    for room in rooms:
        if name in room.__all__:
            raise AttributeError(f"module 'geonh' has no attribute {name!r}: it is {room.__name__}.{name}")
    raise AttributeError(f"module 'geonh' has no attribute {name!r}")
