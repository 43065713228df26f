"""geonh: geometric mechanics with nonholonomic constraints.

A system is a Lagrangian and an (affine) distribution on a Lie group or a product; ``solve`` integrates it with a
structure-preserving method and returns a labelled ``Trajectory``. What the first hour needs is here; the rest is in
``geonh.groups``, ``geometry``, ``mechanics``, ``integrators``, ``analysis``, ``control``, ``diagnostics``, ``rolling``,
``bodies``, ``systems``, ``interop``, ``drawing``, ``plotting`` and ``export``.
"""

import gc
import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

_COLLECTS, _FROZEN = gc.isenabled(), gc.get_freeze_count()
_RANDOM = np.random.get_state()  # noqa: NPY002 - JAX draws from it where it is imported
gc.disable()  # what is imported stays, and to look through it for garbage takes a fifth of the time
try:
    from geonh import _former_paths, geometry, groups, integrators, mechanics
    from geonh.arguments.paths import FileError
    from geonh.arguments.precision import float64
    from geonh.geometry.distribution import AffineDistribution, Distribution
    from geonh.geometry.field import time_dependent
    from geonh.geometry.velocity_constraints import VelocityConstraints
    from geonh.integrators.adaptive import Adaptive
    from geonh.integrators.composition import compose
    from geonh.integrators.gni import GNI
    from geonh.integrators.registry import methods
    from geonh.integrators.runge_kutta import RKMK, Gauss
    from geonh.integrators.symmetric_projection import SymmetricProjection
    from geonh.mechanics.friction import Friction
    from geonh.mechanics.system import System
    from geonh.results.events import Event, SlipEnds
    from geonh.results.joining import join
    from geonh.results.modes import Modes, Transition
    from geonh.results.trajectory import Trajectory
    from geonh.runs.integrate import integrate
    from geonh.runs.solve import IntegrationError, resume, solve
    from geonh.version import __version__
finally:
    np.random.set_state(_RANDOM)  # noqa: NPY002
    if not _FROZEN:  # so that the first collection does not look through it either
        gc.freeze()
        gc.unfreeze()
    if _COLLECTS:
        gc.enable()

from geonh.results import trajectory  # noqa: E402 - a public name

_former_paths.install()

if TYPE_CHECKING:
    from geonh import (
        analysis,
        bodies,
        control,
        diagnostics,
        drawing,
        ensembles,
        export,
        interop,
        plotting,
        rolling,
        systems,
        testing,
    )
    from geonh.ensembles import Ensemble, Sweep, open_store, solve_ensemble, stream
    from geonh.export import build

__all__ = [
    "GNI",
    "RKMK",
    "Adaptive",
    "AffineDistribution",
    "Distribution",
    "Ensemble",
    "Event",
    "FileError",
    "Friction",
    "Gauss",
    "IntegrationError",
    "Modes",
    "SlipEnds",
    "Sweep",
    "SymmetricProjection",
    "System",
    "Trajectory",
    "Transition",
    "VelocityConstraints",
    "__version__",
    "analysis",
    "bodies",
    "build",
    "compose",
    "control",
    "diagnostics",
    "drawing",
    "ensembles",
    "export",
    "float64",
    "geometry",
    "groups",
    "integrate",
    "integrators",
    "interop",
    "join",
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


_LATER = (
    *("analysis", "bodies", "control", "diagnostics", "drawing", "ensembles", "export", "interop", "plotting"),
    *("rolling", "systems", "testing"),
)
"""Rooms that are imported when they are first asked for."""
_LATER_FROM = {
    **dict.fromkeys(("Ensemble", "Sweep", "open_store", "solve_ensemble", "stream"), "ensembles"),
    "build": "export",
}
"""Names from such rooms."""


def __getattr__(name: str) -> Any:
    """Import what waits to be asked for, and say where a name is that is not here."""
    if name in _LATER:
        return importlib.import_module(f"geonh.{name}")
    if name in _LATER_FROM:
        return getattr(importlib.import_module(f"geonh.{_LATER_FROM[name]}"), name)
    if not name.startswith("__"):
        for room in ("integrators", "geometry", "rolling", "mechanics", "groups", *_LATER):
            if name in getattr(importlib.import_module(f"geonh.{room}"), "__all__", ()):
                raise AttributeError(f"module 'geonh' has no attribute {name!r}: it is geonh.{room}.{name}")
    raise AttributeError(f"module 'geonh' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
