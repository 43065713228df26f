"""GNI and the variational integrator on random systems: convergence, theorems, agreement of formulations."""

import jax.numpy as jnp
import numpy as np
import pytest
from random_systems import GROUPS, controls, forced, general, next_node, random_system, slope, spd, start

import geonh as gn
from geonh.groups import SE2, SO3, Opposite, Translations
from geonh.integrators import Variational
from geonh.integrators.base import Clock

FOUR = ("R3", "SO3", "SE2xT1", "R2xSO3")


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("name", FOUR)
@pytest.mark.quick("R3-False")
def test_second_order_on_random_systems(name, affine):
    system = random_system(name, affine=affine)
    assert abs(slope(system, gn.GNI(), **start(system, speed=1.0)) - 2) <= 0.1


@pytest.mark.parametrize("method", [gn.GNI(start="average"), gn.SymmetricProjection()])
@pytest.mark.quick("method1")
def test_the_constraint_holds_at_every_node_to_rounding(method):
    system = random_system("R2xSO3", affine=True, m=2)
    run = gn.solve(system, method, dt=0.03, n_steps=100, **start(system))
    assert np.abs(run.constraint_residual).max() < 1e-14


QUICK_PAIRS = [("SL2", "exp")]
OTHER_GROUPS = ("SE3", "Heisenberg", "SE2op", "SL2", "SO4")
SLOW_PAIRS = [(n, r) for n in OTHER_GROUPS for r in ("cayley", "exp") if (n, r) not in QUICK_PAIRS]


@pytest.mark.parametrize(
    ("name", "retraction"),
    [*QUICK_PAIRS, *(pytest.param(*pair, marks=pytest.mark.slow) for pair in SLOW_PAIRS)],
)
def test_second_order_on_other_groups_with_both_retractions(name, retraction):
    system = random_system(name)
    at, steps = start(system, speed=0.4), (20, 40, 80, 160)
    assert abs(slope(system, gn.GNI(retraction=retraction), steps, span=0.5, **at) - 2) <= 0.1


@pytest.mark.parametrize(("rule", "order"), [("left", 1), ("right", 1), ("midpoint", 2)])
@pytest.mark.quick("left-1")
def test_order_of_rules_on_a_random_system(rule, order):
    system = random_system("SO3", seed=7)
    steps = np.array([40, 80, 160, 320]) * (1 if order == 2 else 8)
    assert abs(slope(system, gn.GNI(rule, "exp"), steps, **start(system, 8, speed=1.0)) - order) <= 0.1


@pytest.mark.parametrize("begin", ["multiplier", pytest.param("average", marks=pytest.mark.slow)])
def test_velocity_dependent_and_controlled_forces_are_of_second_order(begin):
    system = forced()
    at = {"xi0": system.project(None, [0.4, -0.2, 0.3]), "controls": controls}
    assert abs(slope(system, gn.GNI(start=begin), **at) - 2) <= 0.1


@pytest.mark.slow
def test_general_lagrangian_with_forces_and_an_affine_constraint_is_of_second_order():
    system = general()
    assert abs(slope(system, gn.GNI(), **start(system, speed=1.0)) - 2) <= 0.1


@pytest.mark.slow
def test_general_lagrangian_with_a_magnetic_term_is_of_second_order():
    """ℓ = ½ξᵀMξ + ¼|ξ|⁴/10 + A(x)·ξ, which is neither quadratic nor even in ξ."""
    M = np.diag([1.0, 2.0, 1.5])

    def lagrangian(x, xi):
        return 0.5 * xi @ M @ xi + 0.025 * (xi @ xi) ** 2 + jnp.sin(x[0]) * xi[1] - jnp.cos(x[1])

    free = gn.System(Translations(3), lagrangian=lagrangian)
    g0 = np.array([0.1, 0.2, 0.3])
    assert abs(slope(free, Variational(), g0=g0, xi0=np.array([0.5, -0.4, 0.3])) - 2) <= 0.1
    bound = gn.System(
        Translations(3), lagrangian=lagrangian, distribution=gn.Distribution(lambda x: [[-x[1], 0.0, 1.0]])
    )
    assert abs(slope(bound, gn.GNI(), g0=g0, xi0=np.array([0.5, -0.4, 0.1])) - 2) <= 0.1


@pytest.mark.parametrize("rule", ["trapezoid", "midpoint", "left"])
@pytest.mark.parametrize("retraction", ["cayley", "exp"])
@pytest.mark.quick("cayley-trapezoid", "exp-left")
def test_theorem_1_energy_at_p_minus(rule, retraction):
    """Bi-invariant ℓ, left-invariant l_d, any distribution: the energy at p⁻ is kept to rounding."""
    rng = np.random.default_rng(11)
    forms, twist = rng.normal(size=(1, 5)), rng.normal(size=(1, 5, 11))
    group = GROUPS["R2xSO3"]
    coordinates = lambda x: jnp.cos(group.to_vector(x))  # noqa: E731
    metric = np.diag([1.3, 1.3, 0.7, 0.7, 0.7])
    distribution = gn.Distribution(lambda x: forms + jnp.tensordot(twist, coordinates(x), 1))
    system = gn.System(group, metric=metric, distribution=distribution)
    run = gn.solve(system, gn.GNI(rule, retraction), **start(system, 12, speed=1.0), dt=0.05, n_steps=500)
    assert np.ptp(run.energy_minus) < 1e-12
    assert np.ptp(run.energy) > 1e-6  # not at p̃: D is not right-invariant


