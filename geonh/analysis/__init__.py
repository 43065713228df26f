"""Analysis of systems: steady motions, their linear equations and stability."""

from geonh.analysis.linearisation import Linearisation, linearise

__all__ = [
    "Linearisation",
    "linearise",
]
