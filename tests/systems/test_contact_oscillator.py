"""The contact oscillators: equations, first integrals, which of them are reversible, and what GNI makes of it."""

from itertools import product

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.systems import catalogue, contact_oscillator, contact_oscillator_nonreversible
from geonh.systems.contact_oscillator import start_on_level

EPS, BETA = 0.7, 0.4


def random_start(system, seed):
    rng = np.random.default_rng(seed)
    q0 = rng.normal(size=3)
    return q0, np.asarray(system.project(q0, rng.normal(size=3)))


def acceleration(system, q, xi):
    return np.asarray(gn.mechanics.accelerations(system, 0.0, jnp.asarray(q), jnp.asarray(xi))[0])


def test_equations():
    for beta in (0.0, BETA):
        system = contact_oscillator_nonreversible(EPS, beta) if beta else contact_oscillator(EPS)
        (x, y, z), (u, v, w) = q, xi = random_start(system, 1)
        force = -np.array([x + EPS * x * z**2, y, z + EPS * x**2 * z])
        force += np.cross(xi, beta * np.array([1 + x, -y, 0.0]))
        form = np.array([1.0, 0.0, y])
        lam = -(v * w + form @ force) / (form @ form)
        np.testing.assert_allclose(acceleration(system, q, xi), force + lam * form, rtol=0, atol=1e-14)
        assert abs(u + y * w) < 1e-15
        # on the distribution only b = β(1 + x) acts: ÿ = −y + b ż
        np.testing.assert_allclose(acceleration(system, q, xi)[1], -y + beta * (1 + x) * w, rtol=0, atol=1e-14)


@pytest.mark.parametrize("build", [contact_oscillator, contact_oscillator_nonreversible])
def test_first_integrals_along_the_motion(build):
    system, t = build(EPS), np.linspace(0, 5, 6)
    q0, xi0 = random_start(system, 3)
    q, xi = gn.mechanics.reference_trajectory(system, t, xi0, q0)
    energy = 0.5 * (np.sum(xi**2, axis=1) + np.sum(q**2, axis=1) + EPS * (q[:, 0] * q[:, 2]) ** 2)
    H_y = 0.5 * (xi[:, 1] ** 2 + q[:, 1] ** 2)
    np.testing.assert_allclose(energy, energy[0], rtol=1e-10)
    assert (np.ptp(H_y) < 1e-10) == ("H_y" in system.first_integrals)


def test_linear_maps_of_the_distribution():
    """diag(α, α/γ, γ) maps kernels of dx + y dz onto such kernels; a random linear map does not."""
    rng = np.random.default_rng(2)
    points = rng.normal(size=(20, 3))
    admissible = np.stack(
        [np.eye(3)[1] + 0 * points, np.stack([-points[:, 1], 0 * points[:, 1], 1 + 0 * points[:, 1]], 1)]
    )

    def violation(rho):
        images = points @ rho.T
        forms = np.stack([1 + 0 * images[:, 1], 0 * images[:, 1], images[:, 1]], axis=1)
        return np.abs(np.einsum("ni,kni->kn", forms, admissible @ rho.T)).max()

    assert violation(np.diag([1.7, 1.7 / -0.6, -0.6])) < 1e-14
    assert violation(np.diag([1.7, 1.0, -0.6])) > 0.1
    assert violation(rng.normal(size=(3, 3))) > 0.1


@pytest.mark.parametrize(("alpha", "gamma"), list(product((1, -1), repeat=2)))
def test_reversing_symmetries(alpha, gamma):
    """(q, q̇) ↦ (ρq, −ρq̇) reverses the motion iff a(ρq, −ρq̇) = ρ a(q, q̇): all four ρ, and with the field none."""
    rho = np.array([alpha, alpha * gamma, gamma])
    q, xi = random_start(contact_oscillator(EPS), 4)

    def gap(system):
        return np.abs(acceleration(system, rho * q, -rho * xi) - rho * acceleration(system, q, xi)).max()

    assert gap(contact_oscillator(EPS)) < 1e-14
    assert gap(contact_oscillator_nonreversible(EPS, BETA)) > 0.1
    assert gap(contact_oscillator_nonreversible(EPS, 0.0)) < 1e-14


