"""Errors of the steps of optimal motions, and the choice among several minima."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.control import optimal_control
from geonh.groups import SE2, Product, Torus, Translations


def swing(t, x, xi, u):
    return jnp.stack([u[0] - 9.81 * jnp.sin(x[0])])


PENDULUM = gn.System(Translations(1), metric=[1.0], forces=swing, name="pendulum")


def classical(q, v, h, a, b):
    """Point and velocity after a step of the classical method under controls from a to b."""

    def slope(y, s):
        return np.array([y[1], a + s * (b - a) - 9.81 * np.sin(y[0])])

    y = np.array([q, v])
    k1 = slope(y, 0.0)
    k2 = slope(y + h / 2 * k1, 0.5)
    k3 = slope(y + h / 2 * k2, 0.5)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + slope(y + h * k3, 1.0))


@pytest.mark.quick("projected-2")
@pytest.mark.parametrize(("method", "order"), [("rkmk4", 4), ("projected", 2)])
def test_the_error_is_that_of_steps_and_of_their_order(method, order):
    errors = []
    for K in (32, 64, 128, 256):
        one = optimal_control(PENDULUM, end=[2.0], n_controls=1, span=2.0, n_steps=K, method=method, tries=1)
        errors.append(one.error)
        if method == "rkmk4":
            (q, v), (a, b), h = (one.g[:, 0], one.xi[:, 0]), (one.u[:-1, 0], one.u[1:, 0]), one.t[1]
            middle = [classical(q[k], v[k], h / 2, a[k], (a[k] + b[k]) / 2) for k in range(K)]
            ends = [classical(*middle[k], h / 2, (a[k] + b[k]) / 2, b[k]) for k in range(K)]
            off = np.abs(np.array(ends) - np.stack([q[1:], v[1:]], axis=1))
            steps = np.maximum(off[:, 0] / one.t[-1], off[:, 1])
            np.testing.assert_allclose(one.error, steps.sum() / np.abs(v).max(), rtol=1e-4, atol=1e-13)
    slopes = np.log2(np.array(errors[:-1]) / errors[1:])
    np.testing.assert_allclose(slopes, order, atol=0.1)


@pytest.mark.slow
def test_steps_that_are_too_long_are_warned_of():
    options = {"end": [0.5], "xi_start": [9.0], "xi_end": "free", "n_controls": 1, "span": 4.0}
    with pytest.warns(UserWarning, match=r"errors of its steps: .* take more steps \(n_steps=6\), or bounds="):
        coarse = optimal_control(PENDULUM, **options, n_steps=6, tries=1)
    assert coarse.error > 0.05
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fine = optimal_control(PENDULUM, **options, n_steps=80, tries=1)
    assert fine.error < 0.01


def sideways(t, g, xi, u):
    """Squared distance from the middle of an obstacle that the straight line meets above it."""
    return (g[0] - 1.0) ** 2 + (g[1] + 0.1) ** 2


@pytest.mark.slow
def test_the_cheaper_way_round_an_obstacle_is_found():
    mass = gn.System(Translations(2), metric=[1.0, 1.0], forces=lambda t, x, xi, u: u, name="mass")
    options = {"end": [2.0, 0.0], "n_controls": 2, "span": 2.0, "n_steps": 20, "path": (sideways, 0.25, np.inf)}
    best = optimal_control(mass, **options)
    assert best.g[10, 1] > 0.3
    assert min(best.costs) == best.cost
    below = optimal_control(mass, **options, guess=lambda t: ([t, -np.sin(np.pi * t / 2)], [0.0, 0.0]))
    assert below.tried == 1
    assert below.g[10, 1] < -0.5
    assert below.cost > 1.05 * best.cost
    assert len(optimal_control(mass, **options, tries=2).costs) == 2


def racer_metric(x):
    return [[1.5, 0.0, 0.0, 0.5], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.5, 0.0, 0.0, 0.5]]


@pytest.mark.slow
def test_a_roller_racer_swings_itself_in_one_direction():
    """In the other one there are discrete motions alone, that use the errors of strong controls."""
    racer = gn.System(
        Product((SE2(), Torus(1, ("phi",)))),
        metric=racer_metric,
        distribution=gn.Distribution(lambda x: [[0.0, 0.0, 1.0, 0.0], [jnp.cos(x[0]) + 0.5, -jnp.sin(x[0]), 0.0, 0.5]]),
        forces=lambda t, x, xi, u: jnp.stack([0.0 * u[0], 0.0 * u[0], 0.0 * u[0], u[0]]),
        base=("phi",),
        name="roller racer",
    )
    options = {"n_controls": 1, "span": 6.0, "n_steps": 40, "xi_end": "free", "free": ["phi_dot"]}
    options["limits"] = {"phi": (-1.2, 1.2)}
    there = optimal_control(racer, end=(np.array([0.0, -2.0, 0.0]), np.zeros(1)), **options)
    assert there.error < 5e-3
    times = np.linspace(0.0, 6.0, 321)
    fine = gn.solve(racer, "projected", g0=([0.0] * 3, [0.0]), xi0=[0.0] * 4, dt=6 / 320, n_steps=320,
                    controls=np.array([there.control(t) for t in times]))  # fmt: skip
    np.testing.assert_allclose(fine.g[0][-1], [0.0, -2.0, 0.0], atol=0.02)
    with pytest.warns(UserWarning, match="may exist only by the errors of its steps"):
        nowhere = optimal_control(racer, end=(np.array([0.0, 2.0, 0.0]), np.zeros(1)), **options, tries=1)
    assert nowhere.error > 0.05
