"""GNI and the variational integrator on random systems: convergence, theorems, agreement of formulations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from geomstats.geometry.special_orthogonal import SpecialOrthogonal

import geonh as gn
from geonh.groups import SE2, SE3, SO3, Heisenberg, MatrixGroup, Opposite, Product, Torus, Translations

STEPS = np.array([40, 80, 160, 320])
GROUPS = {
    "R3": Translations(3),
    "SO3": SO3(),
    "SE2xT1": Product((SE2(), Torus(1))),
    "R2xSO3": Product((Translations(2), SO3())),
}


def spd(rng, n):
    a = rng.normal(size=(n, n))
    return a @ a.T + n * np.eye(n)


def coordinates(group):
    """Smooth functions of a group element: cosines of its entries."""
    return lambda x: jnp.cos(group.to_vector(x))


def random_system(group, seed, *, affine=False, m=1):
    """Random metric, potential and constraints, all of them functions of the group element."""
    rng = np.random.default_rng(seed)
    n, features = group.dim, coordinates(group)
    k = len(group.point_names)
    M, A = spd(rng, n), 0.1 * rng.normal(size=(n, n, k))
    forms, B = rng.normal(size=(m, n)), 0.3 * rng.normal(size=(m, n, k))
    c, rhs, C = rng.normal(size=k), rng.normal(size=m), 0.3 * rng.normal(size=(m, k))

    def metric(x):
        S = jnp.tensordot(A, features(x), 1)
        return M + S + S.T

    def mu(x):
        return forms + jnp.tensordot(B, features(x), 1)

    def b(x):
        return rhs + C @ features(x)

    distribution = gn.AffineDistribution(mu, b) if affine else gn.Distribution(mu)
    return gn.System(group, metric=metric, potential=lambda x: c @ features(x), distribution=distribution)


def random_start(system, seed):
    rng = np.random.default_rng(seed)
    g0 = jax.tree.map(np.asarray, system.group.exp(jnp.asarray(rng.normal(size=system.group.dim))))
    return g0, system.project(g0, rng.normal(size=system.group.dim))


def slope(system, method, g0, xi0, span=1.0, steps=STEPS, controls=None):
    g, xi = gn.reference_trajectory(system, [0, span], xi0, g0, controls=controls)
    end = np.concatenate([np.asarray(system.group.to_vector(g))[-1], xi[-1]])
    found = []
    for n in steps:
        run = gn.solve(system, method, g0=g0, xi0=xi0, dt=span / n, n_steps=int(n), controls=controls)
        assert np.abs(run.constraint_residual).max(initial=0) < 1e-12
        found.append(np.abs(np.concatenate([run.g_vector[-1], run.xi[-1]]) - end).max())
    return -np.polyfit(np.log(steps), np.log(found), 1)[0]


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("name", GROUPS)
def test_second_order_on_random_systems(name, affine):
    system = random_system(GROUPS[name], seed=3, affine=affine)
    assert 1.9 <= slope(system, gn.GNI(), *random_start(system, 4)) <= 2.1


SL2 = np.array([[[0.0, 1], [0, 0]], [[0, 0], [2, 0]], [[1, 1], [0, -1]]])
OTHER_GROUPS = {
    "SE3": SE3(),
    "Heisenberg": Heisenberg(),
    "SE2op": Opposite(SE2()),
    "SL2": MatrixGroup(SL2, name="SL(2)"),
    "SO4": MatrixGroup(SpecialOrthogonal(4)),
}


QUICK_PAIRS = [("SE3", "cayley"), ("SL2", "exp")]
SLOW_PAIRS = [(n, r) for n in OTHER_GROUPS for r in ("cayley", "exp") if (n, r) not in QUICK_PAIRS]


@pytest.mark.parametrize(
    ("name", "retraction"),
    [*QUICK_PAIRS, *(pytest.param(*pair, marks=pytest.mark.slow) for pair in SLOW_PAIRS)],
)
def test_second_order_on_other_groups_with_both_retractions(name, retraction):
    system = random_system(OTHER_GROUPS[name], seed=3)
    g0, xi0 = random_start(system, 4)
    steps = np.array([20, 40, 80, 160])
    assert 1.9 <= slope(system, gn.GNI(retraction=retraction), g0, 0.4 * xi0, span=0.5, steps=steps) <= 2.1


@pytest.mark.parametrize(("rule", "order"), [("left", 1), ("right", 1), ("midpoint", 2)])
def test_order_of_rules_on_a_random_system(rule, order):
    system = random_system(GROUPS["SO3"], seed=7)
    steps = STEPS if order == 2 else 8 * STEPS
    assert abs(slope(system, gn.GNI(rule, "exp"), *random_start(system, 8), steps=steps) - order) <= 0.1


def test_velocity_dependent_and_controlled_forces_are_of_second_order():
    def forces(t, x, xi, u):
        return -0.3 * xi + jnp.cos(2 * t) * jnp.ones(3) - 0.05 * xi * jnp.sum(xi**2) + u

    rng = np.random.default_rng(0)
    system = gn.System(
        SO3(),
        metric=spd(rng, 3),
        distribution=gn.Distribution(lambda x: x[2][None, :]),
        potential=lambda x: x[2, 0],
        forces=forces,
    )
    controls = lambda t: jnp.stack([jnp.sin(t), 0.0 * t, t])  # noqa: E731
    g0, xi0 = random_start(system, 1)
    assert 1.9 <= slope(system, gn.GNI(), g0, xi0, controls=controls) <= 2.1


def test_general_lagrangian_with_a_magnetic_term_is_of_second_order():
    """ℓ = ½ξᵀMξ + ¼|ξ|⁴/10 + A(x)·ξ, which is neither quadratic nor even in ξ."""
    M = np.diag([1.0, 2.0, 1.5])

    def lagrangian(x, xi):
        return 0.5 * xi @ M @ xi + 0.025 * (xi @ xi) ** 2 + jnp.sin(x[0]) * xi[1] - jnp.cos(x[1])

    free = gn.System(Translations(3), lagrangian=lagrangian)
    assert 1.9 <= slope(free, gn.Variational(), np.array([0.1, 0.2, 0.3]), np.array([0.5, -0.4, 0.3])) <= 2.1
    bound = gn.System(
        Translations(3), lagrangian=lagrangian, distribution=gn.Distribution(lambda x: [[-x[1], 0.0, 1.0]])
    )
    g0 = np.array([0.1, 0.2, 0.3])
    assert 1.9 <= slope(bound, gn.GNI(), g0, np.array([0.5, -0.4, 0.1])) <= 2.1


@pytest.mark.parametrize("rule", ["trapezoid", "midpoint", "left"])
@pytest.mark.parametrize("retraction", ["cayley", "exp"])
def test_theorem_1_energy_at_p_minus(rule, retraction):
    """Bi-invariant ℓ, left-invariant l_d, any distribution: the energy at p⁻ is kept to rounding."""
    rng = np.random.default_rng(11)
    forms, twist = rng.normal(size=(1, 5)), rng.normal(size=(1, 5, 11))
    group = GROUPS["R2xSO3"]
    metric = np.diag([1.3, 1.3, 0.7, 0.7, 0.7])
    distribution = gn.Distribution(lambda x: forms + jnp.tensordot(twist, coordinates(group)(x), 1))
    system = gn.System(group, metric=metric, distribution=distribution)
    g0, xi0 = random_start(system, 12)
    run = gn.solve(system, gn.GNI(rule, retraction), g0=g0, xi0=xi0, dt=0.05, n_steps=500)
    assert np.ptp(run.energy_minus) < 1e-12
    assert np.ptp(run.energy) > 1e-6  # not at p̃: D is not right-invariant


def test_energy_at_the_average_momentum_if_the_distribution_is_right_invariant():
    J = 0.8 * np.eye(3)
    system = gn.System(
        SO3(), metric=J, distribution=gn.Distribution(lambda R: (R.T @ np.array([0.3, -0.5, 1.0]))[None])
    )
    g0, xi0 = random_start(system, 3)
    run = gn.solve(system, g0=g0, xi0=xi0, dt=0.05, n_steps=500)
    assert np.ptp(run.energy) < 1e-13


@pytest.mark.parametrize("retraction", ["cayley", "exp"])
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


def test_left_and_right_trivialisation_agree_for_a_bi_invariant_metric():
    """The same system in body (G) and in spatial (Gᵒᵖ) velocities, to rounding where l_d is the same function."""
    a = np.array([0.2, 0.5, 1.0])
    body = gn.System(SO3(), metric=np.eye(3), distribution=gn.Distribution(a[None]), base="point")
    spatial = gn.System(
        Opposite(SO3()), metric=np.eye(3), distribution=gn.Distribution(lambda R: (R @ a)[None]), base="group"
    )
    g0, xi0 = random_start(body, 5)
    left = gn.solve(body, g0=g0, xi0=xi0, dt=0.05, n_steps=200)
    right = gn.solve(spatial, g0=g0, xi0=g0 @ xi0, dt=0.05, n_steps=200)
    np.testing.assert_allclose(left.g, right.g, atol=1e-12)


def test_left_and_right_trivialisation_agree_in_the_continuous_equations():
    """Any metric: body velocities on G against spatial velocities on Gᵒᵖ with the metric R M Rᵀ."""
    rng = np.random.default_rng(9)
    M, a = spd(rng, 3), rng.normal(size=3)
    body = gn.System(SO3(), metric=M, distribution=gn.Distribution(a[None]), base="point")
    spatial = gn.System(
        Opposite(SO3()), metric=lambda R: R @ M @ R.T, distribution=gn.Distribution(lambda R: (R @ a)[None])
    )
    g0, xi0 = random_start(body, 5)
    left, xi = gn.reference_trajectory(body, [0, 1.0], xi0, g0)
    right, w = gn.reference_trajectory(spatial, [0, 1.0], g0 @ xi0, g0)
    np.testing.assert_allclose(left, right, atol=1e-10)
    np.testing.assert_allclose(np.einsum("tij,tj->ti", left, xi), w, atol=1e-10)


def test_moser_veselov_is_a_discrete_lagrangian_of_the_user():
    """l_d = tr((1 − W)𝕁)/h with 𝕁 = ½tr(J)1 − J: the free rigid body, with its spatial momentum to rounding."""
    J = np.diag([1.0, 1.7, 2.2])
    dual = 0.5 * np.trace(J) * np.eye(3) - J
    system = gn.System(SO3(), metric=J, base="point")
    method = gn.Variational(lambda x, W, h: jnp.trace((jnp.eye(3) - W) @ dual) / h)
    xi0 = np.array([0.3, 1.0, -0.4])
    assert 1.9 <= slope(system, method, None, xi0) <= 2.1
    run = gn.solve(system, method, xi0=xi0, dt=0.05, n_steps=400)
    spatial = np.einsum("tij,tj->ti", run.g, run.p_minus)
    np.testing.assert_allclose(spatial, np.broadcast_to(spatial[0], spatial.shape), atol=1e-12)


@pytest.mark.parametrize("rule", ["trapezoid", pytest.param("midpoint", marks=pytest.mark.slow)])
def test_symmetric_methods_retrace_their_steps(rule):
    """From the last node, with momenta exchanged, −dt leads back to the start."""
    system = random_system(GROUPS["R2xSO3"], seed=21, affine=True)
    g0, xi0 = random_start(system, 22)
    there = gn.solve(system, gn.GNI(rule, "exp"), g0=g0, xi0=xi0, dt=0.02, n_steps=100)
    method, clock = there.method, there.clock._replace(dt=np.float64(-0.02))
    state = there.state
    # reversed in time, the momentum that came in goes out
    state = state._replace(p_plus=state.p_minus, p_minus=state.p_plus, increment=-state.increment)
    step = jax.jit(lambda s: method.step(system, clock, s))
    for _ in range(100):
        state = step(state)
    np.testing.assert_allclose(system.group.to_vector(state.g), there.g_vector[0], atol=1e-11)
    np.testing.assert_allclose(state.p_minus, there.p_plus[0], atol=1e-10)


def test_euler_a_and_b_are_adjoint():
    """A step of A forward and of B backward cancel, on a system where they differ."""
    system = random_system(GROUPS["SO3"], seed=31)
    g0, xi0 = random_start(system, 32)
    a, b = gn.GNI("left", "exp"), gn.GNI("right", "exp")
    there = gn.solve(system, a, g0=g0, xi0=xi0, dt=0.05, n_steps=1)
    state = there.state
    state = state._replace(p_plus=state.p_minus, p_minus=state.p_plus, increment=-state.increment)
    back = jax.jit(lambda s: b.step(system, there.clock._replace(dt=np.float64(-0.05)), s))(state)
    np.testing.assert_allclose(back.g, g0, atol=1e-13)
    np.testing.assert_allclose(back.p_plus, there.p_minus[0], atol=1e-12)


def test_variational_refuses_constraints():
    system = random_system(GROUPS["R3"], seed=1)
    with pytest.raises(ValueError, match="without constraints"):
        gn.solve(system, gn.Variational(), xi0=np.zeros(3), dt=0.1, n_steps=1)


@pytest.mark.parametrize("name", [name for name, method in gn.methods.items() if "retraction" in method.options])
def test_cayley_is_refused_where_there_is_none(name):
    units = [[i == k and j == m for j in range(3) for i in range(3)] for k in range(3) for m in range(3) if k != m]
    basis = np.reshape(units, (6, 3, 3)).astype(float)
    diagonal = np.stack([np.diag([1.0, -1.0, 0.0]), np.diag([0.0, 1.0, -1.0])])
    system = gn.System(gn.groups.MatrixGroup(np.concatenate([basis, diagonal])), metric=np.eye(8))
    gn.methods[name].make(retraction="exp").refuse(system)
    with pytest.raises(ValueError, match="has no Cayley map; use retraction='exp'"):
        gn.methods[name].make(retraction="cayley").refuse(system)


@pytest.mark.parametrize("bad", [{"rule": "simpson"}, {"retraction": "log"}, {"start": "guess"}])
def test_wrong_words_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        gn.GNI(**bad)
