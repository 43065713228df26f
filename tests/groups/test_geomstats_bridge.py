"""``as_group``, and points that belong to the geomstats spaces."""

import subprocess
import sys

import jax
import numpy as np
import pytest
from geomstats.geometry.euclidean import Euclidean
from geomstats.geometry.general_linear import GeneralLinear
from geomstats.geometry.heisenberg import HeisenbergVectors
from geomstats.geometry.hyperboloid import Hyperboloid
from geomstats.geometry.hypersphere import Hypersphere
from geomstats.geometry.positive_lower_triangular_matrices import PositiveLowerTriangularMatrices
from geomstats.geometry.product_manifold import ProductManifold
from geomstats.geometry.special_euclidean import SpecialEuclidean
from geomstats.geometry.special_orthogonal import SpecialOrthogonal

from geonh.groups import SE2, SE3, SO2, SO3, Heisenberg, MatrixGroup, Product, Torus, Translations, as_group

SPACES = [
    (Euclidean(3), Translations(3)),
    (SpecialOrthogonal(2), SO2()),
    (SpecialOrthogonal(3), SO3()),
    (SpecialOrthogonal(3, point_type="vector"), SO3()),
    (SpecialEuclidean(2), SE2()),
    (SpecialEuclidean(2, point_type="vector"), SE2()),
    (SpecialEuclidean(3), SE3()),
    (SpecialEuclidean(3, point_type="vector"), SE3()),
    (Hypersphere(1), Torus(1)),
    (HeisenbergVectors(), Heisenberg()),
    (SpecialOrthogonal(4), MatrixGroup(SpecialOrthogonal(4))),
    (GeneralLinear(2, positive_det=True), MatrixGroup(GeneralLinear(2, positive_det=True))),
    (PositiveLowerTriangularMatrices(2), MatrixGroup(PositiveLowerTriangularMatrices(2))),
    ([SpecialEuclidean(2), Torus(2)], Product([SE2(), Torus(2)])),
    ((Euclidean(2), [SO3(), Hypersphere(1)]), Product([Translations(2), SO3(), Torus(1)])),
    (ProductManifold([Euclidean(2), SpecialOrthogonal(3)]), Product([Translations(2), SO3()])),
    (ProductManifold([SpecialEuclidean(2), ProductManifold([Hypersphere(1)] * 2)]),
     Product([SE2(), Torus(1), Torus(1)])),
    (ProductManifold([Hypersphere(1)] * 2), Product([Torus(1), Torus(1)], point_ndim=2)),
    (ProductManifold([SpecialOrthogonal(3), SpecialEuclidean(2)]), Product([SO3(), SE2()], point_ndim=3)),
    (ProductManifold([SpecialOrthogonal(3), SpecialEuclidean(2)], point_ndim=1), Product([SO3(), SE2()])),
    (ProductManifold([SpecialOrthogonal(3, point_type="vector"), Euclidean(3)]), Product([SO3(), Translations(3)])),
]  # fmt: skip


@pytest.mark.parametrize(("space", "group"), SPACES, ids=lambda value: str(value)[:40])
def test_as_group(space, group):
    made = as_group(space)
    assert made == group
    xi = 0.5 * np.random.default_rng(0).normal(size=(2, 3, group.dim))
    g = made.exp(xi)
    points = made.to_geomstats(g)
    assert isinstance(points, np.ndarray)
    assert points.shape == (2, 3, *made.space().shape)
    flat = points.reshape(6, *made.space().shape)
    assert made.space().belongs(flat).all()
    assert made.space().belongs(flat[0]).all()
    back = made.from_geomstats(points)
    for a, b in zip(jax.tree.leaves(back), jax.tree.leaves(g), strict=True):
        assert isinstance(a, np.ndarray)
        np.testing.assert_allclose(a, b, atol=1e-14)


def test_product_space_keeps_the_shape_of_its_points():
    for space in (
        ProductManifold([SpecialOrthogonal(3), SpecialEuclidean(2)]),
        ProductManifold([SpecialOrthogonal(3), SpecialEuclidean(2)], point_ndim=1),
        ProductManifold([Euclidean(2), SpecialOrthogonal(3)]),
    ):
        assert as_group(space).space().shape == space.shape


def test_groups_pass_through():
    group = SO3()
    assert as_group(group) is group


def test_torus_space():
    space = Product([Torus(2), SE2()]).space()
    assert [type(factor).__name__ for factor in space.factors][:2] == ["Hypersphere", "Hypersphere"]
    assert space.shape == (13,)


@pytest.mark.parametrize(("thing", "message"), [
    (Hypersphere(2), "Hypersphere of dimension 2 is no configuration space .* give a geonh LieGroup"),
    (Hyperboloid(2), "Hyperboloid of dimension 2"),
    (SpecialEuclidean, "the class SpecialEuclidean"),
    ("SE(2)", r"'SE\(2\)' \(str\)"),
    (3, r"3 \(int\)"),
    ([], "an empty list"),
    ([SO3(), Hypersphere(2)], "Hypersphere of dimension 2"),
])  # fmt: skip
def test_bad_input(thing, message):
    with pytest.raises(TypeError, match=message):
        as_group(thing)


def test_import_is_lazy():
    code = "import sys, geonh.groups as g; g.as_group([g.SO3(), g.SE2()]); assert 'geomstats' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
