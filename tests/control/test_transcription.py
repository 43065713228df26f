"""Transcription with constraints on positions and with functions of the time: derivatives, references, ends."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_optimal import thrust_and_torque

import geonh as gn
from geonh.control import optimal_control
from geonh.control.ends import Ends
from geonh.control.phases import Phase
from geonh.control.steering import steering_problem
from geonh.control.transcription import DiscreteMotion, Transcription
from geonh.control.wanted import Wanted
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


def a_problem(method, n_steps=4, **options):
    start = BODY.project_position(np.array([0.2, 0.8, -0.5]), 0.3)
    end = BODY.project_position(np.array([0.5, 0.9, 0.1]), 1.1)
    rest = np.zeros(3)
    xi_end = options.get("xi_end", BODY.project(end, rest, t0=1.1)[1])
    wanted = Wanted(
        cost=lambda t, g, xi, u: u @ u * (1 + g[1] ** 2) + t * xi[0] * g[2],
        terminal_cost=lambda t, g, xi: t * xi @ xi,
        bounds=(-1.0, 1.0),
        rates=(-3.0, 3.0),
        limits={"x": (-2.0, 2.0), "omega": (-1.0, 1.0)},
        path=(lambda t, g, xi, u: jnp.stack([g[0] * xi[1], u[0] * jnp.sin(t)]), -5.0, 5.0),
        terminal=(lambda t, g, xi, u: jnp.stack([t * xi[0] * g[1], xi[1] * g[2] * t]), [-5.0, 0.3], [5.0, 0.3]),
    )
    ends = Ends(start, BODY.project(start, rest, t0=0.3)[1], end, xi_end, options.get("free", ()))
    phases = options.get("phases", (Phase("body", BODY, 0.8, n_steps),))
    free_span = options.get("free_span", True)
    steering = steering_problem(phases, method, ends, wanted, n_controls=2, free_span=free_span, t0=0.3)
    problem = Transcription(phases, method, steering)
    rng = np.random.default_rng(5)
    nodes = start + np.linspace(0, 1, n_steps + 1)[:, None] * (end - start)
    nodes[1:-1] += 0.05 * rng.normal(size=(n_steps - 1, 3))
    xi, u = 0.2 * rng.normal(size=(n_steps + 1, 3)), rng.normal(size=(n_steps + 1, 2))
    return problem, DiscreteMotion(nodes, xi, u, steering.spans, 0.3), rng


def richardson(of, h=1e-3):
    """First and second derivative of a function at 0, by differences of order 4."""
    far, near = ((of(s * h) - of(-s * h)) / (2 * s * h) for s in (2, 1))
    first = (4 * near - far) / 3
    far, near = ((of(s * h) + of(-s * h) - 2 * of(0.0)) / (s * h) ** 2 for s in (4, 2))
    return first, (4 * near - far) / 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "options"),
    [
        (gn.RKMK(4), {}),
        (gn.SymmetricProjection(), {}),
        (gn.SymmetricProjection(), {"free": ("omega",), "xi_end": "free"}),
    ],
    ids=["rkmk4", "projection", "free"],
)
def test_derivatives_are_exact(method, options):
    """Of values, at a motion and at a step from it, against differences; what is given is not moved."""
    problem, motion, rng = a_problem(method, **options)
    z, base = (np.where(problem.given, 0.0, rng.normal(size=problem.size)) for _ in range(2))
    shapes = problem.shapes
    lam, y = (rng.normal(size=a.intervals * problem.n_steps + a.end) for a in shapes[:2])
    for step in (0.0 * base, 0.1 * base):
        at = problem.linearised(motion, lam, y, 0.7, step)

        def along(s, step=step):
            now = problem.values(motion, step + s * z)
            return np.concatenate([now.equations, now.inequalities, [now.cost]])

        first, second = richardson(along)
        found = np.concatenate([at.equations.along(z), at.inequalities.along(z), [at.gradient @ z]])
        np.testing.assert_allclose(found, first, rtol=1e-7, atol=1e-8 * np.abs(first).max())
        inner, end = problem.columns
        bend = np.einsum("ki,kij,kj", z[inner], at.hessian.intervals, z[inner])
        bend += np.einsum("ki,kij,kj", z[end], at.hessian.end, z[end])
        np.testing.assert_allclose(bend, np.concatenate([lam, y, [0.7]]) @ second, rtol=1e-5)
    moved = problem.moved(motion, 0.1 * base)
    one, other = problem.values(moved), problem.values(motion, 0.1 * base)
    np.testing.assert_allclose(one.equations, other.equations, atol=1e-12)
    assert abs(one.cost - other.cost) < 1e-12


PENDULUM = gn.System(
    Translations(2),
    metric=[1.0, 1.0],
    potential=lambda x: 9.81 * x[1],
    holonomic=lambda x: (x @ x - 1.0)[None] / 2,
    forces=lambda t, x, xi, u: u,
    name="pendulum",
)


def tangential(t, q, xi, u):
    return jnp.stack([u[0] * jnp.cos(q[0]) + u[1] * jnp.sin(q[0])])


ANGLE = gn.System(Translations(1), metric=[1.0], potential=lambda q: -9.81 * jnp.cos(q[0]), forces=tangential)


def _limit(values):
    """Of values at K, 2K, 4K, with an error of order 2, and the ratio of their differences."""
    a, b, c = values
    return c + (c - b) / 3, (a - b) / (b - c)


@pytest.mark.slow
def test_a_pendulum_in_cartesian_coordinates_is_the_one_in_an_angle():
    b, costs = 1.2, {"cartesian": [], "angle": []}
    for K in (10, 20, 40):
        options = {"n_controls": 2, "span": 1.0, "n_steps": K}
        result = optimal_control(PENDULUM, start=[0.0, -1.0], end=[np.sin(b), -np.cos(b)], **options)
        assert result.residual < 1e-11
        run = result.trajectory()
        np.testing.assert_allclose(run.g, result.g, atol=1e-11)
        np.testing.assert_allclose(run.xi[-1], 0.0, atol=1e-11)
        assert np.abs(run.holonomic_residual).max() < 1e-14
        costs["cartesian"].append(result.cost)
        angle = optimal_control(ANGLE, start=[0.0], end=[b], method="projected", **options)
        costs["angle"].append(angle.cost)
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


@pytest.mark.slow
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
        seen = optimal_control(SEEN_FROM_IT, start=[0.0], end=[b], method="projected", **options)
        costs[1].append(seen.cost)
    (limit, ratio), (known, _) = map(_limit, costs)
    assert abs(ratio - 4) < 0.3
    assert abs(limit / known - 1) < 2e-4


@pytest.mark.slow
def test_everything_at_once_is_the_same_by_both_methods():
    """A group, φ(t, x), affine forms and a metric that depend on the time; RKMK(4) leaves φ = 0 by its error."""
    problem, *_ = a_problem(gn.SymmetricProjection())
    steering = problem.steering
    options = {
        "start": steering.start,
        "xi_start": steering.xi_start,
        "end": steering.end,
        "xi_end": steering.conditions.xi_end,
        "t0": steering.t0,
    }
    options |= {"n_controls": 2, "span": 0.8, "cost": steering.conditions.cost.function}
    best = optimal_control(BODY, **options, n_steps=80)  # with 40 steps only a minimum of 9400 is found
    result = [optimal_control(BODY, **options, n_steps=K, guess=best) for K in (80, 160, 320)]
    for one in result:
        run = one.trajectory()
        np.testing.assert_allclose(run.g, one.g, atol=1e-10)
        np.testing.assert_allclose(run.xi[-1], steering.conditions.xi_end, atol=1e-9)
        assert np.abs(run.holonomic_residual).max() < 1e-14
    (limit, ratio) = _limit([one.cost for one in result])
    known = optimal_control(BODY, **options, n_steps=80, guess=best, method="rkmk4")
    assert abs(ratio - 4) < 0.2
    assert abs(limit / known.cost - 1) < 1e-5


@pytest.mark.slow
def test_an_end_that_is_free_stays_on_the_constraint():
    options = {"start": [0.0, -1.0], "end": [0.6, -0.8], "n_controls": 2, "span": 1.0, "n_steps": 20}
    high = optimal_control(PENDULUM, **options, free=["vx"], xi_end="free")  # at that height: φ tells the rest
    np.testing.assert_allclose(high.g[-1], [0.6, -0.8], atol=1e-9)
    assert np.abs(high.trajectory().holonomic_residual).max() < 1e-14


@pytest.mark.slow
def test_an_end_anywhere_is_the_start_where_rest_costs_nothing():
    options = {"start": [0.0, -1.0], "end": [0.6, -0.8], "n_controls": 2, "span": 1.0, "n_steps": 8}
    anywhere = optimal_control(PENDULUM, **options, free=["vx", "vy"])
    np.testing.assert_allclose(anywhere.g[-1], [0.0, -1.0], atol=1e-9)
    assert anywhere.cost < 1e-15
    assert anywhere.error < 1e-4


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
