"""Quasi-velocities on random systems: coordinates of D, reduced momenta, Hamel's equations against the multipliers."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import geonh as gn
from geonh.algebra.linear import apart
from geonh.groups import SE3, SO3
from geonh.mechanics.quasi_velocities import (
    energy_slope,
    gyroscopic_force,
    normals,
    parted,
    rates,
    reduced_energy,
    reduced_momentum,
    restored,
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
    """Two nearby points: one where the normals are those of D, one where they are used."""
    rng = np.random.default_rng(seed + 1)
    g = group.exp(jnp.asarray(rng.normal(size=group.dim)))
    return g, group.compose(g, group.exp(jnp.asarray(0.2 * rng.normal(size=group.dim))))


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(m=st.integers(1, 2), seed=st.integers(0, 2**32 - 3), affine=st.booleans())
def test_velocities_modulo_the_normals_are_coordinates_of_the_distribution(m, seed, affine):
    with jax.enable_x64(True):
        system = random_system(SO3(), m, seed, affine=affine)
        g, h = points(system.group, seed)
        x = system.action.at(h)
        N = normals(system, system.action.at(g))
        np.testing.assert_allclose(N.lifts @ N.forms.T, np.eye(m), atol=1e-13)
        np.testing.assert_allclose(
            parted(N, system.distribution.annihilator(system.action.at(g), ()).T)[0], 0, atol=1e-13
        )
        rng = np.random.default_rng(seed + 2)
        w, along = jnp.asarray(rng.normal(size=3)), jnp.asarray(rng.normal(size=m))
        xi = restored(system, x, w, N)
        np.testing.assert_allclose(system.constraint_residual(x, xi), 0, atol=1e-12)
        np.testing.assert_allclose(parted(N, xi - w)[0], 0, atol=1e-13)
        np.testing.assert_allclose(restored(system, x, w + N.lifts.T @ along, N), xi, atol=1e-12)
        np.testing.assert_allclose(restored(system, x, xi, N), xi, atol=1e-12)
        velocity, rate = rates(system, jnp.asarray(0.0), x, w, N)
        np.testing.assert_allclose(velocity, xi, atol=1e-13)
        np.testing.assert_allclose(rate, gn.mechanics.accelerations(system, 0.0, h, xi)[0], rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(m=st.integers(1, 2), seed=st.integers(0, 2**32 - 3))
def test_reduced_momenta_are_those_modulo_the_constraint_forces(m, seed):
    with jax.enable_x64(True):
        system = random_system(SO3(), m, seed)
        g, h = points(system.group, seed)
        x, N = system.action.at(h), normals(system, system.action.at(g))
        rng = np.random.default_rng(seed + 2)
        mu, xi = system.constraint_apart(x)[0], system.project(h, rng.normal(size=3))
        p, force = system.momentum(x, xi), mu.T @ jnp.asarray(rng.normal(size=m))
        pi, kappa = reduced_momentum(system, x, p, N)
        np.testing.assert_allclose(N.lifts @ pi, 0, atol=1e-12)
        np.testing.assert_allclose(pi + mu.T @ kappa, p, atol=1e-12)
        np.testing.assert_allclose(reduced_momentum(system, x, p + force, N)[0], pi, atol=1e-11)
        np.testing.assert_allclose(velocity_of_momentum(system, x, pi), xi, atol=1e-12)
        np.testing.assert_allclose(reduced_energy(system, x, pi), system.energy(x, p), atol=1e-11)


@pytest.mark.parametrize(("group", "m"), [(SO3(), 1), (SE3(), 2), (SO3(), 0)], ids=["SO3", "SE3", "free"])
@pytest.mark.quick("free")
def test_equations_in_reduced_momenta_are_those_with_multipliers(group, m):
    r"""π along the motion: π̇ = P(gyroscopic force − ∂_xH) at c, and the first term, linear in ξ, does no work."""
    system = random_system(group, m, 5) if m else gn.System(group, metric=np.diag([1.0, 2.0, 3.0]))
    g, h = points(group, 5)
    rng = np.random.default_rng(6)
    x, there = system.action.at(g), system.action.at(h)
    N = normals(system, x)
    tangential = lambda v: parted(N, v)[0]  # noqa: E731
    pi = tangential(jnp.asarray(rng.normal(size=group.dim)))
    v = velocity_of_momentum(system, there, pi)
    kappa = reduced_momentum(system, there, system.momentum(there, v), N)[1]
    slope = system.action.coanchor(lambda x: reduced_energy(system, x, pi), there)
    np.testing.assert_allclose(energy_slope(system, there, v, kappa), slope, atol=1e-11)
    conjugate = jax.grad(lambda pi: reduced_energy(system, there, pi))(pi)
    np.testing.assert_allclose(tangential(conjugate), tangential(v), atol=1e-12)

    xi = velocity_of_momentum(system, x, pi)
    p = system.momentum(x, xi)
    kappa = reduced_momentum(system, x, p, N)[1]
    acceleration = jnp.asarray(gn.mechanics.accelerations(system, 0.0, g, xi)[0])
    for found, expected in zip(rates(system, 0.0, x, xi, N), (xi, acceleration), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-11)
    momenta = lambda x, xi: reduced_momentum(system, x, system.momentum(x, xi), N)[0]  # noqa: E731
    along = jax.jvp(momenta, (x, xi), (system.action.anchor(x, xi), acceleration))[1]
    turning = gyroscopic_force(system, x, p, xi, kappa)
    np.testing.assert_allclose(tangential(turning - energy_slope(system, x, xi, kappa)), along, atol=1e-11)
    other = tangential(jnp.asarray(rng.normal(size=group.dim)))
    sideways = gyroscopic_force(system, x, p, other, kappa)
    assert abs(sideways @ other) < 1e-12 * np.abs(sideways).max()
    total = gyroscopic_force(system, x, p, 2 * xi - 3 * other, kappa)
    np.testing.assert_allclose(total, 2 * turning - 3 * sideways, atol=1e-11)


def test_forms_of_a_frame_may_change_their_order():
    """The annihilator of a frame is completed by whichever rows are best: another order is another μ, the same D."""
    n, rng = 5, np.random.default_rng(8)
    frame = rng.normal(size=(2, n))
    system = gn.System(gn.groups.Translations(n), metric=np.eye(n), distribution=gn.Distribution(frame=frame))
    swapped = gn.System(
        gn.groups.Translations(n),
        metric=np.eye(n),
        distribution=gn.Distribution(np.asarray(system.distribution.annihilator(np.zeros(n)))[::-1]),
    )
    N, w, x = normals(system, jnp.zeros(n)), jnp.asarray(rng.normal(size=n)), jnp.zeros(n)
    np.testing.assert_allclose(restored(swapped, x, w, N), restored(system, x, w, N), atol=1e-13)
    np.testing.assert_allclose(reduced_momentum(swapped, x, w, N)[0], reduced_momentum(system, x, w, N)[0], atol=1e-13)


class Rows(NamedTuple):
    """Stand-in for a system with given forms and right-hand sides, at x = their index."""

    mu: np.ndarray
    b: np.ndarray

    @property
    def is_nonlinear(self):
        return False

    def holding(self, x):
        return self

    def annihilator(self, x):
        return jnp.asarray(self.mu[x])

    def right_hand_side(self, x):
        return jnp.asarray(self.b[x])

    def constraint_apart(self, x):
        mu, b = apart(self.annihilator(x), self.right_hand_side(x)[:, None])
        return mu, b[:, 0]


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_velocities_are_restored_to_rounding_where_all_forms_are_nearly_parallel(m):
    rng = np.random.default_rng(m)
    mu = rng.normal(size=(m, 5)) + 0.1 * rng.normal(size=(2, m, 5))
    mu[:, 1:] = mu[:, :1] + 1e-7 * mu[:, 1:]
    mu[:, -1] *= 1e4
    xi, w = rng.normal(size=(2, 5))
    b = mu @ xi
    with mpmath.workdps(60):
        near, here = (mpmath.matrix(rows.tolist()) for rows in mu)
        lifts = mpmath.inverse(near * near.T) * near
        at, right = mpmath.matrix(w.tolist()), mpmath.matrix(b[1].tolist())
        exact = at + lifts.T * mpmath.lu_solve(here * lifts.T, right - here * at)
    found = restored(Rows(mu, b), 1, jnp.asarray(w), normals(Rows(mu, b), 0))
    np.testing.assert_allclose(found, np.array(exact.tolist(), dtype=float)[:, 0], atol=3e-15)
