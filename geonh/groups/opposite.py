r"""Opposite group Gᵒᵖ: the same points with g ∗ h = h g, which turns spatial velocities into body velocities.

ξ = g⁻¹ ∗ ġ = ġ g⁻¹ is the spatial velocity of G. exp, log, cay and their inverses are the same maps; the bracket
changes its sign, and

    Ad^op_g = Ad_{g⁻¹}        ad^op = −ad        dτ^op_ξ = dτ_{−ξ}        left_tangent(g, ξ) = ξ̂ g = g (Ad_{g⁻¹}ξ)^

mathematics.md §1.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np
from jax import Array

from geonh.groups.base import LieGroup, Point
from geonh.groups.coefficients import matvec, transpose


class _Involution(type(LieGroup)):  # type: ignore[misc]
    """Metaclass that makes the opposite of an opposite the group itself."""

    def __call__(cls, group: LieGroup) -> LieGroup:
        return group.group if isinstance(group, Opposite) else super().__call__(group)


class Opposite(LieGroup, metaclass=_Involution):
    """Opposite of a group. ``Opposite(Opposite(group))`` is ``group``.

    Points and geomstats conversions are those of the group, whose product is the reverse; the matrix representation is
    the transpose of the group's, so that it is a homomorphism.

    Parameters
    ----------
    group : LieGroup
        The group G.

    Raises
    ------
    TypeError
        If ``group`` is not a ``LieGroup``; ``as_group`` converts geomstats manifolds.
    """

    group: LieGroup
    dim: int = eqx.field(static=True)
    point_names: tuple[str, ...] = eqx.field(static=True)
    velocity_names: tuple[str, ...] = eqx.field(static=True)
    point_shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    has_cayley: bool = eqx.field(static=True)

    def __init__(self, group: LieGroup):
        if not isinstance(group, LieGroup):
            raise TypeError(f"group must be a geonh LieGroup, got {type(group).__name__}; see geonh.groups.as_group")
        self.group = group
        self.dim = group.dim
        self.point_names = group.point_names
        self.velocity_names = group.velocity_names
        self.point_shapes = group.point_shapes
        self.has_cayley = group.has_cayley

    def __str__(self) -> str:
        name = str(self.group)
        return f"({name})ᵒᵖ" if " " in name else f"{name}ᵒᵖ"

    def identity(self) -> Point:
        return self.group.identity()

    def compose(self, g: Point, h: Point) -> Point:
        return self.group.compose(h, g)

    def inverse(self, g: Point) -> Point:
        return self.group.inverse(g)

    def exp(self, xi: Array) -> Point:
        return self.group.exp(xi)

    def log(self, g: Point) -> Array:
        return self.group.log(g)

    def dexp(self, xi: Array) -> Array:
        return self.group.dexp(-xi)

    def dexp_inv(self, xi: Array) -> Array:
        return self.group.dexp_inv(-xi)

    def cay(self, xi: Array) -> Point:
        return self.group.cay(xi)

    def cay_inv(self, g: Point) -> Array:
        return self.group.cay_inv(g)

    def dcay(self, xi: Array) -> Array:
        return self.group.dcay(-xi)

    def dcay_inv(self, xi: Array) -> Array:
        return self.group.dcay_inv(-xi)

    def Ad(self, g: Point) -> Array:
        return self.group.Ad(self.group.inverse(g))

    def ad(self, xi: Array) -> Array:
        return -self.group.ad(xi)

    @property
    def structure_constants(self) -> np.ndarray:
        return -self.group.structure_constants

    def left_tangent(self, g: Point, xi: Array) -> Point:
        """Ambient velocity ġ = ξ̂ g of ``xi``, shape=[..., n]: arrays of the shapes of a point of the group."""
        return self.group.left_tangent(g, matvec(self.Ad(g), xi))

    def project(self, g: Point) -> Point:
        return self.group.project(g)

    def gap(self, g: Point) -> Array:
        return self.group.gap(g)

    def turn(self, xi: Array) -> Array:
        return self.group.turn(xi)

    def to_matrix(self, g: Point) -> Array:
        """Transpose of the group's matrix, shape=[..., N, N]."""
        return transpose(self.group.to_matrix(g))

    def from_matrix(self, matrix: Array) -> Point:
        return self.group.from_matrix(transpose(matrix))

    def space(self) -> Any:
        """The geomstats manifold of the group: the same points, with the product reversed."""
        return self.group.space()

    def to_geomstats(self, g: Point) -> np.ndarray:
        return self.group.to_geomstats(g)

    def from_geomstats(self, point: np.ndarray) -> Point:
        return self.group.from_geomstats(point)
