r"""The Heisenberg group R³ in geomstats' coordinates: (x, y, z)·(x', y', z') = (x + x', y + y', z + z' + ½(xy' − yx')).

exp, log, Cayley and its inverse are the identity map on coordinates (in the unipotent 3×3 representation ξ̂³ = 0, so
the Cayley map 1 + ξ̂ + ½ξ̂² is exp). [e₁, e₂] = e₃, ad² = 0, and with s = (x, y):

    Ad = 1 + ad                dexp = dcay = 1 + ½ad                dexp⁻¹ = dcay⁻¹ = 1 − ½ad

mathematics.md §5; geomstats ``HeisenbergVectors``.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from geonh.groups.base import represented
from geonh.groups.coefficients import matrix, vector
from geonh.groups.coordinates import ExponentialCoordinates


class Heisenberg(ExponentialCoordinates):
    """Heisenberg group. Points (x, y, z) and velocities (vx, vy, vz) of shape=[..., 3]; vz is along the centre."""

    dim: int = eqx.field(static=True, default=3, init=False)
    point_names: tuple[str, ...] = eqx.field(static=True, default=("x", "y", "z"), init=False)
    velocity_names: tuple[str, ...] = eqx.field(static=True, default=("vx", "vy", "vz"), init=False)
    point_shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True, default=((3,),), init=False)
    has_cayley: bool = eqx.field(static=True, default=True, init=False)

    def __str__(self) -> str:
        return "Heis(3)"

    def compose(self, g: Array, h: Array) -> Array:
        area = 0.5 * (g[..., 0] * h[..., 1] - g[..., 1] * h[..., 0])
        return vector(g[..., 0] + h[..., 0], g[..., 1] + h[..., 1], g[..., 2] + h[..., 2] + area)

    def dexp(self, xi: Array) -> Array:
        return _unipotent(xi, 1.0, 0.5)

    def dexp_inv(self, xi: Array) -> Array:
        return _unipotent(xi, 1.0, -0.5)

    dcay = dexp
    dcay_inv = dexp_inv

    def Ad(self, g: Array) -> Array:
        return _unipotent(g, 1.0, 1.0)

    def ad(self, xi: Array) -> Array:
        return _unipotent(xi, 0.0, 1.0)

    def left_tangent(self, g: Array, xi: Array) -> Array:
        swept = 0.5 * (g[..., 0] * xi[..., 1] - g[..., 1] * xi[..., 0])
        return vector(xi[..., 0], xi[..., 1], xi[..., 2] + swept)

    def to_matrix(self, g: Array) -> Array:
        """The unipotent matrix [[1, x, z + ½xy], [0, 1, y], [0, 0, 1]] of a point, shape=[..., 3, 3]."""
        x, y, z = g[..., 0], g[..., 1], g[..., 2]
        zero, one = jnp.zeros_like(x), jnp.ones_like(x)
        return matrix([[one, x, z + 0.5 * x * y], [zero, one, y], [zero, zero, one]])

    def from_matrix(self, matrix: Array) -> Array:
        x, y = matrix[..., 0, 1], matrix[..., 1, 2]
        return represented(self, vector(x, y, matrix[..., 0, 2] - 0.5 * x * y), matrix)

    def space(self) -> Any:
        from geomstats.geometry.heisenberg import HeisenbergVectors

        return HeisenbergVectors()


def _unipotent(xi: Array, diagonal: float, factor: float) -> Array:
    """diagonal·1 + factor·ad_ξ, shape=[..., 3, 3]."""
    x, y = factor * xi[..., 0], factor * xi[..., 1]
    zero = jnp.zeros_like(x)
    d = zero + diagonal
    return matrix([[d, zero, zero], [zero, d, zero], [-y, x, d]])
