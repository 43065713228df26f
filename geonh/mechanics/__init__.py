"""Mechanics: systems, their continuous equations, momentum maps and symmetries."""

from geonh.mechanics.check import check_system
from geonh.mechanics.equations import accelerations, multipliers, reference_trajectory
from geonh.mechanics.momentum import (
    generator,
    horizontal_symmetries,
    horizontality,
    momentum_equation_residual,
    momentum_map,
    moving_energy,
    nonholonomic_momentum,
    spatial_momentum,
    symmetries,
)
from geonh.mechanics.system import FirstIntegral, System

__all__ = [
    "FirstIntegral",
    "System",
    "accelerations",
    "check_system",
    "generator",
    "horizontal_symmetries",
    "horizontality",
    "momentum_equation_residual",
    "momentum_map",
    "moving_energy",
    "multipliers",
    "nonholonomic_momentum",
    "reference_trajectory",
    "spatial_momentum",
    "symmetries",
]
