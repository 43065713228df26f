"""A heavy Chaplygin sphere in the new time: order, invariant measure, integrals, by the volume-preserving splitting."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.analysis import hamiltonise
from geonh.analysis.flow import displacement
from geonh.engine import mapped
from geonh.groups import SO3, MatrixGroup, Product, Translations
from geonh.integrators import Clock, VolumePreserving

J, m, r = np.array([1.0, 1.5, 2.2]), 1.2, 0.7
DT = 0.05
ROLLED = (np.array([0.3, -1.0]), np.asarray(SO3().exp([0.4, 0.2, -0.3])))


def density(x, p):
    return jnp.log(1 - m * r**2 * x[1][2] @ (x[1][2] / (p["J"] + m * r**2)))


@functools.cache
def sphere(weight):
    """Chaplygin's sphere in a field of force that depends on the vertical, and its invariant density."""

    def forms(x):
        return jnp.concatenate([jnp.eye(2), jnp.stack([-r * x[1][1], r * x[1][0]])], axis=1)

    system = gn.System(
        Product((Translations(2), SO3())),
        metric=lambda x, p: jnp.concatenate([m * np.ones(2), p["J"]]),
        distribution=gn.Distribution(forms),
        potential=lambda x, p: p["weight"] * (0.5 * x[1][2, 0] + x[1][2, 1] ** 2 - 0.7 * x[1][2, 2]),
        parameters={"J": J, "weight": weight},
        name="sphere",
    )
    return system, hamiltonise(system, np.eye(5)[:2], {"density": density})


def start(system):
    return np.asarray(system.project(ROLLED, [0.0, 0.0, 1.0, -0.6, 0.9]))


def check_order(system, found, g, xi):
    """The motion in the old time: order 2, constraints and energy."""
    exact = gn.solve(system, "gauss6", g0=g, xi0=xi, dt=0.01, n_steps=400)
    errors = []
    for n in (40, 80, 160, 320):
        scaled = found.scaled_velocity(g, xi)
        run = gn.solve(found.system(), VolumePreserving(), g0=g, xi0=scaled, dt=4.0 / n, n_steps=n)
        motion = found.original(run)
        end = exact.interpolate(motion.t[-1])[0]
        pairs = zip(jax.tree.leaves(motion.g), jax.tree.leaves(end), strict=True)
        errors.append(max(np.abs(a[-1] - b[0]).max() for a, b in pairs))
        rows = mapped(lambda system, g: system.annihilator(system.at(g)), system, motion.g)
        assert np.abs(np.einsum("nai,ni->na", rows, motion.xi)).max() < 1e-13  # never imposed
        assert np.abs(run.energy - exact.energy[0]).max() < 5 * (4.0 / n) ** 2
    np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), 2.0, atol=0.1)


@pytest.mark.slow
def test_order_and_constraints():
    system, found = sphere(0.4)
    assert found.has_measure
    assert not found.exists
    check_order(system, found, ROLLED, start(system))


class Step(NamedTuple):
    """Derivative of a step in (η, ξ) of g·exp(η), shape=[2n, 2n], and the metric at its two ends."""

    derivative: jax.Array
    before: jax.Array
    after: jax.Array


def step_from(tree, node):
    (system, method), (g, xi) = tree, node
    group, n, clock = system.group, system.group.dim, Clock(0.0, DT, None)
    g = group.project(g)  # attitudes are off the group by rounding, which (η, ξ) would measure

    def step(z):
        start = method.first_node(system, clock, group.compose(g, group.exp(z[:n])), xi + z[n:])
        new = method.next_node(system, clock, start)
        return new.g, system.velocity(system.at(new.g), new.p_minus)

    (new_g, _), linear = jax.linearize(step, jnp.zeros(2 * n))

    def column(direction):
        rate, delta = linear(direction)
        return jnp.concatenate([displacement(group, new_g, rate), delta])

    columns = jax.lax.map(column, jnp.eye(2 * n))
    return Step(columns, system.mass_matrix(system.at(g)), system.mass_matrix(system.at(new_g)))


