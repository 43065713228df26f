r"""Retractions τ: g → G, local diffeomorphisms with τ(0) = e, τ(−ζ) = τ(ζ)⁻¹, and their trivialised tangents.

(dτ_ζ η)^ = Dτ(ζ)η · τ(ζ)⁻¹ is the right-trivialised tangent; the left-trivialised one is dτ_{−ζ}, and
Ad_{τ(ζ)} = dτ_ζ dτ_{−ζ}⁻¹ (mathematics.md §3).
"""

from __future__ import annotations

from abc import abstractmethod

import jax.numpy as jnp
from jax import Array

from geonh.arguments.validators import shortly
from geonh.engine import Precise, traced_once
from geonh.groups.base import LieGroup, Point


class Retraction(Precise):
    """A map τ from the algebra of any group to the group, with τ(0) = e and τ(−ζ) = τ(ζ)⁻¹.

    ``retraction(group, zeta)`` is W = τ(ζ), a point of the group, of ``zeta`` of shape=[..., n].
    """

    @abstractmethod
    def __call__(self, group: LieGroup, zeta: Array) -> Point:
        """W = τ(ζ), a point of the group; ``zeta`` of shape=[..., n]."""

    @abstractmethod
    def inverse(self, group: LieGroup, W: Point) -> Array:
        """ζ = τ⁻¹(W), shape=[..., n], of a point of the group."""

    @abstractmethod
    def dtau(self, group: LieGroup, zeta: Array) -> Array:
        """Right-trivialised tangent dτ_ζ, shape=[..., n, n]; ``zeta`` of shape=[..., n]."""

    @abstractmethod
    def dtau_inv(self, group: LieGroup, zeta: Array) -> Array:
        """Its inverse dτ_ζ⁻¹, shape=[..., n, n]; ``zeta`` of shape=[..., n]."""

    @abstractmethod
    def turn(self, group: LieGroup, zeta: Array) -> Array:
        """Angle (rad), shape=[...], by which a body turns in a step ζ, shape=[..., n], of a momentum at its ends."""

    def angle(self, group: LieGroup, zeta: Array) -> Array:
        """Angle (rad), shape=[...], of the rotation τ(ζ); ``zeta`` of shape=[..., n]."""
        return group.turn(zeta)

    def pull(self, group: LieGroup, zeta: Array, covector: Array) -> Array:
        """(dτ_ζ⁻¹)ᵀ p, shape=[n]; ``zeta`` and ``covector`` p of shape=[n]."""
        return jnp.sum(self.dtau_inv(group, zeta) * covector[:, None], axis=0)


class Exponential(Retraction):
    """τ = exp, the ``exp`` of the group."""

    @traced_once
    def __call__(self, group: LieGroup, zeta: Array) -> Point:
        return group.exp(zeta)

    @traced_once
    def inverse(self, group: LieGroup, W: Point) -> Array:
        return group.log(W)

    @traced_once
    def dtau(self, group: LieGroup, zeta: Array) -> Array:
        return group.dexp(zeta)

    @traced_once
    def dtau_inv(self, group: LieGroup, zeta: Array) -> Array:
        return group.dexp_inv(zeta)

    @traced_once
    def turn(self, group: LieGroup, zeta: Array) -> Array:
        return group.turn(zeta)


class Cayley(Retraction):
    """τ(ζ) = (1 − ζ̂/2)⁻¹(1 + ζ̂/2): rational, and cheaper than exp.

    A body that turns at a constant rate by an angle a in one step has |ζ| (1 + |ζ|²/4) = a, which ``turn``
    returns. It is past a half turn where |ζ| > 1.78; τ itself never reaches a half turn.
    """

    @traced_once
    def __call__(self, group: LieGroup, zeta: Array) -> Point:
        return group.cay(zeta)

    @traced_once
    def inverse(self, group: LieGroup, W: Point) -> Array:
        return group.cay_inv(W)

    @traced_once
    def dtau(self, group: LieGroup, zeta: Array) -> Array:
        return group.dcay(zeta)

    @traced_once
    def dtau_inv(self, group: LieGroup, zeta: Array) -> Array:
        return group.dcay_inv(zeta)

    @traced_once
    def pull(self, group: LieGroup, zeta: Array, covector: Array) -> Array:
        return group.dcay_inv_star(zeta, covector)

    @traced_once
    def turn(self, group: LieGroup, zeta: Array) -> Array:
        angle = group.turn(zeta)
        return angle * (1 + angle**2 / 4)

    @traced_once
    def angle(self, group: LieGroup, zeta: Array) -> Array:
        return 2 * jnp.arctan(group.turn(zeta) / 2)


def make_retraction(retraction: str | Retraction) -> Retraction | None:
    """Retraction of a given name.

    Parameters
    ----------
    retraction : {"auto", "exp", "cayley"} or Retraction
        A retraction is returned as it is.

    Returns
    -------
    Retraction or None
        None for "auto": the method then takes the Cayley map where the group has it, else exp.

    Raises
    ------
    ValueError
        If ``retraction`` is anything else.
    """
    if isinstance(retraction, Retraction):
        return retraction
    if isinstance(retraction, str) and retraction == "auto":
        return None
    names: dict[str, Retraction] = {"exp": Exponential(), "cayley": Cayley()}
    if not isinstance(retraction, str) or retraction not in names:
        raise ValueError(f"retraction must be 'auto', 'exp', 'cayley' or a Retraction, got {shortly(retraction)}")
    return names[retraction]
