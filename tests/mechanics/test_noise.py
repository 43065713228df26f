"""Itô equations, the mean force of thermal contacts, and the thermodynamics of systems in a bath."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.analysis import divergence
from geonh.ensembles import Mean
from geonh.groups import SE2, SO3, Heisenberg, Translations
from geonh.mechanics import ito, thermal_contacts

MASS, OFFSET, INERTIA, KT = 1.2, 0.3, 0.5, 0.7
"""Of a sleigh whose centre of mass is ahead of the blade."""
J = INERTIA + MASS * OFFSET**2
METRIC = [[J, 0.0, MASS * OFFSET], [0.0, MASS, 0.0], [MASS * OFFSET, 0.0, MASS]]
BLADE = gn.Distribution([[0.0, 0.0, 1.0]])


def bath(t, x, xi, u, p):
    """Friction and the noise that goes with it, for each component of the velocity."""
    return -p["friction"] * xi + jnp.sqrt(2 * p["friction"] * p["kT"]) * u


def in_bath(group, friction, **what):
    return gn.System(group, forces=bath, parameters={"friction": np.array(friction), "kT": KT}, **what)


def sleigh(**what):
    return in_bath(SE2(), [0.4, 0.5, 0.0], metric=METRIC, distribution=BLADE, name="sleigh in a bath", **what)


def random_systems(seed):
    """Systems with constraints on three groups, of random metrics and forms, constant or not."""
    rng = np.random.default_rng(seed)
    root, form = rng.normal(size=(3, 3)), rng.normal(size=3)
    M = root @ root.T + np.eye(3)
    yield gn.System(SO3(), metric=M, distribution=gn.Distribution([form]))
    yield gn.System(Heisenberg(), metric=M, distribution=gn.Distribution([form]))
    forms = lambda x: jnp.stack([jnp.sin(x[1]), 1.0 + x[0] ** 2, jnp.cos(x[0]) + x[2]])[None]  # noqa: E731
    metric = lambda x: M + 0.3 * jnp.diag(jnp.cos(x) ** 2)  # noqa: E731
    yield gn.System(SE2(), metric=metric, distribution=gn.Distribution(forms))
    yield gn.System(SE2(), metric=metric, distribution=gn.AffineDistribution(forms, lambda x: x[1:2]))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_mean_force_is_kT_times_the_divergence(seed):
    """Of the velocity on D: of an affine constraint, from its drift on."""
    rng = np.random.default_rng(seed + 10)
    for system in random_systems(seed):
        g = system.group.exp(0.7 * rng.normal(size=3))
        x = system.at(g, 0.0)
        xi, rest = (np.asarray(system.projected_velocity(x, v)) for v in (rng.normal(size=3), np.zeros(3)))
        force = thermal_contacts(system, 0.6).force(0.0, x, xi)
        expected = 0.6 * divergence(system, g, xi)
        if system.is_affine:
            expected -= 0.6 * divergence(system, g, rest)
        np.testing.assert_allclose(force @ (xi - rest), expected, rtol=1e-9, atol=1e-12)


def test_the_mean_force_on_the_sleigh_and_none_where_the_volume_is_kept():
    force = thermal_contacts(sleigh(), "kT").force(0.0, np.zeros(3), np.zeros(3), np.zeros(3))
    np.testing.assert_allclose(force, [0.0, -MASS * OFFSET * KT / J, 0.0], atol=1e-15)
    sphere = gn.systems.chaplygin_sphere()
    assert np.abs(thermal_contacts(sphere, 1.0).force(0.0, sphere.at(sphere.point(None)), np.ones(5))).max() < 1e-15


A = np.array([[0.2, -0.9], [0.7, 0.1]])


@pytest.mark.slow
def test_ito_on_a_vector_space_has_its_exact_mean_and_solution():
    """dξ = aξ dW of Itô has the solution exp(aW − a²t/2)."""
    growth = gn.System(Translations(1), metric=[[2.0]], forces=lambda t, x, xi, u: 2.0 * 0.5 * xi * u)
    noise = gn.Wiener(1, 0.01, seed=3)
    run = gn.solve(ito(growth), "rkmk8", xi0=[1.5], dt=0.01, n_steps=200, controls=noise)
    W = noise.increments(200).sum()
    np.testing.assert_allclose(run.xi[-1], 1.5 * np.exp(0.5 * W - 0.5**2 * 2.0 / 2), rtol=1e-11)


def mixing(t, x, xi, u, p):
    return -0.4 * xi + jnp.einsum("i,ijk,k->j", u, p["fields"], xi) + p["steady"]


@pytest.mark.slow
def test_ito_agrees_with_the_scheme_of_euler_and_maruyama_on_the_constraints():
    """Of the same increments, on D in coordinates (ω, v); the scheme has strong order ½."""
    fields = 0.5 * np.random.default_rng(1).normal(size=(2, 3, 3))
    system = gn.System(
        SE2(),
        metric=METRIC,
        distribution=BLADE,
        forces=mixing,
        parameters={"fields": fields, "steady": np.array([0.1, 0.2, 0.0])},
    )
    members, inverse = 200, 1 / np.array([J, MASS])

    def scheme(n):
        w = np.tile([0.5, 0.8], (members, 1))
        for dW in gn.Wiener(2, 1 / n, seed=range(members)).increments(n).swapaxes(0, 1):
            inertial = MASS * OFFSET * np.stack([-w[:, 0] * w[:, 1], w[:, 0] ** 2], axis=1)
            drift = inertial - 0.4 * w + [0.1, 0.2]
            noise = np.einsum("mi,ijk,mk->mj", dW, fields[:, :2, :2], w)
            w = w + inverse * (drift / n + noise)
        return w

    errors = []
    for n in (64, 1024):
        noise = gn.Wiener(2, 1 / n, seed=range(members))
        run = gn.solve_ensemble(ito(system), "rkmk4", xi0=[0.5, 0.8, 0.0], dt=1 / n, n_steps=n, controls=noise)
        errors.append(np.sqrt(np.mean((run.xi[:, -1, :2] - scheme(n)) ** 2)))
    assert errors[1] < 0.02
    assert 3 < errors[0] / errors[1] < 6
    plain = gn.solve_ensemble(system, "rkmk4", xi0=[0.5, 0.8, 0.0], dt=1 / n, n_steps=n, controls=noise)
    assert np.sqrt(np.mean((plain.xi[:, -1, :2] - scheme(n)) ** 2)) > 5 * errors[1]


def squares(t, g, xi, lam):
    return xi**2


class Thermal(NamedTuple):
    """Means of ξ, of ξ² and of the energy over members and time, with their standard errors."""

    xi: np.ndarray
    squares: np.ndarray
    energy: np.ndarray


def thermal(system, *, dt=0.02, span=50.0, members=1000, seed=0):
    """Statistics in equilibrium, from starts with the covariance kT M⁻¹ projected onto D; g0 the identity."""
    size, n = system.group.dim, 5 * round(span / dt / 5)
    M = np.asarray(system.mass_matrix(system.at(system.point(None), 0.0)))
    starts = np.random.default_rng(seed).normal(size=(members, size)) @ np.linalg.cholesky(KT * np.linalg.inv(M)).T
    many = gn.solve_ensemble(
        system,
        "rkmk4",
        xi0=starts,
        dt=dt,
        n_steps=n,
        save_every=5,
        project=True,
        controls=gn.Wiener(size, dt, seed=range(seed, seed + members)),
        observables=(),
        statistics=[Mean(of, over="time") for of in ("xi", squares, "energy")],
    )
    assert many.success.all()
    values = (many.statistics[f"{name}:mean over time"] for name in ("xi", "squares", "energy"))
    return Thermal(*(np.array([x.mean(axis=0), x.std(axis=0) / np.sqrt(members)]) for x in values))


def within_three(measured, expected):
    mean, error = measured
    return (np.abs(mean - expected) < 3 * error).all()


@pytest.mark.slow
def test_naive_noise_drives_the_sleigh():
    """⟨u⟩ > 0, by the balance γ⟨u⟩ = ma⟨ω²⟩ of its momentum: work out of one bath."""
    found = thermal(sleigh())
    u, error = found.xi[:, 1]
    assert u > 30 * error
    balance = MASS * OFFSET * found.squares[0, 0] - 0.5 * u - MASS * u / 50.0  # the last of the start, ⟨u⟩ = 0
    assert abs(balance) < 3 * np.sqrt(2 * 0.5 * KT / 50.0 / 1000)
    assert J * found.squares[0, 0] < 0.75 * KT


@pytest.mark.slow
def test_noise_at_the_contact_repairs_the_second_law():
    """⟨u⟩ = 0 and kT/2 for each velocity: on D, and of a blade that gives way, ⟨Iω²⟩ = kT."""
    found = thermal(thermal_contacts(sleigh(), "kT"))
    assert within_three(found.xi[:, 1], 0.0)
    assert within_three(found.squares[:, :2], KT / np.array([J, MASS]))
    found = thermal(in_bath(SE2(), [0.4, 0.5, 4.0], metric=METRIC), dt=0.005, span=20.0)
    assert within_three(found.xi[:, 1], 0.0)
    assert within_three(found.squares, KT * np.diag(np.linalg.inv(METRIC)))
    np.testing.assert_allclose(np.linalg.inv(METRIC)[0, 0], 1 / INERTIA)


@pytest.mark.slow
@pytest.mark.parametrize("contact", [1.0, 10.0, 100.0])
def test_the_contact_may_be_as_stiff_as_one_likes(contact):
    found = thermal(
        in_bath(SE2(), [0.4, 0.5, contact], metric=METRIC), dt=0.004 / contact**0.5, span=20.0, members=4000
    )
    assert within_three(found.xi[:, 1], 0.0)
    assert within_three(found.squares, KT * np.diag(np.linalg.inv(METRIC)))


@pytest.mark.slow
def test_the_mean_force_is_the_limit_of_stiff_contacts_on_the_way_to_equilibrium():
    """Of the mean velocity after 1 s, with forms that turn with the place: the rest is of the order of 1/Γ."""
    rng, stiff, members = np.random.default_rng(3), 300.0, 20_000
    root = rng.normal(size=(3, 3))
    metric = root @ root.T / 2 + np.eye(3)
    form = lambda x: jnp.stack([0.5 * jnp.sin(x[1]), 1.0 + 0.3 * jnp.cos(x[0]), jnp.cos(x[0])])  # noqa: E731
    around = lambda t, x, xi, u: -0.4 * xi + np.sqrt(0.8 * KT) * u[:3]  # noqa: E731

    def held(t, x, xi, u):
        return around(t, x, xi, u) + (np.sqrt(2 * stiff * KT) * u[3] - stiff * form(x) @ xi) * form(x)

    blade = gn.System(SE2(), metric=metric, distribution=gn.Distribution(lambda x: form(x)[None]), forces=around)
    xi0 = blade.project([0.0, 0.0, 0.0], [1.0, 0.5, 0.2])

    def mean(system, size, dt):
        noise = gn.Wiener(size, dt, seed=range(members))
        many = gn.solve_ensemble(system, "rkmk4", xi0=xi0, dt=dt, n_steps=round(1 / dt), controls=noise)
        return many.xi[:, -1].mean(axis=0)[[0, 2]]  # the other component fluctuates across D

    naive, hot = mean(blade, 3, 0.01), mean(thermal_contacts(blade, KT), 3, 0.01)
    contact = mean(gn.System(SE2(), metric=metric, forces=held), 4, 0.0005)
    assert (np.abs(contact - hot) < 0.1 * np.abs(naive - hot)).all()


@pytest.mark.slow
def test_fluctuation_and_dissipation_without_constraints():
    body = in_bath(SO3(), [0.4, 0.5, 0.6], metric=np.diag([1.0, 1.5, 2.0]))
    assert within_three(thermal(body, members=500, seed=1).squares, KT / np.array([1.0, 1.5, 2.0]))


@pytest.mark.slow
def test_fluctuation_and_dissipation_with_constraints_that_preserve_the_volume():
    ball = gn.systems.chaplygin_sphere(table_rate=0.0)
    known = {"friction": np.array([0.4, 0.5, 0.6, 0.3, 0.3]), "kT": KT, **ball.parameters}
    given = {"metric": ball.metric, "distribution": ball.distribution, "base": ball.action}
    ball = gn.System(ball.group, forces=bath, parameters=known, **given)
    assert within_three(thermal(ball, seed=2).energy, 3 * KT / 2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ito(gn.systems.chaplygin_sleigh()), "no forces"),
        (lambda: thermal_contacts(gn.System(SO3(), metric=np.eye(3)), 1.0), "each a contact"),
        (lambda: thermal_contacts(sleigh(), -1.0), "kT must not be negative"),
        (lambda: thermal_contacts(sleigh().with_parameters(kT=-1.0), "kT"), "kT must not be negative, got -1"),
        (lambda: thermal_contacts(sleigh(), "kT").with_parameters(kT=-1.0), "kT must not be negative, got -1"),
        (lambda: ito(thermal_contacts(sleigh(), "kT")).with_parameters(kT=-1.0), "kT must not be negative, got -1"),
        (lambda: thermal_contacts(sleigh(), "kT").with_parameters(kT=np.nan), r"parameters\['kT'\] must be finite"),
        (lambda: thermal_contacts(gn.systems.suslov(), "J"), r"kT must have shape \(\), got \(3"),
        (lambda: thermal_contacts(sleigh(), "heat"), "no parameter 'heat'"),
        (
            lambda: thermal_contacts(ito(thermal_contacts(sleigh(), 1.0)), 1.0),
            "is a result of thermal_contacts already",
        ),
        (lambda: thermal_contacts(gn.systems.rolling_disc(), 1.0), "no holonomic"),
        (
            lambda: ito(gn.System(Translations(1), lagrangian=lambda x, v: v[0] ** 4, forces=lambda t, x, xi, u: u)),
            "quadratic in the velocity",
        ),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()
