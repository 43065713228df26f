"""Products and opposites: names, structure, conversions, bad input."""

import jax
import numpy as np
import pytest
from catalogue import special_linear_basis

from geonh.groups import SE2, SO3, Heisenberg, LieGroup, MatrixGroup, Opposite, Product, Torus, Translations

rng = np.random.default_rng(2)


def test_names_stay_where_they_are_unique():
    group = Product([SE2(), Torus(2)])
    assert group.point_names == ("theta", "x", "y", "phi1", "phi2")
    assert group.velocity_names == ("omega", "vx", "vy", "phi1_dot", "phi2_dot")
    assert str(group) == repr(group) == "SE(2) × T²"


def test_names_that_clash_get_the_number_of_the_factor():
    group = Product([Torus(1), SE2(), Torus(1)])
    assert group.point_names == ("phi_1", "theta", "x", "y", "phi_3")
    awkward = Product([Torus(1), Torus(1), Torus(1, names=("phi_2",))])
    assert len(set(awkward.point_names)) == 3


def test_names_of_factors():
    group = Product([SE2(), Product([Torus(1), Torus(1)], names=("left", "right"))], names=("body", "wheel"))
    assert group.point_names == ("body_theta", "body_x", "body_y", "wheel_left_phi", "wheel_right_phi")


def test_nested_products_flatten():
    group = Product([Product([SE2(), SO3()]), Translations(1)])
    assert len(group.factors) == 3
    assert group.dim == 7
    assert group.point_shapes == ((3,), (3, 3), (1,))
    assert group == Product([SE2(), SO3(), Translations(1)])
    assert hash(group) == hash(Product([SE2(), SO3(), Translations(1)]))


def test_blocks():
    group = Product([SE2(), SO3()])
    xi = rng.normal(size=(4, 6))
    g = group.exp(xi)
    assert isinstance(g, tuple)
    Ad = np.asarray(group.Ad(g))
    np.testing.assert_array_equal(Ad[:, :3, :3], SE2().Ad(g[0]))
    np.testing.assert_array_equal(Ad[:, 3:, 3:], SO3().Ad(g[1]))
    assert not Ad[:, :3, 3:].any()
    assert not Ad[:, 3:, :3].any()
    np.testing.assert_array_equal(group.turn(xi), np.maximum(SE2().turn(xi[:, :3]), SO3().turn(xi[:, 3:])))
    np.testing.assert_allclose(group.structure_constants, LieGroup.structure_constants.fget(group), atol=1e-14)


def test_cayley_only_if_all_factors_have_it():
    special_linear = MatrixGroup(special_linear_basis(3))
    assert Product([SE2(), Heisenberg()]).has_cayley
    assert not Product([SE2(), special_linear]).has_cayley
    with pytest.raises(NotImplementedError, match="exponential"):
        Product([SE2(), special_linear]).cay(np.zeros(11))


@pytest.mark.parametrize(("factors", "names", "error", "message"), [
    ([], None, ValueError, "factors must be a list of at least one group"),
    ([SE2(), "SO(3)"], None, TypeError, r"factors\[1\] of a Product must be a geonh LieGroup, got str"),
    ([SE2()], ("a", "b"), ValueError, "one entry for each of the 1 factors"),
    ([SE2()], "a", ValueError, "one entry for each"),
])  # fmt: skip
def test_bad_input(factors, names, error, message):
    with pytest.raises(error, match=message):
        Product(factors, names)


def test_groups_are_static_under_jit():
    """A group holds no arrays, so a compiled function is not compiled again for an equal group."""
    traces = []

    @jax.jit
    def square(group, xi):
        traces.append(group)
        return group.exp(2.0 * xi)

    for _ in range(2):
        square(Product([SE2(), Opposite(SO3()), MatrixGroup(special_linear_basis(2))]), np.zeros(9))
    assert len(traces) == 1


# --- opposites ---------------------------------------------------------------------------------------------
def test_opposite_of_opposite_is_the_group():
    group = SO3()
    assert Opposite(Opposite(group)) is group
    assert str(Opposite(group)) == "SO(3)ᵒᵖ"
    assert str(Opposite(Product([SE2(), Torus(1)]))) == "(SE(2) × S¹)ᵒᵖ"
    assert Opposite(SO3()) == Opposite(SO3())


def test_opposite_velocity_is_spatial():
    group = Opposite(SO3())
    R, w, u = SO3().exp(rng.normal(size=3)), rng.normal(size=3), rng.normal(size=3)
    np.testing.assert_allclose(group.left_tangent(R, w) @ u, np.cross(w, R @ u), atol=1e-14)
    np.testing.assert_allclose(group.bracket(w, u), -np.cross(w, u), atol=1e-15)


def test_opposite_needs_a_group():
    with pytest.raises(TypeError, match="group must be a geonh LieGroup, got int"):
        Opposite(3)