@pytest.mark.slow
def test_no_scaling_reverses_either():
    """Nor does any other diag(α, α/γ, γ): the acceleration is not even equivariant along the axes of (α, γ)."""
    q, xi = random_start(contact_oscillator(EPS), 4)
    system = contact_oscillator_nonreversible(EPS, BETA)
    for alpha, gamma in product(np.linspace(-2, 2, 9), repeat=2):
        if alpha * gamma != 0:
            rho = np.array([alpha, alpha / gamma, gamma])
            gap = np.abs(acceleration(system, rho * q, -rho * xi) - rho * acceleration(system, q, xi)).max()
            assert gap > 1e-2


def test_gni_order_and_long_time_energy():
    """O(h²) at a fixed time for both; over long times the mean error stays if reversible and wanders if not."""
    wander = {}
    for name in ("contact-oscillator", "contact-oscillator-nonreversible"):
        entry = catalogue[name]
        system = entry.system()
        start, error = start_on_level(1.0, -0.8), []
        for n in (200, 400):
            run = gn.solve(system, gn.GNI(), g0=start.g0, xi0=start.xi0, dt=10 / n, n_steps=n)
            error.append(np.abs(run.energy_minus - run.energy_minus[0]).max())
        np.testing.assert_allclose(error[0] / error[1], 4.0, atol=0.3)
        run = gn.solve(system, gn.GNI(), g0=start.g0, xi0=start.xi0, dt=0.1, n_steps=100_000, save_every=20)
        wander[name] = np.ptp([part.mean() for part in np.array_split(run.energy_minus, 8)])
        assert np.abs(run.constraint_residual).max() <= 1e-14
    assert wander["contact-oscillator"] < 2e-4
    assert wander["contact-oscillator-nonreversible"] > 5e-3


@pytest.mark.parametrize("name", ["dla", "midpoint", "discrete-gradient"])
@pytest.mark.quick("midpoint")
def test_a_long_step_shows_who_needs_the_reversal(name):
    """3000 steps of h = 0.4158: methods of McLachlan and Perlmutter's kind lose energy where no reversal is left."""

    def shift(system_name):
        """Mean energy of the last tenth less that of the first."""
        entry = catalogue[system_name]
        system = entry.system()
        begin = entry.start(system)
        run = gn.solve(system, gn.methods[name].make(), g0=begin.g0, xi0=begin.xi0, dt=0.4158, n_steps=3000)
        return run.energy[-300:].mean() - run.energy[:300].mean()

    reversible, without = shift("contact-oscillator"), shift("contact-oscillator-nonreversible")
    if name == "discrete-gradient":
        assert np.max(np.abs([reversible, without])) < 1e-12
    else:
        assert abs(reversible) < 2e-3
        assert without < -0.2


def test_starts_and_picture():
    for name in ("contact-oscillator", "contact-oscillator-nonreversible"):
        entry = catalogue[name]
        system = entry.system(eps=0.3)
        start = entry.start(system)
        assert np.abs(system.constraint_residual(start.g0, start.xi0)).max() == 0
        np.testing.assert_allclose(system.energy(start.g0, jnp.zeros(3)), 1.5, rtol=1e-15)


@pytest.mark.parametrize(
    ("build", "parameters", "message"),
    [
        (contact_oscillator, {"eps": -1.0}, "eps must be finite and at least 0"),
        (contact_oscillator_nonreversible, {"eps": np.nan}, "eps must be finite"),
        (contact_oscillator_nonreversible, {"beta": np.inf}, "beta must be finite"),
    ],
)
def test_bad_parameters_are_named(build, parameters, message):
    with pytest.raises(ValueError, match=message):
        build(**parameters)
