"""Analysis of systems: steady and periodic motions, stability, first integrals, invariant measures, gaits."""

from geonh.analysis.connection import Connection, Displacement, nonholonomic_connection
from geonh.analysis.hamiltonisation import hamiltonise
from geonh.analysis.integrals import FoundIntegrals, first_integrals
from geonh.analysis.lifting import ReducedState, Reduction
from geonh.analysis.linearisation import Linearisation, linearise
from geonh.analysis.locus import Crossing, RootLocus, root_locus
from geonh.analysis.lyapunov import LyapunovSpectrum, lyapunov_exponents
from geonh.analysis.measure import InvariantMeasure, divergence, invariant_measure
from geonh.analysis.multiplier import Hamiltonisation, OriginalMotion
from geonh.analysis.orbits import PeriodicOrbit, continue_orbit, periodic_orbit
from geonh.analysis.reduction import reduce
from geonh.analysis.stability import StabilityMap, stability_map
from geonh.analysis.steady import SteadyMotion, steady_motion

__all__ = [
    "Connection",
    "Crossing",
    "Displacement",
    "FoundIntegrals",
    "Hamiltonisation",
    "InvariantMeasure",
    "Linearisation",
    "LyapunovSpectrum",
    "OriginalMotion",
    "PeriodicOrbit",
    "ReducedState",
    "Reduction",
    "RootLocus",
    "StabilityMap",
    "SteadyMotion",
    "continue_orbit",
    "divergence",
    "first_integrals",
    "hamiltonise",
    "invariant_measure",
    "linearise",
    "lyapunov_exponents",
    "nonholonomic_connection",
    "periodic_orbit",
    "reduce",
    "root_locus",
    "stability_map",
    "steady_motion",
]
