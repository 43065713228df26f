"""The Veselova system: equations, horizontal momentum, energy, reduced and unreduced."""

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.groups import SO3
from geonh.systems import catalogue, veselova

J = np.array([0.8, 1.3, 1.7])


def random_start(system, seed):
    rng = np.random.default_rng(seed)
    g0 = np.asarray(SO3().exp(jnp.asarray(rng.normal(size=3))))
    return g0, np.asarray(system.project(g0, rng.normal(size=3)))


def unreduced(J):
    return gn.System(SO3(), metric=np.diag(J), distribution=gn.Distribution(forms=lambda R: R[2][None, :]))


@pytest.mark.parametrize("seed", range(2))
def test_equations(seed):
    """Ṁ = M×Ω + λγ with λ = −γ·J⁻¹(M×Ω)/γ·J⁻¹γ; γ·Ω = 0 is kept since γ̇·Ω = 0; also unreduced."""
    R, omega = random_start(veselova(J), seed)
    gamma, gyroscopic = R[2], np.cross(J * omega, omega)
    lam = -gamma @ (gyroscopic / J) / (gamma @ (gamma / J))
    for system in (veselova(J), unreduced(J)):
        rate, multiplier = gn.mechanics.accelerations(system, 0.0, jnp.asarray(R), jnp.asarray(omega))
        np.testing.assert_allclose(J * rate, gyroscopic + lam * gamma, rtol=0, atol=1e-14)
        np.testing.assert_allclose(multiplier, [lam], rtol=0, atol=1e-14)


@pytest.mark.parametrize("seed", [1, 2])
def test_first_integrals_along_the_motion(seed):
    system = veselova(J)
    R0, omega0 = random_start(system, seed)
    R, omega = gn.mechanics.reference_trajectory(system, np.linspace(0, 5, 6), omega0, R0)
    spatial = np.einsum("nij,nj->ni", R, J * omega)
    np.testing.assert_allclose(spatial[:, :2], np.tile(spatial[0, :2], (6, 1)), rtol=1e-10, atol=1e-11)
    assert np.ptp(spatial[:, 2]) > 1e-2
    np.testing.assert_allclose(omega**2 @ J, omega0**2 @ J, rtol=1e-10)
    result = system.first_integrals["horizontal momentum"].function(R[0], omega[0], J * omega[0], system.parameters)
    np.testing.assert_allclose(result, spatial[0, :2], rtol=0, atol=1e-15)


@pytest.mark.parametrize(("rule", "retraction"), [("trapezoid", "cayley"), ("midpoint", "exp")])
def test_gni_keeps_horizontal_momentum_to_rounding(rule, retraction):
    system, n = veselova(J), 4000
    R0, omega0 = random_start(system, 3)
    run = gn.solve(system, gn.GNI(rule, retraction), g0=R0, xi0=omega0, dt=0.05, n_steps=n)
    momentum = run.integrals["horizontal momentum"]
    assert np.abs(momentum - momentum[0]).max() <= 3e-15 * np.sqrt(n)
    assert np.abs(run.constraint_residual).max() <= 2e-15


@pytest.mark.parametrize("method", [gn.GNI(), gn.SymmetricProjection()], ids=["gni", "projected"])
def test_reduced_and_unreduced_agree(method):
    R0, omega0 = random_start(veselova(J), 4)
    one = gn.solve(veselova(J), method, g0=R0, xi0=omega0, dt=0.05, n_steps=400)
    other = gn.solve(unreduced(J), method, g0=R0, xi0=omega0, dt=0.05, n_steps=400)
    np.testing.assert_allclose(one.g, other.g, rtol=0, atol=1e-12)


def test_energy_under_gni():
    """O(h²) without drift; to rounding, at p⁻ and at p̃, for a ball, which turns steadily."""
    system = veselova(J)
    R0, omega0 = random_start(system, 5)
    result = []
    for n in (2000, 4000):
        run = gn.solve(system, gn.GNI(), g0=R0, xi0=omega0, dt=100.0 / n, n_steps=n)
        result.append([np.abs(e - e[0]).max() for e in (run.energy, run.energy_minus)])
    np.testing.assert_allclose(np.array(result[0]) / result[1], 4.0, atol=0.2)
    ball, n = veselova((1.5, 1.5, 1.5)), 4000
    run = gn.solve(ball, gn.GNI(), g0=R0, xi0=ball.project(R0, omega0), dt=0.05, n_steps=n)
    for energy in (run.energy, run.energy_minus):  # like a random walk: up to 5.4e-15 √n over eight starts
        assert np.ptp(energy) <= 6e-15 * np.sqrt(n)
    spatial = np.einsum("nij,nj->ni", run.g, run.xi)
    np.testing.assert_allclose(spatial, np.tile(spatial[0], (n + 1, 1)), rtol=0, atol=3e-15 * np.sqrt(n))


def test_start():
    entry = catalogue["veselova"]
    system = entry.system(J=J)
    start = entry.start(system)
    assert np.abs(system.constraint_residual(start.g0[2], start.xi0)).max() <= 1e-15


def test_bad_parameters_are_named():
    with pytest.raises(ValueError, match="J must be positive"):
        veselova((1.0, 0.0, 1.0))
    with pytest.raises(ValueError, match="J must be three principal moments"):
        veselova(1.0)
