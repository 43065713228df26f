"""Support functions: homogeneous, convex, with ∇H the boundary point; implicit bodies against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import geonh as gn
from geonh.rolling import ball, cylinder, disc, ellipsoid, implicit, sphere, support, torus

AXIS = np.array([0.6, 0.0, 0.8])
BODIES = {
    "ball": ball(0.7),
    "ellipsoid": ellipsoid(0.3, 0.5, 0.4),
    "disc": disc(0.5, AXIS),
    "thick disc": disc(0.5, AXIS, thickness=0.1),
    "torus": torus(0.5, 0.1, AXIS),
    "sum": ellipsoid(0.3, 0.5, 0.4) + disc(0.2),
    "moved": ellipsoid(0.3, 0.5, 0.4).moved([0.1, -0.2, 0.05]),
    "own": support(lambda n: (n[0] ** 4 + n[1] ** 4 + n[2] ** 4) ** 0.25),
}


@pytest.mark.quick("moved", "own", "ellipsoid")
@pytest.mark.parametrize("name", BODIES)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_the_point_is_the_furthest(name, seed):
    """n·ρ(n) = H(n) ≥ n·ρ(m) for all m, and H(sn) = sH(n)."""
    H = BODIES[name]
    n, *others = np.random.default_rng(seed).normal(size=(6, 3))
    assert abs(H(n) - n @ H.point(n)) < 1e-13
    assert abs(H(2.5 * n) - 2.5 * H(n)) < 1e-13
    assert all(n @ H.point(m) <= H(n) + 1e-13 for m in others)


def test_points_of_known_bodies():
    n = np.array([0.3, -0.5, 0.81])
    unit = n / np.linalg.norm(n)
    np.testing.assert_allclose(BODIES["ball"].point(n), 0.7 * unit, atol=1e-15)
    rho = BODIES["ellipsoid"].point(n) / np.array([0.3, 0.5, 0.4])
    assert abs(rho @ rho - 1) < 1e-14
    rho = BODIES["disc"].point(n)
    assert abs(rho @ AXIS) < 1e-15
    assert abs(rho @ rho - 0.25) < 1e-15
    rho = BODIES["torus"].point(n)
    around = rho - (rho @ AXIS) * AXIS
    assert abs((np.linalg.norm(around) - 0.5) ** 2 + (rho @ AXIS) ** 2 - 0.01) < 1e-15
    np.testing.assert_allclose(BODIES["thick disc"].point(1e-6 * unit + AXIS) @ AXIS, 0.05, atol=1e-12)


def implicit_ellipsoid():
    axes = np.array([0.3, 0.5, 0.4])
    return implicit(lambda rho: jnp.sum((rho / axes) ** 2) - 1, 0.4)


def test_an_implicit_body():
    n = np.array([0.3, -0.5, 0.81])
    np.testing.assert_allclose(implicit_ellipsoid().point(n), BODIES["ellipsoid"].point(n), atol=1e-15)


@pytest.mark.slow
def test_implicit_bodies_and_their_derivatives():
    H, known = implicit_ellipsoid(), BODIES["ellipsoid"]
    for n in np.random.default_rng(2).normal(size=(2, 3)):
        for derivative, tolerance in ((lambda f: f, 1e-15), (jax.grad, 1e-14), (jax.hessian, 1e-13)):
            np.testing.assert_allclose(derivative(H)(n), derivative(known)(n), atol=tolerance)
        third = [jax.jacfwd(jax.hessian(f))(n) for f in (H, known)]
        np.testing.assert_allclose(*third, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ball(-1.0), "radius must be positive"),
        (lambda: ellipsoid(1.0, 0.0, 2.0), "semi-axes must be positive"),
        (lambda: disc(1.0, (0, 0, 0)), "axis must not be zero"),
        (lambda: disc(1.0, thickness=2.0), "thickness must lie in"),
        (lambda: support(lambda n: n @ n), "homogeneous"),
        (lambda: ball(1.0).moved([1.0, 2.0]), "offset"),
    ],
)
def test_what_is_no_body_is_named(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.slow
@pytest.mark.parametrize("on", [cylinder(1.0), sphere(1.2), cylinder(0.8, "x", "outside"), sphere(0.7, "outside")])
def test_a_ball_touches_round_surfaces_as_by_newtons_method(on):
    """In closed form, with the derivatives of the general contact."""
    rng = np.random.default_rng(4)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    x = 1.1 * rng.normal(size=3)
    figure = (ball(0.1) + ball(0.15)).moved([0.02, 0.01, -0.03])
    same = support(lambda n: 0.25 * jnp.sqrt(n @ n) + jnp.array([0.02, 0.01, -0.03]) @ n)
    assert same.as_ball is None

    def place(body):
        def of(turning, x):
            R = turn @ jax.scipy.linalg.expm(jnp.cross(jnp.eye(3), turning))
            return jnp.append(on.outward(body, R, x, {}), on.height(body, R, x, {}))

        at = jnp.zeros(3), jnp.asarray(x)
        return of(*at), jax.jacfwd(of, (0, 1))(*at), jax.jacfwd(jax.jacfwd(of, (0, 1)), (0, 1))(*at)

    with gn.float64():
        for ours, theirs in zip(jax.tree.leaves(place(figure)), jax.tree.leaves(place(same)), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-11 * (1 + np.abs(theirs).max()))


def test_a_ball_that_does_not_fit_into_a_hollow_has_no_contact():
    with gn.float64():
        n = cylinder(1.0).outward(ball(1.1), jnp.eye(3), jnp.array([0.3, 0.0, 0.0]), {})
    assert np.isnan(n).all()
