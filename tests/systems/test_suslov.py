"""The Suslov problem: equations, closed form for any inertia and axis, energy, and GNI near the steady rotation."""

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.groups import SO3
from geonh.results.parasitic import AlternationWarning
from geonh.systems import catalogue, suslov
from geonh.systems.entry import Start
from geonh.systems.suslov import angular_velocity, exact

RNG = np.random.default_rng(11)
ROOT = RNG.normal(size=(3, 3))
FULL, AXIS = ROOT @ ROOT.T + np.eye(3), RNG.normal(size=3)


def random_start(system, seed):
    rng = np.random.default_rng(seed)
    g0 = np.asarray(SO3().exp(jnp.asarray(rng.normal(size=3))))
    return Start(g0, np.asarray(system.project(g0, rng.normal(size=3))))


@pytest.mark.parametrize("seed", range(3))
def test_equations(seed):
    """JΩ̇ = JΩ×Ω + λa, a·Ω̇ = 0; in the paper Π̇ = Π×J⁻¹Π + λ Ie with Ie ∥ a."""
    system = suslov(FULL, AXIS)
    omega = random_start(system, seed).xi0
    rate, lam = gn.mechanics.accelerations(system, 0.0, jnp.eye(3), jnp.asarray(omega))
    np.testing.assert_allclose(FULL @ rate, np.cross(FULL @ omega, omega) + lam[0] * AXIS, rtol=0, atol=1e-13)
    assert abs(AXIS @ rate) < 1e-13
    e = np.linalg.solve(FULL, AXIS) / np.sqrt(AXIS @ np.linalg.solve(FULL, AXIS))
    multiplier = -e @ np.cross(FULL @ omega, omega)
    np.testing.assert_allclose(FULL @ rate, np.cross(FULL @ omega, omega) + multiplier * FULL @ e, rtol=0, atol=1e-13)


def test_paper_s_run():
    system, t = suslov(), np.linspace(0, 10, 21)
    start = catalogue["suslov"].start(system)
    momentum = angular_velocity(system, start, t) @ np.asarray(system.parameters["J"])
    sech = 1 / np.cosh(t)
    np.testing.assert_allclose(momentum, np.stack([-np.tanh(t), sech, sech], axis=1), rtol=0, atol=1e-15)
    assert start.xi0 @ np.asarray(system.parameters["J"]) @ start.xi0 == 1.0


@pytest.mark.parametrize(
    ("J", "a", "seed", "end"),
    [
        (FULL, AXIS, 1, 4.0),
        (FULL, AXIS, 2, -3.0),
        (np.diag([1.0, 2.0, 3.0]), (0.0, -2.0, 0.0), 3, 4.0),
    ],
)
def test_exact_solution(J, a, seed, end):
    system = suslov(J, a)
    start, t = random_start(system, seed), np.linspace(0, end, 5)
    g, xi = gn.mechanics.reference_trajectory(system, t, start.xi0, start.g0)
    R, omega = exact(system, start, t)
    np.testing.assert_allclose(xi, omega, rtol=0, atol=1e-11)
    np.testing.assert_allclose(g, R, rtol=0, atol=1e-11)
    energy = np.einsum("ni,ij,nj->n", xi, J, xi)
    np.testing.assert_allclose(energy, energy[0], rtol=1e-10)
    other, _ = gn.mechanics.reference_trajectory(system, t, -start.xi0, start.g0)  # the other branch
    np.testing.assert_allclose(exact(system, Start(start.g0, -start.xi0), t)[0], other, rtol=0, atol=1e-11)


def test_degenerate_starts():
    system = suslov()
    np.testing.assert_array_equal(exact(system, Start(None, np.zeros(3)), np.array([0.0, 1.0]))[1], np.zeros((2, 3)))
    steady = Start(None, np.array([-1.0, 0.0, 0.0]))
    np.testing.assert_allclose(
        angular_velocity(system, steady, np.array([0.0, 5.0])), [steady.xi0] * 2, rtol=0, atol=1e-15
    )


def test_energy_under_gni_is_of_second_order_without_drift():
    system = suslov(FULL, AXIS)
    start, result = random_start(system, 3), []
    for n in (4000, 8000):
        run = gn.solve(system, gn.GNI(), g0=start.g0, xi0=start.xi0, dt=80.0 / n, n_steps=n)
        error = np.abs(run.energy_minus - run.energy_minus[0])
        result.append(error.max())
        assert error[n // 2 :].max() <= 1.2 * error[: n // 2].max()
    assert result[0] < 0.05
    np.testing.assert_allclose(result[0] / result[1], 4.0, rtol=0, atol=0.2)


def test_gni_leaves_the_steady_rotation_when_the_alternating_part_has_grown():
    """Near Ω = −e₁ the part of p⁻ along a is (−1)^k c e^{At}: A is the rate at which the rest settles, here 1."""
    system = suslov()
    start, h = catalogue["suslov"].start(system), 0.05
    with pytest.warns(AlternationWarning):
        run = gn.solve(system, gn.GNI(start="average"), g0=start.g0, xi0=start.xi0, dt=h, n_steps=1000)
    error = np.abs(run.xi - angular_velocity(system, start, run.t)).max(axis=1)
    assert error[run.t <= 20].max() < 2e-3
    assert error[-1] > 1.0
    part = ((run.p_minus - run.p) @ [0.0, 0.0, 1.0])[(run.t > 20) & (run.t < 32)]
    assert np.all(part[1:] * part[:-1] < 0)
    growth = np.polyfit(h * np.arange(len(part)), np.log(np.abs(part)), 1)[0]
    np.testing.assert_allclose(growth, 1.0, rtol=0, atol=0.01)


def test_start_and_picture():
    entry = catalogue["suslov"]
    system = entry.system(J=FULL, a=AXIS)
    start = entry.start(system)
    assert np.abs(system.constraint_residual((), start.xi0)).max() <= 1e-15
    body, a, _ = system.draw(0.0, np.eye(3), system.parameters)
    np.testing.assert_allclose(a.at.R @ a.trace, AXIS / np.linalg.norm(AXIS), atol=1e-6)
    R, semi = np.asarray(body.at.R), np.ptp(body.parts[0].vertices, axis=0) / 2
    np.testing.assert_allclose(R.T @ FULL @ R, np.diag(np.diag(R.T @ FULL @ R)), atol=1e-6)  # along principal axes
    sizes = np.diag(R.T @ FULL @ R) * semi**2  # of the ellipsoid of inertia: all the same
    np.testing.assert_allclose(sizes, sizes[0], rtol=1e-2)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"J": np.eye(2)}, "J must be a symmetric 3×3"),
        ({"J": np.eye(3) + np.eye(3, k=1)}, "J must be a symmetric 3×3"),
        ({"J": np.diag([1.0, 1.0, -1.0])}, "J must be positive"),
        ({"a": (0.0, 0.0, 0.0)}, "a must be a vector of 3 entries"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        suslov(**parameters)
