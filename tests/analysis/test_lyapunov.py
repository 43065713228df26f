"""Lyapunov exponents against linear systems and an independent variational equation."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import geonh as gn
from geonh.analysis import lyapunov_exponents
from geonh.groups import Translations


def test_a_saddle_and_a_centre():
    system = gn.System(Translations(2), metric=np.eye(2), potential=lambda x: -0.5 * x[0] ** 2 + 2 * x[1] ** 2)
    result = lyapunov_exponents(system, [0.0, 0.0], [0.0, 0.3], dt=0.02, n_steps=10_000)
    np.testing.assert_allclose(result.exponents[[0, 3]], [1.0, -1.0], atol=2e-3)
    assert np.abs(result.exponents[1:3]).max() < 0.02
    assert abs(result.exponents.sum()) < 1e-6


@pytest.mark.slow
def test_the_sleigh_settles():
    sleigh = gn.systems.chaplygin_sleigh(m=1.0, I=1.0, a=0.2)
    result = lyapunov_exponents(sleigh, None, [0.0, 1.0, 0.0], dt=0.05, n_steps=4000, method=gn.Gauss(2))
    assert result.exponents.shape == (5,)
    assert abs(result.exponents.sum() + 0.2 / 1.04) < 1e-10  # the divergence of its equations
    assert abs(result.exponents[-1] + 0.2 / 1.04) < 0.02
    assert "after 200 s" in str(result)


@pytest.mark.slow
def test_finite_time_exponents_are_those_of_the_variational_equation():
    def potential(x):
        return 0.5 * x @ x + x[0] ** 2 * x[1] - x[1] ** 3 / 3

    start = np.array([0.0, 0.1, 0.49, 0.0])
    system = gn.System(Translations(2), metric=np.eye(2), potential=potential)
    T = 60.0
    result = lyapunov_exponents(system, start[:2], start[2:], dt=0.005, n_steps=12_000, method=gn.RKMK(6), count=1)

    def variational(t, y):
        (x, z, u, v), d = y[:4], y[4:]
        D = np.array([[0, 0, 1, 0], [0, 0, 0, 1], [-1 - 2 * z, -2 * x, 0, 0], [-2 * x, -1 + 2 * z, 0, 0]])
        return np.concatenate([[u, v, -x - 2 * x * z, -z - x**2 + z**2], D @ d])

    y = np.concatenate([start, [1.0, 0.0, 0.0, 0.0]])
    end = solve_ivp(variational, (0, T), y, method="DOP853", rtol=1e-13, atol=1e-14).y[4:, -1]
    assert np.linalg.norm(end) > 1.2
    assert abs(result.exponents[0] - np.log(np.linalg.norm(end)) / T) < 1e-7


def test_bad_input_is_named():
    sleigh = gn.systems.chaplygin_sleigh()
    with pytest.raises(ValueError, match="off the constraints"):
        lyapunov_exponents(sleigh, None, [0.0, 1.0, 1.0], dt=0.1, n_steps=10)
    with pytest.raises(ValueError, match="at most 5"):
        lyapunov_exponents(sleigh, None, [0.0, 1.0, 0.0], dt=0.1, n_steps=10, count=6)
    with pytest.raises(ValueError, match="node is a velocity"):
        lyapunov_exponents(sleigh, None, [0.0, 1.0, 0.0], dt=0.1, n_steps=10, method=gn.GNI())


def test_exponents_along_a_path_of_noise():
    """ξ' = aξ + cξ∘dW: (aT + cW(T))/T, and zero for the place."""
    system = gn.System(Translations(1), metric=[[1.0]], forces=lambda t, x, xi, u: -0.3 * xi + 0.5 * xi * u)
    noise = gn.Wiener(1, 0.01, seed=2)
    found = lyapunov_exponents(system, [0.0], [1.0], dt=0.01, n_steps=500, controls=noise, method="rkmk8")
    expected = -0.3 + 0.5 * noise.increments(500).sum() / 5.0
    np.testing.assert_allclose(np.sort(found.exponents), np.sort([0.0, expected]), atol=1e-9)
    with pytest.raises(ValueError, match="no multiple of the spacing"):
        lyapunov_exponents(system, [0.0], [1.0], dt=0.015, n_steps=10, controls=noise)
