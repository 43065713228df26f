"""Many runs of one system at once: other starts, parameters and steps for each member."""

from geonh.ensembles.ensemble import Ensemble
from geonh.ensembles.solving import solve_ensemble

__all__ = ["Ensemble", "solve_ensemble"]
