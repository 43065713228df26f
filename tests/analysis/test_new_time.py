"""A heavy Chaplygin sphere in the new time: order, invariant measure, integrals, by the volume-preserving splitting."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.analysis import first_integrals, hamiltonise, lyapunov_exponents
from geonh.groups import SO3, Product, Translations
from geonh.integrators import VolumePreserving

J, m, r = np.array([1.0, 1.5, 2.2]), 1.2, 0.7
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


def test_order_and_constraints():
    system, found = sphere(0.4)
    assert found.has_measure
    assert not found.exists
    xi = start(system)
    exact = gn.solve(system, "gauss6", g0=ROLLED, xi0=xi, dt=0.01, n_steps=400)
    errors = []
    for n in (40, 80, 160, 320):
        run = gn.solve(
            found.system(),
            VolumePreserving(),
            g0=ROLLED,
            xi0=found.scaled_velocity(ROLLED, xi),
            dt=4.0 / n,
            n_steps=n,
        )
        motion = found.original(run)
        errors.append(np.abs(motion.g[1][-1] - exact.interpolate(motion.t[-1])[0][1]).max())
        slip = [system.annihilator((x, R)) @ v for x, R, v in zip(*motion.g, motion.xi, strict=True)][:: n // 10]
        assert np.abs(slip).max() < 1e-13  # never imposed
        assert np.abs(run.energy - exact.energy[0]).max() < 5 * (4.0 / n) ** 2
    np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), 2.0, atol=0.1)


def lost_measure(method, n_steps):
    """Logarithm of det DΦ over a run, in (η, ξ) with the volume det M̃: the sum of all Lyapunov exponents, times the
    duration, besides that of det M̃, which is returned as well."""
    system, found = sphere(0.4)
    new, xi = found.system(), found.scaled_velocity(ROLLED, start(system))
    options = {"dt": 0.05, "n_steps": n_steps, "method": method}
    growth = lyapunov_exponents(new, ROLLED, xi, **options).exponents.sum() * 0.05 * n_steps
    ends = gn.solve(new, g0=ROLLED, xi0=xi, **options, save_every=n_steps).g
    volumes = [np.linalg.slogdet(np.asarray(new.mass_matrix(g)))[1] for g in zip(*ends, strict=True)]
    return growth + volumes[1] - volumes[0], volumes[1] - volumes[0]


def test_measure():
    lost, volume = lost_measure(VolumePreserving(), 200)
    assert abs(volume) > 1e-3
    assert abs(lost) < 2e-12


@pytest.mark.slow
def test_measure_over_many_steps():
    lost, volume = lost_measure(VolumePreserving(), 100_000)
    assert abs(volume) > 1e-3
    assert abs(lost) < 1e-9
    assert abs(lost_measure("variational", 1000)[0]) > 1e-8  # which keeps another one, if any


@pytest.mark.slow
def test_energy_and_integrals_without_drift():
    system, found = sphere(0.0)  # integrable: E, K·γ, |K|², with K the angular momentum about the contact
    names = first_integrals(system, degree=1)
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
    assert len(names.integrals if hasattr(names, "integrals") else names) == 3


def test_systems_without_a_density_are_refused():
    suslov = hamiltonise(gn.systems.suslov(), [0.0, 0.0, 1.0])
    with pytest.raises(ValueError, match="no invariant density"):
        suslov.system()
    unknown = hamiltonise(sphere(0.4)[0], np.eye(5)[:2])
    with pytest.raises(ValueError, match="not in the span"):
        unknown.system()
