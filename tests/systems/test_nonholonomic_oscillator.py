"""The nonholonomic oscillator: equations, H_y, the period map, and what GNI makes of y and of the energy."""

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.systems import catalogue, nonholonomic_oscillator

MASSES = np.array([1.3, 0.8, 1.1])


def random_start(system, seed):
    rng = np.random.default_rng(seed)
    q0 = rng.normal(size=3)
    return q0, np.asarray(system.project(q0, rng.normal(size=3)))


@pytest.mark.parametrize("seed", range(2))
def test_equations(seed):
    system = nonholonomic_oscillator(MASSES)
    (x, y, z), (u, v, w) = q, xi = random_start(system, seed)
    rate, lam = gn.mechanics.accelerations(system, 0.0, jnp.asarray(q), jnp.asarray(xi))
    m1, m2, m3 = MASSES
    dw = (x * y - z - m1 * y * v * w) / (m3 + m1 * y**2)
    np.testing.assert_allclose(rate, [-v * w - y * dw, -y / m2, dw], rtol=0, atol=1e-14)
    assert abs(u + y * w) < 1e-15
    np.testing.assert_allclose(MASSES * rate, -q + lam[0] * np.array([1, 0, y]), rtol=0, atol=1e-14)


def test_first_integrals_along_the_motion():
    system, t = nonholonomic_oscillator(MASSES), np.linspace(0, 5, 6)
    q0, xi0 = random_start(system, 3)
    q, xi = gn.mechanics.reference_trajectory(system, t, xi0, q0)
    w = 1 / np.sqrt(MASSES[1])
    np.testing.assert_allclose(q[:, 1], q0[1] * np.cos(w * t) + xi0[1] / w * np.sin(w * t), rtol=0, atol=1e-11)
    energy = 0.5 * (xi**2 @ MASSES + np.sum(q**2, axis=1))
    H_y = 0.5 * (MASSES[1] * xi[:, 1] ** 2 + q[:, 1] ** 2)
    np.testing.assert_allclose(energy, energy[0], rtol=1e-10)
    np.testing.assert_allclose(H_y, H_y[0], rtol=1e-10)
    result = system.first_integrals["H_y"].function(q[0], xi[0], MASSES * xi[0], system.parameters)
    np.testing.assert_allclose(result, H_y[0])


def test_period_map_is_a_rotation():
    """On y = 0, ẏ > 0, in the coordinates (x, z, ż) with the form x² + z² + ż²."""
    system = nonholonomic_oscillator()
    columns = []
    for x, z, w in np.eye(3):
        q, xi = gn.mechanics.reference_trajectory(
            system, [0, 2 * np.pi], np.array([0.0, 1.0, w]), np.array([x, 0.0, z]), rtol=1e-13
        )
        assert abs(q[-1, 1]) < 1e-11
        columns.append([q[-1, 0], q[-1, 2], xi[-1, 2]])
    period = np.array(columns).T
    np.testing.assert_allclose(period.T @ period, np.eye(3), rtol=0, atol=1e-10)
    np.testing.assert_allclose(np.linalg.det(period), 1.0, rtol=0, atol=1e-10)
    assert np.abs(period - np.eye(3)).max() > 0.1


def test_gni_takes_y_by_verlet():
    """y_k = y₀ cos kθ with sin(θ/2) = h/2 from the paper's start; ½(ẏ² + (1 − h²/4)y²) is kept to rounding.

    The step is one linear map, so that its rounding has the same sign at every step: it adds up, and depends on h.
    """
    entry = catalogue["nonholonomic-oscillator"]
    system, h, n = entry.system(), 0.1, 4000
    start = entry.start(system)
    run = gn.solve(system, gn.GNI(start="multiplier"), g0=start.g0, xi0=start.xi0, dt=h, n_steps=n)
    kept = 0.5 * (run.xi[:, 1] ** 2 + (1 - h**2 / 4) * run.g[:, 1] ** 2)
    assert np.ptp(kept) <= np.finfo(float).eps * n * kept[0]
    run = gn.solve(system, gn.GNI("midpoint"), g0=start.g0, xi0=start.xi0, dt=h, n_steps=n)
    assert np.ptp(0.5 * (run.xi[:, 1] ** 2 + (1 - h**2 / 4) * run.g[:, 1] ** 2)) > 1e-6


def test_energy_under_gni_is_of_second_order_without_drift():
    entry = catalogue["nonholonomic-oscillator"]
    system = entry.system()
    start, result = entry.start(system), []
    for h, n in ((0.1, 50_000), (0.05, 100_000)):
        run = gn.solve(system, gn.GNI(), g0=start.g0, xi0=start.xi0, dt=h, n_steps=n, save_every=10)
        for energy in (run.energy, run.energy_minus):
            eighths = [part.mean() for part in np.array_split(energy, 8)]
            assert np.ptp(eighths) < 2e-2 * np.abs(energy - energy[0]).max()
        result.append([np.abs(v - v[0]).max() for v in (run.energy, run.energy_minus, run.integrals["H_y"])])
    np.testing.assert_allclose(np.array(result[0]) / result[1], 4.0, rtol=0, atol=0.15)
    assert result[0][0] < 0.02


def test_start_and_picture():
    entry = catalogue["nonholonomic-oscillator"]
    system = entry.system(m=MASSES)
    start = entry.start(system)
    np.testing.assert_array_equal(start.g0, [1, 1, 1])
    np.testing.assert_array_equal(system.constraint_residual(start.g0, start.xi0), [0])
    q = np.array([0.1, 0.7, -0.4])
    _, spring, plane, _ = system.draw(0.0, q, system.parameters)
    np.testing.assert_allclose(spring.at.R[:, 0], q, atol=1e-6)  # from the origin to the particle
    np.testing.assert_allclose(
        plane.parts[0].lines[0] @ np.asarray(plane.at.R).T @ np.array([1, 0, q[1]]), 0, atol=1e-6
    )


def test_bad_parameters_are_named():
    with pytest.raises(ValueError, match="m must be positive"):
        nonholonomic_oscillator((1.0, -1.0, 1.0))
    with pytest.raises(ValueError, match="m must be three masses"):
        nonholonomic_oscillator(1.0)
