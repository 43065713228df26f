r"""SO(2): one unwrapped angle θ. exp and log are the identity map on coordinates, Ad = 1, ad = 0;

cay = 2 atan(ω/2)         cay⁻¹ = 2 tan(θ/2)         dcay = 1/κ         dcay⁻¹ = κ = 1 + ω²/4
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.groups.base import represented
from geonh.groups.coordinates import ExponentialCoordinates


class SO2(ExponentialCoordinates):
    """Rotations of the plane. Points and velocities of shape=[..., 1]: an angle that counts turns (rad), its rate.

    The circle as a shape variable is ``Torus(1)``, whose Cayley map is the identity; here it is that of the matrices.
    """

    dim: int = eqx.field(static=True, default=1, init=False)
    point_names: tuple[str, ...] = eqx.field(static=True, default=("theta",), init=False)
    velocity_names: tuple[str, ...] = eqx.field(static=True, default=("omega",), init=False)
    point_shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True, default=((1,),), init=False)
    has_cayley: bool = eqx.field(static=True, default=True, init=False)

    def __str__(self) -> str:
        return "SO(2)"

    def compose(self, g: Array, h: Array) -> Array:
        return g + h

    def cay(self, xi: Array) -> Array:
        return 2.0 * jnp.arctan(0.5 * xi)

    def cay_inv(self, g: Array) -> Array:
        return 2.0 * jnp.tan(0.5 * g)

    def dcay(self, xi: Array) -> Array:
        return (1.0 / (1.0 + 0.25 * xi * xi))[..., None]

    def dcay_inv(self, xi: Array) -> Array:
        return (1.0 + 0.25 * xi * xi)[..., None]

    def _one(self, xi: Array) -> Array:
        return jnp.ones_like(xi)[..., None]

    dexp = dexp_inv = _one  # type: ignore[assignment]

    def Ad(self, g: Array) -> Array:
        return self._one(g)

    def ad(self, xi: Array) -> Array:
        return jnp.zeros_like(xi)[..., None]

    def left_tangent(self, g: Array, xi: Array) -> Array:
        return xi + jnp.zeros_like(g)

    def turn(self, xi: Array) -> Array:
        return jnp.abs(xi[..., 0])

    def to_matrix(self, g: Array) -> Array:
        c, s = jnp.cos(g[..., 0]), jnp.sin(g[..., 0])
        return jnp.stack([jnp.stack([c, -s], axis=-1), jnp.stack([s, c], axis=-1)], axis=-2)

    def from_matrix(self, matrix: Array) -> Array:
        """Point of the group of a rotation matrix, shape=[..., 2, 2]; the angle is in (−π, π]."""
        return represented(self, jnp.arctan2(matrix[..., 1, 0], matrix[..., 0, 0])[..., None], matrix)

    def space(self) -> Any:
        from geomstats.geometry.special_orthogonal import SpecialOrthogonal

        return SpecialOrthogonal(2)

    def to_geomstats(self, g: Array) -> np.ndarray:
        angle = np.asarray(g, dtype=np.float64)[..., 0]
        c, s = np.cos(angle), np.sin(angle)
        return np.stack([np.stack([c, -s], axis=-1), np.stack([s, c], axis=-1)], axis=-2)

    def from_geomstats(self, point: np.ndarray) -> Any:
        point = np.asarray(point, dtype=np.float64)
        return np.arctan2(point[..., 1, 0], point[..., 0, 0])[..., None]
