"""The filter against the textbook's for a linear system, and its consistency where the state is on a group."""

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.control import kalman_filter
from geonh.groups import SE2, SO3, Translations

CART = gn.System(Translations(1), metric=[[2.0]], forces=lambda t, x, xi, u: u, name="cart")
CART_OPTIONS = {"errors": [1.0, 0.5], "sigma": 0.2, "disturbance": 0.5, "dt": 0.1, "n_controls": 1}


def place(g, xi):
    return g


def test_of_a_linear_system_it_is_kalmans():
    rng, dt = np.random.default_rng(0), 0.1
    watch = kalman_filter(CART, place, **CART_OPTIONS)
    A, B, H = np.array([[1.0, dt], [0.0, 1.0]]), np.array([dt**2 / 2, dt]) / 2, np.array([[1.0, 0.0]])
    x, P, G = np.zeros(2), np.diag([1.0, 0.25]), np.array([[0.0], [0.5]])
    for k in range(20):
        u, y = rng.normal(size=2)
        x, P = A @ x + B * u, A @ (P + dt * 0.25 * G @ G.T) @ A.T
        S = H @ P @ H.T + 0.04
        gain = P @ H.T / S
        if k % 3:
            expected = (y - x[0]) / np.sqrt(S[0, 0])
            x, P = x + gain[:, 0] * (y - x[0]), (np.eye(2) - gain @ H) @ P
            belief = watch([y], [u])
            np.testing.assert_allclose(belief.innovation, expected, rtol=1e-9)
        else:  # not observed
            belief = watch(None if k % 2 else [np.nan], [u])
        np.testing.assert_allclose([belief.g[0], belief.xi[0]], x, atol=1e-13)
        np.testing.assert_allclose(belief.covariance, P, atol=1e-15)
    assert abs(belief.t - 2.0) < 1e-12


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"errors": [1.0]}, r"errors must be a number, or of shape \[2\] or \[2, 2\], got \[1\]"),
        ({"errors": [[1.0, 2.0], [2.0, 1.0]]}, "errors must be positive semidefinite"),
        ({"sigma": [0.1, 0.1]}, r"sigma must be a number, or of shape \[1\]"),
        ({"sigma": 0.0}, "sigma must be positive"),
        ({"dt": 0.0}, "dt must be positive"),
        ({"method": "gauss4"}, "RKMK or SymmetricProjection"),
        ({"observe": lambda g: g}, "observe takes"),
    ],
)
def test_bad_input_is_named(changes, words):
    with pytest.raises((TypeError, ValueError), match=words):
        kalman_filter(**{"system": CART, "observe": place, **CART_OPTIONS, **changes})


def test_what_is_observed_and_driven_has_its_shape():
    watch = kalman_filter(CART, place, **CART_OPTIONS)
    with pytest.raises(ValueError, match=r"y must have shape \(1,\), got \(2,\)"):
        watch([1.0, 2.0], [0.0])
    with pytest.raises(ValueError, match=r"u must have shape \(1,\), got \(2,\)"):
        watch([1.0], [0.0, 0.0])
    with pytest.raises(ValueError, match="y must be finite, or nan"):
        watch([np.inf], [0.0])
    assert watch.belief.t == 0.0  # nothing has moved


def error(group, g, xi, belief):
    return np.concatenate([np.asarray(group.log(group.compose(group.inverse(belief.g), g))), xi - belief.xi])


def squared(e, covariance):
    """eᵀP⁻¹e and the rank of P; the part of e across the constraints is of order 2."""
    sizes, axes = np.linalg.eigh(covariance)
    kept = sizes > 1e-10 * sizes[-1]
    assert np.abs(axes[:, ~kept].T @ e).max(initial=0.0) <= e @ e
    return float(((axes[:, kept].T @ e) ** 2 / sizes[kept]).sum()), int(kept.sum())


