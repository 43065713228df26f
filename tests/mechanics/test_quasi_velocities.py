"""Quasi-velocities on random systems: coordinates of D, dual frames, and Hamel's equations against the multipliers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import geonh as gn
from geonh.groups import SE3, SO3
from geonh.mechanics.quasi_velocities import (
    adapted_frame,
    completing_forms,
    energy_on_distribution,
    energy_slopes,
    frame,
    gyroscopic_force,
    orthonormal_basis,
    rates,
    velocity,
    velocity_of_momentum,
)


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def random_system(group, m, seed, *, affine=False):
    """Metric, potential and m forms that depend on the point, with small coefficients so that they stay regular."""
    rng = np.random.default_rng(seed)
    n, k = group.dim, len(group.point_names)
    a = rng.normal(size=(n, n))
    M, A, c = a @ a.T + n * np.eye(n), 0.1 * rng.normal(size=(n, n, k)), rng.normal(size=k)
    mu, B = np.linalg.qr(rng.normal(size=(n, m)))[0].T, 0.1 * rng.normal(size=(m, n, k)) / k
    features = lambda x: jnp.cos(group.to_vector(x))  # noqa: E731
    forms = lambda x: mu + jnp.tensordot(B, features(x), 1)  # noqa: E731
    b = rng.normal(size=m)
    metric = lambda x: M + jnp.tensordot(A + jnp.swapaxes(A, 0, 1), features(x), 1)  # noqa: E731
    distribution = gn.AffineDistribution(forms, lambda x: b * features(x)[0]) if affine else gn.Distribution(forms)
    return gn.System(group, metric=metric, potential=lambda x: c @ features(x), distribution=distribution)


def points(group, seed):
    """Two nearby points: one where R is made, one where it is used."""
    rng = np.random.default_rng(seed + 1)
    g = group.exp(jnp.asarray(rng.normal(size=group.dim)))
    return g, group.compose(g, group.exp(jnp.asarray(0.2 * rng.normal(size=group.dim))))


@settings(max_examples=8, deadline=None)
@given(m=st.integers(1, 2), seed=st.integers(0, 2**32 - 3), affine=st.booleans())
def test_coordinates_of_the_distribution(m, seed, affine):
    with jax.enable_x64(True):
        system = random_system(SO3(), m, seed, affine=affine)
        g, h = points(system.group, seed)
        R = completing_forms(system, system.action.at(g))
        x = system.action.at(h)
        mu, M = system.distribution.annihilator(x, ()), system.mass_matrix(x)
        y = jnp.asarray(np.random.default_rng(seed + 2).normal(size=3 - m))
        np.testing.assert_allclose(R @ R.T, np.eye(3 - m), atol=1e-14)
        xi, E, F = velocity(system, x, y, R), frame(system, x, R), adapted_frame(system, x, R)
        np.testing.assert_allclose(R @ xi, y, atol=1e-12)
        np.testing.assert_allclose(system.constraint_residual(x, xi), 0, atol=1e-12)
        np.testing.assert_allclose(R @ E.T, np.eye(3 - m), atol=1e-12)
        np.testing.assert_allclose(mu @ E.T, 0, atol=1e-12)
        np.testing.assert_allclose(F @ M @ F.T, np.eye(3 - m), atol=1e-12)
        np.testing.assert_allclose(mu @ F.T, 0, atol=1e-12)
        np.testing.assert_allclose(jax.jacfwd(lambda y: velocity(system, x, y, R))(y), E.T, atol=1e-12)


@pytest.mark.parametrize(("group", "m"), [(SO3(), 1), (SE3(), 2)], ids=["SO3", "SE3"])
def test_equations_in_momenta_along_the_frame_are_those_with_multipliers(group, m):
    r"""π = EMξ along the motion: π̇_a = ⟨p, [[ξ, E_a]]⟩ − ρ(E_a)H, and the first term, linear in y, does no work."""
    system = random_system(group, m, 5)
    g, h = points(group, 5)
    x = system.action.at(h)
    R = completing_forms(system, system.action.at(g))
    basis = orthonormal_basis(system, x, R)
    y, other = jnp.asarray(np.random.default_rng(6).normal(size=(2, group.dim - m)))
    E = frame(system, x, R)
    xi = E.T @ y
    p = system.momentum(x, xi)
    pi = E @ p
    np.testing.assert_allclose(velocity_of_momentum(system, x, pi, E), y, atol=1e-12)
    np.testing.assert_allclose(energy_on_distribution(system, x, pi, E), system.energy(x, p), atol=1e-12)
    acceleration = gn.accelerations(system, 0.0, h, xi)[0]
    np.testing.assert_allclose(rates(system, 0.0, h, y, R)[1], R @ acceleration, atol=1e-11)

    slope, conjugate = energy_slopes(system, x, pi, R, E)
    H = lambda x, pi: energy_on_distribution(system, x, pi, frame(system, x, R))  # noqa: E731
    np.testing.assert_allclose(slope, system.action.coanchor(lambda x: H(x, pi), x), atol=1e-11)
    np.testing.assert_allclose(conjugate, jax.grad(H, argnums=1)(x, pi), atol=1e-12)

    def momenta(x, xi):
        return frame(system, x, basis) @ system.momentum(x, xi)

    y, pi = basis @ xi, basis @ p
    along = jax.jvp(momenta, (x, xi), (system.action.anchor(x, xi), jnp.asarray(acceleration)))[1]
    turning = gyroscopic_force(system, x, p, y, basis)
    falling = basis @ energy_slopes(system, x, pi, basis, basis)[0]
    np.testing.assert_allclose(turning - falling, along, atol=1e-11)
    sideways = gyroscopic_force(system, x, p, other, basis)
    assert abs(sideways @ other) < 1e-12 * np.abs(sideways).max()
    total = gyroscopic_force(system, x, p, 2 * y - 3 * other, basis)
    np.testing.assert_allclose(total, 2 * turning - 3 * sideways, atol=1e-11)


@pytest.mark.parametrize("affine", [False, True])
def test_an_orthonormal_basis_of_the_distribution(affine):
    system = random_system(SE3(), 2, 7, affine=affine)
    g, h = points(system.group, 7)
    R, x = completing_forms(system, system.action.at(g)), system.action.at(h)
    basis = orthonormal_basis(system, x, R)
    np.testing.assert_allclose(basis @ basis.T, np.eye(4), atol=1e-14)
    np.testing.assert_allclose(system.distribution.annihilator(x, ()) @ basis.T, 0, atol=1e-13)
    np.testing.assert_allclose(frame(system, x, basis), basis, atol=1e-13)
