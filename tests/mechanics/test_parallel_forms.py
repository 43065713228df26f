"""Forms that are nearly parallel, at an angle ε, cost the digits of 1/ε, and not those of its square."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn

START = np.array([0.3, 0.4, -0.5, 0.2])
METHODS = ("rkmk6", "gauss4", "lobatto4", "discrete-gradient", "average-vector-field", "projected", "rk4-projected")


def system_at(angle):
    """Two forms on R⁴ at such an angle, both of which turn from place to place."""

    def forms(x):
        first = jnp.stack([jnp.cos(x[1]), jnp.sin(x[1]), 0 * x[0], 1 + 0 * x[0]])
        return jnp.stack([first, first + angle * jnp.stack([0 * x[0], -x[2], 1 + 0 * x[0], 0.3 * x[0]])])

    return gn.System(
        gn.groups.Translations(4),
        metric=[1.0, 2.0, 1.5, 0.7],
        potential=lambda x: 0.5 * jnp.sum(x**2) + x[0] ** 4 / 4,
        distribution=gn.Distribution(forms),
    )


VELOCITY = system_at(1.0).project(START, [0.5, 0.7, -0.3, 0.2])


def end(angle, method, n_steps=100):
    return gn.solve(system_at(angle), method, xi0=VELOCITY, g0=START, dt=0.01, n_steps=n_steps).g[-1]


@pytest.mark.filterwarnings("ignore:the constraints of system are nearly parallel")
@pytest.mark.parametrize("angle", [1e-4, 1e-7])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.quick("rkmk6-1e-07")
def test_runs_lose_the_digits_of_the_angle_and_no_more(method, angle):
    assert np.abs(end(angle, method) - end(1.0, method)).max() < 1e2 * np.finfo(float).eps / angle


@pytest.mark.filterwarnings("ignore:the constraints of system are nearly parallel")
@pytest.mark.parametrize("angle", [1e-4, 1e-7])
def test_accelerations_and_projections_do_too(angle):
    rate, lam = gn.mechanics.accelerations(system_at(angle), 0.0, START, VELOCITY)
    expected, forces = gn.mechanics.accelerations(system_at(1.0), 0.0, START, VELOCITY)
    allowed = 1e2 * np.finfo(float).eps / angle
    np.testing.assert_allclose(rate, expected, atol=allowed)
    np.testing.assert_allclose(system_at(angle).project(START, [0.5, 0.7, -0.3, 0.2]), VELOCITY, atol=allowed)
    mu, mu_apart = (np.asarray(system_at(a).annihilator(START)) for a in (angle, 1.0))
    np.testing.assert_allclose(lam @ mu, forces @ mu_apart, atol=1e1 * allowed)  # λ is of the forms as they are written


@pytest.mark.slow
def test_a_run_says_how_many_digits_are_lost():
    with pytest.warns(UserWarning, match="costs about 7 of 16 digits") as said:
        end(1e-7, "rkmk6", n_steps=1)
    assert said[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        end(1e-3, "rkmk6", n_steps=1)