SLEIGH = gn.System(
    SE2(),
    metric=[[1.04, 0.0, 0.2], [0.0, 1.0, 0.0], [0.2, 0.0, 1.0]],
    distribution=gn.Distribution([[0.0, 0.0, 1.0]]),
    base="point",
    name="sleigh",
)
PENDULUM = gn.System(
    Translations(3),
    metric=[1.0, 1.0, 1.0],
    potential=lambda x: 9.81 * x[2],
    holonomic=lambda x: (x @ x - 1.0)[None] / 2,
    name="pendulum",
)
BODY = gn.System(SO3(), metric=[1.0, 2.0, 3.0], base="point", name="body")
CASES = {
    "sleigh": (SLEIGH, "rkmk4", lambda g, xi: g[1:], None, [0.8, 0.5, 0.0], 5, 0.05),
    "pendulum": (PENDULUM, "projected", lambda g, xi: g, [0.6, 0.0, -0.8], [0.0, 0.5, 0.0], 4, 0.05),
    "body": (BODY, "rkmk4", lambda g, xi: jnp.concatenate([g[2], g[:, 0]]), None, [0.3, 2.0, 0.1], 6, 0.1),
}

METRICS = {
    "sleigh": np.array([[1.04, 0.0, 0.2], [0.0, 1.0, 0.0], [0.2, 0.0, 1.0]]),
    "pendulum": np.eye(3),
    "body": np.diag([1.0, 2.0, 3.0]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CASES))
def test_its_covariance_is_that_of_its_errors(name):
    """Over 24 runs: eᵀP⁻¹e is the number of free directions on average, and innovations are standard normal."""
    system, method, observe, g0, xi0, free, sigma = CASES[name]
    rng, n, dt, runs, steps = np.random.default_rng(2), system.group.dim, 0.05, 24, 20
    errors, push = np.full(2 * n, 0.1), np.full(n, 0.1)
    options = {"g0": g0, "xi0": xi0, "errors": errors, "sigma": sigma, "disturbance": push, "dt": dt}
    metric, squares, innovations = METRICS[name], [], []
    for _ in range(runs):
        watch = kalman_filter(system, observe, **options)
        g, xi = disturbed(system, watch.belief, errors * rng.normal(size=2 * n))
        for _ in range(steps):
            g, xi = kicked(system, metric, g, xi, np.sqrt(dt) * push * rng.normal(size=n))
            run = gn.solve(system, method, g0=g, xi0=xi, dt=dt, n_steps=1)
            g, xi = np.asarray(run.g[-1]), np.asarray(run.xi[-1])
            y = np.asarray(observe(g, xi))
            belief = watch(y + sigma * rng.normal(size=y.shape))
            innovations.append(belief.innovation)
        square, rank = squared(error(system.group, g, xi, belief), belief.covariance)
        assert rank == free
        squares.append(square)
    assert abs(np.mean(squares) - free) < 4 * np.sqrt(2 * free / runs)
    innovations = np.concatenate(innovations)
    assert abs(innovations.mean()) < 4 / np.sqrt(len(innovations))
    assert abs(innovations.std() - 1) < 4 / np.sqrt(2 * len(innovations))


def disturbed(system, belief, e):
    """A state with an error, on the constraints."""
    n, group = system.group.dim, system.group
    g = system.project_position(np.asarray(group.compose(belief.g, group.exp(e[:n]))))
    xi = system.project(g, belief.xi + e[n:])
    return g, np.asarray(xi if system.holonomic is None else xi[1])


def kicked(system, metric, g, xi, impulse):
    """State after an impulse, on the constraints."""
    new = system.project(g, xi + np.linalg.solve(metric, impulse))
    return g, np.asarray(new if system.holonomic is None else new[1])


@pytest.mark.slow
def test_iterations_help_where_errors_are_large():
    """Attitudes known to 1 rad, observed by two directions: one iteration is the extended filter."""
    rng, far = np.random.default_rng(4), []
    observe = CASES["body"][2]
    for iterations in (1, 10):
        rest = []
        for seed in range(10):
            e = np.random.default_rng(seed).normal(size=6) * [1.0, 1.0, 1.0, 0.1, 0.1, 0.1]
            watch = kalman_filter(
                BODY, observe, errors=[1.0] * 3 + [0.1] * 3, sigma=0.02, dt=0.05, iterations=iterations
            )
            g, _ = disturbed(BODY, watch.belief, e)
            belief = watch.update(np.asarray(observe(g, None)) + 0.02 * rng.normal(size=6))
            rest.append(np.linalg.norm(error(BODY.group, g, belief.xi, belief)[:3]))
        far.append(np.median(rest))
    assert far[1] < 0.04
    assert far[0] > 2 * far[1]
