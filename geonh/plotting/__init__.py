"""Figures of trajectories, one module per kind of figure; matplotlib is imported on first use."""

from geonh.diagnostics.invariants import Quantity, invariants
from geonh.plotting.animation import animate
from geonh.plotting.ensembles import plot_basins, plot_fan, plot_histogram
from geonh.plotting.kept import (
    plot_convergence,
    plot_invariants,
    plot_multipliers,
    plot_phase,
    plot_poincare,
)
from geonh.plotting.trajectory import plot_trajectory

__all__ = [
    "Quantity",
    "animate",
    "invariants",
    "plot_basins",
    "plot_convergence",
    "plot_fan",
    "plot_histogram",
    "plot_invariants",
    "plot_multipliers",
    "plot_phase",
    "plot_poincare",
    "plot_trajectory",
]
