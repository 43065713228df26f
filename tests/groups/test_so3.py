"""SO(3) against scipy's Rotation; quaternions; half turns; projection."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from geonh.groups import SO3, matrix_to_quaternion, quaternion_to_matrix

G = SO3()
vectors = st.tuples(*[st.floats(-1.0, 1.0)] * 3).map(np.array).filter(lambda v: np.linalg.norm(v) > 1e-3)


@settings(max_examples=60, deadline=None)
@given(vectors, st.floats(0.0, np.pi - 1e-12))
def test_exp_and_log_against_scipy(direction, angle):
    with jax.enable_x64(True):
        xi = direction / np.linalg.norm(direction) * angle
        expected = Rotation.from_rotvec(xi).as_matrix()
        np.testing.assert_allclose(G.exp(xi), expected, atol=3e-15)
        np.testing.assert_allclose(G.log(expected), xi, atol=1e-14)


@settings(max_examples=60, deadline=None)
@given(vectors, vectors)
def test_adjoint_is_rotation_of_the_cross_product(a, b):
    with jax.enable_x64(True):
        np.testing.assert_allclose(G.bracket(a, b), np.cross(a, b), atol=1e-15)
        np.testing.assert_allclose(G.ad_star(a, b), np.cross(b, a), atol=1e-15)


def random_directions(n):
    d = np.random.default_rng(1).normal(size=(n, 3))
    return d / np.linalg.norm(d, axis=1)[:, None]


@pytest.mark.quick("1e-12", "1e-08")
@pytest.mark.parametrize("distance", [1e-1, 1e-4, 1e-8, 1e-12])
def test_log_near_a_half_turn(distance):
    xi = random_directions(200) * (np.pi - distance)
    np.testing.assert_allclose(G.log(G.exp(xi)), xi, atol=5e-15)
    jacobian = jax.vmap(jax.jacfwd(lambda xi: G.log(G.exp(xi))))(xi)
    np.testing.assert_allclose(jacobian, np.broadcast_to(np.eye(3), jacobian.shape), atol=1e-14)


@pytest.mark.slow
def test_log_at_a_half_turn():
    for R in (np.diag([1.0, -1, -1]), np.diag([-1.0, 1, -1]), np.diag([-1.0, -1, 1])):
        xi = G.log(R)
        np.testing.assert_allclose(np.linalg.norm(xi), np.pi, rtol=1e-15)
        np.testing.assert_allclose(G.exp(xi), R, atol=1e-15)
        assert np.isfinite(jax.jacrev(lambda R: G.log(R))(jnp.asarray(R))).all()


@pytest.mark.parametrize("scalar_first", [True, False])
def test_quaternions_against_scipy(scalar_first):
    rotations = Rotation.random(50, random_state=3)
    q = rotations.as_quat(canonical=True, scalar_first=scalar_first)
    np.testing.assert_allclose(matrix_to_quaternion(rotations.as_matrix(), scalar_first=scalar_first), q, atol=1e-15)
    np.testing.assert_allclose(quaternion_to_matrix(q, scalar_first=scalar_first), rotations.as_matrix(), atol=2e-15)
    np.testing.assert_allclose(G.from_quaternion(3.0 * q, scalar_first=scalar_first), rotations.as_matrix(), atol=2e-15)
    np.testing.assert_allclose(G.to_quaternion(rotations.as_matrix(), scalar_first=scalar_first), q, atol=1e-15)


def test_quaternion_needs_the_order():
    with pytest.raises(TypeError, match="scalar_first"):
        quaternion_to_matrix(np.array([1.0, 0, 0, 0]))


def test_project_gives_the_polar_factor():
    R = Rotation.random(20, random_state=0).as_matrix() + 1e-3 * np.random.default_rng(0).normal(size=(20, 3, 3))
    u, _, vt = np.linalg.svd(R)
    np.testing.assert_allclose(G.project(R), u @ vt, atol=1e-12)


def test_long_product_stays_on_the_group_with_project():
    step = G.exp(np.array([0.3, -0.2, 0.5]))
    body = lambda R, _: (G.project(G.compose(R, step)), None)  # noqa: E731
    R, _ = jax.jit(lambda: jax.lax.scan(body, jnp.eye(3), None, length=10_000))()
    np.testing.assert_allclose(R @ R.T, np.eye(3), atol=2e-15)


def test_dexp_inverse_up_to_full_turns():
    for angle in (1e-160, 1e-8, 1e-3, 1.0, 3.0, 5.0, 6.0):
        xi = random_directions(20) * angle
        np.testing.assert_allclose(G.dexp(xi) @ G.dexp_inv(xi), np.broadcast_to(np.eye(3), (20, 3, 3)), atol=3e-14)


def test_constants_made_in_single_precision_context():
    with jax.enable_x64(False):
        identity = G.identity()
    assert identity.dtype == np.float64


def test_turn_has_a_derivative_at_zero():
    assert np.isfinite(jax.grad(lambda xi: G.turn(xi))(jnp.zeros(3))).all()
