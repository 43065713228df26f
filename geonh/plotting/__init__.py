"""Pictures of trajectories. One file per kind of picture; matplotlib is imported when one is made, not before."""

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
