"""The Heisenberg system on R³ (straight lines) and the left-invariant system on the Heisenberg group."""

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.results.parasitic import AlternationWarning
from geonh.systems import catalogue, heisenberg, heisenberg_group
from geonh.systems.entry import Start
from geonh.systems.heisenberg import exact, exact_on_group

GROUP = {"m": 1.3, "I": 1.7, "a": -0.6, "b": 0.4}


def random_start(system, seed):
    rng = np.random.default_rng(seed)
    g0 = rng.normal(size=3)
    return Start(g0, np.asarray(system.project(g0, rng.normal(size=3))))


def test_multiplier_vanishes_and_the_motion_is_straight():
    system = heisenberg(m=1.7)
    start, t = random_start(system, 1), np.linspace(0, 3, 4)
    rate, lam = gn.mechanics.accelerations(system, 0.0, jnp.asarray(start.g0), jnp.asarray(start.xi0))
    np.testing.assert_allclose(rate, 0, rtol=0, atol=1e-15)
    np.testing.assert_allclose(lam, 0, rtol=0, atol=1e-15)
    g, xi = gn.mechanics.reference_trajectory(system, t, start.xi0, start.g0)
    np.testing.assert_allclose(g, exact(system, start, t)[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(xi, exact(system, start, t)[1], rtol=0, atol=1e-12)
    along = g[:, 0] * xi[:, 1] - g[:, 1] * xi[:, 0]
    np.testing.assert_allclose(along, along[0], rtol=1e-10)
    np.testing.assert_allclose(xi[:, 2] + along, 0, rtol=0, atol=1e-12)


def test_gni_on_r3_is_exact():
    system = heisenberg(m=1.7)
    start, n = random_start(system, 2), 2000
    run = gn.solve(system, gn.GNI(), g0=start.g0, xi0=start.xi0, dt=0.05, n_steps=n)
    expected, velocity = exact(system, start, run.t)
    np.testing.assert_allclose(run.g, expected, atol=1e-15 * n, rtol=1e-13)
    np.testing.assert_allclose(run.xi, velocity, rtol=0, atol=1e-15 * n)
    for values in (run.energy, run.energy_minus, *run.integrals.values()):
        assert np.ptp(values) <= 2e-16 * n * (1 + np.abs(values).max())


def test_group_equations():
    """m(u̇, v̇) = (au + bv)(−v, u), w = 0, from ṗ = ad*_ξ p + λe₃; ż = ½(xẏ − yẋ)."""
    system = heisenberg_group(**GROUP)
    for seed in range(3):
        start = random_start(system, seed)
        u, v, w = start.xi0
        assert abs(w) < 1e-15
        rate, _ = gn.mechanics.accelerations(system, 0.0, jnp.asarray(start.g0), jnp.asarray(start.xi0))
        turning = (GROUP["a"] * u + GROUP["b"] * v) / GROUP["m"]
        np.testing.assert_allclose(rate, [-turning * v, turning * u, 0.0], rtol=0, atol=1e-14)
        x, y, _ = start.g0
        velocity = system.group.left_tangent(jnp.asarray(start.g0), jnp.asarray(start.xi0))
        np.testing.assert_allclose(velocity, [u, v, 0.5 * (x * v - y * u)], rtol=0, atol=1e-15)


@pytest.mark.parametrize(("parameters", "sign"), [(GROUP, 1), (GROUP, -1), ({"a": 0.0, "b": 0.0}, 1)])
def test_exact_solution_on_the_group(parameters, sign):
    system = heisenberg_group(**parameters)
    start, t = random_start(system, 4), np.linspace(0, 6, 5)
    start = Start(start.g0, sign * start.xi0)
    g, xi = gn.mechanics.reference_trajectory(system, t, start.xi0, start.g0)
    g_exact, xi_exact = exact_on_group(system, start, t)
    np.testing.assert_allclose(xi, xi_exact, rtol=0, atol=1e-11)
    np.testing.assert_allclose(g, g_exact, rtol=0, atol=1e-10)
    np.testing.assert_allclose(np.hypot(xi[:, 0], xi[:, 1]), np.hypot(*start.xi0[:2]), rtol=1e-10)


def test_without_coupling_it_is_the_system_on_r3_with_z_scaled_by_minus_two():
    start, t = random_start(heisenberg(), 5), np.linspace(0, 4, 5)
    straight, _ = exact(heisenberg(), start, t)
    on_group = Start(start.g0 * [1, 1, -0.5], start.xi0 * [1, 1, 0])
    np.testing.assert_allclose(
        exact_on_group(heisenberg_group(a=0.0, b=0.0), on_group, t)[0] * [1, 1, -2], straight, rtol=0, atol=1e-12
    )


def test_energy_on_the_group_under_gni():
    system = heisenberg_group(**GROUP)
    start, n = random_start(system, 6), 2000
    with pytest.warns(AlternationWarning):
        run = gn.solve(system, gn.GNI(start="average"), g0=start.g0, xi0=start.xi0, dt=0.05, n_steps=n)
    # To rounding, which has one sign here: up to 4.1e-17 a step over twelve starts, steadily over 32 000 steps.
    assert np.ptp(run.energy_minus) <= 6e-17 * n * (1 + run.energy_minus[0])
    assert np.ptp(run.energy) > 0.1 * run.energy[0]  # the alternating part of p⁻ has grown


def test_starts_and_pictures():
    for name in ("heisenberg", "heisenberg-group"):
        entry = catalogue[name]
        system = entry.system()
        start = entry.start(system)
        assert np.abs(system.constraint_residual(system.action.at(system.point(start.g0)), start.xi0)).max() <= 1e-15
    q = np.array([0.4, -0.7, 0.2])
    for system, normal in ((heisenberg(), [-q[1], q[0], 1.0]), (heisenberg_group(), [0.5 * q[1], -0.5 * q[0], 1.0])):
        plane = system.draw(0.0, q, system.parameters)[1]
        np.testing.assert_allclose(plane.parts[0].lines[0] @ np.asarray(plane.at.R).T @ normal, 0, atol=1e-6)


@pytest.mark.parametrize(
    ("build", "parameters", "message"),
    [
        (heisenberg, {"m": -1.0}, "m must be positive"),
        (heisenberg_group, {"I": 0.0}, "I must be positive"),
        (heisenberg_group, {"a": 1.0, "b": 0.5}, "mI − a² − b² must be positive"),
    ],
)
def test_bad_parameters_are_named(build, parameters, message):
    with pytest.raises(ValueError, match=message):
        build(**parameters)
