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
from geonh.integrators.base import Integrator, Result
from geonh.integrators.discretisation import (
    DiscreteLagrangian,
    LeftRectangle,
    Midpoint,
    RightRectangle,
    Trapezoid,
    UserDiscreteLagrangian,
)
from geonh.integrators.gni import GNI, Variational
from geonh.mechanics.equations import accelerations, multipliers, reference_trajectory
from geonh.mechanics.system import FirstIntegral, System
from geonh.numerics.newton import Newton
from geonh.numerics.precision import float64
from geonh.solve import IntegrationError, Nodes, integrate, resume, solve
from geonh.trajectory import Trajectory
from geonh.version import __version__

__all__ = [
    "GNI",
    "Action",
    "AdvectedVector",
    "AffineDistribution",
    "BundleMetric",
    "Cayley",
    "DiscreteLagrangian",
    "Distribution",
    "Exponential",
    "FirstIntegral",
    "GroupBase",
    "IntegrationError",
    "Integrator",
    "LeftRectangle",
    "Midpoint",
    "Newton",
    "Nodes",
    "PointBase",
    "Result",
    "Retraction",
    "RightRectangle",
    "ShapeBase",
    "System",
    "Trajectory",
    "Trapezoid",
    "UserDiscreteLagrangian",
    "Variational",
    "__version__",
    "accelerations",
    "float64",
    "groups",
    "growth_vector",
    "integrate",
    "is_integrable",
    "multipliers",
    "reference_trajectory",
    "resume",
    "solve",
    "systems",
]
