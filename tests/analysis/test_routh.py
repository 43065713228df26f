"""Routh reduction by horizontal symmetries: runs at a momentum against those of the whole system."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.analysis import reduce, steady_motion
from geonh.groups import SE2, SO3, Product, Torus, Translations
from geonh.mechanics import momentum_map


def check(system, symmetry, g0, xi0, *, controls=None, dt=0.02):
    """The lift of a run on the shapes is the run of the system: path, velocities, multipliers and energy."""
    rows = np.atleast_2d(np.asarray(symmetry, float))
    p = np.asarray(gn.solve(system, xi0=xi0, g0=g0, dt=dt, n_steps=1, controls=controls).p[0])
    momentum = [float(momentum_map(system, g0, p, row)) for row in rows]
    reduction = reduce(system, rows, momentum=momentum)
    assert reduction.system.group.dim == system.group.dim - len(rows)
    begin = reduction.start(g0, xi0)
    options = {"method": "gauss6", "dt": dt, "n_steps": 60, "controls": controls}
    run = gn.solve(reduction.system, g0=begin.g0, xi0=begin.xi0, **options)
    exact = gn.solve(system, g0=g0, xi0=xi0, **options)
    lifted = reduction.lift(run, g0)
    for name in ("g_vector", "xi", "energy", "multipliers"):
        a, b = getattr(lifted, name), getattr(exact, name)
        np.testing.assert_allclose(a, b, atol=1e-11 if name == "multipliers" else 2e-12, err_msg=name)
    np.testing.assert_allclose(run.energy, exact.energy, atol=2e-12)
    assert np.abs(lifted.constraint_residual).max(initial=0) < 1e-12
    return reduction


@pytest.mark.slow
def test_the_rotor_of_a_snakeboard():
    board = gn.systems.snakeboard()
    g0 = (np.array([0.2, 0.5, -0.3]), np.array([0.1, 0.7]))
    reduction = check(board, [0, 0, 0, 1, 0], g0, board.project(g0, [0.4, 0.3, -0.2, 0.7, 0.5]))
    assert reduction.system.group.dim == 4
    assert reduction.system.action.names == ("phi",)


def random_system(seed):
    """A system on T² × SE(2) × R whose momenta on T² are kept, with constraints, a linear term in ℓ and forces."""
    rng = np.random.default_rng(seed)
    A, B, c, f = rng.normal(size=(6, 6)), rng.normal(size=(6, 6)), rng.normal(size=6), rng.normal(size=4)
    mu, nu = rng.normal(size=(2, 4)), rng.normal(size=(2, 4))

    def root(x):
        return jnp.eye(6) + 0.2 * A * jnp.sin(x[2][0]) + 0.2 * B * jnp.cos(x[1][0] + x[1][1])

    def lagrangian(x, xi, p):
        return 0.5 * jnp.sum((root(x) @ xi) ** 2) + jnp.sin(x[2][0]) * (c @ xi) - p["k"] * jnp.cos(x[1][2] + x[2][0])

    def forms(x):
        return jnp.concatenate([jnp.zeros((1, 2)), (mu + nu * jnp.sin(x[2][0]))[:1]], axis=1)

    return gn.System(
        Product((Torus(2), SE2(), Translations(1))),
        metric=lambda x: root(x).T @ root(x),
        lagrangian=lagrangian,
        distribution=gn.AffineDistribution(forms, lambda x: 0.3 * jnp.cos(x[1][1])[None]),
        forces=lambda t, x, xi, u: jnp.concatenate([jnp.zeros(2), (f * u * jnp.cos(t) - 0.1 * xi[2:])]),
        parameters={"k": 0.8},
        name="random",
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_random_systems(seed):
    system, rng = random_system(seed), np.random.default_rng(100 + seed)
    g0 = (rng.normal(size=2), rng.normal(size=3), rng.normal(size=1))
    xi0 = system.project(g0, 0.5 * rng.normal(size=6))
    reduction = check(system, np.eye(6)[:2], g0, xi0, controls=lambda t: 0.3 + 0.2 * jnp.sin(t))
    # at other parameters and momenta
    other = reduction.with_parameters(k=1.7, momentum=[0.3, -0.4])
    x = system.at(g0)
    M, p0 = np.asarray(system.mass_matrix(x)), np.asarray(system.momentum_at_rest(x))
    rows = np.concatenate([np.eye(6)[:2] @ M, np.asarray(system.annihilator(x))])
    values = np.concatenate([[0.3, -0.4] - p0[:2], np.asarray(system.right_hand_side(x))])
    xi = np.linalg.lstsq(rows, values, rcond=None)[0]
    begin = other.start(g0, xi)
    options = {"method": "gauss6", "dt": 0.02, "n_steps": 20, "controls": lambda t: 0.2 * t}
    run = gn.solve(other.system, g0=begin.g0, xi0=begin.xi0, **options)
    exact = gn.solve(system.with_parameters(k=1.7), g0=g0, xi0=xi, **options)
    for own in (other, reduction):
        np.testing.assert_allclose(own.lift(run, g0).g_vector, exact.g_vector, atol=1e-12)
    with pytest.raises(ValueError, match=r"xi0 has other momenta than .* has others"):
        reduction.start(g0, xi)


def pendulum():
    """A spherical pendulum with a mass of 1 and a length of 1, in longitude and latitude from below."""
    return gn.System(
        Product((Torus(1), Translations(1))),
        metric=lambda x: jnp.stack([jnp.sin(x[1][0]) ** 2, 1.0]),
        potential=lambda x: -9.81 * jnp.cos(x[1][0]),
        name="pendulum",
    )


@pytest.mark.slow
def test_a_conical_pendulum_is_an_equilibrium_of_its_latitude():
    """At c = Ω sin²θ with Ω² = g/cos θ; the frequency of small oscillations in Routh's function, by hand."""
    theta = 0.7
    rate = np.sqrt(9.81 / np.cos(theta))
    reduction = reduce(pendulum(), [1.0, 0.0], momentum=[rate * np.sin(theta) ** 2])
    found = steady_motion(reduction.system, [0.6], [0.0], free=["x"])
    np.testing.assert_allclose(found.g[0], theta, atol=1e-12)
    run = gn.solve(reduction.system, g0=[theta + 1e-6], xi0=[0.0], dt=0.001, n_steps=4000)
    squared = 9.81 * (1 + 3 * np.cos(theta) ** 2) / np.cos(theta)
    np.testing.assert_allclose(run.g[:, 0] - theta, 1e-6 * np.cos(np.sqrt(squared) * run.t), atol=2e-11)
    around = reduction.phase(gn.solve(reduction.system, g0=[theta], xi0=[0.0], dt=0.01, n_steps=200))
    np.testing.assert_allclose(around[0], [2.0 * rate], rtol=1e-12)


