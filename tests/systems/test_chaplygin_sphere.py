"""Chaplygin's sphere: body equations, 15-digit end states, K, moving energy, and the homogeneous ball.

GNI's regression values and its order stand in ``test_reference_values.py``.
"""

import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.groups import SO3
from geonh.systems import catalogue, chaplygin_sphere, rolling_ball
from geonh.systems.chaplygin_sphere import rolling_start

VALUES = json.loads((Path(__file__).parent / "reference.json").read_text())
FULL = np.array([[0.9, 0.1, -0.05], [0.1, 0.7, 0.15], [-0.05, 0.15, 0.8]])
SYSTEMS = [
    {"m": 1.2, "r": 0.7, "J": (0.5, 0.6, 0.8), "table_rate": 0.3},
    {"m": 0.8, "r": 1.1, "J": FULL, "table_rate": -0.6},
    {"m": 1.0, "r": 0.5, "J": FULL, "table_rate": 0.0},
]


def random_rolling_start(system, seed):
    rng = np.random.default_rng(seed)
    return rolling_start(
        system, rng.normal(size=2), np.asarray(SO3().exp(jnp.asarray(rng.normal(size=3)))), rng.normal(size=3)
    )


@pytest.mark.parametrize("parameters", SYSTEMS)
def test_body_equations(parameters):
    """Ṁ = M×W + mrΩV, γ̇ = γ×W, Ẋ = X×W + V with M = JW + mr² γ×(W×γ)."""
    system = chaplygin_sphere(**parameters)
    (x, R), xi = random_rolling_start(system, 1)
    rate, _ = gn.mechanics.accelerations(system, 0.0, (jnp.asarray(x), jnp.asarray(R)), jnp.asarray(xi))
    m, r, Omega = (parameters[name] for name in ("m", "r", "table_rate"))
    J = np.diag(parameters["J"]) if np.ndim(parameters["J"]) == 1 else parameters["J"]
    W, dW, gamma = xi[2:], np.asarray(rate)[2:], R[2]
    V, X = R.T @ [*xi[:2], 0.0], R.T @ [*x, 0.0]
    dgamma = np.cross(gamma, W)
    M = J @ W + m * r**2 * np.cross(gamma, np.cross(W, gamma))
    dM = J @ dW + m * r**2 * (
        np.cross(dgamma, np.cross(W, gamma)) + np.cross(gamma, np.cross(dW, gamma) + np.cross(W, dgamma))
    )
    np.testing.assert_allclose(dM, np.cross(M, W) + m * r * Omega * V, rtol=0, atol=1e-13)
    np.testing.assert_allclose(V, r * np.cross(W, gamma) + Omega * np.cross(gamma, X), rtol=0, atol=1e-14)
    # v̇ from differentiating v = r w×e₃ + Ωe₃×x with ẇ = RẆ
    dw, e3 = R @ dW, np.array([0.0, 0.0, 1.0])
    dv = r * np.cross(dw, e3) + Omega * np.cross(e3, [*xi[:2], 0.0])
    np.testing.assert_allclose(rate[:2], dv[:2], rtol=0, atol=1e-13)


@pytest.mark.parametrize("case", ["homogeneous_turning", "inhomogeneous_turning"])
def test_end_states_to_eleven_digits(case):
    expected = VALUES[case]
    system = chaplygin_sphere(J=expected["J"], table_rate=expected["Omega"])
    start = catalogue["chaplygin-sphere"].start(system)
    options = {"rtol": 2.3e-14, "atol": 1e-15}
    g, xi = gn.mechanics.reference_trajectory(system, [0.0, 10.0], start.xi0, start.g0, **options)
    np.testing.assert_allclose(g[0][-1], expected["x"], rtol=0, atol=1e-11)
    np.testing.assert_allclose(xi[-1], [*expected["v"], *expected["W"]], rtol=0, atol=1e-11)


@pytest.mark.parametrize("parameters", SYSTEMS[1:])
def test_first_integrals_along_the_motion(parameters):
    system = chaplygin_sphere(**parameters)
    start = random_rolling_start(system, 4)
    g, xi = gn.mechanics.reference_trajectory(system, np.linspace(0, 4, 5), start.xi0, start.g0)
    result = {name: [] for name in system.first_integrals}
    for i in range(5):
        at = (g[0][i], g[1][i])
        p = np.asarray(system.momentum(at, jnp.asarray(xi[i])))
        for name, integral in system.first_integrals.items():
            result[name].append(integral.function(at, xi[i], p, system.parameters))
    for values in result.values():
        np.testing.assert_allclose(values, np.broadcast_to(values[0], np.shape(values)), rtol=1e-10, atol=1e-10)
    w, v = g[1][0] @ xi[0, 2:], np.array([*xi[0, :2], 0.0])
    J = np.diag(parameters["J"]) if np.ndim(parameters["J"]) == 1 else parameters["J"]
    contact = g[1][0] @ J @ g[1][0].T @ w + parameters["m"] * parameters["r"] * np.cross([0, 0, 1], v)
    np.testing.assert_allclose(result["K"][0], contact, rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("parameters", "rule", "retraction"),
    [
        (SYSTEMS[0], "trapezoid", "exp"),
        (SYSTEMS[1], "trapezoid", "cayley"),
        (SYSTEMS[2], "midpoint", "cayley"),
    ],
)
def test_gni_keeps_contact_momentum_to_rounding(parameters, rule, retraction):
    system = chaplygin_sphere(**parameters)
    start, n = random_rolling_start(system, 6), 2000
    run = gn.solve(system, gn.GNI(rule, retraction), g0=start.g0, xi0=start.xi0, dt=0.05, n_steps=n)
    assert np.abs(run.integrals["K"] - run.integrals["K"][0]).max() <= 1e-14 * np.sqrt(n)
    assert np.abs(run.constraint_residual).max() <= 1e-14


