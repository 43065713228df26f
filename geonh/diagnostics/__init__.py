"""Diagnostics of methods and runs: order, structure, modified equations, drift, Poincaré sections."""

from geonh.diagnostics.convergence import Convergence, convergence
from geonh.diagnostics.exact_steps import ExactStep, exact_discrete_lagrangian, exact_step
from geonh.diagnostics.invariants import invariants
from geonh.diagnostics.modified import ModifiedField, modified_field
from geonh.diagnostics.momentum_equation import momentum_equation_residual
from geonh.diagnostics.prediction import PredictedDrift, alternation_rates, predicted_drift
from geonh.diagnostics.reference import reference_trajectory
from geonh.diagnostics.runs import Drift, Section, alternation, drift, poincare_section
from geonh.diagnostics.structure import adjoint_defect, contraction_rate, reversibility_defect, symplecticity_defect

__all__ = [
    "Convergence",
    "Drift",
    "ExactStep",
    "ModifiedField",
    "PredictedDrift",
    "Section",
    "adjoint_defect",
    "alternation",
    "alternation_rates",
    "contraction_rate",
    "convergence",
    "drift",
    "exact_discrete_lagrangian",
    "exact_step",
    "invariants",
    "modified_field",
    "momentum_equation_residual",
    "poincare_section",
    "predicted_drift",
    "reference_trajectory",
    "reversibility_defect",
    "symplecticity_defect",
]
