"""Systems of some twenty velocities: arrays in memory, one system in two formulations, ensembles, derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.groups import SO3, Product
from geonh.mechanics import accelerations
from geonh.rolling import knife_edge, planar, planar_body, trailer

MASS, LENGTH, INERTIA, GRAVITY = 1.0, 0.4, np.diag([0.1, 0.12, 0.02]), 9.81
ARM = np.array([0.0, 0.0, -LENGTH])
HAT = np.array([[0.0, LENGTH, 0.0], [-LENGTH, 0.0, 0.0], [0.0, 0.0, 0.0]])


def velocities(x, xi):
    """Velocity and height of the centre of each body of a chain on ball joints, and its angular velocity."""
    v, height = jnp.zeros(3), 0.0
    for i, R in enumerate(x):
        omega = xi[3 * i : 3 * i + 3]
        end = v - R @ (HAT @ omega)
        yield 0.5 * (v + end), height + 0.5 * (R @ ARM)[2], omega
        v, height = end, height + (R @ ARM)[2]


def lagrangian(x, xi):
    parts = [
        0.5 * MASS * (v @ v) + 0.5 * (omega @ (INERTIA @ omega)) - MASS * GRAVITY * z
        for v, z, omega in velocities(x, xi)
    ]
    return sum(parts[1:], parts[0])


def metric(x):
    n = 3 * len(x)
    rows = jax.jacfwd(lambda xi: jnp.stack([v for v, _, _ in velocities(x, xi)]).ravel())(jnp.zeros(n))
    return MASS * rows.T @ rows + jnp.kron(jnp.eye(len(x)), INERTIA)


def potential(x):
    return MASS * GRAVITY * sum(z for _, z, _ in velocities(x, jnp.zeros(3 * len(x))))


def chain(n, **how):
    return gn.System(Product(tuple(SO3() for _ in range(n))), name=f"chain of {n}", **how)


def train(n):
    body = planar_body(1.0, 0.3, [knife_edge()])
    for i in range(n):
        drawn = trailer(body, 1.0, hitch=(-0.3, 0.0), name=f"a{n - 1 - i}")
        body = planar_body(1.0, 0.3, [knife_edge()], [drawn])
    return planar(body, name=f"{n} trailers")


def start(system):
    n = system.group.dim - 3
    g0 = ([0.0, 0.0, 0.0], list(0.2 * np.cos(np.arange(n))))
    return {"g0": g0, "xi0": system.project(g0, np.r_[0.3, 1.0, np.zeros(n + 1)])}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["rkmk4", pytest.param("gauss4", marks=pytest.mark.slow)])
def test_a_lagrangian_and_a_metric_are_one_system(method):
    xi0 = 0.5 * np.sin(np.arange(18) + 1.0)
    one, other = (
        gn.solve(chain(6, **how), method, xi0=xi0, dt=0.005, n_steps=40)
        for how in ({"lagrangian": lagrangian}, {"metric": metric, "potential": potential})
    )
    np.testing.assert_allclose(one.xi[-1], other.xi[-1], rtol=0, atol=1e-11)
    np.testing.assert_allclose(one.energy, other.energy, rtol=0, atol=1e-11)


@pytest.mark.slow
def test_a_long_train_keeps_its_constraints_and_its_energy():
    system = train(15)  # 18 velocities, 16 forms
    run = gn.solve(system, "rkmk4", **start(system), dt=0.005, n_steps=200)
    fine = gn.solve(system, "rkmk4", **start(system), dt=0.0025, n_steps=400)
    assert np.abs(run.constraint_residual).max() < 1e-11
    assert np.abs(run.energy / run.energy[0] - 1).max() < 1e-9
    np.testing.assert_allclose(run.xi[-1], fine.xi[-1], atol=1e-7)


@pytest.mark.slow
def test_a_long_train_loses_few_digits():
    """Rounding of the angles, in velocities of momenta and in accelerations: by the mass matrix, whose entries are
    moments of inertia of the whole train, it would be 50 times as much.
    """
    system = train(20)
    begin = start(system)
    g0, xi = (begin["g0"][0], np.array(begin["g0"][1])), begin["xi0"]
    momentum = system.momentum(system.at(g0), xi)
    rng, found = np.random.default_rng(0), []
    for _ in range(3):
        g = (g0[0], g0[1] * (1 + 1e-16 * rng.choice([-2, 0, 2], size=20)))
        velocity = system.velocity_along(system.at(g), momentum)
        found.append((velocity, accelerations(system, 0.0, g, xi)[0]))
    for values, size in zip(zip(*found, strict=True), (np.abs(xi).max(), np.abs(found[0][1]).max()), strict=True):
        assert np.ptp(values, axis=0).max() < 2e-13 * size
    np.testing.assert_allclose(found[0][0], xi, rtol=0, atol=2e-13)


@pytest.mark.parametrize("method", ["rk4", "rkmk4"])
def test_nodes_tell_of_a_drift_however_small(method):
    """Velocities are put on the constraints where momenta are theirs to rounding: a drift is not mended."""
    system = train(6)
    run = gn.solve(system, method, **start(system), dt=0.01, n_steps=20)
    mended = np.abs(run.constraint_residual[1:]).max(axis=1) < 2e-15
    assert mended.all() if method == "rkmk4" else not mended.any()


@pytest.mark.slow
@pytest.mark.parametrize(("n", "kind"), [(6, "chain"), (12, "chain"), (20, "train")])
def test_gauss_is_of_order_four_and_agrees_with_runge_kutta(n, kind):
    system = chain(n, lagrangian=lagrangian) if kind == "chain" else train(n)
    begin = {"xi0": 0.2 * np.sin(np.arange(3 * n) + 1.0)} if kind == "chain" else start(system)
    span = 0.16 if kind == "chain" else 0.8
    reference = gn.solve(system, "rkmk6", **begin, dt=span / 64, n_steps=64)
    errors = []
    for steps in (16, 32):
        run = gn.solve(system, "gauss4", **begin, dt=span / steps, n_steps=steps)
        errors.append(np.abs(run.xi[-1] - reference.xi[-1]).max())
        assert np.abs(run.constraint_residual[1:]).max(initial=0) < 1e-12
    assert errors[1] < 1e-4
    assert 3.5 < np.log2(errors[0] / errors[1]) < 4.5


@pytest.mark.slow
@pytest.mark.parametrize("method", ["rkmk4", pytest.param("gauss4", marks=pytest.mark.slow)])
def test_members_have_the_bits_of_single_runs(method):
    system = train(20 if method == "gauss4" else 14)  # with Gauss 46 unknowns
    begin = start(system)
    scales = np.array([0.5, 0.8, 1.0, 1.3, 1.7])
    runs = gn.solve_ensemble(
        system, method, g0=begin["g0"], xi0=scales[:, None] * begin["xi0"], dt=0.01, n_steps=30, save_every=1
    )
    for i, scale in enumerate(scales):
        run = gn.solve(system, method, g0=begin["g0"], xi0=scale * begin["xi0"], dt=0.01, n_steps=30, save_every=1)
        np.testing.assert_array_equal(runs.xi[i], run.xi)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["rkmk4", "gauss4", "projected"])
def test_derivatives_of_a_train_are_those_of_differences(method):
    system = train(6)  # 9 velocities, 7 forms: those of the momenta alone, without the mass matrix
    begin = start(system)

    def end(at):
        g0 = (begin["g0"][0], jnp.asarray(begin["g0"][1]) + at[0])
        xi0 = system.project(g0, begin["xi0"] * (1 + at[1]))
        return jnp.sum(jnp.sin(gn.integrate(system, method, g0=g0, xi0=xi0, dt=0.02, n_steps=10).p_minus[-1]))

    with jax.enable_x64(True):
        got = jax.grad(end)(jnp.zeros(2))
        for i, direction in enumerate(np.eye(2)):
            h = 1e-5
            want = (end(jnp.asarray(h * direction)) - end(jnp.asarray(-h * direction))) / (2 * h)
            np.testing.assert_allclose(got[i], want, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["rkmk4", "gauss4"])
def test_derivatives_of_a_run_are_those_of_differences(method):
    system = chain(6, lagrangian=lagrangian)
    xi0 = 0.5 * np.sin(np.arange(18) + 1.0)

    def end(xi0):
        return jnp.sum(jnp.sin(gn.integrate(system, method, xi0=xi0, dt=0.01, n_steps=10).p_minus[-1]))

    with jax.enable_x64(True):
        got = jax.grad(end)(jnp.asarray(xi0))
        h = 1e-5
        for direction in (np.eye(18)[3], np.cos(np.arange(18))):
            want = (end(jnp.asarray(xi0 + h * direction)) - end(jnp.asarray(xi0 - h * direction))) / (2 * h)
            np.testing.assert_allclose(got @ direction, want, rtol=1e-7)