def test_moving_energy_under_gni():
    """To rounding at p⁻ if homogeneous, also on a table at rest, where it is the energy; else O(h²).

    Roundings are a random walk: up to 1.2e-15 √n over twelve starts.
    """
    for rate in (1.0, 0.0):
        system = chaplygin_sphere(J=(0.4, 0.4, 0.4), table_rate=rate)
        start = random_rolling_start(system, 8)
        run = gn.solve(system, gn.GNI(), g0=start.g0, xi0=start.xi0, dt=0.05, n_steps=2000)
        assert np.ptp(run.integrals["moving energy"]) <= 2e-15 * np.sqrt(2000) * (1 + run.energy.max())
    system = chaplygin_sphere()
    start = catalogue["chaplygin-sphere"].start(system)
    result = []
    for n in (500, 1000):
        run = gn.solve(system, gn.GNI(), g0=start.g0, xi0=start.xi0, dt=25.0 / n, n_steps=n)
        result.append(np.abs(run.integrals["moving energy"] - run.integrals["moving energy"][0]).max())
    np.testing.assert_allclose(result[0] / result[1], 4.0, rtol=0, atol=0.1)


def test_homogeneous_sphere_has_the_reduced_ball_s_equations():
    sphere = chaplygin_sphere(m=1.3, r=0.7, J=(0.3, 0.3, 0.3), table_rate=0.9)
    ball = rolling_ball(m=1.3, I=0.3, r=0.7, table_rate=0.9)
    (x, R), xi = random_rolling_start(sphere, 5)
    g = (jnp.asarray(x), jnp.asarray(R))
    body, _ = gn.mechanics.accelerations(sphere, 0.0, g, jnp.asarray(xi))
    space, _ = gn.mechanics.accelerations(ball, 0.0, g, jnp.asarray(np.concatenate([xi[:2], R @ xi[2:]])))
    np.testing.assert_allclose(body[:2], space[:2], rtol=0, atol=1e-14)
    np.testing.assert_allclose(R @ body[2:], space[2:], rtol=0, atol=1e-13)


@pytest.mark.parametrize("retraction", ["cayley", "exp"])
def test_homogeneous_sphere_has_the_reduced_ball_s_discrete_motion(retraction):
    """τ(hW) after R is τ(h RW) before it and |W| = |RW|: one discrete Lagrangian, written in two ways."""
    sphere = chaplygin_sphere(m=1.3, r=0.7, J=(0.3, 0.3, 0.3), table_rate=0.9)
    ball = rolling_ball(m=1.3, I=0.3, r=0.7, table_rate=0.9)
    (x, R), xi = random_rolling_start(sphere, 3)
    method, n = gn.GNI(retraction=retraction), 1000
    body = gn.solve(sphere, method, g0=(x, R), xi0=xi, dt=0.05, n_steps=n)
    space = gn.solve(ball, method, g0=(x, R), xi0=np.concatenate([xi[:2], R @ xi[2:]]), dt=0.05, n_steps=n)
    rounding = {"cayley": 1e-13, "exp": 2e-13}[retraction] * np.sqrt(n)  # sine and cosine are good to 1.5 units
    np.testing.assert_allclose(body.g[0], space.g[0], rtol=0, atol=rounding)
    np.testing.assert_allclose(body.g[1], space.g[1], rtol=0, atol=rounding)


@pytest.mark.slow
def test_body_axes_are_free():
    """Turned body axes, R' = RA and J' = AᵀJA, give the same motion; 3 moments are the diagonal matrix."""
    A = np.asarray(SO3().exp(jnp.asarray([0.3, -0.8, 0.5])))
    options = {"dt": 0.05, "n_steps": 300}
    straight = chaplygin_sphere(J=(0.5, 0.6, 0.8))
    (x, R), xi = random_rolling_start(straight, 2)
    one = gn.solve(straight, g0=(x, R), xi0=xi, **options)
    same = gn.solve(chaplygin_sphere(J=np.diag([0.5, 0.6, 0.8])), g0=(x, R), xi0=xi, **options)
    np.testing.assert_allclose(one.g_vector, same.g_vector, rtol=0, atol=1e-11)
    turned = chaplygin_sphere(J=A.T @ np.diag([0.5, 0.6, 0.8]) @ A)
    two = gn.solve(turned, g0=(x, R @ A), xi0=np.concatenate([xi[:2], A.T @ xi[2:]]), **options)
    np.testing.assert_allclose(one.g[0], two.g[0], rtol=0, atol=1e-11)
    np.testing.assert_allclose(one.g[1] @ A, two.g[1], rtol=0, atol=1e-11)


def test_start():
    entry = catalogue["chaplygin-sphere"]
    for parameters in SYSTEMS:
        system = entry.system(**parameters)
        start = entry.start(system)
        assert np.abs(system.constraint_residual(start.g0, start.xi0)).max() <= 1e-15


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"m": 0.0}, "m must be positive"),
        ({"r": -1.0}, "r must be positive"),
        ({"J": (1.0, -1.0, 1.0)}, "J must be positive"),
        ({"J": (1.0, 1.0)}, "J must be 3 principal moments"),
        ({"J": np.eye(3) + np.eye(3, k=1)}, "J must be symmetric"),
        ({"J": np.diag([1.0, 1.0, -0.1])}, "J must be positive"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        chaplygin_sphere(**parameters)
