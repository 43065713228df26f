r"""SO(3): rotation matrices R, body angular velocity ω = (Rᵀ Ṙ)^∨, and unit quaternions.

With θ = |ω|, κ = 1 + θ²/4 and A … D of ``coefficients``:

    Ad = R                                   ad = ω̂
    exp = 1 + A ω̂ + B ω̂²                     log through the unit quaternion (w, v), w ≥ 0: 2 atan2(|v|, w) v/|v|
    dexp = 1 + B ω̂ + C ω̂²                    dexp⁻¹ = 1 − ½ω̂ + D ω̂²
    cay = 1 + (ω̂ + ½ω̂²)/κ                    cay⁻¹ = 2 (R − Rᵀ)^∨/(1 + tr R)
    dcay = (1 + ½ω̂)/κ                        dcay⁻¹ = 1 − ½ω̂ + ¼ωωᵀ

mathematics.md §5; Iserles, Munthe-Kaas, Nørsett & Zanna, Lie-group methods, Acta Numerica 9 (2000), appendix B.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.arguments.precision import is_traced
from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_float64, shortly
from geonh.engine import call_in_numpy, in_float64
from geonh.groups.base import LieGroup, check_rotation
from geonh.groups.coefficients import (
    A,
    B,
    C,
    D,
    angle_over_sine,
    cross,
    hat,
    matmul,
    matrix,
    safe_sqrt,
    transpose,
    vee_skew,
)


def rotation_polynomial(w: Array, linear: Array | float, quadratic: Array | float) -> Array:
    """1 + linear·ω̂ + quadratic·ω̂², shape=[..., 3, 3]."""
    x, y, z = w[..., 0], w[..., 1], w[..., 2]
    xx, yy, zz = x * x, y * y, z * z
    sx, sy, sz = linear * x, linear * y, linear * z
    xy, xz, yz = quadratic * (x * y), quadratic * (x * z), quadratic * (y * z)
    return matrix(
        [
            [1.0 - quadratic * (yy + zz), xy - sz, xz + sy],
            [xy + sz, 1.0 - quadratic * (xx + zz), yz - sx],
            [xz - sy, yz + sx, 1.0 - quadratic * (xx + yy)],
        ]
    )


def squared_norm(w: Array) -> Array:
    return jnp.sum(w * w, axis=-1)


def _four_q_qt(R: Array) -> Array:
    """The matrix 4 q qᵀ of the quaternion q = (w, x, y, z), which is linear in R; shape=[..., 4, 4]."""
    r11, r12, r13 = R[..., 0, 0], R[..., 0, 1], R[..., 0, 2]
    r21, r22, r23 = R[..., 1, 0], R[..., 1, 1], R[..., 1, 2]
    r31, r32, r33 = R[..., 2, 0], R[..., 2, 1], R[..., 2, 2]
    wx, wy, wz = r32 - r23, r13 - r31, r21 - r12
    xy, xz, yz = r12 + r21, r13 + r31, r23 + r32
    return matrix(
        [
            [1.0 + r11 + r22 + r33, wx, wy, wz],
            [wx, 1.0 + r11 - r22 - r33, xy, xz],
            [wy, xy, 1.0 - r11 + r22 - r33, yz],
            [wz, xz, yz, 1.0 - r11 - r22 + r33],
        ]
    )


def unit_quaternion(R: Array) -> Array:
    """Unit quaternion (w, x, y, z) with w ≥ 0: the largest row of 4 q qᵀ, normalised."""
    K = _four_q_qt(R)
    row, largest = K[..., 0, :], K[..., 0, 0]
    for i in (1, 2, 3):
        better = K[..., i, i] > largest
        row = jnp.where(better[..., None], K[..., i, :], row)
        largest = jnp.where(better, K[..., i, i], largest)
    row = jnp.where((row[..., 0] < 0.0)[..., None], -row, row)
    return row / jnp.sqrt(jnp.sum(row * row, axis=-1))[..., None]


@validated
@in_float64
def quaternion_to_matrix(q: Array, *, scalar_first: bool) -> Array:
    """Rotation matrix of a quaternion, which need not be of unit length.

    Parameters
    ----------
    q : array, shape=[..., 4]
        Quaternion, not zero (which gives nan).
    scalar_first : bool
        True if q is (w, x, y, z), else (x, y, z, w).

    Returns
    -------
    array, shape=[..., 3, 3]

    Raises
    ------
    TypeError
        If ``scalar_first`` is not a bool, or ``q`` is not made of numbers.
    ValueError
        If ``q`` is zero, has another shape, or an entry that is not finite.
    """
    q = q if isinstance(q, jax.Array) else as_float64(q, "q")
    if q.shape[-1:] != (4,):
        raise ValueError(f"q must have shape [..., 4], got {list(q.shape)}")
    if not is_traced(q) and not np.all(np.any(q, axis=-1)):
        raise ValueError(f"q must not be zero, got {shortly(q)}")
    return call_in_numpy(_rotation, (q, scalar_first), {})


def _rotation(q: Array, scalar_first: bool) -> Array:
    largest = jnp.max(jnp.abs(q), axis=-1, keepdims=True)
    q = q / jnp.where((largest > 1e-100) & (largest < 1e100), 1.0, largest)  # of others squares are no numbers
    w, x, y, z = (q[..., i] for i in ((0, 1, 2, 3) if scalar_first else (3, 0, 1, 2)))
    s = 2.0 / (w * w + x * x + y * y + z * z)
    return matrix(
        [
            [1.0 - s * (y * y + z * z), s * (x * y - w * z), s * (x * z + w * y)],
            [s * (x * y + w * z), 1.0 - s * (x * x + z * z), s * (y * z - w * x)],
            [s * (x * z - w * y), s * (y * z + w * x), 1.0 - s * (x * x + y * y)],
        ]
    )


@validated
@in_float64
def matrix_to_quaternion(R: Array, *, scalar_first: bool) -> Array:
    """Unit quaternion of a rotation matrix, with non-negative scalar part.

    Parameters
    ----------
    R : array, shape=[..., 3, 3]
        Rotation matrix.
    scalar_first : bool
        True to return (w, x, y, z), else (x, y, z, w).

    Returns
    -------
    array, shape=[..., 4]

    Raises
    ------
    TypeError
        If ``scalar_first`` is not a bool, or ``R`` is not made of numbers.
    ValueError
        If ``R`` has another shape, is not near a rotation, or has an entry that is not finite.
    """
    R = R if isinstance(R, jax.Array) else as_float64(R, "R")
    if R.shape[-2:] != (3, 3):
        raise ValueError(f"R must have shape [..., 3, 3], got {list(R.shape)}")
    check_rotation(R, "R")
    return call_in_numpy(quaternion, (R, scalar_first), {})


def quaternion(R: Array, scalar_first: bool) -> Array:
    """Unit quaternion, shape=[..., 4], of rotation matrices."""
    q = unit_quaternion(R)
    return q if scalar_first else jnp.concatenate([q[..., 1:], q[..., :1]], axis=-1)


def rotation_log(R: Array) -> Array:
    """Rotation vector of length ≤ π, shape=[..., 3]; at π one of the two, with the derivative of its side."""
    q = unit_quaternion(R)
    v = q[..., 1:]
    return 2.0 * angle_over_sine(squared_norm(v), q[..., 0])[..., None] * v


def nearest_rotation(R: Array) -> Array:
    """Two Newton steps X ← ½(X + X⁻ᵀ) to the orthogonal polar factor: an error ε becomes about ε⁴/8.

    For a matrix with det ≤ 0 the result is nan.
    """
    for _ in range(2):
        a, b, c = R[..., 0, :], R[..., 1, :], R[..., 2, :]
        cofactors = jnp.stack([cross(b, c), cross(c, a), cross(a, b)], axis=-2)
        det = jnp.sum(a * cofactors[..., 0, :], axis=-1)
        R = 0.5 * (R + cofactors / jnp.where(det > 0.0, det, jnp.nan)[..., None, None])
    return R


class SO3(LieGroup):
    """Rotations of space. Points are matrices, shape=[..., 3, 3]; velocities ω in body axes (rad/s), shape=[..., 3].

    ``log`` is principal, |ω| ≤ π, and keeps full accuracy up to a half turn; ``cay_inv`` is infinite at a half turn.
    """

    dim: int = eqx.field(static=True, default=3, init=False)
    point_names: tuple[str, ...] = eqx.field(
        static=True, default=tuple(f"R{i}{j}" for i in (1, 2, 3) for j in (1, 2, 3)), init=False
    )
    velocity_names: tuple[str, ...] = eqx.field(static=True, default=("omega1", "omega2", "omega3"), init=False)
    point_shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True, default=((3, 3),), init=False)
    has_cayley: bool = eqx.field(static=True, default=True, init=False)

    def __str__(self) -> str:
        return "SO(3)"

    def identity(self) -> Any:
        return np.eye(3)

    def compose(self, g: Array, h: Array) -> Array:
        return matmul(g, h)

    def inverse(self, g: Array) -> Array:
        return transpose(g)

    def exp(self, xi: Array) -> Array:
        x = squared_norm(xi)
        return rotation_polynomial(xi, A(x), B(x))

    def log(self, g: Array) -> Array:
        return rotation_log(g)

    def dexp(self, xi: Array) -> Array:
        x = squared_norm(xi)
        return rotation_polynomial(xi, B(x), C(x))

    def dexp_inv(self, xi: Array) -> Array:
        return rotation_polynomial(xi, -0.5, D(squared_norm(xi)))

    def cay(self, xi: Array) -> Array:
        inverse_kappa = 1.0 / (1.0 + 0.25 * squared_norm(xi))
        return rotation_polynomial(xi, inverse_kappa, 0.5 * inverse_kappa)

    def cay_inv(self, g: Array) -> Array:
        return (2.0 / (1.0 + g[..., 0, 0] + g[..., 1, 1] + g[..., 2, 2]))[..., None] * vee_skew(g)

    def dcay(self, xi: Array) -> Array:
        inverse_kappa = 1.0 / (1.0 + 0.25 * squared_norm(xi))
        x, y, z = (0.5 * inverse_kappa * xi[..., i] for i in range(3))
        k = inverse_kappa
        return matrix([[k, -z, y], [z, k, -x], [-y, x, k]])

    def dcay_inv(self, xi: Array) -> Array:
        x, y, z = (0.5 * xi[..., i] for i in range(3))
        return matrix(
            [
                [1.0 + x * x, x * y + z, x * z - y],
                [x * y - z, 1.0 + y * y, y * z + x],
                [x * z + y, y * z - x, 1.0 + z * z],
            ]
        )

    def dcay_inv_star(self, xi: Array, p: Array) -> Array:
        half = 0.5 * xi
        return p + cross(half, p) + half * jnp.sum(half * p, axis=-1, keepdims=True)

    def Ad(self, g: Array) -> Array:
        return g

    def ad(self, xi: Array) -> Array:
        return hat(xi)

    def left_tangent(self, g: Array, xi: Array) -> Array:
        return matmul(g, hat(xi))

    def project(self, g: Array) -> Array:
        return nearest_rotation(g)

    def defect(self, g: Array) -> Array:
        excess = g.T @ g - jnp.eye(3)
        return 0.25 * jnp.sum(excess * excess)

    def turn(self, xi: Array) -> Array:
        return safe_sqrt(squared_norm(xi))

    def to_matrix(self, g: Array) -> Array:
        return g

    def from_matrix(self, matrix: Array) -> Array:
        check_rotation(matrix, "matrix")
        return matrix

    def to_quaternion(self, g: Array, *, scalar_first: bool) -> Array:
        """Unit quaternion, shape=[..., 4], of a rotation matrix, shape=[..., 3, 3]; as ``matrix_to_quaternion``."""
        return matrix_to_quaternion(g, scalar_first=scalar_first)

    def from_quaternion(self, q: Array, *, scalar_first: bool) -> Array:
        """Rotation matrix, shape=[..., 3, 3], of a quaternion, shape=[..., 4]; as ``quaternion_to_matrix``."""
        return quaternion_to_matrix(q, scalar_first=scalar_first)

    def space(self) -> Any:
        from geomstats.geometry.special_orthogonal import SpecialOrthogonal

        return SpecialOrthogonal(3)
