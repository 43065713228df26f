r"""SE(2): motions of the plane, points (θ, x, y) with an unwrapped angle, body velocity ξ = (ω, vx, vy).

With J = [[0, −1], [1, 0]], r = (x, y), κ = 1 + ω²/4 and A … D of ``coefficients`` at θ = ω:

    Ad = [[1, 0], [−J r, R]]                        ad = [[0, 0], [−J v, ωJ]]
    exp = (ω, (A + ωB J) v)                         log = (θ, ((1 − θ²D) − ½θJ) r)
    dexp = 1 + B ad + C ad²                         dexp⁻¹ = 1 − ½ad + D ad²   (both exact, since ad³ = −ω² ad)
    cay = (2 atan(ω/2), (v + ½ωJ v)/κ)              cay⁻¹ = (2 tan(θ/2), r − ½ωJ r)
    dcay = (1 + ½ad)/κ                              dcay⁻¹ = 1 − ½ad + ¼ω ξ e₁ᵀ

mathematics.md §5; Kobilarov & Marsden, IEEE Trans. Robotics 27 (2011), section on SE(2).
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.groups.base import LieGroup, check_rotation, represented
from geonh.groups.coefficients import A, B, C, D, matrix, vector


class SE2(LieGroup):
    """Motions of the plane. Points (θ, x, y), shape=[..., 3]; velocities (ω, vx, vy) in body axes, shape=[..., 3].

    Angles add without wrapping, so a point counts the turns made. ``log`` keeps the unwrapped angle; it is singular at
    full turns. ``cay`` stays within a half turn, and ``cay_inv`` is infinite there.
    """

    dim: int = eqx.field(static=True, default=3, init=False)
    point_names: tuple[str, ...] = eqx.field(static=True, default=("theta", "x", "y"), init=False)
    velocity_names: tuple[str, ...] = eqx.field(static=True, default=("omega", "vx", "vy"), init=False)
    point_shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True, default=((3,),), init=False)
    has_cayley: bool = eqx.field(static=True, default=True, init=False)

    def __str__(self) -> str:
        return "SE(2)"

    def identity(self) -> Any:
        return np.zeros(3)

    def compose(self, g: Array, h: Array) -> Array:
        theta, x, y = g[..., 0], h[..., 1], h[..., 2]
        c, s = jnp.cos(theta), jnp.sin(theta)
        return vector(theta + h[..., 0], g[..., 1] + c * x - s * y, g[..., 2] + s * x + c * y)

    def inverse(self, g: Array) -> Array:
        theta, x, y = g[..., 0], g[..., 1], g[..., 2]
        c, s = jnp.cos(theta), jnp.sin(theta)
        return vector(-theta, -c * x - s * y, s * x - c * y)

    def exp(self, xi: Array) -> Array:
        w, vx, vy = xi[..., 0], xi[..., 1], xi[..., 2]
        square = w * w
        a, b = A(square), w * B(square)
        return vector(w, a * vx - b * vy, b * vx + a * vy)

    def log(self, g: Array) -> Array:
        w, x, y = g[..., 0], g[..., 1], g[..., 2]
        square = w * w
        a, b = 1.0 - square * D(square), 0.5 * w
        return vector(w, a * x + b * y, a * y - b * x)

    def dexp(self, xi: Array) -> Array:
        w, vx, vy = xi[..., 0], xi[..., 1], xi[..., 2]
        square = w * w
        a, b, c = A(square), B(square), w * C(square)
        zero, one = jnp.zeros_like(w), jnp.ones_like(w)
        return matrix([[one, zero, zero], [b * vy + c * vx, a, -w * b], [c * vy - b * vx, w * b, a]])

    def dexp_inv(self, xi: Array) -> Array:
        w, vx, vy = xi[..., 0], xi[..., 1], xi[..., 2]
        d = D(w * w)
        a, half, wd = 1.0 - w * w * d, 0.5 * w, w * d
        zero, one = jnp.zeros_like(w), jnp.ones_like(w)
        return matrix([[one, zero, zero], [wd * vx - 0.5 * vy, a, half], [wd * vy + 0.5 * vx, -half, a]])

    def cay(self, xi: Array) -> Array:
        w, vx, vy = xi[..., 0], xi[..., 1], xi[..., 2]
        half = 0.5 * w
        inverse_kappa = 1.0 / (1.0 + half * half)
        angle = 2.0 * jnp.arctan(half)
        return vector(angle, (vx - half * vy) * inverse_kappa, (vy + half * vx) * inverse_kappa)

    def cay_inv(self, g: Array) -> Array:
        x, y = g[..., 1], g[..., 2]
        half = jnp.tan(0.5 * g[..., 0])
        return vector(2.0 * half, x + half * y, y - half * x)

    def dcay(self, xi: Array) -> Array:
        w, vx, vy = xi[..., 0], xi[..., 1], xi[..., 2]
        k = 1.0 / (1.0 + 0.25 * w * w)
        half = 0.5 * k
        zero = jnp.zeros_like(w)
        return matrix([[k, zero, zero], [half * vy, k, -half * w], [-half * vx, half * w, k]])

    def dcay_inv(self, xi: Array) -> Array:
        w, vx, vy = 0.5 * xi[..., 0], 0.5 * xi[..., 1], 0.5 * xi[..., 2]
        zero, one = jnp.zeros_like(w), jnp.ones_like(w)
        return matrix([[1.0 + w * w, zero, zero], [w * vx - vy, one, w], [vx + w * vy, -w, one]])

    def Ad(self, g: Array) -> Array:
        theta, x, y = g[..., 0], g[..., 1], g[..., 2]
        c, s = jnp.cos(theta), jnp.sin(theta)
        zero, one = jnp.zeros_like(x), jnp.ones_like(x)
        return matrix([[one, zero, zero], [y, c, -s], [-x, s, c]])

    def ad(self, xi: Array) -> Array:
        w, vx, vy = xi[..., 0], xi[..., 1], xi[..., 2]
        zero = jnp.zeros_like(w)
        return matrix([[zero, zero, zero], [vy, zero, -w], [-vx, w, zero]])

    def left_tangent(self, g: Array, xi: Array) -> Array:
        vx, vy = xi[..., 1], xi[..., 2]
        c, s = jnp.cos(g[..., 0]), jnp.sin(g[..., 0])
        return vector(xi[..., 0], c * vx - s * vy, s * vx + c * vy)

    def turn(self, xi: Array) -> Array:
        return jnp.abs(xi[..., 0])

    def to_matrix(self, g: Array) -> Array:
        theta, x, y = g[..., 0], g[..., 1], g[..., 2]
        c, s = jnp.cos(theta), jnp.sin(theta)
        zero, one = jnp.zeros_like(x), jnp.ones_like(x)
        return matrix([[c, -s, x], [s, c, y], [zero, zero, one]])

    def from_matrix(self, matrix: Array) -> Array:
        """Point of the group of a homogeneous matrix, shape=[..., 3, 3]; the angle is in (−π, π].

        Raises
        ------
        ValueError
            If it has another shape, or its first two columns are not a rotation.
        """
        check_rotation(matrix[..., :2, :2], "matrix")
        theta = jnp.arctan2(matrix[..., 1, 0], matrix[..., 0, 0])
        return represented(self, vector(theta, matrix[..., 0, 2], matrix[..., 1, 2]), matrix)

    def to_xytheta(self, g: Array) -> Array:
        """(x, y, θ) of a point (θ, x, y), both of shape=[..., 3]."""
        return vector(g[..., 1], g[..., 2], g[..., 0])

    def from_xytheta(self, pose: Array) -> Array:
        """Point (θ, x, y) of ``pose``, which is (x, y, θ); both of shape=[..., 3]."""
        if jnp.shape(pose)[-1:] != (3,):
            raise ValueError(f"pose must have shape [..., 3], got {list(jnp.shape(pose))}")
        return vector(pose[..., 2], pose[..., 0], pose[..., 1])

    def space(self) -> Any:
        from geomstats.geometry.special_euclidean import SpecialEuclidean

        return SpecialEuclidean(2)

    def to_geomstats(self, g: Array) -> np.ndarray:
        theta, x, y = np.moveaxis(np.asarray(g, dtype=np.float64), -1, 0)
        matrix = np.zeros((*theta.shape, 3, 3))
        matrix[..., 0, 0] = matrix[..., 1, 1] = np.cos(theta)
        matrix[..., 1, 0] = np.sin(theta)
        matrix[..., 0, 1] = -matrix[..., 1, 0]
        matrix[..., 0, 2], matrix[..., 1, 2], matrix[..., 2, 2] = x, y, 1.0
        return matrix

    def from_geomstats(self, point: np.ndarray) -> Any:
        point = np.asarray(point, dtype=np.float64)
        angle = np.arctan2(point[..., 1, 0], point[..., 0, 0])
        return np.stack([angle, point[..., 0, 2], point[..., 1, 2]], axis=-1)
