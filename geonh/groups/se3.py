r"""SE(3): motions of space, points [[R, x], [0, 1]], body velocity ξ = (ω, v).

With θ = |ω|, κ = 1 + θ²/4, A … F of ``coefficients``, and the maps of SO(3) written with the index ω:

    Ad = [[R, 0], [x̂R, R]]                          ad = [[ω̂, 0], [v̂, ω̂]]
    exp = (exp ω, dexp_ω v)                         log = (ω, dexp_ω⁻¹ x)
    dexp = [[dexp_ω, 0], [Q, dexp_ω]]               dexp⁻¹ = [[dexp_ω⁻¹, 0], [−dexp_ω⁻¹ Q dexp_ω⁻¹, dexp_ω⁻¹]]
    Q = ½v̂ + C(ω̂v̂ + v̂ω̂ + ω̂v̂ω̂) − F(ω̂²v̂ + v̂ω̂² − 3ω̂v̂ω̂) − ½(F − 3E)(ω̂v̂ω̂² + ω̂²v̂ω̂)
    cay = (cay ω, (1 + (½ω̂ + ¼ω̂²)/κ) v)            cay⁻¹ = (ω, x − ½ω × x)
    dcay = [[(1 + ½ω̂)/κ, 0], [½v̂(1 + ½ω̂)/κ, 1 + (½ω̂ + ¼ω̂²)/κ]]
    dcay⁻¹ = [[1 − ½ω̂ + ¼ωωᵀ, 0], [−½(1 − ½ω̂)v̂, 1 − ½ω̂]]

mathematics.md §5; Barfoot & Furgale, IEEE Trans. Robotics 30 (2014), for Q. With c = ω·v, ω̂v̂ω̂ = −c ω̂, so Q is
written below in ω̂, v̂, their products and c alone.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.groups.base import LieGroup, check_rotation
from geonh.groups.coefficients import C, E, F, cross, hat, matmul, matvec, transpose
from geonh.groups.so3 import SO3, rotation_polynomial, squared_norm

_ROTATIONS = SO3()
_NAMES = ("R11", "R12", "R13", "x", "R21", "R22", "R23", "y", "R31", "R32", "R33", "z", "g41", "g42", "g43", "g44")


def _blocks(a: Array, b: Array, c: Array, d: Array) -> Array:
    """[[a, b], [c, d]], shape=[..., 6, 6]."""
    a, b, c, d = jnp.broadcast_arrays(a, b, c, d)
    return jnp.concatenate([jnp.concatenate([a, b], axis=-1), jnp.concatenate([c, d], axis=-1)], axis=-2)


def _homogeneous(R: Array, x: Array, corner: float) -> Array:
    """[[R, x], [0, corner]], shape=[..., 4, 4]."""
    batch = jnp.broadcast_shapes(R.shape[:-2], x.shape[:-1])
    R, x = jnp.broadcast_to(R, (*batch, 3, 3)), jnp.broadcast_to(x, (*batch, 3))
    last = jnp.concatenate([jnp.zeros_like(x), jnp.full_like(x[..., :1], corner)], axis=-1)
    return jnp.concatenate([jnp.concatenate([R, x[..., None]], axis=-1), last[..., None, :]], axis=-2)


def _parts(g: Array) -> tuple[Array, Array]:
    return g[..., :3, :3], g[..., :3, 3]


class SE3(LieGroup):
    """Motions of space. Points are matrices, shape=[..., 4, 4]; velocities (ω, v) in body axes, shape=[..., 6].

    ``log`` is principal, |ω| ≤ π, and keeps full accuracy up to a half turn; ``cay_inv`` is infinite at a half turn.
    """

    dim: int = eqx.field(static=True, default=6, init=False)
    point_names: tuple[str, ...] = eqx.field(static=True, default=_NAMES, init=False)
    velocity_names: tuple[str, ...] = eqx.field(
        static=True, default=("omega1", "omega2", "omega3", "v1", "v2", "v3"), init=False
    )
    point_shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True, default=((4, 4),), init=False)
    has_cayley: bool = eqx.field(static=True, default=True, init=False)

    def __str__(self) -> str:
        return "SE(3)"

    def identity(self) -> Any:
        return np.eye(4)

    def compose(self, g: Array, h: Array) -> Array:
        (R, x), (S, y) = _parts(g), _parts(h)
        return _homogeneous(matmul(R, S), x + matvec(R, y), 1.0)

    def inverse(self, g: Array) -> Array:
        R, x = _parts(g)
        return _homogeneous(transpose(R), -matvec(transpose(R), x), 1.0)

    def exp(self, xi: Array) -> Array:
        w, v = xi[..., :3], xi[..., 3:]
        return _homogeneous(_ROTATIONS.exp(w), matvec(_ROTATIONS.dexp(w), v), 1.0)

    def log(self, g: Array) -> Array:
        R, x = _parts(g)
        w = _ROTATIONS.log(R)
        return jnp.concatenate([w, matvec(_ROTATIONS.dexp_inv(w), x)], axis=-1)

    def _Q(self, w: Array, v: Array) -> Array:
        x = squared_norm(w)
        c = jnp.sum(w * v, axis=-1)
        f, f3e = F(x), F(x) - 3.0 * E(x)
        W, V = hat(w), hat(v)
        WV = matmul(W, V)
        VW = transpose(WV)
        coefficient = lambda a: a[..., None, None]  # noqa: E731
        # ω̂v̂ω̂ = −c ω̂, hence ω̂v̂ω̂² = ω̂²v̂ω̂ = −c ω̂²
        return (
            0.5 * V
            + coefficient(C(x)) * (WV + VW)
            - coefficient(f) * (matmul(W, WV) + matmul(VW, W))
            - coefficient(c * (C(x) + 3.0 * f)) * W
            + coefficient(c * f3e) * matmul(W, W)
        )

    def dexp(self, xi: Array) -> Array:
        w, v = xi[..., :3], xi[..., 3:]
        d = _ROTATIONS.dexp(w)
        return _blocks(d, jnp.zeros_like(d), self._Q(w, v), d)

    def dexp_inv(self, xi: Array) -> Array:
        w, v = xi[..., :3], xi[..., 3:]
        d = _ROTATIONS.dexp_inv(w)
        return _blocks(d, jnp.zeros_like(d), -matmul(d, matmul(self._Q(w, v), d)), d)

    def cay(self, xi: Array) -> Array:
        w, v = xi[..., :3], xi[..., 3:]
        k = 1.0 / (1.0 + 0.25 * squared_norm(w))
        return _homogeneous(_ROTATIONS.cay(w), matvec(rotation_polynomial(w, 0.5 * k, 0.25 * k), v), 1.0)

    def cay_inv(self, g: Array) -> Array:
        R, x = _parts(g)
        w = _ROTATIONS.cay_inv(R)
        return jnp.concatenate([w, x - 0.5 * cross(w, x)], axis=-1)

    def dcay(self, xi: Array) -> Array:
        w, v = xi[..., :3], xi[..., 3:]
        k = 1.0 / (1.0 + 0.25 * squared_norm(w))
        d = _ROTATIONS.dcay(w)
        return _blocks(d, jnp.zeros_like(d), 0.5 * matmul(hat(v), d), rotation_polynomial(w, 0.5 * k, 0.25 * k))

    def dcay_inv(self, xi: Array) -> Array:
        w, v = xi[..., :3], xi[..., 3:]
        half = rotation_polynomial(w, -0.5, 0.0)
        return _blocks(_ROTATIONS.dcay_inv(w), jnp.zeros_like(half), -0.5 * matmul(half, hat(v)), half)

    def Ad(self, g: Array) -> Array:
        R, x = _parts(g)
        return _blocks(R, jnp.zeros_like(R), matmul(hat(x), R), R)

    def ad(self, xi: Array) -> Array:
        W = hat(xi[..., :3])
        return _blocks(W, jnp.zeros_like(W), hat(xi[..., 3:]), W)

    def left_tangent(self, g: Array, xi: Array) -> Array:
        R, _ = _parts(g)
        return _homogeneous(matmul(R, hat(xi[..., :3])), matvec(R, xi[..., 3:]), 0.0)

    def project(self, g: Array) -> Array:
        R, x = _parts(g)
        return _homogeneous(_ROTATIONS.project(R), x, 1.0)

    def defect(self, g: Array) -> Array:
        return _ROTATIONS.defect(_parts(g)[0])

    def turn(self, xi: Array) -> Array:
        return _ROTATIONS.turn(xi[..., :3])

    def to_matrix(self, g: Array) -> Array:
        return g

    def from_matrix(self, matrix: Array) -> Array:
        check_rotation(matrix[..., :3, :3], "matrix[..., :3, :3]")
        return matrix

    def space(self) -> Any:
        from geomstats.geometry.special_euclidean import SpecialEuclidean

        return SpecialEuclidean(3)
