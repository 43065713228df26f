"""geonh: geometric mechanics with nonholonomic constraints.

A system is a Lagrangian and an (affine) distribution on a Lie group or a product; ``solve`` integrates it with a
structure-preserving method and returns a labelled ``Trajectory``. What the first hour needs is here, the rest in the
packages, of which each imports only from those below it:

==================================================  ==================================================================
``cli``, ``export``                                 command line; code for C and other programs
``viewer``, ``plotting``                            an interactive 3-D page of a run; static figures and animations
``control``, ``analysis``, ``diagnostics``          optimal control and estimation; of systems: stability, periodic
                                                    orbits, exponents; of integrators: order, drift, structure
``systems``, ``interop``                            the catalogue: constructors of systems; systems from SymPy
``rolling``, ``bodies``, ``ensembles``              one body that rolls on a surface; links, joints and robots' files;
                                                    batches of runs, statistics and stores
``drawing``                                         what systems look like: parts and poses
``runs``                                            makes runs: ``solve``, ``resume``, ``integrate``
``results``                                         what runs return: trajectories, events, observables, files
``integrators``, ``mechanics``                      one file for each family of methods, and for each concept
``geometry``, ``groups``                            actions, distributions, metrics; one file for each group
``algebra``                                         numerical linear algebra of small systems, Newton's method
``engine``                                          machine code from jaxprs
``arguments``                                       validation of arguments
==================================================  ==================================================================

Names are imported when they are first read (PEP 562), JAX with the first that needs it.
"""

import importlib
from typing import TYPE_CHECKING, Any

from geonh import _former_paths, _loading
from geonh.version import __version__

if TYPE_CHECKING:
    from geonh import (
        algebra as algebra,
    )
    from geonh import (
        analysis,
        bodies,
        control,
        diagnostics,
        drawing,
        ensembles,
        export,
        geometry,
        groups,
        integrators,
        interop,
        mechanics,
        plotting,
        rolling,
        systems,
        testing,
    )
    from geonh import (
        arguments as arguments,
    )
    from geonh import (
        engine as engine,
    )
    from geonh import (
        results as results,
    )
    from geonh import (
        runs as runs,
    )
    from geonh import (
        units as units,
    )
    from geonh import (
        viewer as viewer,
    )
    from geonh.arguments.paths import FileError
    from geonh.arguments.precision import float64
    from geonh.ensembles import Ensemble, Sweep, open_store, solve_ensemble, stream
    from geonh.export import build
    from geonh.geometry.distribution import AffineDistribution, Distribution
    from geonh.geometry.field import time_dependent
    from geonh.geometry.velocity_constraints import VelocityConstraints
    from geonh.integrators.adaptive import Adaptive
    from geonh.integrators.composition import compose
    from geonh.integrators.gni import GNI
    from geonh.integrators.registry import methods
    from geonh.integrators.runge_kutta import RKMK, Gauss
    from geonh.integrators.symmetric_projection import SymmetricProjection
    from geonh.integrators.wiener import Wiener
    from geonh.mechanics.friction import Friction
    from geonh.mechanics.system import System
    from geonh.results import trajectory
    from geonh.results.events import Event, SlipEnds
    from geonh.results.joining import join
    from geonh.results.modes import Modes, Transition
    from geonh.results.trajectory import Trajectory
    from geonh.runs.integrate import integrate
    from geonh.runs.solve import IntegrationError, resume, solve

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
    "Wiener",
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

_PACKAGES = (
    *("algebra", "analysis", "arguments", "bodies", "control", "diagnostics", "drawing", "engine", "ensembles"),
    *("export", "geometry", "groups", "integrators", "interop", "mechanics", "plotting", "results", "rolling"),
    *("runs", "systems", "testing", "units", "viewer"),
)
_NAMES = {
    "arguments.paths": ("FileError",),
    "arguments.precision": ("float64",),
    "ensembles": ("Ensemble", "Sweep", "open_store", "solve_ensemble", "stream"),
    "export": ("build",),
    "geometry.distribution": ("AffineDistribution", "Distribution"),
    "geometry.field": ("time_dependent",),
    "geometry.velocity_constraints": ("VelocityConstraints",),
    "integrators.adaptive": ("Adaptive",),
    "integrators.composition": ("compose",),
    "integrators.gni": ("GNI",),
    "integrators.registry": ("methods",),
    "integrators.runge_kutta": ("RKMK", "Gauss"),
    "integrators.symmetric_projection": ("SymmetricProjection",),
    "integrators.wiener": ("Wiener",),
    "mechanics.friction": ("Friction",),
    "mechanics.system": ("System",),
    "results": ("trajectory",),
    "results.events": ("Event", "SlipEnds"),
    "results.joining": ("join",),
    "results.modes": ("Modes", "Transition"),
    "results.trajectory": ("Trajectory",),
    "runs.integrate": ("integrate",),
    "runs.solve": ("IntegrationError", "resume", "solve"),
}
"""Names by their modules, as above for type checkers."""
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
_SEARCHED = ("integrators", "geometry", "rolling", "mechanics", "groups", *_PACKAGES)
"""Packages in which a name that is not here is looked for, in this order."""


def __getattr__(name: str) -> Any:
    """Import what is asked for, and tell in which package a name is that is not here."""
    if name in _PACKAGES:
        return importlib.import_module(f"geonh.{name}")
    if name in _MODULES:
        value = globals()[name] = _read(_MODULES[name], name)
        return value
    if not name.startswith("__"):
        for package in _SEARCHED:
            if name in getattr(importlib.import_module(f"geonh.{package}"), "__all__", ()):
                raise AttributeError(f"module 'geonh' has no attribute {name!r}: it is geonh.{package}.{name}")
    raise AttributeError(f"module 'geonh' has no attribute {name!r}")


def _read(module: str, name: str) -> Any:
    imported = importlib.import_module(f"geonh.{module}")
    return getattr(imported, name) if hasattr(imported, name) else importlib.import_module(f"geonh.{module}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


_loading.install()
_former_paths.install()
