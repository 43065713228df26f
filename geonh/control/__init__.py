"""Control: motions of least cost between given states, by transcription of the discrete equations."""

from geonh.control.optimal import OptimalControl, optimal_control

__all__ = ["OptimalControl", "optimal_control"]
