"""geonh: geometric mechanics with nonholonomic constraints.

A system is a Lagrangian and an (affine) distribution on a Lie group or a product; ``solve`` integrates it with a
structure-preserving method and returns a labelled ``Trajectory``.
"""

from geonh import groups, systems
from geonh.geometry.action import Action, AdvectedVector, GroupBase, PointBase, ShapeBase
from geonh.geometry.distribution import AffineDistribution, Distribution
from geonh.geometry.integrability import growth_vector, is_integrable
from geonh.geometry.metric import BundleMetric
from geonh.groups.retraction import Cayley, Exponential, Retraction
from geonh.integrators.base import Guarantees, Integrator
from geonh.integrators.baselines import RungeKutta
from geonh.integrators.composition import compose
from geonh.integrators.discrete_gradient import DiscreteGradient
from geonh.integrators.discretisation import (
    DiscreteLagrangian,
    LeftRectangle,
    Midpoint,
    RightRectangle,
    Trapezoid,
    UserDiscreteLagrangian,
)
from geonh.integrators.dla import DLA, DiscreteConstraint
from geonh.integrators.feedback import Feedback
from geonh.integrators.gni import GNI, Variational
from geonh.integrators.lobatto import Lobatto
from geonh.integrators.node import Result
from geonh.integrators.pontryagin import Pontryagin
from geonh.integrators.rattle import RATTLE, SHAKE
from geonh.integrators.registry import methods
from geonh.integrators.runge_kutta import RKMK, CommutatorFree, Gauss
from geonh.integrators.symmetric_projection import SymmetricProjection
from geonh.integrators.symplectic_euler import EulerA, EulerAB, EulerB
from geonh.mechanics.equations import accelerations, multipliers, reference_trajectory
from geonh.mechanics.system import FirstIntegral, System
from geonh.numerics.newton import Newton
from geonh.numerics.precision import float64
from geonh.solve import IntegrationError, Nodes, integrate, resume, solve
from geonh.trajectory import Trajectory
from geonh.version import __version__

__all__ = [
    "DLA",
    "GNI",
    "RATTLE",
    "RKMK",
    "SHAKE",
    "Action",
    "AdvectedVector",
    "AffineDistribution",
    "BundleMetric",
    "Cayley",
    "CommutatorFree",
    "DiscreteConstraint",
    "DiscreteGradient",
    "DiscreteLagrangian",
    "Distribution",
    "EulerA",
    "EulerAB",
    "EulerB",
    "Exponential",
    "Feedback",
    "FirstIntegral",
    "Gauss",
    "GroupBase",
    "Guarantees",
    "IntegrationError",
    "Integrator",
    "LeftRectangle",
    "Lobatto",
    "Midpoint",
    "Newton",
    "Nodes",
    "PointBase",
    "Pontryagin",
    "Result",
    "Retraction",
    "RightRectangle",
    "RungeKutta",
    "ShapeBase",
    "SymmetricProjection",
    "System",
    "Trajectory",
    "Trapezoid",
    "UserDiscreteLagrangian",
    "Variational",
    "__version__",
    "accelerations",
    "compose",
    "float64",
    "groups",
    "growth_vector",
    "integrate",
    "is_integrable",
    "methods",
    "multipliers",
    "reference_trajectory",
    "resume",
    "solve",
    "systems",
]
