"""Transcription with constraints on positions and with functions of the time: derivatives, references, ends."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_optimal import thrust_and_torque
from test_shooting import ANGLE, PENDULUM

import geonh as gn
from geonh.control import optimal_control, shooting_control
from geonh.control.chart import ChartPoint
from geonh.control.steering import steering_problem
from geonh.control.transcription import DiscreteMotion, Transcription
from geonh.groups import SE2, Translations


def on_a_moving_circle(t, x, p):
    theta, place = x[0], x[1:]
    tip = place + 0.3 * jnp.stack([jnp.cos(theta), jnp.sin(theta)]) - jnp.stack([p["a"] * jnp.sin(2 * t), 0.0 * t])
    return (tip @ tip - 1.0)[None] / 2


def skewed(t, x, p):
    return jnp.stack([jnp.stack([0.2 * jnp.sin(x[1]), 0.1 * t, 1.0 + 0.0 * t])])


# Everything at once: a group, φ(t, x), forms and a rate that depend on (t, x), forces that depend on the velocity.
BODY = gn.System(
    SE2(),
    metric=gn.time_dependent(lambda t, x: jnp.diag(jnp.stack([1.0 + 0.2 * jnp.sin(t), 2.0 + 0.1 * x[1] ** 2, 2.0]))),
    potential=lambda x: x[2],
    holonomic=gn.time_dependent(on_a_moving_circle),
    distribution=gn.AffineDistribution(
        forms=gn.time_dependent(skewed), rhs=gn.time_dependent(lambda t, x: jnp.stack([0.1 * jnp.cos(t)]))
    ),
    forces=lambda t, x, xi, u: thrust_and_torque(t, x, xi, u) - 0.1 * xi,
    parameters={"a": 0.1},
    name="body",
)


def a_problem(n_steps=4, **options):
    start = BODY.project_position(np.array([0.2, 0.8, -0.5]), 0.3)
    end = BODY.project_position(np.array([0.5, 0.9, 0.1]), 1.1)
    rest = np.zeros(3)
    given = {"free": (), "xi_end": BODY.project(end, rest, t0=1.1)[1], "cost": lambda t, g, u: u @ u * (1 + g[1] ** 2)}
    steering = steering_problem(
        BODY,
        gn.SymmetricProjection(),
        end=end,
        n_controls=2,
        span=0.8,
        start=start,
        xi_start=BODY.project(start, rest, t0=0.3)[1],
        t0=0.3,
        **(given | options),
    )
    problem = Transcription(BODY, gn.SymmetricProjection(), steering, True, n_steps)
    rng = np.random.default_rng(5)
    nodes = start + np.linspace(0, 1, n_steps + 1)[:, None] * (end - start)
    nodes[1:-1] += 0.05 * rng.normal(size=(n_steps - 1, 3))
    return problem, DiscreteMotion(nodes, rng.normal(size=(n_steps + 1, 2)), 0.8), rng


@pytest.mark.parametrize("options", [{}, {"free": ("omega",), "xi_end": "free"}])
def test_derivatives_are_exact(options):
    problem, motion, rng = a_problem(**options)
    z = rng.normal(size=problem.size)
    lam = rng.normal(size=problem.n_equations)

    def along(s):
        moved = problem.moved(motion, s * z)
        return np.append(problem.equations(moved), problem.cost(moved).value)

    c, A = problem.jacobian(motion)
    _, slope, bend = problem.cost(motion)
    H = problem.equations_hessian(motion, lam)
    np.testing.assert_allclose(c, problem.equations(motion), atol=1e-13)
    h = 1e-3
    far, near = ((along(s * h) - along(-s * h)) / (2 * s * h) for s in (2, 1))
    first = (4 * near - far) / 3
    np.testing.assert_allclose(np.append(A @ z, slope @ z), first, rtol=1e-8, atol=1e-8 * np.abs(first).max())
    far, near = ((along(s * h) + along(-s * h) - 2 * along(0.0)) / (s * h) ** 2 for s in (4, 2))
    second = (4 * near - far) / 3
    np.testing.assert_allclose(z @ H @ z, lam @ second[:-1], rtol=1e-5)
    np.testing.assert_allclose(z @ bend @ z, second[-1], rtol=1e-5)
    assert abs(H - H.T).max() < 1e-13


def test_derivatives_in_a_chart_are_exact():
    problem, guess, rng = a_problem(free=("omega",), xi_end="free")
    z, direction = 0.3 * rng.normal(size=problem.size), rng.normal(size=problem.size)
    lam = rng.normal(size=problem.n_equations)

    def slope(s):
        at = ChartPoint(problem, guess, z + s * direction)
        return at.tangent.T @ (0.7 * at.cost.gradient + at.jacobian.T @ lam)

    at, h = ChartPoint(problem, guess, z), 1e-3
    hessian = at.hessian(lam, 0.7)
    far, near = ((slope(s * h) - slope(-s * h)) / (2 * s * h) for s in (2, 1))
    np.testing.assert_allclose(hessian @ direction, (4 * near - far) / 3, rtol=1e-6, atol=1e-6)
    pattern = np.zeros(hessian.shape, bool)
    pattern[problem.coupled] = True
    assert np.all(pattern | pattern.T | (hessian.toarray() == 0.0))


def _limit(values):
    """Of values at K, 2K, 4K, with an error of order 2, and the ratio of their differences."""
    a, b, c = values
    return c + (c - b) / 3, (a - b) / (b - c)


def test_a_pendulum_in_cartesian_coordinates_is_the_one_in_an_angle():
    b, costs = 1.2, {"cartesian": [], "angle": []}
    for K in (10, 20, 40):
        options = {"n_controls": 2, "span": 1.0, "n_steps": K}
        result = optimal_control(PENDULUM, start=[0.0, -1.0], end=[np.sin(b), -np.cos(b)], **options)
        assert result.iterations <= 6
        assert result.residual < 1e-11
        assert result.curvature > 0
        run = result.trajectory()
        np.testing.assert_allclose(run.g, result.g, atol=1e-11)
        np.testing.assert_allclose(run.xi[-1], 0.0, atol=1e-11)
        assert np.abs(run.holonomic_residual).max() < 1e-14
        costs["cartesian"].append(result.cost)
        costs["angle"].append(optimal_control(ANGLE, start=[0.0], end=[b], **options).cost)
    (limit, ratio), (known, _) = map(_limit, costs.values())
    assert abs(ratio - 4) < 0.2
    assert abs(limit / known - 1) < 5e-5


def pivot(t):
    return 0.3 * jnp.sin(3 * t)


def rod(t, x):
    return ((x[0] - pivot(t)) ** 2 + x[1] ** 2 - 1.0)[None] / 2


def swung(t, q, xi, u):
    """Gravity, the inertial force of the pivot, and the controls."""
    falling = -9.81 * jnp.sin(q[0]) - jax.grad(jax.grad(pivot))(t) * jnp.cos(q[0])
    return jnp.stack([falling + u[0] * jnp.cos(q[0]) + u[1] * jnp.sin(q[0])])


MOVING = gn.System(
    Translations(2),
    metric=[1.0, 1.0],
    potential=lambda x: 9.81 * x[1],
    holonomic=gn.time_dependent(rod),
    forces=lambda t, x, xi, u: u,
    name="pendulum on a cart",
)
SEEN_FROM_IT = gn.System(Translations(1), metric=[1.0], forces=swung)


def test_a_pivot_that_moves_is_an_inertial_force():
    t0, T, b, costs = 0.2, 1.0, 1.0, ([], [])
    for K in (10, 20, 40):
        options = {"n_controls": 2, "span": T, "n_steps": K, "t0": t0}
        start, end = [float(pivot(t0)), -1.0], [float(pivot(t0 + T)) + np.sin(b), -np.cos(b)]
        at_rest = [[float(jax.grad(pivot)(t)), 0.0] for t in (t0, t0 + T)]  # beside the pivot
        result = optimal_control(MOVING, start=start, end=end, xi_start=at_rest[0], xi_end=at_rest[1], **options)
        run = result.trajectory()
        np.testing.assert_allclose(run.g, result.g, atol=1e-11)
        np.testing.assert_allclose(run.xi[-1], at_rest[1], atol=1e-11)
        costs[0].append(result.cost)
        costs[1].append(optimal_control(SEEN_FROM_IT, start=[0.0], end=[b], **options).cost)
    (limit, ratio), (known, _) = map(_limit, costs)
    assert abs(ratio - 4) < 0.3
    assert abs(limit / known - 1) < 2e-4


@pytest.mark.slow
def test_everything_at_once_is_what_shooting_finds():
    """A group, φ(t, x), affine forms and a metric that depend on the time."""
    problem, *_ = a_problem()
    steering = problem.steering
    options = {
        "start": steering.start,
        "xi_start": steering.xi_start,
        "end": steering.end,
        "xi_end": steering.xi_end,
        "t0": steering.t0,
    }
    options |= {"n_controls": 2, "span": 0.8, "cost": steering.cost.function}
    result = [optimal_control(BODY, **options, n_steps=K) for K in (80, 160, 320)]
    for one in result:
        run = one.trajectory()
        np.testing.assert_allclose(run.g, one.g, atol=1e-10)
        np.testing.assert_allclose(run.xi[-1], steering.xi_end, atol=1e-9)
        assert np.abs(run.holonomic_residual).max() < 1e-14
    guess, shots = result[0].u, []
    for K in (160, 320, 640):
        shots.append(shooting_control(BODY, **options, n_steps=K, n_knots=41, guess=guess))
        guess = shots[-1]
    (limit, ratio), (known, _) = (_limit([one.cost for one in ones]) for ones in (result, shots))
    assert abs(ratio - 4) < 0.2
    assert abs(limit / known - 1) < 1e-5


def test_an_end_that_is_free_stays_on_the_constraint():
    options = {"start": [0.0, -1.0], "end": [0.6, -0.8], "n_controls": 2, "span": 1.0, "n_steps": 20}
    high = optimal_control(PENDULUM, **options, free=["vx"], xi_end="free")  # at that height: φ tells the rest
    np.testing.assert_allclose(high.g[-1], [0.6, -0.8], atol=1e-9)
    assert np.abs(high.trajectory().holonomic_residual).max() < 1e-14
    anywhere = optimal_control(PENDULUM, **options, free=["vx", "vy"])
    np.testing.assert_allclose(anywhere.g[-1], [0.0, -1.0], atol=1e-9)  # to hang costs nothing
    assert anywhere.cost < 1e-15


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"end": [2.0, 0.0]}, "end does not satisfy the holonomic"),
        ({"start": [0.0, -1.1]}, "start does not satisfy the holonomic"),
        ({"xi_end": [1.0, 0.0], "end": [1.0, 0.0]}, "xi_end is off the constraints"),
    ],
)
def test_what_is_off_the_constraints_is_named(options, words):
    given = {"start": [0.0, -1.0], "end": [1.0, 0.0], "n_controls": 2, "span": 1.0, "n_steps": 4} | options
    with pytest.raises(ValueError, match=words):
        optimal_control(PENDULUM, **given)
