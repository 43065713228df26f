"""Optimal control between given states, and estimation of parameters from observed motions."""

from geonh.control.estimation import Estimate, estimate
from geonh.control.optimal import OptimalControl, optimal_control

__all__ = ["Estimate", "OptimalControl", "estimate", "optimal_control"]
