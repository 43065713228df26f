"""Pictures of trajectories. One file per kind of picture; matplotlib is imported when one is made, not before."""

from geonh.plotting.invariants import Quantity, invariants
from geonh.plotting.trajectory import plot_trajectory

__all__ = ["Quantity", "invariants", "plot_trajectory"]