def lost_measure(found, method, g, xi, n_steps):
    """Sum of log det of the steps of a run, in (η, M̃ξ), and the range of log det M̃."""
    new = found.system()
    run = gn.solve(new, method, g0=g, xi0=found.scaled_velocity(g, xi), dt=DT, n_steps=n_steps)
    lost, volumes = 0.0, []
    for begin in range(0, n_steps, 10_000):
        nodes = jax.tree.map(lambda a, begin=begin: a[:-1][begin : begin + 10_000], (run.g, run.xi))
        (signs, step), (_, before), (_, after) = map(np.linalg.slogdet, mapped(step_from, (new, run.method), nodes))
        assert np.all(signs > 0)
        lost += (step + after - before).sum()
        volumes.append(before)
    return lost, np.ptp(np.concatenate(volumes))


@pytest.mark.slow
def test_measure():
    system, found = sphere(0.4)
    lost, changes = lost_measure(found, VolumePreserving(), ROLLED, start(system), 200)
    assert changes > 0.1
    assert abs(lost) < 5e-13


@pytest.mark.slow
def test_measure_over_many_steps():
    system, found = sphere(0.4)
    lost, changes = lost_measure(found, VolumePreserving(), ROLLED, start(system), 100_000)
    assert changes > 0.1
    assert abs(lost) < 1e-10
    assert abs(lost_measure(found, "rkmk4", ROLLED, start(system), 200)[0]) > 1e-8


@pytest.mark.slow
def test_veselovas_body_of_any_inertia_in_four_dimensions():
    # LR systems on compact groups have an invariant measure (Veselov, Veselova 1988): log √det μM⁻¹μᵀ less.
    pairs = [(i, j) for j in range(4) for i in range(j)]
    basis = np.zeros((6, 4, 4))
    for k, (i, j) in enumerate(pairs):
        basis[k, i, j], basis[k, j, i] = 1.0, -1.0
    group, root = MatrixGroup(basis), 0.3 * np.random.default_rng(3).normal(size=(6, 6))
    M = np.diag([1.0, 1.3, 1.7, 2.0, 1.1, 0.8]) + root @ root.T

    def forms(R):
        spatial = jnp.einsum("ab,kbc,dc->kad", R, basis, R)
        return jnp.stack([spatial[:, i, j] for i, j in pairs[:3]])

    system = gn.System(group, metric=M, distribution=gn.Distribution(forms))
    known = {"log det μM⁻¹μᵀ": lambda R: jnp.linalg.slogdet(forms(R) @ np.linalg.inv(M) @ forms(R).T)[1]}
    found = hamiltonise(system, np.eye(6)[:3], known)
    assert found.has_measure
    assert not found.exists
    assert abs(found.coefficients["log det μM⁻¹μᵀ"] + 0.25) < 1e-10
    g = np.asarray(group.exp([0.3, -0.2, 0.4, 0.1, 0.5, -0.3]))
    xi = np.asarray(system.project(g, [0.5, -0.3, 0.8, 0.4, -0.6, 0.2]))
    check_order(system, found, g, xi)
    assert abs(lost_measure(found, VolumePreserving(), g, xi, 300)[0]) < 1e-11


@pytest.mark.slow
def test_energy_and_integrals_without_drift():
    system, found = sphere(0.0)  # integrable: E, K·γ, |K|², with K the angular momentum about the contact
    run = gn.solve(
        found.system(),
        VolumePreserving(),
        g0=ROLLED,
        xi0=found.scaled_velocity(ROLLED, start(system)),
        dt=0.05,
        n_steps=100_000,
        save_every=10,
    )
    motion = found.original(run)
    R, W = motion.g[1], motion.xi[:, 2:]
    up = R[:, 2]
    K = J * W + m * r**2 * np.cross(up, np.cross(W, up))
    for value, bound in (
        (run.energy, 3e-4),
        (np.einsum("ni,ni->n", K, up), 6e-5),
        (np.einsum("ni,ni->n", K, K), 2e-3),
    ):
        first, last = value[: len(value) // 10], value[-len(value) // 10 :]
        assert np.ptp(value) < bound
        assert abs(first.mean() - last.mean()) < 0.01 * np.ptp(value)


@pytest.mark.slow
def test_systems_without_a_density_are_refused():
    suslov = hamiltonise(gn.systems.suslov(), [0.0, 0.0, 1.0])
    with pytest.raises(ValueError, match="no invariant density"):
        suslov.system()
    unknown = hamiltonise(sphere(0.4)[0], np.eye(5)[:2])
    with pytest.raises(ValueError, match="not in the span"):
        unknown.system()
