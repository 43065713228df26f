"""Optimal control between given states, and estimation of parameters from observed motions."""

from geonh.control.estimation import Estimate, estimate
from geonh.control.optimal import OptimalControl, optimal_control
from geonh.control.shooting import Shot, shooting_control

__all__ = ["Estimate", "OptimalControl", "Shot", "estimate", "optimal_control", "shooting_control"]
