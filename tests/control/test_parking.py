"""Parking sideways, from no guess at all, within bounds, and on finer and finer grids."""

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.control import optimal_control
from geonh.rolling import knife_edge, planar, planar_body, trailer

SPAN, SIDEWAYS = 6.0, 0.2
END = ([0.0, 0.0, SIDEWAYS], [0.0, 0.0])


@pytest.mark.slow
def test_a_snakeboard_on_finer_and_finer_grids():
    guess, costs = None, []
    for n_steps in (40, 80, 160, 320):
        guess = optimal_control(
            gn.systems.controlled_snakeboard(),
            end=END,
            n_controls=2,
            span=SPAN,
            n_steps=n_steps,
            free=["psi_dot"],
            guess=guess,
        )
        assert guess.residual < 1e-12
        reached = guess.trajectory()
        np.testing.assert_allclose(reached.g[0][-1], END[0], atol=1e-9)
        costs.append(guess.cost)
    falls = np.abs(np.diff(costs))
    assert np.all(falls[:-1] / falls[1:] > 8)  # of order 4 from 80 steps on
    assert abs(falls[-2] / falls[-1] - 16) < 2


def robot(length):
    """A driven body that draws a cart."""
    cart = planar_body(1.0, 0.2, [knife_edge()], (), centre=(0.15, 0.0))
    body = planar_body(1.0, 0.2, [knife_edge()], (trailer(cart, length, name="phi"),), centre=(0.15, 0.0))
    return planar(body, forces=lambda t, x, xi, u: jnp.stack([u[1], u[0], 0.0 * u[0], 0.0 * u[0]]), name="robot")


ASIDE = (np.array([0.0, 0.0, 1.0]), np.zeros(1))


def parked(length, end, n_steps, **options):
    result = optimal_control(robot(length), end=end, n_controls=2, span=6.0, n_steps=n_steps, **options)
    assert result.residual < 1e-11
    if n_steps > 10:  # else a step is too long for Newton's method of a run
        reached = result.trajectory()
        np.testing.assert_allclose(reached.g[0][-1], end[0], atol=1e-9)
        np.testing.assert_allclose(reached.g[1][-1], end[1], atol=1e-9)
    return result


@pytest.mark.slow
def test_a_robot_with_a_trailer_parks_from_no_guess():
    parked(0.8, ASIDE, 12)


@pytest.mark.slow
@pytest.mark.parametrize("n_steps", [8, 10, 14, 16, 20, 30, 40])
def test_it_parks_whatever_the_number_of_steps(n_steps):
    parked(0.8, ASIDE, n_steps)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_it_parks_in_random_poses(seed):
    random = np.random.default_rng(seed)
    pose = np.append(random.uniform(-2, 2), random.uniform(-1, 1, 2))
    parked(random.uniform(0.4, 1.5), (pose, random.uniform(-0.8, 0.8, 1)), int(random.integers(8, 41)))


@pytest.mark.slow
@pytest.mark.parametrize("n_steps", [12, 14, 16, 18])
def test_it_parks_within_bounds(n_steps):
    result = parked(0.8, ASIDE, n_steps, bounds=(-1.5, 1.5))
    assert np.abs(result.u).max() <= 1.5


@pytest.mark.slow
@pytest.mark.parametrize("n_steps", [20, 40])
def test_a_snakeboard_parks_from_a_straight_line(n_steps):
    board = gn.systems.controlled_snakeboard()
    options = {"n_controls": 2, "span": SPAN, "free": ["psi_dot"]}
    # at a right angle the forms of both axles are dependent, and a long step may cross it unseen
    result = optimal_control(board, end=END, n_steps=n_steps, limits={"phi": (-1.2, 1.2)}, **options)
    assert result.cost < 12.0
    np.testing.assert_allclose(result.trajectory().g[0][-1], END[0], atol=1e-9)


def thrust_and_steering(t, x, xi, u):
    return jnp.concatenate([jnp.stack([0.0 * u[0], u[0], 0.0 * u[0], u[1]]), 0.0 * xi[4:]])


@pytest.mark.slow
def test_a_car_with_five_trailers_changes_its_lane():
    """From no guess; its derivatives are those of many forms, by momenta."""
    drawn = ()
    for i in reversed(range(5)):
        body = planar_body(0.5, 0.1, [knife_edge()], drawn)
        drawn = (trailer(body, 1.0, hitch=(-0.3, 0.0), name=f"hitch{i + 1}"),)
    wheels = [knife_edge(), knife_edge(1.2, steered="steer", inertia=0.1)]
    car = planar_body(1.0, 0.2, wheels, drawn, centre=(0.5, 0.0))
    system = planar(car, forces=thrust_and_steering, name="road train")
    limits = {"steer": (-0.6, 0.6)} | {f"hitch{i + 1}": (-1.2, 1.2) for i in range(5)}
    end = (np.array([0.0, 12.0, 2.0]), np.zeros(6))
    found = optimal_control(system, end=end, n_controls=2, span=12.0, n_steps=100, limits=limits, tries=1)
    assert found.iterations < 100
    assert found.residual < 1e-9
    assert abs(found.cost - 14.504) < 1e-3
    np.testing.assert_allclose(found.trajectory().g_vector[-1], np.concatenate(end), atol=1e-6)
