"""Ensembles: many runs of one system, with starts, parameters and steps that differ between members."""

from geonh.ensembles.draws import Near
from geonh.ensembles.ensemble import Ensemble
from geonh.ensembles.events import Passed
from geonh.ensembles.modal import ModalEnsemble
from geonh.ensembles.opening import merge, open_store
from geonh.ensembles.solve import solve_ensemble
from geonh.ensembles.statistics import Extrema, Histogram, Mean, Quantiles, Statistic
from geonh.ensembles.streaming import stream
from geonh.ensembles.sweep import Sweep

__all__ = [
    "Ensemble",
    "Extrema",
    "Histogram",
    "Mean",
    "ModalEnsemble",
    "Near",
    "Passed",
    "Quantiles",
    "Statistic",
    "Sweep",
    "merge",
    "open_store",
    "solve_ensemble",
    "stream",
]
