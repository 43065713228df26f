"""Measuring methods and runs: order, structure, drift, sections."""

from geonh.diagnostics.convergence import Convergence, convergence
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
    "poincare_section",
    "reversibility_defect",
    "symplecticity_defect",
]
