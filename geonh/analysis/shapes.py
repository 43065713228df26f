r"""Ingredients of a Chaplygin system on its shapes, and the motion of its group part.

H is a subgroup of left translations with g = D ⊕ span X, and S one with G = HS near the identity: g = hs, and s ∈ S are
the shapes. The horizontal lift of a velocity σ on S is ξ = L(s)σ ∈ D, where L is the projector onto D along X at s, on
Lie(S). On S the motion has the metric LᵀML and the forces

    Lᵀf − ⟨MLσ, T(Lσ, L·)⟩

with the gyroscopic tensor T of ``chaplygin.py``, and the group part follows from ḣ = hη̂, η = Ad_s(Lσ − σ) ∈ Lie(H). It
is a product of exponentials, of order 6 in the step of a run (Magnus), from η at three Gauss points of each step.

Sources: Koiller, *Reduction of some classical nonholonomic systems with symmetry*, Arch. Rational Mech. Anal. 118
(1992); Blanes, Casas, Ros, *Improved high order integrators based on the Magnus expansion*, BIT 40 (2000).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.analysis.chaplygin import Chaplygin
from geonh.groups.base import LieGroup, Point
from geonh.mechanics.system import System, with_parameters

GAUSS = 0.5 + np.array([-1.0, 0.0, 1.0]) * 15**0.5 / 10
"""Places of the Gauss points in a step."""


class Shapes(eqx.Module):
    """Chaplygin system over its shapes.

    Attributes
    ----------
    chaplygin : Chaplygin
        The system with H.
    representative : callable
        Point of the group G over a shape.
    inclusion : array, shape=[n, r]
        Lie(S) ⊂ g.
    """

    chaplygin: Chaplygin
    representative: Callable[[Any], Point]
    inclusion: Any

    def with_parameters(self, parameters: Any) -> Shapes:
        """The system with other values of its parameters."""
        return eqx.tree_at(
            lambda shapes: shapes.chaplygin.system, self, with_parameters(self.chaplygin.system, parameters)
        )

    @property
    def system(self) -> System:
        """The system."""
        return self.chaplygin.system

    @property
    def symmetry(self) -> Any:
        """Rows that span the algebra of H, shape=[m, n]."""
        return self.chaplygin.symmetry

    def generators(self, s: Point) -> Array:
        """X(s), shape=[m, n]."""
        return self.chaplygin._generators(self.representative(s))

    def lift(self, s: Point) -> Array:
        """L(s), shape=[n, r]."""
        return self.chaplygin.horizontal(self.representative(s)) @ self.inclusion

    def velocity(self, s: Point, sigma: Array) -> Array:
        """Lσ, shape=[n], of a velocity on S, shape=[r]."""
        return self.lift(s) @ sigma

    def turning(self, s: Point, sigma: Array) -> Array:
        """η, shape=[n], of a velocity on S, shape=[r]."""
        group = self.chaplygin.system.group
        return group.Ad(self.representative(s)) @ ((self.lift(s) - self.inclusion) @ sigma)

    def refusal(self, g: Point, xi: np.ndarray, gap: float) -> str:
        """Message for a state that is not over one on the shapes."""
        return f"xi0 breaks the constraints of {self.system.name} by {gap:.2g}; system.project gives one"

    def gyroscopic(self, s: Point, sigma: Array) -> Array:
        """−⟨MLσ, T(Lσ, L·)⟩, shape=[r]."""
        g, L = self.representative(s), self.lift(s)
        system, xi = self.chaplygin.system, L @ sigma
        p = system.mass_matrix(system.at(g)) @ xi
        return -jnp.einsum("k,kij,ia,j->a", p, self.chaplygin.gyroscopic(g).T, L, xi)


class ShapeMetric(eqx.Module):
    """LᵀML."""

    shapes: Shapes

    def __call__(self, s: Point, parameters: Any) -> Array:
        shapes = self.shapes.with_parameters(parameters)
        system, L = shapes.chaplygin.system, shapes.lift(s)
        return L.T @ system.mass_matrix(system.at(shapes.representative(s))) @ L


class ShapePotential(eqx.Module):
    """Potential over a shape."""

    shapes: Shapes

    def __call__(self, s: Point, parameters: Any) -> Array:
        system = with_parameters(self.shapes.chaplygin.system, parameters)
        return system.potential_energy(system.at(self.shapes.representative(s)))


class ShapeForces(eqx.Module):
    """Gyroscopic forces, and those of the system unless they are left out."""

    shapes: Shapes
    gyroscopic_alone: bool = eqx.field(static=True)

    def __call__(self, t: Array, s: Point, sigma: Array, u: Any, parameters: Any) -> Array:
        shapes = self.shapes.with_parameters(parameters)
        force = shapes.gyroscopic(s, sigma)
        system = shapes.chaplygin.system
        if self.gyroscopic_alone or system.forces is None:
            return force
        L = shapes.lift(s)
        return force + L.T @ system.force(t, system.at(shapes.representative(s)), L @ sigma, u)


class ShapeIntegral(eqx.Module):
    """First integral of the system over a shape; ``shapes`` may be a ``Routh``."""

    shapes: Any
    function: Callable

    def __call__(self, s: Point, sigma: Array, p: Array, parameters: Any) -> Any:
        shapes = self.shapes.with_parameters(parameters)
        system, g, xi = shapes.system, shapes.representative(s), shapes.velocity(s, sigma)
        return self.function(g, xi, system.momentum(system.at(g), xi), parameters)


class ShapeState(NamedTuple):
    """Shape, and velocity on S."""

    s: Point
    sigma: Array


def magnus(group: LieGroup, step: tuple[Array, Array]) -> Array:
    """Logarithm of the factor of a step h, of order 6, from η at the Gauss points of a step, shape=[3, n]."""
    h, eta = step

    def turned(a: Array, b: Array) -> Array:
        return group.bracket(b, a)  # as velocities are those of the body

    first, second, third = (
        h * eta[1],
        15**0.5 / 3 * h * (eta[2] - eta[0]),
        10 / 3 * h * (eta[2] - 2 * eta[1] + eta[0]),
    )
    inner = turned(first, second)
    outer = -turned(first, 2 * third + inner) / 60
    return first + third / 12 + turned(-20 * first - third + inner, second + outer) / 240


def products(group: LieGroup, logarithms: Array) -> Point:
    """Products of the exponentials of rows, shape=[N, n], from the left, after each of them."""

    def onward(h: Point, eta: Array) -> tuple[Point, Point]:
        h = group.compose(h, group.exp(eta))
        return h, h

    return lax.scan(onward, jax.tree.map(jnp.asarray, group.identity()), logarithms)[1]
