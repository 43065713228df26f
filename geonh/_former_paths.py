"""Modules and names under their paths up to version 0.2, for one release; use warns, naming the new path."""

from __future__ import annotations

import functools
import importlib
import sys
import warnings
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_ALGEBRA = ("corrections", "elimination", "linear")
_ENGINE = "attempt compiled dependence evaluation interpreted named native operations outside runs steps tracing"
_PATHS: dict[str, tuple[str, ...]] = {
    "numerics": (),
    **{f"numerics.{name}": (f"engine.{name}",) for name in _ENGINE.split()},
    **{f"numerics.{name}": (f"algebra.{name}",) for name in _ALGEBRA},
    "numerics.newton": ("algebra.newton", "algebra.implicit"),
    "numerics.jacobian": ("engine.jacobians",),
    "numerics.inspection": ("arguments.inspection",),
    "numerics.judging": ("arguments.signatures",),
    "numerics.polynomials": ("geometry.polynomials",),
    "numerics.precision": ("arguments.precision", "arguments.validators", "engine.precise"),
    "numerics.purity": ("arguments.purity",),
    "numerics.room": ("arguments.memory",),
    "numerics.surroundings": ("engine.captured",),
    "numerics.waiting": ("engine.interrupts",),
    "alternation": ("results.parasitic",),
    "cards": ("plotting.cards",),
    "continuing": ("results.same_system", "results.digests"),
    "events": ("results.events", "results.interpolation", "results.zeros"),
    **{name: (f"results.{name}",) for name in ("files", "observables", "tables", "trajectory")},
    "netcdf": ("results.replacing", "results.formats"),
    "integrate": ("runs.integrate",),
    "plotting.invariants": ("diagnostics.invariants",),
    "running": ("runs.loop",),
    "solve": ("runs.solve",),
    "start": ("runs.start", "runs.controls"),
    "stores": ("ensembles.stores",),
    **{f"stores.{name}": (f"ensembles.stores.{name}",) for name in ("arrays", "disk", "store")},
    "watching": ("runs.event_loop", "runs.locating"),
}
"""Present places of the names of a former module, below ``geonh``."""

_NAMES: dict[str, dict[str, str]] = {
    "integrators.composition": dict.fromkeys(("Adjoint", "adjoint"), "integrators.adjoint"),
    "integrators.node": {
        "Clock": "integrators.clock",
        **dict.fromkeys(("Result", "first_failure", "judge"), "integrators.validity"),
    },
    "mechanics.equations": {"reference_trajectory": "diagnostics.reference"},
    "mechanics.momentum": {
        "momentum_equation_residual": "diagnostics.momentum_equation",
        **dict.fromkeys(("horizontal_symmetries", "symmetries"), "mechanics.symmetry"),
    },
    "plotting.labels": {"angle_names": "units"},
}
"""Present modules of names that left a module, which remains."""


def former_names(module: str) -> Callable[[str], Any]:
    """``__getattr__`` of a module, for the names that left it; they warn too."""
    places = _NAMES[module.removeprefix("geonh.")]

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(f"{module}.{name} is now geonh.{places[name]}.{name}", DeprecationWarning, stacklevel=2)
        return getattr(importlib.import_module(f"geonh.{places[name]}"), name)

    return find


class _FormerPaths(MetaPathFinder, Loader):
    """Finds former modules; they have the names that stand in the new ones."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        old = fullname.removeprefix("geonh.")
        if old == fullname or old not in _PATHS:
            return None
        return ModuleSpec(fullname, self, is_package=old in ("numerics", "stores"))

    def exec_module(self, module: ModuleType) -> None:
        places = _PATHS[module.__name__.removeprefix("geonh.")]
        if places:
            where = " and ".join(f"geonh.{place}" for place in places)
            warnings.warn(f"{module.__name__} is now {where}", DeprecationWarning, stacklevel=2)
        for place in places:
            vars(module).update(
                {k: v for k, v in vars(importlib.import_module(f"geonh.{place}")).items() if k[:2] != "__"}
            )


def install() -> None:
    """Let former paths be found; a function of the package of that name is not hidden."""
    if not any(isinstance(finder, _FormerPaths) for finder in sys.meta_path):
        sys.meta_path.append(_FormerPaths())
    for name in ("integrate", "solve"):
        module = sys.modules.setdefault(f"geonh.{name}", ModuleType(f"geonh.{name}"))
        vars(module)["__getattr__"] = functools.partial(_read, f"geonh.runs.{name}")


def _read(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)
