"""Analysis of systems: steady motions, their linear equations and stability."""

from geonh.analysis.linearisation import Linearisation, linearise
from geonh.analysis.locus import RootLocus, root_locus
from geonh.analysis.steady import SteadyMotion, steady_motion

__all__ = [
    "Linearisation",
    "RootLocus",
    "SteadyMotion",
    "linearise",
    "root_locus",
    "steady_motion",
]