@pytest.mark.slow
def test_the_base_holds_for_other_momenta_and_parameters():
    """At momentum 0 without a spring the shape is a symmetry, and with either not."""
    cart = gn.System(
        Product((Torus(1), Translations(1))),
        metric=lambda x: jnp.stack([1 + x[1][0] ** 2, 1.0]),
        potential=lambda x, p: p["k"] * x[1][0] ** 2 / 2,
        parameters={"k": 0.0},
        name="cart",
    )
    reduction = reduce(cart, [1.0, 0.0], momentum=0.0)
    options = {"method": "gauss6", "dt": 0.01, "n_steps": 300}
    for changes in ({"momentum": 2.0}, {"k": 5.0}):
        other = reduction.with_parameters(**changes)
        p = changes.get("momentum", 0.0)
        start = {"g0": ([0.0], [1.0]), "xi0": [p / 2, 0.3]}
        exact = gn.solve(other.original, **start, **options)
        run = gn.solve(other.system, g0=[1.0], xi0=[0.3], **options)
        np.testing.assert_allclose(other.lift(run).g_vector, exact.g_vector, atol=1e-11)
    braked = gn.System(
        Torus(2), metric=[1.0, 2.0], parameters={"d": 0.0}, forces=lambda t, x, xi, u, p: -p["d"] * xi, name="braked"
    )
    with pytest.raises(ValueError, match="the forces of braked change the momenta"):
        reduce(braked, [1.0, 0.0], momentum=1.0).with_parameters(d=0.5)


@pytest.mark.slow
def test_the_lift_of_a_run_with_a_tolerance_has_small_enough_steps():
    """Steps that suit the shapes are too long for the group part, which turns five times as fast."""
    system = gn.System(
        Product((Torus(1), Translations(1))),
        lagrangian=lambda x, xi: ((xi[0] - jnp.sin(5 * x[1][0]) * xi[1]) ** 2 + xi[1] ** 2) / 2,
    )
    reduction = reduce(system, [1.0, 0.0], momentum=0.0)
    run = gn.solve(reduction.system, g0=[0.0], xi0=[1.0], tolerance=1e-8, t_end=20.0)
    assert len(run) < 20
    np.testing.assert_allclose(reduction.lift(run).g[0][:, 0], (1 - np.cos(5 * run.t)) / 5, atol=1e-8)


@pytest.mark.slow
def test_what_is_refused():
    board = gn.systems.snakeboard()
    with pytest.raises(ValueError, match="not horizontal: they leave D by"):
        reduce(board, [0.0, 1.0, 0.0, 0.0, 0.0], momentum=[1.0])
    with pytest.raises(ValueError, match="reduce twice"):
        reduce(board, [0, 0, 0, 1, 0], momentum=[1.0], eliminate=True)
    with pytest.raises(ValueError, match=r"momentum must have shape \(1,\)"):
        reduce(board, [0, 0, 0, 1, 0], momentum=[1.0, 2.0])
    body = gn.System(SO3(), metric=[1.0, 2.0, 3.0], name="body")
    with pytest.raises(ValueError, match="do not commute: give symmetry="):
        reduce(body, momentum=[1.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="no subgroup with one element in each coset"):
        reduce(body, [0.0, 0.0, 1.0], momentum=[1.0])
    braked = gn.System(Torus(2), metric=[1.0, 2.0], forces=lambda t, x, xi, u: -0.1 * xi, name="braked")
    with pytest.raises(ValueError, match="the forces of braked change the momenta"):
        reduce(braked, [1.0, 0.0], momentum=[1.0])
    with pytest.raises(ValueError, match="no symmetries that are horizontal"):
        reduce(gn.systems.suslov(), momentum=[1.0])
    relativistic = gn.System(Torus(2), lagrangian=lambda x, xi: -jnp.sqrt(1 - xi @ xi / 9.0), name="fast")
    with pytest.raises(ValueError, match="ℓ that is not quadratic in ξ"):
        reduce(relativistic, [1.0, 0.0], momentum=[1.0])
    assert jax.tree.structure(reduce(pendulum(), momentum=[0.3]).system.parameters).num_leaves == 1
