r"""Ingredients of Chaplygin systems in the time τ, dτ = e^φ dt; notation of ``chaplygin.py``.

Where α = dφ, but the system is not φ-simple, the momenta p̃ = e^φ p obey in the time τ

    p̃' = −∂H̃/∂s − p̃_k S^k(·, s'),   S(Y, Z) = T(Y, Z) − (α(Z)Y − α(Y)Z),

of the same H̃ as for φ-simple systems. The trace of S vanishes, so that the volume in (s, p̃) is invariant.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.algebra.linear import gram_schmidt
from geonh.algebra.rotations import turned
from geonh.analysis.chaplygin import Chaplygin
from geonh.geometry.field import Field
from geonh.groups.base import Point
from geonh.integrators.composition import COEFFICIENTS
from geonh.mechanics.system import System, with_parameters

FRACTIONS = COEFFICIENTS["kahan-li6"]
"""Steps of the flow of the forces: of order 6, so that runs do not depend on the frame in which it is split."""


class Multiplier(eqx.Module):
    """φ(x) = Σ cⱼφⱼ(x)."""

    fields: tuple[Field, ...]
    coefficients: Any

    def __call__(self, x: Any, parameters: Any) -> Array:
        values = [jnp.reshape(field(x, parameters), ()) for field in self.fields]
        return self.coefficients @ jnp.stack(values) if values else jnp.zeros(())


class HamiltonianMetric(eqx.Module):
    """Metric of the system in the time τ, at a point of the group."""

    chaplygin: Chaplygin
    multiplier: Multiplier

    def __call__(self, g: Point, parameters: Any) -> Array:
        chaplygin = self.with_parameters(parameters)
        return chaplygin.metric(g, jnp.exp(2 * self.multiplier(chaplygin.system.at(g), parameters)))

    def with_parameters(self, parameters: Any) -> Chaplygin:
        """The constrained system with other values of some parameters."""
        return eqx.tree_at(lambda c: c.system, self.chaplygin, with_parameters(self.chaplygin.system, parameters))


class Potential(eqx.Module):
    """Potential of a system, at a point of the group."""

    system: System

    def __call__(self, g: Point, parameters: Any) -> Array:
        system = with_parameters(self.system, parameters)
        return -system.lagrangian(system.at(g), jnp.zeros(system.group.dim))


class GyroscopicForces(eqx.Module):
    """Forces −p̃_k S^k(·, ξ) in the time τ.

    Attributes
    ----------
    metric : HamiltonianMetric
        Metric in that time.
    complement : array, shape=[r, n]
        Elements of the algebra that are transverse to the symmetries: their horizontal parts are a frame of D.
    """

    metric: HamiltonianMetric
    complement: Any

    def __call__(self, t: Array, g: Point, xi: Array, u: Any, parameters: Any) -> Array:
        p = self.metric(g, parameters) @ xi
        return -jnp.einsum("k,kij,j->i", p, _trace_free(self.metric.with_parameters(parameters), g), xi)

    def kicked(self, g: Point, p: Array, h: Array, parameters: Any) -> Array:
        """Momentum p, shape=[n], after the time h of these forces alone, to order 6; kinetic energy and volume are kept
        to rounding.
        """
        chaplygin, M = self.metric.with_parameters(parameters), self.metric(g, parameters)
        E = gram_schmidt(self.complement @ chaplygin.horizontal(g).T, M)
        S = jnp.einsum("kij,ai,bj,ck->cab", _trace_free(chaplygin, g), E, E, E @ M)
        before = E @ p
        return p + M @ (E.T @ (turned(S, before, h * np.array(FRACTIONS)) - before))


def _trace_free(chaplygin: Chaplygin, g: Point) -> Array:
    """S, shape=[n, n, n]."""
    return chaplygin.gyroscopic(g).T - chaplygin.simple(g)
