"""Optimal control between given states, feedback, and estimation of parameters from observed motions."""

from geonh.control.estimation import Estimate, estimate
from geonh.control.feedback import Tracking, closed_loop, tracking
from geonh.control.kalman import KalmanFilter, kalman_filter
from geonh.control.optimal import OptimalControl, optimal_control
from geonh.control.receding import ModelPredictiveControl, mpc

__all__ = [
    "Estimate",
    "KalmanFilter",
    "ModelPredictiveControl",
    "OptimalControl",
    "Tracking",
    "closed_loop",
    "estimate",
    "kalman_filter",
    "mpc",
    "optimal_control",
    "tracking",
]
