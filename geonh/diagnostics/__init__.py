"""Diagnostics of methods and runs: order, structure, drift, Poincaré sections."""

from geonh.diagnostics.convergence import Convergence, convergence
from geonh.diagnostics.invariants import invariants
from geonh.diagnostics.momentum_equation import momentum_equation_residual
from geonh.diagnostics.reference import reference_trajectory
from geonh.diagnostics.runs import Drift, Section, alternation, drift, poincare_section
from geonh.diagnostics.structure import adjoint_defect, contraction_rate, reversibility_defect, symplecticity_defect

__all__ = [
    "Convergence",
    "Drift",
    "Section",
    "adjoint_defect",
    "alternation",
    "contraction_rate",
    "convergence",
    "drift",
    "invariants",
    "momentum_equation_residual",
    "poincare_section",
    "reference_trajectory",
    "reversibility_defect",
    "symplecticity_defect",
]
