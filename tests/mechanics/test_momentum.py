"""Momentum maps: known cases, Corollary 4, Theorem 3 and Noether's theorem along runs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from momentum_systems import ball, inertia, turning

import geonh as gn
from geonh.diagnostics import momentum_equation_residual
from geonh.groups import SE2, SO3, Translations, as_group
from geonh.integrators import Variational
from geonh.mechanics.momentum import (
    generator,
    horizontality,
    momentum_map,
    moving_energy,
    nonholonomic_momentum,
    spatial_momentum,
)
from geonh.mechanics.symmetry import horizontal_symmetries

GROUPS = [SO3(), SE2(), as_group([Translations(2), SO3()])]
METHODS = [gn.GNI("trapezoid"), gn.GNI("left", "exp"), gn.GNI("midpoint", "exp")]
CASES = [
    pytest.param(SO3(), METHODS[0], id="SO3-trapezoid"),
    pytest.param(SO3(), METHODS[1], id="SO3-left-exp"),
    pytest.param(SE2(), METHODS[0], id="SE2-trapezoid"),
    pytest.param(GROUPS[2], METHODS[2], id="R2×SO3-midpoint-exp"),
]
GRAVITY = np.array([0.0, 0.0, 1.0])


def spread(values):
    """Largest change of a quantity along a run, relative to its size."""
    values = np.asarray(values)
    return np.abs(values - values[0]).max() / np.abs(values).max()


# --- the maps ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("group", GROUPS, ids=["SO3", "SE2", "R2×SO3"])
def test_generator_is_the_velocity_of_left_translation(group):
    rng = np.random.default_rng(1)
    eta = rng.uniform(-1, 1, group.dim)
    with gn.float64():
        g = group.exp(jnp.asarray(rng.uniform(-1, 1, group.dim)))

        def moved(t):
            return group.compose(group.inverse(g), group.compose(group.exp(t * eta), g))

        expected = jax.jacfwd(lambda t: group.log(moved(t)))(jnp.asarray(0.0))
    np.testing.assert_allclose(generator(group, g, eta), expected, atol=1e-13)


@pytest.mark.parametrize("group", GROUPS, ids=["SO3", "SE2", "R2×SO3"])
def test_momentum_map_pairs_spatial_momentum_and_batches(group):
    rng = np.random.default_rng(2)
    with gn.float64():
        g = jax.tree.map(np.asarray, group.exp(jnp.asarray(rng.uniform(-1, 1, (4, group.dim)))))
    p, eta = rng.uniform(-1, 1, (4, group.dim)), rng.uniform(-1, 1, group.dim)
    system = gn.System(group, metric=inertia(rng, group.dim))
    values = momentum_map(system, g, p, eta)
    assert isinstance(values, np.ndarray)
    assert values.shape == (4,)
    assert values.dtype == np.float64
    np.testing.assert_allclose(values, spatial_momentum(group, g, p) @ eta, atol=1e-14)
    np.testing.assert_allclose(values, np.sum(p * generator(group, g, eta), axis=1), atol=1e-14)
    np.testing.assert_allclose(values, nonholonomic_momentum(system, g, p, lambda g: eta), atol=1e-14)
    one = jax.tree.map(lambda a: a[2], g)
    np.testing.assert_allclose(momentum_map(system, one, p[2], eta), values[2], atol=1e-14)


def test_momentum_map_is_differentiable():
    system = gn.System(SE2(), metric=np.eye(3), base="point")
    eta = np.array([0.3, -1.0, 0.5])
    with gn.float64():
        g = jnp.array([0.4, 1.0, -2.0])
        slope = jax.jit(jax.grad(lambda p: momentum_map(system, g, p, eta)))(jnp.ones(3))
    np.testing.assert_allclose(slope, generator(SE2(), np.array([0.4, 1.0, -2.0]), eta), atol=1e-15)


# --- along runs of GNI -------------------------------------------------------------------------------------
def with_horizontal_symmetry(group, rng):
    """Left-invariant ℓ of random inertia, and a random distribution, not invariant, with one generator."""
    n, eta = group.dim, rng.uniform(-1, 1, group.dim)
    fixed, varying = rng.uniform(-1, 1, (2, n - 2, n))

    def frame(g):
        entries = jnp.concatenate([jnp.ravel(a) for a in jax.tree.leaves(g)])
        field = group.Ad(group.inverse(g)) @ eta
        return jnp.concatenate([field[None], fixed + 0.3 * jnp.sin(jnp.sum(entries)) * varying])

    system = gn.System(group, metric=inertia(rng, n), distribution=gn.Distribution(frame=frame))
    return system, eta


@pytest.mark.parametrize(("group", "method"), CASES)
@pytest.mark.quick("SO3-left-exp", "SE2-trapezoid")
def test_gni_keeps_the_momentum_of_a_horizontal_symmetry(group, method):
    rng = np.random.default_rng(7)
    system, eta = with_horizontal_symmetry(group, rng)
    result = horizontal_symmetries(system)
    assert result.shape == (1, group.dim)
    np.testing.assert_allclose(np.cross(result[0][:3], eta[:3]), 0, atol=1e-9)
    xi0 = system.project(None, rng.uniform(-1, 1, group.dim))
    run = gn.solve(system, method, xi0=xi0, dt=0.02, n_steps=200)
    for p in (run.p_plus, run.p_minus, run.p):
        assert spread(momentum_map(system, run.g, p, result[0])) < 2e-13
    other = np.roll(eta, 1) * [1, -1, 1, -1, 1][: group.dim]
    assert spread(momentum_map(system, run.g, run.p_plus, other)) > 1e-6  # not every momentum is kept


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m.rule).__name__)
@pytest.mark.quick("Trapezoid")
def test_gni_keeps_the_vertical_momentum_of_a_constrained_top(method):
    """Corollary 4 where ℓ has one symmetry only, on the base S²."""
    rng = np.random.default_rng(8)
    centre, across = rng.uniform(-1, 1, (2, 3))
    system = gn.System(
        SO3(),
        metric=inertia(rng, 3),
        potential=lambda gamma: gamma @ centre,
        distribution=gn.Distribution(lambda gamma: jnp.cross(gamma, across + 0.2 * gamma[::-1])[None]),
        base=gn.geometry.AdvectedVector(SO3(), GRAVITY),
    )
    result = horizontal_symmetries(system)
    np.testing.assert_allclose(result, [[0, 0, 1]], atol=1e-14)
    xi0 = system.project(None, rng.uniform(-2, 2, 3))
    run = gn.solve(system, method, xi0=xi0, dt=0.02, n_steps=200)
    assert spread(momentum_map(system, run.g, run.p_plus, result[0])) < 2e-13


def horizontal_section(system, rng):
    """η(g) = Ad_g P(x)v(g): a section of g^D, if every left translation is a symmetry of ℓ."""
    constant, varying = rng.uniform(-1, 1, (2, system.group.dim))

    def section(g):
        x = system.action.at(g)
        entries = jnp.concatenate([jnp.ravel(a) for a in jax.tree.leaves(g)])
        v = constant + varying * jnp.cos(jnp.sum(entries))
        return system.group.Ad(g) @ system.distribution.P(system.mass_matrix(x), x) @ v

    return section


@pytest.mark.parametrize(("group", "method"), CASES)
@pytest.mark.quick("SO3-left-exp", "SE2-trapezoid")
def test_gni_satisfies_the_discrete_momentum_equation(group, method):
    """Theorem 3 with a random inertia, a random invariant distribution and a random section."""
    rng = np.random.default_rng(9)
    system = gn.System(
        group,
        metric=inertia(rng, group.dim),
        distribution=gn.Distribution(rng.uniform(-1, 1, (1, group.dim))),
    )
    section = horizontal_section(system, rng)
    run = gn.solve(system, method, xi0=system.project(None, rng.uniform(-1, 1, group.dim)), dt=0.05, n_steps=100)
    assert np.abs(horizontality(system, run.g, section)).max() < 1e-12
    residual = momentum_equation_residual(system, run, section)
    assert residual.shape == (100,)
    J = nonholonomic_momentum(system, run.g, run.p_plus, section)
    assert np.abs(residual).max() < 1e-13 * np.abs(J).max() * 20
    assert np.abs(np.diff(J)).max() > 1e-4

    def not_horizontal(g):
        return section(g) + 1.0

    assert np.abs(momentum_equation_residual(system, run, not_horizontal)).max() > 1e-4


def test_momentum_equation_of_an_affine_system_and_an_action_that_is_no_left_translation():
    """Translations and rotation of the table plane act on a ball of any inertia, on a turning table."""
    rng = np.random.default_rng(10)
    system = ball(inertia(rng, 3), rate=0.6)

    def plane(g):
        return jnp.concatenate([jnp.eye(5)[:2], turning(g)])

    def section(g):
        allowed = system.distribution.annihilator(g) @ plane(g).T
        return (1 + 0.5 * jnp.sin(3 * g[0][0])) * jnp.cross(allowed[0], allowed[1])

    xi0 = system.project(None, rng.uniform(-1, 1, 5))
    run = gn.solve(system, gn.GNI(retraction="exp"), xi0=xi0, dt=0.02, n_steps=100)
    assert np.abs(horizontality(system, run.g, section, generators=plane)).max() < 1e-13
    J = nonholonomic_momentum(system, run.g, run.p_plus, section, generators=plane)
    residual = momentum_equation_residual(system, run, section, generators=plane)
    assert np.abs(residual).max() < 2e-14 * (1 + np.abs(J).max())
    assert np.abs(np.diff(J)).max() > 1e-4


def test_momentum_equation_refuses_what_it_does_not_hold_for():
    system = gn.systems.chaplygin_sleigh()
    sparse = gn.solve(system, xi0=[0.8, -0.5, 0.0], dt=0.01, n_steps=10, save_every=5)
    with pytest.raises(ValueError, match="save_every=1"):
        momentum_equation_residual(system, sparse, lambda g: jnp.ones(3))
    forced = gn.System(SE2(), metric=np.eye(3), forces=lambda t, x, xi, u: -xi, base="point")
    run = gn.solve(forced, xi0=[0.8, -0.5, 0.0], dt=0.01, n_steps=10)
    with pytest.raises(ValueError, match="external forces"):
        momentum_equation_residual(forced, run, lambda g: jnp.ones(3))


# --- without constraints, and with affine ones -------------------------------------------------------------
@pytest.mark.parametrize(
    ("group", "rule"),
    [(SO3(), "trapezoid"), (SO3(), "left"), (SE2(), "right"), (GROUPS[2], "midpoint")],
    ids=["SO3-trapezoid", "SO3-left", "SE2-right", "R2×SO3-midpoint"],
)
@pytest.mark.quick("SO3-trapezoid", "R2×SO3-midpoint")
def test_variational_keeps_the_spatial_momentum(group, rule):
    rng = np.random.default_rng(11)
    system = gn.System(group, metric=inertia(rng, group.dim), base="point")
    np.testing.assert_array_equal(horizontal_symmetries(system), np.eye(group.dim))
    run = gn.solve(system, Variational(rule), xi0=rng.uniform(-1, 1, group.dim), dt=0.02, n_steps=200)
    assert spread(spatial_momentum(group, run.g, run.p)) < 2e-13


def test_variational_keeps_the_vertical_momentum_of_a_heavy_top():
    rng = np.random.default_rng(12)
    centre = rng.uniform(-1, 1, 3)
    system = gn.System(
        SO3(),
        metric=inertia(rng, 3),
        potential=lambda gamma: gamma @ centre,
        base=gn.geometry.AdvectedVector(SO3(), GRAVITY),
    )
    run = gn.solve(system, Variational(), xi0=rng.uniform(-1, 1, 3), dt=0.02, n_steps=200)
    momentum = spatial_momentum(SO3(), run.g, run.p)
    np.testing.assert_allclose(momentum[:, 2], momentum[0, 2], atol=1e-13)
    assert spread(momentum[:, 0]) > 1e-3


def test_momentum_and_moving_energy_along_the_exact_motion():
    rng = np.random.default_rng(13)
    rate, system = 0.6, ball(inertia(rng, 3), rate=0.6)
    times = np.linspace(0, 2, 5)
    g, xi = gn.mechanics.reference_trajectory(system, times, system.project(None, rng.uniform(-1, 1, 5)))
    p = xi @ np.asarray(system.metric.field.constant).T

    def turn(g):
        return jnp.array([rate])

    def as_left_translation(g):
        position, _ = g
        return rate * jnp.concatenate([jnp.stack([-position[1], position[0]]), GRAVITY])

    moving = moving_energy(system, g, p, turn, generators=turning)
    np.testing.assert_allclose(moving, moving[0], rtol=1e-10)
    np.testing.assert_allclose(moving, moving_energy(system, g, p, as_left_translation), rtol=1e-13)
    energy = moving_energy(system, g, p, lambda g: jnp.zeros(5))
    assert spread(energy) > 1e-3
    for eta in horizontal_symmetries(system):
        assert spread(momentum_map(system, g, p, eta)) < 1e-10


def test_gni_keeps_the_moving_energy_of_a_homogeneous_ball_at_the_outgoing_momentum():
    rng = np.random.default_rng(14)
    rate, system = 0.6, ball(0.1 * np.eye(3), rate=0.6)
    xi0 = system.project(None, rng.uniform(-1, 1, 5))
    run = gn.solve(system, gn.GNI(retraction="exp"), xi0=xi0, dt=0.05, n_steps=200)
    moving = moving_energy(system, run.g, run.p_minus, lambda g: jnp.array([rate]), generators=turning)
    assert spread(moving) < 1e-12


def test_indices_of_sections_and_generators_are_inspected():
    system, g, p = gn.System(Translations(2), metric=np.eye(2)), np.zeros(2), [3.0, 4.0]
    with pytest.raises(ValueError, match="section asks for index 7"):
        gn.mechanics.nonholonomic_momentum(system, g, p, lambda g: jnp.ones(2) + g[7])
    with pytest.raises(ValueError, match="section asks for index 7"):
        gn.mechanics.moving_energy(system, g, p, lambda g: jnp.ones(2) + g[7])
    with pytest.raises(ValueError, match="generators asks for index 7"):
        gn.mechanics.momentum_map(system, g, p, [1.0, 0.0], generators=lambda g: jnp.eye(2) + g[7])


def test_a_section_may_read_what_changes():
    system, table = gn.System(Translations(2), metric=np.eye(2)), {"eta": [1.0, 0.0]}
    section = lambda g: jnp.asarray(table["eta"])  # noqa: E731
    assert gn.mechanics.nonholonomic_momentum(system, np.zeros(2), [3.0, 4.0], section) == 3.0
    table["eta"] = [0.0, 1.0]
    assert gn.mechanics.nonholonomic_momentum(system, np.zeros(2), [3.0, 4.0], section) == 4.0
