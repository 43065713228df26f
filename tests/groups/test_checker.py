"""``check_group`` notices broken groups, and says what is broken; the defaults of the protocol pass it."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from geonh.groups import SE2, Heisenberg, LieGroup
from geonh.testing import check_group


class WrongAd(Heisenberg):
    def Ad(self, g):
        return jnp.swapaxes(super().Ad(g), -1, -2)


class WrongSignOfAd(SE2):
    def ad(self, xi):
        return -super().ad(xi)


class LeftTrivialisedDexp(SE2):
    def dexp(self, xi):
        return super().dexp(-xi)

    def dexp_inv(self, xi):
        return super().dexp_inv(-xi)


class TruncatedDexpInverse(SE2):
    def dexp_inv(self, xi):
        return jnp.eye(3) - 0.5 * self.ad(xi)


class LeftTrivialisedDcay(SE2):
    def dcay(self, xi):
        return super().dcay(-xi)


class WrongDcayInverse(SE2):
    def dcay_inv(self, xi):
        return jnp.eye(3) - 0.5 * self.ad(xi)


class SpatialTangent(SE2):
    def left_tangent(self, g, xi):
        return xi


class NotAssociative(Heisenberg):
    def compose(self, g, h):
        return g + h + jnp.stack([0 * g[..., 0], 0 * g[..., 0], 0.1 * g[..., 0] ** 2 * h[..., 0]], axis=-1)


class WrongInverse(SE2):
    def inverse(self, g):
        return -g


class WrongLog(SE2):
    def log(self, g):
        return g


class BatchMixed(Heisenberg):
    def left_tangent(self, g, xi):
        value = super().left_tangent(g, xi)
        return value[..., ::-1, :] if value.ndim > 1 else value


class NotBatched(Heisenberg):
    def exp(self, xi):
        return jnp.stack([xi[0], xi[1], xi[2]])


class NotFiniteAtZero(SE2):
    def exp(self, xi):
        w, vx, vy = xi[..., 0], xi[..., 1], xi[..., 2]
        a = jnp.where(w == 0, 1.0, jnp.sin(w) / w)
        b = jnp.where(w == 0, 0.0, (1 - jnp.cos(w)) / w)
        return jnp.stack([w, a * vx - b * vy, b * vx + a * vy], axis=-1)


class SinglePrecision(Heisenberg):
    def Ad(self, g):
        return super().Ad(g).astype(np.float32)


class WrongSpace(SE2):
    def to_geomstats(self, g):
        return super().to_geomstats(g) * 1.1


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (WrongAd, r"Ad_g η = d/dt"),
        (WrongSignOfAd, r"ad_ξ η = d/dt Ad_exp"),
        (LeftTrivialisedDexp, r"dexp_ξ η = Dexp"),
        (TruncatedDexpInverse, r"dexp_inv dexp = 1"),
        (LeftTrivialisedDcay, r"dcay_ξ η = Dcay"),
        (WrongDcayInverse, r"dcay_inv dcay = 1"),
        (SpatialTangent, r"left_tangent\(g, ξ\) = d/dt"),
        (NotAssociative, r"associativity .* fails by .* at sample \d+"),
        (WrongInverse, r"inverse g g⁻¹ = e"),
        (WrongLog, r"log\(exp\(ξ\)\) = ξ"),
        (BatchMixed, r"left_tangent"),
        (NotBatched, r"exp over leading axes \(2, 3\) has shapes"),
        (NotFiniteAtZero, r"exp or one of its first and second derivatives is not finite at xi = "),
        (SinglePrecision, r"Ad gives .*float32"),
        (WrongSpace, r"belongs\(to_geomstats\(g\)\) is False"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.quick("NotBatched-", "SinglePrecision-", "NotAssociative-", "WrongAd-", "WrongLog-")
def test_broken_group_fails(broken, message):
    with pytest.raises(AssertionError, match=message):
        check_group(broken())


class Affine(LieGroup):
    """x ↦ eᵃ x + b by the five methods only; point (a, b)."""

    dim: int = eqx.field(static=True, default=2, init=False)
    point_names: tuple = eqx.field(static=True, default=("a", "b"), init=False)
    velocity_names: tuple = eqx.field(static=True, default=("va", "vb"), init=False)
    point_shapes: tuple = eqx.field(static=True, default=((2,),), init=False)
    has_cayley: bool = eqx.field(static=True, default=False, init=False)

    def identity(self):
        return np.zeros(2)

    def compose(self, g, h):
        return jnp.stack([g[..., 0] + h[..., 0], g[..., 1] + jnp.exp(g[..., 0]) * h[..., 1]], axis=-1)

    def inverse(self, g):
        return jnp.stack([-g[..., 0], -jnp.exp(-g[..., 0]) * g[..., 1]], axis=-1)

    @staticmethod
    def _ratio(a):
        small = jnp.abs(a) < 1e-2
        series = sum(a**k / float(np.prod(np.arange(1, k + 2))) for k in range(8))
        far = jnp.where(small, 1.0, a)
        return jnp.where(small, series, jnp.expm1(far) / far)

    def exp(self, xi):
        return jnp.stack([xi[..., 0], self._ratio(xi[..., 0]) * xi[..., 1]], axis=-1)

    def log(self, g):
        return jnp.stack([g[..., 0], g[..., 1] / self._ratio(g[..., 0])], axis=-1)


@pytest.mark.slow
def test_defaults_suffice():
    group = Affine()
    check_group(group)
    np.testing.assert_allclose(group.structure_constants[1], [[0, 1], [-1, 0]], atol=1e-14)
    with pytest.raises(NotImplementedError, match="no Cayley map; use the exponential"):
        group.cay(jnp.zeros(2))


@pytest.mark.parametrize("thing", [None, "SO(3)", SE2])
def test_needs_a_group(thing):
    with pytest.raises(TypeError, match="group must be a geonh LieGroup"):
        check_group(thing)
