"""The Whipple bicycle against its published benchmarks: linear about upright running, and at one general state."""

import jax
import numpy as np
import pytest
from bicycle import bicycle, start, upright, velocity
from scipy.integrate import solve_ivp

import geonh as gn

TABLE = {  # Meijaard and others (2007), table 2: speed; capsize, castering, weave (real and imaginary part)
    1.0: (-3.13423125066578, -7.11008014637442, 3.5269617099007, 0.8077402751993),
    5.0: (-0.32286642900409, -14.07838969279822, -0.77534188219585, 4.46486771378823),
    10.0: (0.16105338653172, -24.62459635017404, -3.72016840437287, 10.90681139476287),
}
MASS = [[80.81722, 2.31941332208709], [2.31941332208709, 0.29784188199686]]
DAMPING = [[0.0, 33.86641391492494], [-0.85035641456978, 1.6854039739756]]
STIFFNESS = [[-80.95, -2.59951685249872], [-2.59951685249872, -0.80329488458618]]
SPEED_STIFFNESS = [[0.0, 76.59734589573222], [0.0, 2.65431523794604]]


@pytest.fixture(scope="module")
def system():
    with gn.float64():
        return bicycle()


@pytest.fixture(scope="module")
def rates(system):
    """ξ̇ of (g, ξ), compiled once."""
    return jax.jit(lambda g, xi: gn.mechanics.accelerations(system, 0.0, g, xi)[0])


def linearised(system, rates, speed, step=1e-3):
    """The matrix of (lean, steer, lean rate, steer rate), by central differences extrapolated twice: error ~ step⁶."""

    def slope(z):
        g0 = upright(system, z[0], z[1])
        rate = np.asarray(rates(g0, velocity(system, g0, speed, z[2], z[3])))
        return np.array([z[2], z[3], rate[0], rate[6]])

    def differences(h):
        return np.stack([(slope(h * e) - slope(-h * e)) / (2 * h) for e in np.eye(4)], axis=1)

    wide, middle, narrow = (differences(scale * step) for scale in (4, 2, 1))
    return ((64 * narrow - 20 * middle + wide) / 45).astype(float)


@pytest.mark.slow
@pytest.mark.parametrize("speed", TABLE)
def test_linear_about_upright_running(system, rates, speed):
    result = linearised(system, rates, speed)
    stiffness = 9.81 * np.array(STIFFNESS) + speed**2 * np.array(SPEED_STIFFNESS)
    wanted = -np.linalg.solve(MASS, np.hstack([stiffness, speed * np.array(DAMPING)]))
    np.testing.assert_allclose(result[2:], wanted, rtol=0, atol=1e-9)
    capsize, castering, real, imaginary = TABLE[speed]
    eigenvalues = [capsize, castering, real + 1j * imaginary, real - 1j * imaginary]
    np.testing.assert_allclose(np.sort(np.linalg.eigvals(result)), np.sort(eigenvalues), rtol=0, atol=1e-9)


def rotation(axis, angle):
    """About an axis of space and its neighbours in cyclic order."""
    c, s = np.cos(angle), np.sin(angle)
    R = np.eye(3)
    i, j = (axis + 1) % 3, (axis + 2) % 3
    R[i, i], R[i, j], R[j, i], R[j, j] = c, -s, s, c
    return R


@pytest.mark.slow
def test_general_state(system, rates):
    """Table 1 of Basu-Mandal, Chatterjee, Papadopoulos, Ruina (2007): yaw, lean and pitch in this order, then steer."""
    yaw, lean, pitch, steer = 0.0, 0.6206670416476966, 0.3300446174593725 - np.pi / 10, -0.2311385135743
    yaw_rate, lean_rate, pitch_rate = -0.7830033527065, -0.6068425835418, 0.0119185528069
    steer_rate, rear_rate, front_rate = -0.4859824687093, -8.912989661489, -8.0133620584155
    g0 = np.eye(4)
    g0[:3, :3] = rotation(2, yaw) @ rotation(0, lean) @ rotation(1, pitch)
    g0[2, 3] = -0.2440472102925
    g0 = (g0, np.array([steer, 0.0, 0.0]))
    c, s = np.cos(lean), np.sin(lean)

    def frame(pitch):  # columns: ω for unit rates of yaw, lean and pitch
        back = rotation(1, pitch).T
        return np.stack([back @ [0.0, s, c], back @ [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], axis=1)

    angle_rates = np.array([yaw_rate, lean_rate, pitch_rate])
    forms = np.asarray(system.annihilator(system.point(g0)))
    omega = frame(pitch) @ angle_rates
    spins = np.array([steer_rate, rear_rate, front_rate])
    v = g0[0][:3, :3].T @ [2.8069345714545, -0.1480982396001, -0.1058778746261]
    xi = np.concatenate([omega, v, spins])
    np.testing.assert_allclose(forms @ xi, 0.0, rtol=0, atol=1e-12)

    rate = np.asarray(rates(g0, xi))
    by_pitch = np.cross(omega - angle_rates[2] * np.array([0.0, 1.0, 0.0]), [0.0, 1.0, 0.0]) * pitch_rate
    by_lean = rotation(1, pitch).T @ [0.0, c, -s] * lean_rate * yaw_rate
    angles = np.linalg.solve(frame(pitch), rate[:3] - by_pitch - by_lean)
    np.testing.assert_allclose(angles, [-0.8353281706379, 7.8555281128244, -0.1205543897884], rtol=0, atol=5e-12)
    wanted = [4.6198904039403, -1.8472554144217, -2.454807290455]
    np.testing.assert_allclose(rate[6:], wanted, rtol=0, atol=5e-12)
    centre = g0[0][:3, :3] @ (rate[3:6] + np.cross(omega, v))
    np.testing.assert_allclose(centre, [0.5041626315047, -0.3449706619454, 1.460452833298], rtol=0, atol=5e-12)


@pytest.mark.slow
def test_energy_and_forms_along_the_continuous_motion(system, rates):
    """The bicycle rides a second from the start that the benchmarks use."""

    def slope(_, y):
        g, angles, xi = y[:16].reshape(4, 4), y[16:19], y[19:]
        a, b, c = xi[:3]
        velocity = np.array([[0.0, -c, b, xi[3]], [c, 0.0, -a, xi[4]], [-b, a, 0.0, xi[5]], [0.0] * 4])
        return np.concatenate([(g @ velocity).ravel(), xi[6:], np.asarray(rates((g, angles), xi))])

    g0, xi0 = start(system)
    np.testing.assert_allclose(system.constraint_residual(g0, xi0), 0.0, rtol=0, atol=1e-14)
    y0 = np.concatenate([g0[0].ravel(), g0[1], xi0])
    y = solve_ivp(slope, (0.0, 1.0), y0, method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1]
    g, xi = (y[:16].reshape(4, 4), y[16:19]), y[19:]
    before, after = (float(system.energy(x, system.momentum(x, v))) for x, v in ((g0, xi0), (g, xi)))
    np.testing.assert_allclose(after, before, rtol=1e-12)
    np.testing.assert_allclose(system.constraint_residual(g, xi), 0.0, rtol=0, atol=1e-11)
    assert abs(g[1][0]) > 0.005  # it steers
