"""Mechanics: systems, their continuous equations, momentum maps and symmetries."""

import importlib
from typing import TYPE_CHECKING, Any

from geonh.mechanics.check import check_system
from geonh.mechanics.collisions import Collision, collision
from geonh.mechanics.equations import accelerations, multipliers
from geonh.mechanics.friction import Friction
from geonh.mechanics.impacts import Impact, impact
from geonh.mechanics.momentum import (
    generator,
    horizontality,
    momentum_map,
    moving_energy,
    nonholonomic_momentum,
    spatial_momentum,
)
from geonh.mechanics.noise import ito, thermal_contacts
from geonh.mechanics.spatial import in_spatial_velocities
from geonh.mechanics.symmetry import horizontal_symmetries, symmetries
from geonh.mechanics.system import FirstIntegral, System

__all__ = [
    "Collision",
    "FirstIntegral",
    "Friction",
    "Impact",
    "System",
    "accelerations",
    "check_system",
    "collision",
    "generator",
    "horizontal_symmetries",
    "horizontality",
    "impact",
    "in_spatial_velocities",
    "ito",
    "momentum_equation_residual",
    "momentum_map",
    "moving_energy",
    "multipliers",
    "nonholonomic_momentum",
    "reduce",
    "reference_trajectory",
    "spatial_momentum",
    "symmetries",
    "thermal_contacts",
]

if TYPE_CHECKING:
    from geonh.analysis.reduction import reduce
    from geonh.diagnostics.momentum_equation import momentum_equation_residual
    from geonh.diagnostics.reference import reference_trajectory

_ABOVE = {
    "momentum_equation_residual": "diagnostics.momentum_equation",
    "reduce": "analysis.reduction",
    "reference_trajectory": "diagnostics.reference",
}
"""Names re-exported here, and the modules of packages above that define them."""


def __getattr__(name: str) -> Any:
    if name in _ABOVE:
        return getattr(importlib.import_module(f"geonh.{_ABOVE[name]}"), name)
    raise AttributeError(f"module 'geonh.mechanics' has no attribute {name!r}")
