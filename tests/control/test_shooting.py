"""Shooting against closed forms, transcription, and on systems that transcription does not take."""

import jax.numpy as jnp
import numpy as np
import pytest
from test_optimal import MASS, SLEIGH

import geonh as gn
from geonh.control import optimal_control, shooting_control
from geonh.groups import Translations


@pytest.mark.parametrize("solver", ["slsqp", "trust-constr"])
def test_a_mass_from_rest_to_rest(solver):
    """u = 6md(T − 2t)/T³ is linear: two knots have it, and the end is met by any of the controls' integrals."""
    result = shooting_control(MASS, end=[1.5], n_controls=1, span=2.0, n_steps=40, n_knots=2, solver=solver)
    np.testing.assert_allclose(result.u[:, 0], [4.5, -4.5], rtol=1e-6)
    assert result.miss < 1e-9
    run = result.trajectory()
    assert abs(run.g[-1, 0] - 1.5) < 1e-9
    assert abs(run.xi[-1, 0]) < 1e-9


@pytest.mark.slow
def test_bounds_are_kept():
    free = shooting_control(MASS, end=[1.0], n_controls=1, span=2.0, n_steps=40, n_knots=21)
    result = shooting_control(MASS, end=[1.0], n_controls=1, span=2.0, n_steps=40, n_knots=21, bounds=(-2.3, 2.3))
    assert np.abs(free.u).max() > 2.5
    assert np.abs(result.u).max() <= 2.3
    assert result.cost > free.cost
    assert result.miss < 1e-9


def test_the_sleigh_turns_and_parks_from_no_guess():
    """Sideways there is no way at first order from rest; the cost of transcription's limit, for fewer controls."""
    options = {"n_controls": 2, "span": 4.0, "n_steps": 40, "n_knots": 21}
    turn = shooting_control(SLEIGH, end=[1.2, 1.0, 1.5], **options)
    assert abs(turn.cost - 1.5412) < 1e-3  # with 41 knots 1.541191
    parked = shooting_control(SLEIGH, end=[0.0, 0.0, 1.0], **options)
    assert 9.187 < parked.cost < 9.187 * 1.01
    np.testing.assert_allclose(parked.trajectory().g[-1], [0.0, 0.0, 1.0], atol=1e-9)


@pytest.mark.slow
def test_the_sleigh_turns_as_by_transcription():
    """With as many knots as nodes and the same method it is the same problem."""
    options = {"end": [1.2, 1.0, 1.5], "n_controls": 2, "span": 4.0, "n_steps": 20}
    known = optimal_control(SLEIGH, **options)
    result = shooting_control(SLEIGH, **options, n_knots=21, method=gn.SymmetricProjection())
    assert abs(result.cost - known.cost) < 1e-7 * known.cost
    np.testing.assert_allclose(result.u, known.u, atol=1e-3)
    fine = shooting_control(SLEIGH, **options, n_knots=21, guess=known.u)  # by RKMK(4)
    assert abs(fine.cost - known.cost) < 2e-2 * known.cost
    np.testing.assert_allclose(fine.trajectory().g[-1], [1.2, 1.0, 1.5], atol=1e-7)


def push(t, x, xi, u):
    return u


PENDULUM = gn.System(
    Translations(2),
    metric=[1.0, 1.0],
    potential=lambda x: 9.81 * x[1],
    holonomic=lambda x: (x @ x - 1.0)[None] / 2,
    forces=push,
    name="pendulum",
)
ANGLE = gn.System(
    Translations(1),
    metric=[1.0],
    potential=lambda q: -9.81 * jnp.cos(q[0]),
    forces=lambda t, q, xi, u: jnp.stack([u[0] * jnp.cos(q[0]) + u[1] * jnp.sin(q[0])]),
    name="angle",
)


@pytest.mark.slow
def test_a_pendulum_in_cartesian_coordinates_is_the_one_in_an_angle():
    """Holonomic constraints: the same controls of least cost as in a coordinate without."""
    options = {"n_controls": 2, "span": 1.0, "n_steps": 40, "n_knots": 9}
    a, b = 0.0, 1.2
    round_ = shooting_control(PENDULUM, start=[np.sin(a), -np.cos(a)], end=[np.sin(b), -np.cos(b)], **options)
    known = shooting_control(ANGLE, start=[a], end=[b], **options)
    np.testing.assert_allclose(round_.cost, known.cost, rtol=1e-5)
    np.testing.assert_allclose(round_.u, known.u, atol=2e-2)
    assert np.abs(round_.trajectory().holonomic_residual).max() < 1e-15


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"solver": "newton"}, ValueError, "solver"),
        ({"end": [2.0]}, ValueError, "end must"),
        ({"end": [2.0, 0.0]}, ValueError, "end does not satisfy the holonomic"),
        ({"xi_end": [1.0, 1.0]}, ValueError, "xi_end is off the constraints"),
        ({"span": -1.0}, ValueError, "span must be positive"),
        ({"free": ["w"]}, ValueError, "free"),
        ({"guess": [1.0]}, ValueError, "guess must be controls"),
        ({"bounds": (1.0, 0.0)}, ValueError, "lower must be below"),
    ],
)
def test_bad_input_is_named(options, error, words):
    given = {"start": [0.0, -1.0], "end": [1.0, 0.0], "n_controls": 2, "span": 1.0, "n_steps": 4} | options
    with pytest.raises(error, match=words):
        shooting_control(PENDULUM, **given)


def test_an_end_that_is_not_reached_is_said():
    stuck = gn.System(Translations(2), metric=np.eye(2), forces=lambda t, x, xi, u: jnp.stack([u[0], 0.0 * u[0]]))
    with pytest.raises(RuntimeError, match="terminal residual is"):
        shooting_control(stuck, end=[1.0, 1.0], n_controls=1, span=1.0, n_steps=4)
