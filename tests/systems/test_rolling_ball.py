"""The homogeneous ball on a turning table: equations, circle, GNI's two waves, invariants."""

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.systems import catalogue, rolling_ball
from geonh.systems.entry import Start
from geonh.systems.rolling_ball import contact_path, exact

PARAMETERS = {"m": 1.3, "I": 0.3, "r": 0.7, "table_rate": 0.9}


def random_start(system, seed):
    rng = np.random.default_rng(seed)
    g0 = (rng.normal(size=2), np.asarray(system.group.factors[1].exp(jnp.asarray(rng.normal(size=3)))))
    return Start(g0, np.asarray(system.project(g0, rng.normal(size=5))))


def frequency(m, I, r, table_rate):  # noqa: E741
    return I * table_rate / (I + m * r**2)


@pytest.mark.parametrize(("base", "seed"), [("reduced", 0), ("reduced", 1), ("group", 2)])
def test_equations(base, seed):
    """v̇ = iνv; w from v and the constraint, with w₃ constant; also unreduced."""
    system = rolling_ball(**PARAMETERS)
    if base == "group":
        ball = system
        system = gn.System(
            ball.group,
            metric=lambda x, p: ball.metric.matrix(x[0], p),
            distribution=gn.AffineDistribution(
                forms=lambda x, p: ball.distribution.forms(x[0], p), rhs=lambda x, p: ball.distribution.rhs(x[0], p)
            ),
            parameters=PARAMETERS,
        )
    start = random_start(system, seed)
    g0 = (jnp.asarray(start.g0[0]), jnp.asarray(start.g0[1]))
    rate, _ = gn.mechanics.accelerations(system, 0.0, g0, jnp.asarray(start.xi0))
    vx, vy = start.xi0[:2]
    nu, omega, r = frequency(**PARAMETERS), PARAMETERS["table_rate"], PARAMETERS["r"]
    expected = [-nu * vy, nu * vx, (omega - nu) * vx / r, (omega - nu) * vy / r, 0.0]
    np.testing.assert_allclose(rate, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize(("rate", "end"), [(0.9, 5.0), (-0.4, -3.0), (0.0, 5.0)])
def test_exact_solution(rate, end):
    system = rolling_ball(**{**PARAMETERS, "table_rate": rate})
    start, t = random_start(system, 3), np.linspace(0, end, 6)
    g, xi = gn.mechanics.reference_trajectory(system, t, start.xi0, start.g0)
    (x, R), xi_exact = exact(system, start, t)
    np.testing.assert_allclose(xi, xi_exact, rtol=0, atol=1e-12)
    np.testing.assert_allclose(g[0], x, rtol=0, atol=1e-11)
    np.testing.assert_allclose(g[1], R, rtol=0, atol=1e-11)


def test_first_integrals_along_the_motion():
    system = rolling_ball(**PARAMETERS)
    start = random_start(system, 1)
    g, xi = gn.mechanics.reference_trajectory(system, np.linspace(0, 4, 5), start.xi0, start.g0)
    p = np.array([1.3, 1.3, 0.3, 0.3, 0.3]) * xi
    x, v, w = g[0], xi[:, :2], xi[:, 2:]
    K = 0.3 * w + 1.3 * 0.7 * np.stack([-v[:, 1], v[:, 0], 0 * v[:, 0]], axis=1)
    moving = 0.5 * np.sum(p * xi, 1) - 0.9 * (1.3 * (x[:, 0] * v[:, 1] - x[:, 1] * v[:, 0]) + 0.3 * w[:, 2])
    np.testing.assert_allclose(K, np.tile(K[0], (5, 1)), rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(moving, moving[0], rtol=1e-10, atol=1e-11)
    for i in range(5):
        arguments = (g[0][i], g[1][i]), xi[i], p[i], system.parameters
        np.testing.assert_allclose(system.first_integrals["K"].function(*arguments), K[i], rtol=0, atol=1e-14)
        np.testing.assert_allclose(
            system.first_integrals["moving energy"].function(*arguments), moving[i], rtol=0, atol=1e-13
        )


@pytest.mark.parametrize(
    ("first", "second_wave", "retraction"), [("average", 1 / 4, "cayley"), ("multiplier", 1 / 16, "exp")]
)
def test_gni_is_two_waves_of_frequency_arcsin_h_nu_over_h(first, second_wave, retraction):
    """z_k − z_c = a e^{ikφ} + b(−1)^k e^{−ikφ}, sin φ = hν, to rounding; |b/a| as said."""
    system = rolling_ball(**PARAMETERS)
    start, nu, h, n = random_start(system, 5), frequency(**PARAMETERS), 0.1, 2000
    method = gn.GNI(retraction=retraction, start=first)
    run = gn.solve(system, method, g0=start.g0, xi0=start.xi0, dt=h, n_steps=n)
    z = run.g[0] @ [1, 1j]
    offset = z - (z[0] - start.xi0[:2] @ [1, 1j] / (1j * nu))
    phi, k = np.arcsin(h * nu), np.arange(n + 1)
    waves = np.stack([np.exp(1j * k * phi), (-1.0) ** k * np.exp(-1j * k * phi)], axis=1)
    a, b = np.linalg.solve(waves[:2], offset[:2])
    np.testing.assert_allclose(waves @ [a, b], offset, rtol=0, atol=1e-12 * np.sqrt(n))
    np.testing.assert_allclose(run.xi[:, :2] @ [1, 1j], 1j * nu * offset, rtol=0, atol=1e-12 * np.sqrt(n))
    power = 2 if first == "average" else 4
    np.testing.assert_allclose(abs(b / a), second_wave * (h * nu) ** power, rtol=2 * (h * nu) ** 2)


@pytest.mark.parametrize("rule", ["trapezoid", "midpoint"])
def test_what_gni_keeps(rule):
    system = rolling_ball(**PARAMETERS)
    start, n = random_start(system, 7), 4000
    run = gn.solve(system, gn.GNI(rule), g0=start.g0, xi0=start.xi0, dt=0.05, n_steps=n)
    assert np.ptp(run.integrals["K"], axis=0).max() <= 2e-14 * np.sqrt(n)
    assert np.ptp(run.integrals["moving energy"]) <= 3e-14 * np.sqrt(n)
    assert np.abs(run.constraint_residual).max() <= 1e-14
    assert np.ptp(run.energy) > 1.0


def test_start_and_picture():
    entry = catalogue["rolling-ball"]
    system = entry.system(r=0.5, table_rate=2.0)
    start = entry.start(system)
    assert np.abs(system.constraint_residual(start.g0[0], start.xi0)).max() <= 1e-15
    ball, contact, _ = system.draw(0.0, start.g0, system.parameters)
    np.testing.assert_allclose(ball.at.x, [*start.g0[0], 0.5])
    np.testing.assert_allclose(contact.at.x, [*start.g0[0], 0.0])
    np.testing.assert_allclose(np.linalg.norm(ball.parts[0].vertices, axis=1), 0.5)
    still = rolling_ball(table_rate=0.0)
    path = contact_path(still, Start(None, np.array([1.0, 2.0, 0.0, 0.0, 0.0])), np.array([0.0, 3.0]))[0]
    np.testing.assert_allclose(path, [[0, 0], [3, 6]])


@pytest.mark.parametrize("name", ["m", "I", "r"])
def test_bad_parameters_are_named(name):
    with pytest.raises(ValueError, match=f"{name} must be positive"):
        rolling_ball(**{name: -1.0})