def test_energy_at_the_average_momentum_if_the_distribution_is_right_invariant():
    J = 0.8 * np.eye(3)
    system = gn.System(
        SO3(), metric=J, distribution=gn.Distribution(lambda R: (R.T @ np.array([0.3, -0.5, 1.0]))[None])
    )
    run = gn.solve(system, gn.GNI(), **start(system, 3, speed=1.0), dt=0.05, n_steps=500)
    assert np.ptp(run.energy) < 1e-13
    assert np.ptp(run.energy_minus) < 1e-13


@pytest.mark.parametrize("retraction", ["cayley", "exp"])
@pytest.mark.quick("cayley")
def test_reduced_and_unreduced_agree_to_rounding(retraction):
    rng = np.random.default_rng(2)
    for group in (SO3(), SE2()):
        M, forms = spd(rng, 3), rng.normal(size=(1, 3))
        runs = []
        for base in ("point", "group"):
            system = gn.System(group, metric=M, distribution=gn.Distribution(forms), base=base)
            xi0 = system.project(None, np.array([0.3, -0.5, 0.9]))
            runs.append(gn.solve(system, gn.GNI(retraction=retraction), xi0=xi0, dt=0.02, n_steps=200))
        np.testing.assert_allclose(runs[0].g_vector, runs[1].g_vector, atol=1e-13)


@pytest.mark.quick("gni")
@pytest.mark.parametrize("method", [gn.GNI(), gn.SymmetricProjection()], ids=["gni", "projected"])
def test_left_and_right_trivialisation_agree_for_a_bi_invariant_metric(method):
    """The same system in body (G) and in spatial (Gᵒᵖ) velocities, to rounding where l_d is the same function."""
    a = np.array([0.2, 0.5, 1.0])
    body = gn.System(SO3(), metric=np.eye(3), distribution=gn.Distribution(a[None]), base="point")
    spatial = gn.System(
        Opposite(SO3()), metric=np.eye(3), distribution=gn.Distribution(lambda R: (R @ a)[None]), base="group"
    )
    g0, xi0 = start(body, 5).values()
    left = gn.solve(body, method, g0=g0, xi0=xi0, dt=0.05, n_steps=200)
    right = gn.solve(spatial, method, g0=g0, xi0=g0 @ xi0, dt=0.05, n_steps=200)
    np.testing.assert_allclose(left.g, right.g, rtol=0, atol=1e-12)


def test_left_and_right_trivialisation_agree_in_the_continuous_equations():
    """Any metric: body velocities on G against spatial velocities on Gᵒᵖ with the metric R M Rᵀ."""
    rng = np.random.default_rng(9)
    M, a = spd(rng, 3), rng.normal(size=3)
    body = gn.System(SO3(), metric=M, distribution=gn.Distribution(a[None]), base="point")
    spatial = gn.System(
        Opposite(SO3()), metric=lambda R: R @ M @ R.T, distribution=gn.Distribution(lambda R: (R @ a)[None])
    )
    g0, xi0 = start(body, 5).values()
    left, xi = gn.mechanics.reference_trajectory(body, [0, 1.0], xi0, g0)
    right, w = gn.mechanics.reference_trajectory(spatial, [0, 1.0], g0 @ xi0, g0)
    np.testing.assert_allclose(left, right, atol=1e-10)
    np.testing.assert_allclose(np.einsum("tij,tj->ti", left, xi), w, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["trapezoid", pytest.param("midpoint", marks=pytest.mark.slow)])
def test_symmetric_rules_retrace_their_steps(rule):
    """From the last node, with momenta exchanged, −dt leads back to the start."""
    system = random_system("R2xSO3", affine=True)
    method = gn.GNI(rule, "exp")
    there = gn.solve(system, method, dt=0.02, n_steps=100, **start(system, speed=1.0))
    back = Clock(there.t[-1], np.float64(-0.02))
    state = there.state.reversed(there.state.memory)._replace(k=np.int64(0))
    warm = method.cold(system, back, 0, state.g, jnp.asarray(there.xi[-1]))
    state = state._replace(warm=warm)
    for _ in range(100):
        state = next_node(system, method, back, state)
    np.testing.assert_allclose(system.group.to_vector(state.g), there.g_vector[0], rtol=0, atol=1e-11)
    np.testing.assert_allclose(state.p_minus, there.p_plus[0], rtol=0, atol=1e-10)


def test_variational_refuses_constraints():
    system = random_system("R3", seed=1)
    with pytest.raises(ValueError, match="without nonholonomic constraints"):
        gn.solve(system, Variational(), xi0=np.zeros(3), dt=0.1, n_steps=1)


@pytest.mark.parametrize("bad", [{"rule": "simpson"}, {"retraction": "log"}, {"start": "guess"}])
def test_wrong_words_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        gn.GNI(**bad)
