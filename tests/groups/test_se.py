"""SE(2), SE(3), SO(2), Heisenberg, Rⁿ and Tⁿ against matrix exponentials; conversions."""

import jax
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from geonh.groups import SE2, SE3, SO2, Heisenberg, Torus, Translations

rng = np.random.default_rng(5)


def basis(group):
    """The matrices of the algebra's basis, along the last axis, by differentiating to_matrix∘exp at zero."""
    return np.asarray(jax.jacfwd(lambda eta: group.to_matrix(group.exp(eta)))(np.zeros(group.dim)))


@pytest.mark.parametrize("group", [SE2(), SE3(), SO2(), Heisenberg(), Translations(2), Torus(2)], ids=str)
def test_against_matrix_functions(group):
    E = basis(group)
    for xi in rng.normal(size=(4, group.dim)) * 0.7:
        X = E @ xi
        one = np.eye(len(X))
        np.testing.assert_allclose(group.to_matrix(group.exp(xi)), scipy.linalg.expm(X), atol=1e-14)
        log = group.log(group.from_matrix(scipy.linalg.expm(X)))
        np.testing.assert_allclose(log, scipy_log(E, X), atol=1e-12)
        if not isinstance(group, Torus):  # whose Cayley map is that of its covering Rⁿ
            cay = np.linalg.solve(one - X / 2, one + X / 2)
            np.testing.assert_allclose(group.to_matrix(group.cay(xi)), cay, atol=1e-14)


def scipy_log(E, X):
    L = scipy.linalg.logm(scipy.linalg.expm(X)).real
    return np.linalg.lstsq(E.reshape(-1, E.shape[-1]), L.ravel(), rcond=None)[0]


@settings(max_examples=40, deadline=None)
@given(st.floats(-6.2, 6.2), st.floats(-1e3, 1e3), st.floats(-1e3, 1e3))
def test_se2_log_inverts_exp_through_the_whole_turn(omega, vx, vy):
    with jax.enable_x64(True):
        group, xi = SE2(), np.array([omega, vx, vy])
        back = np.asarray(group.log(group.exp(xi)))
        assert np.abs(back - xi).max() < 1e-11 * (1 + np.abs(xi).max())


def test_se2_counts_turns():
    group = SE2()
    g = np.array([3.0, 0.0, 0.0])
    for _ in range(4):
        g = group.compose(g, np.array([3.0, 1.0, 0.0]))
    assert g[0] == 15.0
    np.testing.assert_allclose(group.compose(g, group.inverse(g)), 0.0, atol=1e-14)
    np.testing.assert_allclose(group.from_matrix(group.to_matrix(g))[0], 15.0 - 4 * np.pi, atol=1e-14)


def test_se2_pose():
    group, g = SE2(), np.array([[0.3, 1.0, 2.0], [9.0, 3.0, 4.0]])
    np.testing.assert_array_equal(group.to_xytheta(g), [[1.0, 2.0, 0.3], [3.0, 4.0, 9.0]])
    np.testing.assert_array_equal(group.from_xytheta(group.to_xytheta(g)), g)


def test_se2_left_tangent_is_body_velocity():
    tangent = SE2().left_tangent(np.array([np.pi / 2, 5.0, 5.0]), np.array([0.1, 1.0, 0.0]))
    np.testing.assert_allclose(tangent, [0.1, 0.0, 1.0], atol=1e-15)


def phi1(ad):
    n = len(ad)
    block = np.block([[ad, np.eye(n)], [np.zeros((n, 2 * n))]])
    return scipy.linalg.expm(block)[:n, n:]


@pytest.mark.parametrize("angle", [1e-9, 1e-4, 0.3, 0.999, 1.001, 1.999, 2.001, 3.1])
def test_se3_dexp_against_the_series(angle):
    group = SE3()
    xi = rng.normal(size=(5, 6))
    xi[:, :3] *= angle / np.linalg.norm(xi[:, :3], axis=1)[:, None]
    expected = np.stack([phi1(ad) for ad in np.asarray(group.ad(xi))])
    np.testing.assert_allclose(group.dexp(xi), expected, atol=1e-13)
    np.testing.assert_allclose(group.dexp_inv(xi), np.linalg.inv(expected), atol=1e-13)


def test_heisenberg_against_geomstats():
    from geomstats.geometry.heisenberg import HeisenbergVectors

    group, space = Heisenberg(), HeisenbergVectors()
    g, h = rng.normal(size=(2, 7, 3))
    np.testing.assert_allclose(group.compose(g, h), space.compose(g, h), atol=1e-15)
    np.testing.assert_allclose(group.to_matrix(g), space.upper_triangular_matrix_from_vector(g), atol=1e-15)
    np.testing.assert_allclose(group.left_tangent(g, h), np.einsum("nij,nj->ni", jacobians(space, g), h), atol=1e-15)
    np.testing.assert_array_equal(group.bracket(np.eye(3)[0], np.eye(3)[1]), np.eye(3)[2])


def jacobians(space, g):
    return np.stack([space.jacobian_translation(point) for point in g])


@pytest.mark.parametrize(("make", "message"), [
    (lambda: Translations(0), "dim must be a positive integer, got 0"),
    (lambda: Translations(2, names=("a",)), "names has 1 entries for dim = 2"),
    (lambda: Torus(-1), "dim must be a positive integer"),
])  # fmt: skip
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()
