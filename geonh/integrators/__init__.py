"""Integrators, and the base classes for user-defined methods."""

from geonh.algebra.newton import Newton, no_inverse
from geonh.integrators.adaptive import Adaptive
from geonh.integrators.adjoint import Adjoint
from geonh.integrators.base import Equations, Guarantees, ImplicitIntegrator, Integrator, RetractingIntegrator
from geonh.integrators.baselines import RungeKutta
from geonh.integrators.clock import Clock
from geonh.integrators.composition import Composition, compose
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
from geonh.integrators.node import NextStep, Outcome, State, Warm
from geonh.integrators.pontryagin import Pontryagin
from geonh.integrators.rattle import RATTLE, SHAKE
from geonh.integrators.registry import method_of, methods
from geonh.integrators.runge_kutta import RKMK, CommutatorFree, Gauss
from geonh.integrators.splitting import VolumePreserving
from geonh.integrators.symmetric_projection import SymmetricProjection
from geonh.integrators.symplectic_euler import EulerA, EulerAB, EulerB
from geonh.integrators.validity import Result
from geonh.integrators.wiener import Wiener

__all__ = [
    "DLA",
    "GNI",
    "RATTLE",
    "RKMK",
    "SHAKE",
    "Adaptive",
    "Adjoint",
    "Clock",
    "CommutatorFree",
    "Composition",
    "DiscreteConstraint",
    "DiscreteGradient",
    "DiscreteLagrangian",
    "Equations",
    "EulerA",
    "EulerAB",
    "EulerB",
    "Feedback",
    "Gauss",
    "Guarantees",
    "ImplicitIntegrator",
    "Integrator",
    "LeftRectangle",
    "Lobatto",
    "Midpoint",
    "Newton",
    "NextStep",
    "Outcome",
    "Pontryagin",
    "Result",
    "RetractingIntegrator",
    "RightRectangle",
    "RungeKutta",
    "State",
    "SymmetricProjection",
    "Trapezoid",
    "UserDiscreteLagrangian",
    "Variational",
    "VolumePreserving",
    "Warm",
    "Wiener",
    "compose",
    "method_of",
    "methods",
    "no_inverse",
]
