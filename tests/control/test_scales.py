"""Bodies of any mass, ends at any distance, and numbers that are too large or not finite."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import geonh as gn
from geonh.control import closed_loop, kalman_filter, mpc, optimal_control, tracking
from geonh.groups import SE2, Translations


def sleigh(inertia, mass):
    return gn.System(
        SE2(),
        metric=[inertia, mass, mass],
        distribution=gn.Distribution([[0.0, 0.0, 1.0]]),
        base="point",
        forces=lambda t, x, xi, u: jnp.stack([u[0], u[1], 0.0 * u[0]]),
        name="sleigh",
    )


@pytest.mark.slow
def test_the_cost_of_a_motion_grows_with_the_square_of_all_masses():
    turn = {"end": [0.5, 2.0, 1.0], "n_controls": 2, "span": 4.0, "n_steps": 12, "tries": 1}
    costs, motions = [], []
    for mass in (1.0, 1e6):
        found = optimal_control(sleigh(mass, mass), **turn)
        costs.append(found.cost / mass**2)
        motions.append(found.xi)
        largest = np.abs(found.u).max()
    np.testing.assert_allclose(costs, costs[0], rtol=1e-12)
    np.testing.assert_allclose(motions, np.broadcast_to(motions[0], np.shape(motions)), atol=1e-9)
    bounded = optimal_control(sleigh(1e6, 1e6), **turn, bounds=(-0.8 * largest, 0.8 * largest))
    assert np.abs(bounded.u).max() <= 0.8 * largest
    assert bounded.cost / 1e12 > costs[0]


@pytest.mark.slow
@pytest.mark.parametrize("mass", [1e-6, 4e4])
def test_the_cost_of_a_motion_of_other_masses(mass):
    turn = {"end": [0.5, 2.0, 1.0], "n_controls": 2, "span": 4.0, "n_steps": 12, "tries": 1}
    found, unit = (optimal_control(sleigh(m, m), **turn) for m in (mass, 1.0))
    np.testing.assert_allclose(found.cost / mass**2, unit.cost, rtol=1e-12)
    np.testing.assert_allclose(found.xi, unit.xi, atol=1e-9)


@pytest.mark.slow
def test_a_far_end_has_a_large_cost():
    """12 m²d²/T³ of rest to rest is finite, however far."""
    mass = gn.System(Translations(1), metric=[1.7], forces=lambda t, x, xi, u: u)
    found = optimal_control(mass, end=[1e7], n_controls=1, span=2.0, n_steps=10, tries=1)
    np.testing.assert_allclose(found.cost, 12 * (1.7e7) ** 2 / 8, rtol=1e-3)


@pytest.mark.slow
def test_a_cost_with_a_corner_is_said():
    place = jnp.array([1.0, 0.5])
    with pytest.raises(
        RuntimeError, match="all constraints are met, but no step lowers the cost: it may have a corner"
    ):
        optimal_control(
            sleigh(0.7, 1.3),
            n_controls=2,
            span=2.0,
            n_steps=10,
            tries=1,
            terminal_cost=lambda t, g, xi: 10 * jnp.linalg.norm(g[1:] - place),
        )


@pytest.mark.slow
def test_a_derivative_that_is_not_finite_is_named():
    distance = (lambda t, g, xi, u: jnp.sqrt(g @ g), -1.0, 9.0)
    with pytest.raises(ValueError, match="path: its derivative is not finite at the guess, as that of a root"):
        optimal_control(sleigh(1, 1), end=[1.0, 1.0, 0.0], n_controls=2, span=2.0, n_steps=4, path=distance)


@pytest.mark.slow
def test_plans_from_states_beyond_their_bounds_and_of_a_pendulum():
    cost = {"cost": lambda t, g, xi, u: g @ g + u @ u}
    held = mpc(sleigh(1, 1), n_controls=2, horizon=2.0, n_steps=12, bounds=(-3, 3), limits={"x": (-1, 1)}, **cost)
    u = held(0.0, [0.0, 1.3, 0.0], np.zeros(3))
    assert np.abs(u).max() <= 3
    assert abs(held.plan.g[-1, 1]) < 1
    pendulum = gn.System(
        Translations(2),
        metric=[1.0, 1.0],
        potential=lambda x: 9.81 * x[1],
        holonomic=lambda x: jnp.stack([x @ x - 1.0]),
        forces=lambda t, x, xi, u: u[0] * jnp.stack([-x[1], x[0]]),
    )
    swing = mpc(pendulum, n_controls=1, horizon=1.0, n_steps=12, cost=lambda t, g, xi, u: xi @ xi + u @ u)
    assert np.isfinite(swing(0.0, [1.0, 0.0], [0.0, 0.0])).all()
    np.testing.assert_allclose(np.linalg.norm(swing.plan.g, axis=1), 1.0, atol=1e-12)


@pytest.mark.slow
def test_a_filter_keeps_its_belief_where_an_observation_is_not_finite():
    plane = gn.System(Translations(2), metric=[1.0, 1.0])
    given = {"errors": [0.3] * 4, "sigma": 0.05, "dt": 0.1}
    watch = kalman_filter(plane, lambda g, xi: jnp.sqrt(g @ g)[None], **given)
    with pytest.raises(ValueError, match="the derivative of observe is not finite near the belief"):
        watch([0.1])
    assert watch.belief.t == 0.0
    watch()
    assert watch.belief.t == 0.1
    for errors, words in {
        (-1.0, 1.0, 1.0, 1.0): "errors must be standard deviations between 0",
        (1e200,) * 4: "errors must be standard deviations between 0 and 1e",
    }.items():
        with pytest.raises(ValueError, match=words):
            kalman_filter(plane, lambda g, xi: g, **given | {"errors": errors})
    with pytest.raises(ValueError, match="errors must be symmetric"):
        kalman_filter(plane, lambda g, xi: g, **given | {"errors": np.eye(4) + np.eye(4, k=1) / 2})
    exact = kalman_filter(plane, lambda g, xi: g, errors=[0.0] * 4, sigma=1e-200, dt=0.1)
    with pytest.raises(ValueError, match="too large or too small"):
        exact([0.1, 0.2])


@pytest.mark.slow
def test_what_no_regulator_holds_is_said():
    motion = optimal_control(sleigh(1, 1), end=[0.5, 2.0, 1.0], n_controls=2, span=4.0, n_steps=12, tries=1)
    C = np.random.default_rng(1).normal(size=(2, 6))
    assert np.isfinite(tracking(motion, weights=C.T @ C).gains).all()
    with pytest.raises(ValueError, match="weights must be symmetric"):
        tracking(motion, weights=np.eye(6) + np.eye(6, k=1))
    falling = gn.System(
        Translations(2),
        metric=[1.0, 1.0],
        potential=lambda x: -200 * x[1] ** 2,
        forces=lambda t, x, xi, u: jnp.stack([u[0], 0.0 * u[0]]),
    )
    run = gn.solve(falling, xi0=[0.0, 0.0], dt=0.05, n_steps=200, controls=lambda t: jnp.sin(t) * jnp.ones(1))
    with pytest.raises(ValueError, match="an unstable direction that the controls do not change"):
        tracking(run)
    back = gn.solve(falling, "rkmk4", xi0=[0.0, 0.0], dt=-0.05, n_steps=20, controls=lambda t: jnp.ones(1))
    with pytest.raises(ValueError, match="motion must run forwards"):
        tracking(back)
    with pytest.raises(TypeError, match="law returned None"):
        closed_loop(falling, lambda t, g, xi: None)
    with pytest.raises(ValueError, match=r"law returns a value of shape \[\], which the forces do not take"):
        closed_loop(falling, lambda t, g, xi: 1.0)


@pytest.mark.slow
def test_one_torque_turns_a_body():
    """About three axes, from rest to rest; found from motions under waves of the torque, where paths lead nowhere."""
    torque = np.array([1.0, 0.5, 0.2])
    body = gn.System(gn.groups.SO3(), metric=[1.0, 2.0, 3.0], forces=lambda t, x, xi, u: u[0] * torque)
    end = Rotation.from_rotvec([0.3, 0.4, 0.2]).as_matrix()
    found = optimal_control(body, end=end, n_controls=1, span=6.0, n_steps=20)
    assert found.cost < 45
    assert found.residual < 1e-12
    run = found.trajectory()
    np.testing.assert_allclose(run.g[-1], end, atol=1e-9)
