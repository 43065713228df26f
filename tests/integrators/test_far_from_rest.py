"""Lagrangians that are not quadratic in ξ, far from ξ = 0: near the speed of light, and where inertia grows as |ξ|²."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import geonh as gn
from geonh.diagnostics.reference import reference_trajectory
from geonh.groups import SO3, Translations
from geonh.integrators.node import Outcome
from geonh.integrators.validity import Result, judge

METHODS = {"projected": 2, "gni": 2, "rkmk4": 4, "gauss4": 4, "lobatto4": 4, "rk4": 4}
"""Methods and their orders."""


@functools.cache
def particle():
    """A relativistic particle of mass 1 on a spring, c = 1."""
    return gn.System(
        Translations(3),
        lagrangian=lambda x, v, p: -jnp.sqrt(1 - v @ v) - p["k"] / 2 * x @ x,
        parameters={"k": 0.8},
        name="relativistic",
    )


@functools.cache
def body():
    """A body whose energy ends at 5ωᵀJω = 1, on SO(3), with a nonholonomic constraint that turns with it."""
    J = np.diag([1.0, 2.0, 1.5])
    return gn.System(
        SO3(),
        lagrangian=lambda R, w: -5 * jnp.sqrt(1 - 0.2 * (w @ J @ w)) - 0.4 * R[2, 2],
        distribution=gn.Distribution(lambda R: [[0.2, R[0, 1], 1.0]]),
        name="relativistic body",
    )


def quartic(eps):
    return gn.System(Translations(2), lagrangian=lambda x, v: (v @ v) ** 2 / 4 + eps / 2 * v @ v - x[0])


@functools.cache
def charge():
    """A relativistic charge in a magnetic field, whose momenta keep their length."""
    return gn.System(
        Translations(2),
        lagrangian=lambda x, v: -jnp.sqrt(1 - v @ v) + (x[0] * v[1] - x[1] * v[0]) / 2,
        name="charge",
    )


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [2.0, 2.0 + 1e-12, 4.0, 8.0, 16.0, 30.0, 1e3, 1e4])
def test_momenta_that_parts_of_a_correction_meet(gamma):
    """From rest the way to γ = 2ⁿ ends exactly at a part of a correction; beyond, the gap 1 − v is far below v."""
    size = np.sqrt((gamma - 1) * (gamma + 1))
    angle = np.linspace(0, 2 * np.pi, 500)
    p = size * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    x, free = np.zeros(2), particle_in_plane()
    v = np.asarray(jax.jit(jax.vmap(lambda p: free.velocity(x, p)))(p))
    np.testing.assert_allclose(v, p / gamma, atol=3e-16)
    again = np.asarray(jax.jit(jax.vmap(lambda v: free.momentum(x, v)))(v))
    assert np.abs(again - p).max() / size < 4e-16 * gamma**2


@functools.cache
def particle_in_plane():
    return gn.System(Translations(2), lagrangian=lambda x, v: -jnp.sqrt((1 - v[0]) * (1 + v[0]) - v[1] ** 2))


@pytest.mark.parametrize(
    ("method", "error"), [("projected", 1e-6), ("gni", 1e-5), ("gauss4", 1e-6), ("lobatto4", 1e-13)]
)
@pytest.mark.quick("projected-1e-06")
def test_circles_of_a_charge_near_the_speed_of_light(method, error):
    """γ = 1000, turned by 1e-4 rad in a step: a velocity known as well as its rounding allows knows p to 1e-10."""
    gamma, n = 1e3, 5000
    v = np.sqrt((gamma - 1) * (gamma + 1)) / gamma
    run = gn.solve(charge(), method, g0=[0.0, 0.0], xi0=[v, 0.0], dt=1e-4 * gamma, n_steps=n, save_every=100)
    assert run.success
    assert np.abs(run.energy / run.energy[0] - 1).max() < error


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("speed", [0.9, 0.99])
def test_a_relativistic_particle(speed, method):
    """Against ẋ = p/√(1 + p²), ṗ = −kx."""
    v = speed * np.array([2.0, -1.0, 2.0]) / 3
    x0, n, dt = np.array([0.3, 0.2, -0.1]), 100, 0.01
    run = gn.solve(particle(), method, g0=x0, xi0=v, dt=dt, n_steps=n)
    path = solve_ivp(
        lambda t, y: np.concatenate([y[3:] / np.sqrt(1 + y[3:] @ y[3:]), -0.8 * y[:3]]),
        (0.0, n * dt),
        np.concatenate([x0, v / np.sqrt(1 - v @ v)]),
        method="DOP853",
        rtol=1e-12,
        atol=1e-13,
    )
    x, p = path.y[:3, -1], path.y[3:, -1]
    tolerance = 1e-4 if METHODS[method] == 2 else 1e-9
    np.testing.assert_allclose(run.g[-1], x, rtol=0, atol=tolerance)
    np.testing.assert_allclose(run.xi[-1], p / np.sqrt(1 + p @ p), rtol=0, atol=tolerance)
    np.testing.assert_allclose(run.energy, run.energy[0], rtol=100 * tolerance)
    np.testing.assert_allclose(run.energy, np.sqrt(1 + np.sum(run.p**2, axis=1)) + 0.4 * np.sum(run.g**2, axis=1))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.quick("gauss4")
def test_a_body_with_a_constraint(method):
    xi0 = body().project(None, [1.0, 1.0, -0.5])
    xi0 = xi0 * np.sqrt(0.9 / (0.2 * xi0 @ np.diag([1.0, 2.0, 1.5]) @ xi0))
    run = gn.solve(body(), method, xi0=xi0, dt=0.01, n_steps=100)
    g, xi = reference_trajectory(body(), [0.0, 1.0], xi0)
    tolerance = 1e-4 if METHODS[method] == 2 else 1e-8
    np.testing.assert_allclose(run.g[-1], g[-1], rtol=0, atol=tolerance)
    np.testing.assert_allclose(run.xi[-1], xi[-1], rtol=0, atol=tolerance)
    assert np.abs(run.constraint_residual).max() < (1e-12 if method != "rk4" else 1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_it_may_be_accelerated_past_where_a_step_from_rest_leads_out(method):
    """p = mc: M(0)⁻¹p is then faster than light."""
    system = gn.System(Translations(2), lagrangian=lambda x, v: -jnp.sqrt(1 - v @ v) + 0.5 * x[0])
    run = gn.solve(system, method, xi0=[0.5, 0.0], dt=0.01, n_steps=200)
    p = 0.5 / np.sqrt(0.75) + 0.5 * run.t
    np.testing.assert_allclose(run.xi[:, 0], p / np.sqrt(1 + p * p), rtol=0, atol=1e-10)


@pytest.mark.parametrize("eps", [1e-3, 1e-6])
@pytest.mark.parametrize("method", ["projected", "gauss4", "lobatto4", "rk4"])
@pytest.mark.quick("rk4-1e-06")
def test_a_quartic_lagrangian(method, eps):
    """ṗ = e₁: the momenta are exact."""
    run = gn.solve(quartic(eps), method, xi0=[1.0, 0.3], dt=0.01, n_steps=50)
    p = run.p[0] - np.outer(run.t, [1.0, 0.0])
    np.testing.assert_allclose(run.p, p, rtol=0, atol=1e-9)
    np.testing.assert_allclose(np.sum(run.xi**2, axis=1)[:, None] * run.xi + eps * run.xi, run.p, rtol=0, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["projected", "rkmk4", "gauss4"])
def test_derivatives_are_those_of_differences(method):
    def end(v, **options):
        run = gn.integrate(particle(), method, xi0=v, dt=0.01, n_steps=20)
        return run.xi[-1] @ jnp.array([1.0, 2.0, -1.0]) + run.energy[-1]

    v, h = 0.95 * np.array([2.0, -1.0, 2.0]) / 3, 1e-6
    with gn.float64():
        slope = jax.grad(end)(jnp.asarray(v))
        differences = [(end(v + h * e) - end(v - h * e)) / (2 * h) for e in np.eye(3)]
    assert np.all(np.isfinite(slope))
    np.testing.assert_allclose(slope, differences, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["projected", "rkmk4", "lobatto4"])
def test_members_of_an_ensemble_have_the_bits_of_their_own_runs(method):
    """Slow and fast ones beside each other in the lanes."""
    speeds = np.array([0.0, 0.1, 0.69, 0.72, 0.9, 0.99, 0.999])
    xi0 = speeds[:, None] * np.array([2.0, -1.0, 2.0]) / 3
    runs = gn.solve_ensemble(particle(), method, xi0=xi0, dt=0.01, n_steps=30, save_every=10)
    assert runs.success.all()
    for i, v in enumerate(xi0):
        one = gn.solve(particle(), method, xi0=v, dt=0.01, n_steps=30, save_every=10)
        np.testing.assert_array_equal(runs.g_vector[i], one.g_vector)
        np.testing.assert_array_equal(runs.p_minus[i], one.p_minus)
        np.testing.assert_allclose(runs.xi[i], one.xi, rtol=0, atol=1e-14)


@pytest.mark.parametrize("case", range(6))
@pytest.mark.quick("0")
def test_velocities_of_momenta_wherever_a_lagrangian_is_convex(case):
    rng = np.random.default_rng(0)
    J = np.diag([1.0, 10.0, 0.1])
    u = rng.normal(size=(50, 3))
    unit = u / np.linalg.norm(u, axis=1)[:, None]
    cases = [
        (lambda x, v: -jnp.sqrt(1 - v @ v), np.concatenate([s * unit for s in (0.5, 0.9, 0.99, 0.9999, 0.999999)])),
        (lambda x, v: -jnp.sqrt(1 - v @ J @ v) + 20 * v[1], 0.99 * unit / np.sqrt(np.diag(J))),
        (lambda x, v: jnp.sum(v**4) / 4 + 5e-7 * v @ v, u),
        (lambda x, v: jnp.sqrt(1 + v @ v), 10 * u),
        (lambda x, v: jnp.sum(jnp.cosh(v)), 5 * u),
        (lambda x, v: -jnp.sum(jnp.log(1 - v**2)), np.tanh(2 * u)),  # beyond its end it has slopes that are numbers
    ]
    lagrangian, velocities = cases[case]
    system = gn.System(Translations(3), lagrangian=lagrangian)
    with gn.float64():
        there = jax.jit(jax.vmap(lambda v: system.velocity(jnp.zeros(3), system.momentum(jnp.zeros(3), v))))
        np.testing.assert_allclose(there(jnp.asarray(velocities)), velocities, rtol=1e-8, atol=1e-9)


def test_a_node_whose_momentum_no_velocity_has_is_no_success():
    system = gn.System(Translations(1), lagrangian=lambda x, v: jnp.sqrt(1 + v @ v))
    with gn.float64():
        for p, expected in ((0.6, Result.SUCCESS), (1.2, Result.METRIC), (np.nan, Result.NOT_FINITE)):
            node = judge(system, None, Outcome(jnp.zeros(1), jnp.full(1, p), jnp.full(1, p)))
            assert Result(int(node.status)) is expected


def test_a_start_is_projected_into_the_domain():
    system = gn.System(
        Translations(2),
        lagrangian=lambda x, v: -jnp.sqrt(1 - v @ v),
        distribution=gn.Distribution(lambda x: [[0.0, 1.0]]),
    )
    np.testing.assert_allclose(system.project(None, [0.9, 0.9]), [0.9, 0.0])


WAVY = {  # ℓ, and a start at which its Hessian is positive, but not all the way from rest
    "another branch": (lambda x, v: v @ v / 2 - 2 * jnp.cos(v[0]) - x @ x / 2, [5.0, 0.05]),
    "another branch, small": (lambda x, v: 5e13 * v @ v - 2 * jnp.cos(1e7 * v[0]), [5e-7, 5e-9]),
    "a double well": (lambda x, v: jnp.sum(v**4) / 4 - v @ v / 2 - x @ x / 2, [1.1, 1.3]),
    "no inertia at rest": (lambda x, v: jnp.sum(v**4) / 4 - x @ x / 2, [1.0, 1.0]),
    "no number at rest": (lambda x, v: -jnp.sqrt(1 - jnp.sum((v - 1.2) ** 2)) - x @ x / 2, [1.5, 1.1]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WAVY)
def test_a_velocity_that_its_momentum_does_not_determine_is_refused(name):
    """Nodes are momenta; velocities are found from them beginning at rest, and another one would be in silence."""
    lagrangian, xi0 = WAVY[name]
    system, at = gn.System(Translations(2), lagrangian=lagrangian), {"g0": [0.1, 0.2], "dt": 1e-3, "n_steps": 5}
    for method in METHODS:
        with pytest.raises(ValueError, match="is not what its momentum determines"):
            gn.solve(system, method, xi0=xi0, **at)
    runs = gn.solve_ensemble(system, xi0=[xi0, [0.1, 0.1]], **at) if name == "another branch" else None
    assert runs is None or runs.status.tolist() == [Result.START, Result.SUCCESS]
    with gn.float64():
        nodes = jax.jit(lambda xi: gn.integrate(system, xi0=xi, **at))(jnp.array(xi0))
    assert np.all(nodes.status != 0)
