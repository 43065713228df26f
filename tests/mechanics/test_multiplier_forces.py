"""Forces that depend on the multipliers: the nonsymmetric saddle system, friction of a ball, Painlevé's rod."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.algebra.linear import saddle, saddle_determinant
from geonh.groups import SO3, Translations
from geonh.integrators import methods
from geonh.mechanics import Friction, accelerations
from geonh.mechanics.multiplier_forces import determinant
from geonh.results.events import SlipEnds

G, V0 = 9.81, 2.0
TAKE = ("gauss4", "rkmk4", "rk4", "yoshida4")


def ball(mu=0.3, **options):
    """A ball of radius 1 m and 1 kg in a plane, (x, z, angle), that slides on z = 0."""
    return gn.System(
        Translations(3),
        metric=[1.0, 1.0, 0.4],
        potential=lambda x: G * x[1],
        holonomic=lambda x: jnp.stack([x[1] - 1.0]),
        multiplier_forces=Friction(lambda t, x, xi: xi[0] - xi[2], "mu"),
        parameters={"mu": mu},
        name="ball that slides",
        **options,
    )


def random_system(rng, n_forms=2):
    """A random system on SO(3) × R³ with forces of the multipliers."""
    group = [SO3(), Translations(3)]
    A = rng.normal(size=(6, 6))
    forms, B = rng.normal(size=(n_forms, 6)), 0.1 * rng.normal(size=(n_forms, 6, 3))
    C, D = 0.2 * rng.normal(size=(6, n_forms)), 0.1 * rng.normal(size=(6, n_forms, 6))
    return gn.System(
        group,
        metric=A @ A.T + 3 * np.eye(6),
        potential=lambda x: jnp.sum(jnp.sin(x[1])) + x[0][0, 1],
        distribution=gn.Distribution(lambda x: forms + B @ jnp.cos(x[1])),
        multiplier_forces=lambda t, x, xi, lam: (C + jnp.sin(D @ xi) + 0.1 * jnp.cos(t)) @ lam,
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.quick("0", "3")
def test_the_nonsymmetric_saddle_system(seed):
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(2, 8)), int(rng.integers(1, 4))
    m = min(m, n - 1)
    A, mu, C = rng.normal(size=(n, n)), rng.normal(size=(m, n)), 0.3 * rng.normal(size=(n, m))
    M, force, right = A @ A.T + np.eye(n), rng.normal(size=n), rng.normal(size=m)
    v, lam = saddle(M, mu, force, right, C)
    whole = np.block([[M, -(mu.T + C)], [mu, np.zeros((m, m))]])
    np.testing.assert_allclose(np.append(v, lam), np.linalg.solve(whole, np.append(force, right)), rtol=1e-9, atol=1e-9)
    inverse = np.linalg.inv(M)
    expected = np.linalg.det(mu @ inverse @ (mu.T + C)) / np.linalg.det(mu @ inverse @ mu.T)
    assert abs(saddle_determinant(M, mu, C) - expected) < 1e-10 * max(1, abs(expected))
    np.testing.assert_allclose(saddle(M, mu, force, right, 0 * C)[1], saddle(M, mu, force, right)[1], rtol=1e-10)


@pytest.mark.parametrize("name", TAKE)
@pytest.mark.quick("rkmk4")
def test_a_ball_rolls_at_the_time_that_is_known(name):
    end = SlipEnds(name="rolls")
    run = gn.solve(ball(), name, g0=[0, 1, 0], xi0=[V0, 0, 0], dt=0.01, n_steps=100, events=end)
    at = run.events["rolls"]
    assert run.status is gn.integrators.Result.EVENT
    assert abs(at.t[0] - 2 * V0 / (7 * 0.3 * G)) < 1e-13
    assert abs(at.xi[0, 0] - 5 * V0 / 7) < 1e-13
    assert abs(at.g[0, 0] - 12 * V0**2 / (49 * 0.3 * G)) < 1e-13
    np.testing.assert_allclose(run.multipliers, G, rtol=1e-13)


@pytest.mark.parametrize("name", ["gauss4", "rkmk4", "commutator-free4", "rk4", "lobatto4"])
@pytest.mark.quick("rk4")
def test_order_with_forces_of_multipliers(name):
    system = random_system(np.random.default_rng(3))
    g0 = (np.eye(3), np.array([0.1, 0.2, 0.3]))
    xi0 = system.project(g0, np.array([0.8, -0.5, 0.4, 0.3, 0.6, -0.7]))
    measured = gn.diagnostics.convergence(system, methods[name].make(), g0=g0, xi0=xi0, steps=(16, 24, 32, 48))
    assert abs(measured.order - 4) < 0.2, str(measured)


def test_accelerations_satisfy_the_equations():
    rng = np.random.default_rng(1)
    system = random_system(rng)
    plain = gn.System(
        [SO3(), Translations(3)],
        metric=system.metric,
        potential=system.potential.function,
        distribution=system.distribution,
    )
    g = (np.eye(3), rng.normal(size=3))
    xi = system.project(g, rng.normal(size=6))
    a, lam = accelerations(system, 0.3, g, xi)
    free, other = accelerations(plain, 0.3, g, xi)
    x, M = system.at(g), np.asarray(system.mass_matrix(system.at(g)))
    C, mu = system.multiplier_columns(0.3, x, xi), system.annihilator(x)
    np.testing.assert_allclose(M @ (a - free), mu.T @ (lam - other) + C @ lam, atol=1e-12)
    np.testing.assert_allclose(mu @ (a - free), 0, atol=1e-12)


def rod(mu, angle, rate):
    """A rod of 1 kg and length 2 m whose lower end slides to the right on the ground, (x, y, angle)."""
    return gn.System(
        Translations(3),
        metric=[1.0, 1.0, 1 / 3],
        potential=lambda x: G * x[1],
        holonomic=lambda x: jnp.stack([x[1] - jnp.sin(x[2])]),
        multiplier_forces=Friction(lambda t, x, xi: xi[0] + jnp.sin(x[2]) * xi[2], mu),
        name="rod",
    ), {"g0": [0.0, np.sin(angle), angle], "xi0": [3.0 - np.sin(angle) * rate, np.cos(angle) * rate, rate]}


@pytest.mark.slow
def test_painleve():
    """1 + 3c² + 3μsc, negative at some angle of a rod that leans forward if μ > 4/3: no motion exists there."""
    for mu, angle in ((0.5, 0.9), (1.6, 1.1), (1.6, 2.2)):
        system, at = rod(mu, angle, 0.3)
        s, c = np.sin(angle), np.cos(angle)
        x, xi = system.at(np.array(at["g0"])), np.array(at["xi0"])
        ratio = (1 + 3 * c * c + 3 * mu * s * c) / (1 + 3 * c * c)
        assert abs(determinant(system, 0.0, x, xi) - ratio) < 1e-14
    system, at = rod(1.6, 2.2, 0.3)
    with pytest.raises(gn.IntegrationError, match=r"Painlevé.*determinant, 1 without these forces, is -0"):
        gn.solve(system, dt=1e-3, n_steps=10, **at)
    assert gn.solve(system, dt=1e-3, n_steps=10, throw=False, **at).status is gn.integrators.Result.PAINLEVE


@pytest.mark.slow
def test_gradient_and_ensemble():
    def reached(mu):
        run = gn.integrate(ball(mu), "rkmk4", g0=[0.0, 1.0, 0.0], xi0=[V0, 0.0, 0.0], dt=0.01, n_steps=15)
        return run.xi[-1, 0] + run.g[-1, 0]

    with gn.float64():
        slope = jax.grad(reached)(0.3)
    t = 0.15
    assert abs(slope - (-G * t - G * t**2 / 2)) < 1e-11
    mus = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    many = gn.solve_ensemble(
        ball(),
        g0=[0, 1, 0],
        xi0=[V0, 0, 0],
        dt=0.01,
        n_steps=100,
        parameters={"mu": mus},
        events=SlipEnds(name="rolls"),
    )
    np.testing.assert_allclose(many.events["rolls"].t[:, 0], 2 * V0 / (7 * mus * G), rtol=1e-12)


@pytest.mark.slow
def test_what_is_refused():
    for name in (name for name, method in methods.items() if not method.make().guarantees.multiplier_forces):
        with pytest.raises(ValueError, match="multiplier_forces of ball that slides are for"):
            gn.solve(ball(), name, g0=[0, 1, 0], xi0=[V0, 0, 0], dt=0.01, n_steps=1)
    plain = {"metric": np.eye(2), "distribution": gn.Distribution([[1.0, 0.0]])}
    with pytest.raises(ValueError, match="linear in lam"):
        gn.System(Translations(2), **plain, multiplier_forces=lambda t, x, xi, lam: jnp.abs(lam[0]) * xi)
    with pytest.raises(ValueError, match="linear in lam"):
        gn.System(Translations(2), **plain, multiplier_forces=lambda t, x, xi, lam: lam[0] * xi + 1.0)
    with pytest.raises(ValueError, match="there are none"):
        gn.System(Translations(2), metric=np.eye(2), multiplier_forces=lambda t, x, xi, lam: xi)
    with pytest.raises(ValueError, match=r"covector of shape \(2,\)"):
        gn.System(Translations(2), **plain, multiplier_forces=lambda t, x, xi, lam: lam)
    with pytest.raises(TypeError, match=r"takes .*t, x, xi, lam"):
        gn.System(Translations(2), **plain, multiplier_forces=lambda x, xi: xi)
    with pytest.raises(ValueError, match="≥ 0"):
        Friction(lambda t, x, xi: xi[0], -0.1)
    redundant = gn.System(
        Translations(3),
        metric=np.eye(3),
        distribution=gn.Distribution([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]]),
        multiplier_forces=lambda t, x, xi, lam: lam[0] * xi,
    )
    with pytest.raises(ValueError, match="not determined"):
        gn.solve(redundant, xi0=[0, 1, 0], dt=0.1, n_steps=1)


SLIP = lambda t, x, xi: xi[0] - xi[2]  # noqa: E731
COEFFICIENTS = {"a": "friction", "b": "", "c": None, "d": 10**400, "e": -1.0, "f": [0.3, 0.3], "g": np.float32(0.3)}


@pytest.mark.parametrize("coefficient", COEFFICIENTS.values(), ids=COEFFICIENTS)
def test_coefficients_are_refused(coefficient):
    with pytest.raises((TypeError, ValueError), match=r"coefficient (of friction )?(must|is)"):
        accelerations(sliding(Friction(SLIP, coefficient)), 0.0, [0.0, 1.0, 0.0], [1.0, 0.0, 0.0])


def test_the_name_of_a_coefficient_may_be_text_of_numpy_and_its_multiplier_must_exist():
    at = 0.0, [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]
    np.testing.assert_array_equal(
        accelerations(sliding(Friction(SLIP, np.str_("mu"))), *at)[0], accelerations(ball(), *at)[0]
    )
    with pytest.raises(ValueError, match="normal must be the index of one of 1 multipliers, got 3"):
        accelerations(sliding(Friction(SLIP, 0.3, normal=3)), *at)


ENDLESS: list = []
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize("name", ["coefficient", "normal"])
def test_functions_of_friction_that_return_no_number_are_named(name):
    """A list that contains itself, in which JAX would lose the process's recursion depth."""
    for value in (ENDLESS, None, "text"):
        friction = Friction(SLIP, **{"coefficient": 0.3, name: lambda *_, value=value: value})
        with pytest.raises((TypeError, ValueError), match=f"{name} returned"):
            sliding(friction)


def sliding(forces):
    return gn.System(
        Translations(3),
        metric=[1.0, 1.0, 0.4],
        potential=lambda x: G * x[1],
        holonomic=lambda x: jnp.stack([x[1] - 1.0]),
        multiplier_forces=forces,
        parameters={"mu": 0.3},
    )


def test_a_slip_is_affine():
    block = gn.System(
        Translations(1),
        metric=[1.0],
        multiplier_forces=gn.Friction(lambda t, x, xi: xi**2, 0.3, load=1.0),
        name="block",
    )
    with pytest.raises(ValueError, match="the slip of a friction of block must be affine in ξ"):
        gn.solve(block, xi0=[1.0], dt=0.01, n_steps=2)
