"""Model predictive control: plans that recede, against the optimum over the horizon, obstacles, disturbances."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_optimal import MASS, SLEIGH

import geonh as gn
from geonh.control import mpc, optimal_control


def to_the_origin(t, g, xi, u):
    return g @ g + 0.5 * xi @ xi + 0.3 * u @ u


def simulated(controller, system, g, xi, dt, n, t=0.0):
    """States and controls of a run with a controller, whose controls are held for dt."""
    states, controls = [(g, xi)], []
    for _ in range(n):
        u = controller(t, g, xi)
        held = np.tile(u, (3, 1))
        run = gn.solve(system, "projected", g0=g, xi0=xi, t0=t, dt=dt / 2, n_steps=2, controls=held)
        g, xi, t = run.g[-1], run.xi[-1], t + dt
        states.append((g, xi))
        controls.append(u)
    return np.array([s[0] for s in states]), np.array([s[1] for s in states]), np.array(controls)


@pytest.mark.slow
def test_a_first_plan_is_the_optimum_of_the_horizon():
    options = {"n_controls": 1, "n_steps": 20, "cost": to_the_origin, "bounds": (-1.0, 1.0)}
    controller = mpc(MASS, horizon=4.0, barrier=1e-9, **options)
    known = optimal_control(MASS, span=4.0, start=[1.0], xi_start=[0.4], t0=2.0, **options)
    u = controller(2.0, [1.0], [0.4])
    np.testing.assert_allclose(controller.plan.u, known.u, atol=1e-5)
    np.testing.assert_allclose(u, known.u[0], atol=1e-5)
    assert controller.plan.t0 == 2.0


@pytest.mark.slow
def test_one_newton_step_for_each_state_follows_the_solutions():
    """Of a linear system without bounds it is exact: the same as plans that are solved anew."""
    options = {"n_controls": 1, "n_steps": 20, "horizon": 4.0, "cost": to_the_origin}
    followed, anew = mpc(MASS, **options), []
    g, xi, u = simulated(followed, MASS, np.array([1.0]), np.array([0.4]), 0.2, 20)
    for k in range(0, 20, 4):
        anew.append(mpc(MASS, **options)(0.2 * k, g[k], xi[k]))
    np.testing.assert_allclose(u[::4], np.array(anew), atol=1e-9)
    assert followed.solved == 1
    assert abs(g[-1, 0]) < 0.15


@pytest.mark.slow
def test_a_sleigh_goes_round_an_obstacle_in_spite_of_a_push():
    def cost(t, g, xi, u):
        return (xi[1] - 1.0) ** 2 + g[2] ** 2 + 0.3 * g[0] ** 2 + 0.05 * u @ u

    def distance(t, g, xi, u):
        return (g[1] - 2.5) ** 2 + (g[2] + 0.2) ** 2

    controller = mpc(
        SLEIGH,
        n_controls=2,
        horizon=2.0,
        n_steps=20,
        cost=cost,
        bounds=(-5.0, 5.0),
        path=(distance, 0.6**2, np.inf),
    )
    g, xi, u = simulated(controller, SLEIGH, np.zeros(3), np.zeros(3), 0.1, 25)
    pushed = np.array([g[-1, 0] + 0.1, g[-1, 1], g[-1, 2] + 0.05])
    g2, xi2, u2 = simulated(controller, SLEIGH, pushed, xi[-1], 0.1, 30, 2.5)
    near = np.sqrt([distance(0, a, 0, 0) for a in (*g, *g2)]).min()
    assert 0.57 < near < 0.7
    assert np.abs([*u, *u2]).max() <= 5.0
    assert abs(g2[-1, 2]) < 0.1
    assert abs(xi2[-1, 1] - 1.0) < 0.1
    assert controller.solved <= 3


@pytest.mark.slow
def test_what_is_wrong_is_said():
    with pytest.raises(ValueError, match="barrier must be positive"):
        mpc(MASS, n_controls=1, horizon=1.0, n_steps=4, barrier=0.0)
    controller = mpc(MASS, n_controls=1, horizon=1.0, n_steps=4, end=[0.0])
    with pytest.raises(ValueError, match="there is no plan yet"):
        _ = controller.plan
    for t in (0.0, -1e308, 1e308):  # from any other time a plan begins anew
        np.testing.assert_allclose(controller(t, [0.0], [0.0]), 0.0, atol=1e-9)
    with pytest.raises(ValueError, match="xi must have shape"):
        controller(0.0, [0.0], [0.0, 1.0])
    with pytest.raises(RuntimeError, match="no plan of mass"):
        mpc(MASS, n_controls=1, horizon=1.0, n_steps=4, end=[1.0], bounds=(-0.1, 0.1))(0.0, [0.0], [0.0])
    controller = mpc(MASS, n_controls=1, horizon=1.0, n_steps=4, end=[0.0])
    for name in ("t", "g", "xi"):
        given = {"t": 0.0, "g": np.zeros(1), "xi": np.zeros(1)}
        with pytest.raises(TypeError, match=f"^{name} must not be traced"), gn.float64():
            jax.make_jaxpr(lambda value, given=given, name=name: controller(**given | {name: value}))(given[name])


@pytest.mark.slow
@pytest.mark.parametrize("xi", [[0.0, 1e308, 0.0], [1e308, 0.0, 0.0]])
def test_far_too_large_states_are_refused(xi):
    controller = mpc(SLEIGH, n_controls=2, horizon=1.0, n_steps=4, cost=to_the_origin)
    with pytest.raises((ValueError, RuntimeError), match="from this state"):
        controller(0.0, np.zeros(3), xi)


@pytest.mark.slow
def test_a_ball_is_balanced_on_a_plate_that_is_carried_about():
    """The controller does not know how the plate moves; without it the ball is far away after five seconds."""

    def plate(carried):
        def rolls(x):
            return jnp.concatenate([0.1 * jnp.stack([x[0][1], -x[0][0]]), -jnp.eye(2)], axis=1)

        def forces(t, x, xi, u):
            return jnp.concatenate([jnp.zeros(3), 9.81 * u - carried * jnp.stack([jnp.sin(2 * t), jnp.cos(3 * t)])])

        space = gn.groups.Product((gn.groups.SO3(), gn.groups.Translations(2)))
        return gn.System(
            space, metric=[0.004] * 3 + [1.0] * 2, distribution=gn.Distribution(rolls), forces=forces, name="plate"
        )

    balance = mpc(
        plate(0.0),
        n_controls=2,
        horizon=1.0,
        n_steps=15,
        cost=lambda t, g, xi, u: 20 * g[1] @ g[1] + xi[3:] @ xi[3:] + u @ u,
        bounds=(-0.3, 0.3),
        limits={"x": (-0.5, 0.5), "y": (-0.5, 0.5)},
    )
    g, xi, way, moved = (np.eye(3), np.array([0.3, -0.2])), np.zeros(5), [], plate(1.0)
    alone = gn.solve(moved, g0=g, xi0=xi, dt=0.025, n_steps=200, controls=lambda t: jnp.zeros(2))
    for k in range(100):
        u = balance(0.05 * k, g, xi)
        run = gn.solve(moved, "projected", g0=g, xi0=xi, t0=0.05 * k, dt=0.025, n_steps=2, controls=np.tile(u, (3, 1)))
        g, xi = [a[-1] for a in run.g], run.xi[-1]
        way.append(g[1])
    assert np.abs(way).max() < 0.3
    assert np.abs(way[40:]).max() < 0.03
    assert np.abs(alone.g[1][-1]).max() > 1.0
