"""The spherical robot: rolling from rest, and by equations derived by hand."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

import geonh as gn

M, R, J, ROTORS = 2.0, 0.15, np.array([0.03, 0.032, 0.034]), np.array([0.004, 0.005, 0.006])


def torques(t):
    return 0.02 * np.stack([np.cos(t), np.sin(1.3 * t), np.cos(0.7 * t)])


def drive(t):
    return 0.02 * jnp.stack([jnp.cos(t), jnp.sin(1.3 * t), jnp.cos(0.7 * t)])


def by_hand(t, y):
    """(x, y, quaternion, χ̇): from rest K = 0, so W follows from the rates of the rotors; jᵢ(Ẇᵢ + χ̈ᵢ) = uᵢ.

    With γ = Rᵀe₃, 0 = RᵀK = (J + mr²(1 − γγᵀ))W + jχ̇ =: DW + jχ̇; differentiated with γ̇ = γ×W, D Ẇ + Ḋ W + jχ̈ = 0.
    """
    turned, rates = Rotation.from_quat(y[2:6]).as_matrix(), y[6:]
    gamma = turned[2]
    D = np.diag(J) + M * R**2 * (np.eye(3) - np.outer(gamma, gamma))
    W = np.linalg.solve(D, -ROTORS * rates)
    slope = np.cross(gamma, W)
    moving = -M * R**2 * (np.outer(slope, gamma) + np.outer(gamma, slope))
    u = torques(t)
    dW = np.linalg.solve(D - np.diag(ROTORS), -moving @ W - u)
    w = turned @ W
    spun = 0.5 * np.append(y[5] * W - np.cross(W, y[2:5]), -W @ y[2:5])
    return np.concatenate([R * np.cross(w, [0, 0, 1])[:2], spun, u / ROTORS - dW])


@pytest.mark.slow
def test_it_rolls_by_equations_derived_by_hand():
    system = gn.systems.spherical_robot(M, R, J, ROTORS)
    start = solve_ivp(
        by_hand, (0, 5), np.concatenate([np.zeros(5), [1.0], np.zeros(3)]), method="DOP853", rtol=1e-11, atol=1e-12
    ).y[:, -1]
    run = gn.solve(system, "gauss4", xi0=np.zeros(8), dt=0.01, n_steps=500, controls=drive)
    np.testing.assert_allclose(run.g[0][-1], start[:2], atol=1e-8)
    np.testing.assert_allclose(run.g[1][-1], Rotation.from_quat(start[2:6]).as_matrix(), atol=1e-8)
    np.testing.assert_allclose(run.xi[-1, 5:], start[6:], atol=1e-7)
    assert np.linalg.norm(run.g[0][-1]) > 0.1


@pytest.mark.slow
def test_one_rotor_rolls_it_along_a_line():
    """From rest with a steady torque u on the second rotor: x = −½ru t²/(J₂ + mr² − j₂)."""
    system = gn.systems.spherical_robot(M, R, J, ROTORS)
    run = gn.solve(
        system, xi0=np.zeros(8), dt=0.01, n_steps=200, controls=lambda t: jnp.array([0.0, 0.01, 0.0]) + 0.0 * t
    )
    expected = -R * 0.01 * run.t**2 / (2 * (J[1] + M * R**2 - ROTORS[1]))
    np.testing.assert_allclose(run.g[0][:, 0], expected, atol=1e-5)
    assert np.abs(run.g[0][:, 1]).max() < 1e-15


@pytest.mark.slow
def test_motors_do_not_change_the_momentum_about_the_contact():
    system = gn.systems.spherical_robot(M, R, J, ROTORS)
    xi0 = system.project(None, [0.0, 0.0, 1.0, -2.0, 3.0, 5.0, -4.0, 2.0])
    for method in ("projected", "gni"):
        run = gn.solve(system, method, xi0=xi0, dt=0.02, n_steps=500, controls=drive)
        K = run.integrals["K"]
        assert np.abs(K - K[0]).max() < 1e-13


def test_rotors_heavier_than_the_ball_are_refused():
    with pytest.raises(ValueError, match="j must be less than J"):
        gn.systems.spherical_robot(j=(0.04, 0.004, 0.004))
