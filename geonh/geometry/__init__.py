"""Geometry over a Lie group: actions, bundle metrics, distributions."""

from geonh.geometry.action import Action, AdvectedVector, GroupBase, PointBase, ShapeBase
from geonh.geometry.distribution import AffineDistribution, Distribution
from geonh.geometry.integrability import growth_vector, is_integrable
from geonh.geometry.metric import BundleMetric
from geonh.geometry.velocity_constraints import VelocityConstraints

__all__ = [
    "Action",
    "AdvectedVector",
    "AffineDistribution",
    "BundleMetric",
    "Distribution",
    "GroupBase",
    "PointBase",
    "ShapeBase",
    "VelocityConstraints",
    "growth_vector",
    "is_integrable",
]
