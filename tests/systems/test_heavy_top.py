"""The heavy top: Euler–Poisson equations, Lagrange's top in closed form, momenta, energy."""

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.groups import SO3
from geonh.integrators import Variational
from geonh.systems import catalogue, heavy_top
from geonh.systems.entry import Start
from geonh.systems.heavy_top import exact

GENERAL = {"J": (0.8, 1.3, 1.7), "mgl": 2.1, "chi": (0.6, -0.3, 0.9)}
LAGRANGE = [
    {"J": (1.3, 1.3, 0.7), "mgl": 2.0, "chi": (0.0, 0.0, -1.0)},
    {"J": (0.7, 1.3, 1.3), "mgl": 1.5, "chi": (3.0, 0.0, 0.0)},
    {"J": (0.6, 1.4, 0.6), "mgl": 3.0, "chi": (0.0, 1.0, 0.0)},
]


def random_start(seed, scale=2.0):
    rng = np.random.default_rng(seed)
    return Start(np.asarray(SO3().exp(jnp.asarray(rng.normal(size=3)))), scale * rng.normal(size=3))


def test_euler_poisson_equations():
    J, mgl, chi = np.array(GENERAL["J"]), GENERAL["mgl"], np.array(GENERAL["chi"])
    chi = chi / np.linalg.norm(chi)
    reduced = heavy_top(**GENERAL)
    unreduced = gn.System(SO3(), metric=np.diag(J), potential=lambda R: mgl * jnp.sum(R[2] * chi))
    start = random_start(1)
    R, omega = start
    expected = np.cross(J * omega, omega) + mgl * np.cross(R[2], chi)
    for system in (reduced, unreduced):
        rate, _ = gn.mechanics.accelerations(system, 0.0, jnp.asarray(R), jnp.asarray(omega))
        np.testing.assert_allclose(J * rate, expected, rtol=0, atol=1e-13)


def test_first_integrals_along_the_motion():
    system = heavy_top(**GENERAL)
    start = random_start(2)
    R, omega = gn.mechanics.reference_trajectory(system, np.linspace(0, 5, 6), start.xi0, start.g0)
    p = np.array(GENERAL["J"]) * omega
    vertical = np.einsum("nj,nj->n", R[:, 2], p)
    energy = 0.5 * np.sum(p * omega, axis=1) + GENERAL["mgl"] * R[:, 2] @ np.asarray(system.parameters["chi"])
    np.testing.assert_allclose(vertical, vertical[0], rtol=1e-10)
    np.testing.assert_allclose(energy, energy[0], rtol=1e-10)
    result = system.first_integrals["vertical momentum"].function(R[0], omega[0], p[0], system.parameters)
    np.testing.assert_allclose(result, vertical[0])
    assert "axial momentum" not in system.first_integrals


@pytest.mark.parametrize("parameters", LAGRANGE)
def test_lagrange_top_in_closed_form(parameters):
    system = heavy_top(**parameters)
    start, t = random_start(3), np.linspace(0, 5, 6)
    R, omega = gn.mechanics.reference_trajectory(system, t, start.xi0, start.g0)
    R_exact, omega_exact = exact(system, start, t)
    np.testing.assert_allclose(omega, omega_exact, rtol=0, atol=1e-10)
    np.testing.assert_allclose(R, R_exact, rtol=0, atol=1e-10)
    axial = omega @ (np.array(parameters["J"]) * np.asarray(system.parameters["chi"]))
    np.testing.assert_allclose(axial, axial[0], rtol=1e-10)


def test_steady_precession():
    """J₁ = J₂ = A: φ̇ with A φ̇² cos θ − L₃ φ̇ + mgl = 0 keeps the tip's height."""
    system, theta = heavy_top(J=(1.0, 1.0, 0.5), mgl=1.0), 0.6
    spin = 5.0
    L3 = 0.5 * spin
    rate = (L3 - np.sqrt(L3**2 - 4 * np.cos(theta))) / (2 * np.cos(theta))
    R0 = np.array([[1, 0, 0], [0, np.cos(theta), -np.sin(theta)], [0, np.sin(theta), np.cos(theta)]])
    start = Start(R0, np.array([0.0, rate * np.sin(theta), spin]))
    R = exact(system, start, np.linspace(0, 10, 5))[0]
    np.testing.assert_allclose(R[:, 2, 2], np.cos(theta), rtol=0, atol=1e-14)
    np.testing.assert_allclose(np.diff(np.unwrap(np.arctan2(R[:, 0, 2], -R[:, 1, 2]))), 2.5 * rate, rtol=0, atol=1e-12)


def test_closed_form_says_what_it_needs():
    with pytest.raises(ValueError, match="Lagrange's top"):
        exact(heavy_top(**GENERAL), random_start(1), np.array([0.0]))
    with pytest.raises(ValueError, match="neither upright nor hanging"):
        exact(heavy_top(), Start(None, np.array([0.0, 0.0, 1.0])), np.array([0.0]))


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        (gn.GNI(), LAGRANGE[1]),
        (Variational("midpoint", "exp"), LAGRANGE[2]),
        (Variational(), GENERAL),
    ],
)
def test_momenta_to_rounding_and_energy_to_second_order(method, parameters):
    system, start, result = heavy_top(**parameters), random_start(5), []
    for n in (4000, 8000):
        run = gn.solve(system, method, g0=start.g0, xi0=start.xi0, dt=40 / n, n_steps=n)
        assert set(run.integrals) == {"vertical momentum", "axial momentum"} - (
            {"axial momentum"} if parameters is GENERAL else set()
        )
        for momentum in run.integrals.values():
            assert np.ptp(momentum) <= 1e-15 * np.sqrt(n) * (1 + np.abs(run.p).max())
        result.append(np.abs(run.energy - run.energy[0]).max())
    np.testing.assert_allclose(result[0] / result[1], 4.0, atol=0.2)


def test_gni_and_variational_are_one_method_without_constraints():
    """The same equations, from other guesses."""
    system, start = heavy_top(**GENERAL), random_start(6)
    one = gn.solve(system, gn.GNI(), g0=start.g0, xi0=start.xi0, dt=0.02, n_steps=200)
    other = gn.solve(system, Variational(), g0=start.g0, xi0=start.xi0, dt=0.02, n_steps=200)
    np.testing.assert_allclose(one.g, other.g, rtol=0, atol=1e-13)


def test_picture():
    entry = catalogue["heavy-top"]
    system = entry.system(**GENERAL)
    g = np.asarray(entry.start(system).g0)
    top = system.draw(0.0, g, system.parameters)[0]
    np.testing.assert_allclose(top.at.R @ top.trace, g @ system.parameters["chi"], atol=1e-6)  # the tip lies along χ


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"J": (1.0, -1.0, 1.0)}, "J must be positive"),
        ({"J": (1.0, 1.0)}, "J must be three principal moments"),
        ({"mgl": 0.0}, "mgl must be positive"),
        ({"chi": (0.0, 0.0, 0.0)}, "chi must be a vector of 3 entries"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        heavy_top(**parameters)
