r"""Routh reduction by horizontal symmetries, and the motion of its group part.

H is an abelian subgroup of left translations that leave a system invariant, with generators X(g) tangent to D, so that
the momenta ⟨p, X⟩ = c are kept; S is a subgroup with G = HS near the identity, g = hs. Of a velocity σ on S

    ξ = Jσ + Xᵀν,   XMXᵀν = c − X(MJσ + p₀),

where J is the inclusion of Lie(S), p = Mξ + p₀, all at s. The motion on S is that of Routh's function

    R(s, σ) = ℓ(s, ξ) − c·ν

with the constraints and the forces of the system, μJσ = b and Jᵀf. Then ḣ = hη̂, η = Σ ν_a e_a ∈ Lie(H).

Source: Bloch, Krishnaprasad, Marsden, Murray, *Nonholonomic mechanical systems with symmetry*, Arch. Rational Mech.
Anal. 136 (1996), section 5.2 (the horizontal case); Marsden, Ratiu, *Introduction to Mechanics and Symmetry*, §8.9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.algebra.linear import solve_spd
from geonh.analysis.states import IDENTITY, random_states
from geonh.arguments.precision import float64
from geonh.engine import mapped
from geonh.groups.base import Point
from geonh.mechanics.momentum import generators_or_default
from geonh.mechanics.symmetry import SOME_TIME, some_controls
from geonh.mechanics.system import System, with_parameters

STATES = 4
"""Number of random states at which forces and generators are tested."""
MOMENTUM = "momentum"
"""Name of the parameter of reduced systems that holds the momenta c."""


class Routh(eqx.Module):
    """A system over shapes, at given momenta of horizontal symmetries.

    Attributes
    ----------
    system : System
    symmetry : array, shape=[s, n]
        Rows e_a that span the algebra of H.
    momentum : array, shape=[s]
        Momenta c along these.
    representative : callable
        Point of the group G over a shape.
    inclusion : array, shape=[n, r]
        J.
    """

    system: System
    symmetry: Any
    momentum: Any
    representative: Callable[[Any], Point]
    inclusion: Any

    def with_parameters(self, parameters: Any) -> Routh:
        """The system with other values of its parameters and the momenta among them."""
        own = {name: value for name, value in parameters.items() if name in self.system.parameters}
        new = with_parameters(self.system, own), jnp.reshape(parameters[MOMENTUM], (-1,))
        return eqx.tree_at(lambda routh: (routh.system, routh.momentum), self, new)

    def generators(self, s: Point) -> Array:
        """X(s), shape=[s, n]."""
        return self.symmetry @ generators_or_default(self.system, None)(self.representative(s))

    def rates(self, s: Point, sigma: Array) -> Array:
        """ν, shape=[s]."""
        X, x = self.generators(s), self.system.at(self.representative(s))
        M = self.system.mass_matrix(x)
        missing = self.momentum - X @ (M @ (self.inclusion @ sigma) + self.system.momentum_at_rest(x))
        return solve_spd(X @ M @ X.T, missing)

    def velocity(self, s: Point, sigma: Array) -> Array:
        """ξ, shape=[n], over a velocity on S, shape=[r]."""
        return self.inclusion @ sigma + self.generators(s).T @ self.rates(s, sigma)

    def turning(self, s: Point, sigma: Array) -> Array:
        """η, shape=[n]."""
        return self.symmetry.T @ self.rates(s, sigma)

    def refusal(self, g: Point, xi: np.ndarray, gap: float) -> str:
        """Message for a state that is not over one on the shapes."""
        return (
            f"xi0 has other momenta than {np.asarray(self.momentum)}, at which {self.system.name} was reduced, by "
            f"{gap:.2g} in the velocity; reduction.with_parameters({MOMENTUM}=...) has others"
        )


class RouthMetric(eqx.Module):
    """LᵀML, with Lσ the part of ξ linear in σ."""

    routh: Routh

    def __call__(self, s: Point, parameters: Any) -> Array:
        routh = self.routh.with_parameters(parameters)
        M, X = routh.system.mass_matrix(routh.system.at(routh.representative(s))), routh.generators(s)
        MJ = M @ routh.inclusion
        return routh.inclusion.T @ MJ - (X @ MJ).T @ solve_spd(X @ M @ X.T, X @ MJ)


class RouthFunction(eqx.Module):
    """R(s, σ)."""

    routh: Routh

    def __call__(self, s: Point, sigma: Array, parameters: Any) -> Array:
        routh = self.routh.with_parameters(parameters)
        x = routh.system.at(routh.representative(s))
        return routh.system.lagrangian(x, routh.velocity(s, sigma)) - routh.momentum @ routh.rates(s, sigma)


class RouthForms(eqx.Module):
    """μJ over a shape."""

    routh: Routh

    def __call__(self, s: Point, parameters: Any) -> Array:
        routh = self.routh.with_parameters(parameters)
        x = routh.system.at(routh.representative(s))
        return routh.system.holding(x).annihilator(x) @ routh.inclusion


class RouthDrift(eqx.Module):
    """b over a shape."""

    routh: Routh

    def __call__(self, s: Point, parameters: Any) -> Array:
        routh = self.routh.with_parameters(parameters)
        x = routh.system.at(routh.representative(s))
        return routh.system.holding(x).right_hand_side(x)


class RouthForces(eqx.Module):
    """Jᵀf over a shape."""

    routh: Routh

    def __call__(self, t: Array, s: Point, sigma: Array, u: Any, parameters: Any) -> Array:
        routh = self.routh.with_parameters(parameters)
        x = routh.system.at(routh.representative(s))
        return routh.inclusion.T @ routh.system.force(t, x, routh.velocity(s, sigma), u)


class _Along(NamedTuple):
    """At a state: μXᵀ and Xf, which must vanish, shapes=[m, s] and [s]."""

    off: Array
    power: Array


def refuse_power(system: System, rows: np.ndarray) -> None:
    """Raise ValueError unless the generators are in D, and the forces, with some controls, have no power along them."""
    rng = np.random.default_rng(0)
    states = random_states(system, jax.tree.map(np.asarray, system.group.identity()), STATES, rng, near=0.1)
    with float64():
        tested, u = some_controls(system)
    found = mapped(_along, (system, rows, u, tested), (states.g, states.xi))
    off, power = (np.abs(part).max(initial=0.0) for part in found)
    if not off <= IDENTITY:
        raise ValueError(f"symmetry has elements that are not horizontal: they leave D by {off:.2g}")
    if not power <= IDENTITY:
        raise ValueError(f"the forces of {system.name} change the momenta of the symmetries, by {power:.2g}")


def _along(tree: tuple[System, Any, Any, bool], state: tuple[Point, Array]) -> _Along:
    (system, rows, u, tested), (g, xi) = tree, state
    x, X = system.at(g), rows @ generators_or_default(system, None)(g)
    force = system.force(jnp.full((), SOME_TIME), x, xi, u) if tested else jnp.zeros(len(xi))
    forms = system.holding(x).annihilator(x) if system.is_constrained else jnp.zeros((0, len(xi)))
    return _Along(forms @ X.T, X @ force)
