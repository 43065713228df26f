"""Energy to rounding: quadratic ℓ however it is given, badly scaled metrics, from the smallest speeds, with forces."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_systems import GROUPS, random_system, same_run, slope, spd, start

import geonh as gn
from geonh.groups import SO3, Translations
from geonh.integrators import RATTLE, DiscreteGradient, Feedback


def quadratic(gyroscopic, group="SO3", constrained=True):
    """ℓ = ½ξᵀM(x)ξ + a(x)·ξ − V(x), as a function of (x, ξ)."""
    rng = np.random.default_rng(8)
    n, k = GROUPS[group].dim, len(GROUPS[group].point_names)
    M, A, c = spd(rng, n), gyroscopic * rng.normal(size=(n, k)), rng.normal(size=k)
    mu, B = rng.normal(size=(1, n)), 0.3 * rng.normal(size=(1, n, k))

    def features(x):
        return jnp.cos(GROUPS[group].to_vector(x))

    def lagrangian(x, xi):
        return (1 + 0.1 * features(x)[0]) * 0.5 * xi @ M @ xi + (A @ features(x)) @ xi - c @ features(x)

    forms = lambda x: mu + jnp.tensordot(B, features(x), 1)  # noqa: E731
    distribution = gn.Distribution(forms) if constrained else None
    return gn.System(GROUPS[group], lagrangian=lagrangian, distribution=distribution, name="quadratic")


def test_a_quadratic_lagrangian_is_seen_in_its_trace():
    assert quadratic(1.0).is_quadratic
    assert not gn.System(Translations(1), lagrangian=lambda x, v: 0.5 * v @ v + 0.1 * v[0] ** 4).is_quadratic
    assert not gn.System(Translations(1), lagrangian=lambda x, v: jnp.cosh(v[0])).is_quadratic
    parameters = {"m": 2.0}
    assert gn.System(
        Translations(1), lagrangian=lambda x, v, p: p["m"] * v @ v + x @ v, parameters=parameters
    ).is_quadratic


@pytest.mark.parametrize(
    "gradient", ["gonzalez", *(pytest.param(g, marks=pytest.mark.slow) for g in ("average", "itoh-abe"))]
)
def test_energy_of_a_quadratic_lagrangian_with_a_gyroscopic_part(gradient):
    system = quadratic(1.0)
    at = start(system)
    run = gn.solve(system, DiscreteGradient(gradient), dt=0.05, n_steps=200, **at)
    assert np.abs(run.energy - run.energy[0]).max() < 200 * np.spacing(np.abs(run.energy).max() * 4)
    assert np.abs(run.constraint_residual).max() < 1e-13


@pytest.mark.slow
def test_order_with_a_gyroscopic_part():
    system = quadratic(1.0)
    assert abs(slope(system, DiscreteGradient(), (20, 40, 80), **start(system)) - 2) <= 0.1


@pytest.mark.parametrize("method", [DiscreteGradient(), gn.GNI(), gn.Gauss(1)], ids=lambda m: type(m).__name__)
@pytest.mark.quick("DiscreteGradient")
def test_a_lagrangian_and_its_metric_and_potential_are_one_system(method):
    rng = np.random.default_rng(2)
    M, c = spd(rng, 3), rng.normal(size=9)
    potential = lambda R: c @ jnp.ravel(R)  # noqa: E731
    forms = gn.Distribution(lambda R: R[2][None] + 0.3)
    one = gn.System(SO3(), metric=M, potential=potential, distribution=forms)
    other = gn.System(SO3(), lagrangian=lambda R, xi: 0.5 * xi @ M @ xi - potential(R), distribution=forms)
    same_run(*(gn.solve(s, method, dt=0.05, n_steps=60, **start(one)) for s in (one, other)), 1e-12)


@pytest.mark.parametrize(
    "method",
    [RATTLE(), Feedback({"constraint": 5.0, "energy": 1.0}, "rk4")],
    ids=["rattle", "feedback"],
)
@pytest.mark.quick("rattle")
def test_other_methods_for_quadratic_lagrangians_take_it_too(method):
    """RATTLE where M and the linear part are constant; each at its order, and refused where ℓ is not quadratic."""
    rng = np.random.default_rng(4)
    M, a = spd(rng, 3), rng.normal(size=3)
    system = gn.System(
        SO3(),
        lagrangian=lambda R, xi: 0.5 * xi @ M @ xi + a @ xi - 2 * R[2, 0],
        distribution=gn.Distribution(lambda R: R[2][None] + 0.3),
    )
    assert abs(slope(system, method, (40, 80, 160), **start(system, speed=1.0)) - method.order) <= 0.25
    quartic = gn.System(SO3(), lagrangian=lambda R, xi: 0.5 * xi @ M @ xi + 0.1 * (xi @ xi) ** 2)
    with pytest.raises(ValueError, match="general Lagrangian"):
        method.refuse(quartic)


# --- scales --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("mass", [1.0, 1e-8])
@pytest.mark.quick("1e-08")
def test_a_badly_scaled_metric(mass):
    """A mass 1e-8 of the others, across the constraint: rounding is that of momenta divided by the least mass."""
    system = gn.System(
        Translations(3),
        metric=[1.0, 1.0, mass],
        potential=lambda q: 0.5 * q @ q,
        distribution=gn.Distribution(lambda q: jnp.stack([-q[1], 0.0 * q[1], jnp.ones(())])[None]),
    )
    g0 = np.array([0.3, -0.4, 0.2])
    at = {"g0": g0, "xi0": system.project(g0, [1.0, 0.5, 0.0]), "dt": 0.02, "n_steps": 500}
    for method, bound in ((gn.GNI(), 1e-17), (DiscreteGradient(), 1e-15)):
        run = gn.solve(system, method, **at)
        assert np.abs(run.constraint_residual).max() < 1e-15 + bound / mass
    assert np.ptp(run.energy) < 1e-13 + 1e-15 / mass
    by_velocity = gn.solve(system, gn.Gauss(2), **at)  # knows no momenta
    assert np.abs(by_velocity.constraint_residual).max() < 1e-15


@pytest.mark.parametrize("speed", [1e-150, 1e-8, 0.0])
@pytest.mark.parametrize(
    "gradient", ["gonzalez", *(pytest.param(g, marks=pytest.mark.slow) for g in ("average", "itoh-abe"))]
)
@pytest.mark.quick("gonzalez-1e-08")
def test_from_the_smallest_speeds(gradient, speed):
    """A free body on a constraint, and one that falls from there."""
    for potential in (None, lambda R: R[2, 0]):
        system = gn.System(
            SO3(),
            metric=np.diag([1.0, 1.4, 2.0]),
            potential=potential,
            distribution=gn.Distribution([[0.3, -0.4, 1.0]]),
            base="group",
        )
        xi0 = speed * np.asarray(system.project(None, [1.0, 0.7, -0.2]))
        run = gn.solve(system, DiscreteGradient(gradient), xi0=xi0, dt=0.05, n_steps=40)
        assert np.abs(run.energy - run.energy[0]).max() < 1e-14
        if potential is None:
            np.testing.assert_allclose(np.abs(run.xi).max(axis=1), np.abs(xi0).max(), rtol=0.2)
        else:
            assert np.abs(run.xi[-1]).max() > 0.1


# --- small steps: the quotient of differences of V is rounding there -------------------------------------------
PENDULUM = gn.System(
    Translations(1), metric=[1.0], potential=lambda q, p: p["c"] - jnp.cos(q[0]), parameters={"c": 0.0}, name="pendulum"
)
SHAPED = gn.System(
    Translations(2),
    metric=lambda q: (1 + 0.3 * jnp.sin(q[0] + 0.4)) * jnp.array([[1.0, 0.3], [0.3, 1.5]]),
    potential=lambda q: 2 - jnp.cos(q[0]) - jnp.cos(q[1]),
    distribution=gn.Distribution(lambda q: jnp.stack([-jnp.cos(q[1]) - 0.5, jnp.ones(())])[None]),
    name="shaped",
)
PARTICLE = gn.System(
    Translations(3),
    metric=[1.0, 1.0, 1.0],
    potential=lambda q: -jnp.cos(q[0]) - jnp.cos(q[1]) + 0.5 * q[2] ** 2,
    distribution=gn.Distribution(lambda q: jnp.stack([-q[1], jnp.zeros(()), jnp.ones(())])[None]),
    name="particle",
)
ROD = gn.System(  # φ has the constant 1
    Translations(2), metric=[1.0, 1.0], potential=lambda q: 9.81 * q[1], holonomic=lambda q: (q @ q - 1)[None]
)


def swing(system, g0, dt, n_steps, method="discrete-gradient"):
    """From rest, its energy kept to roundings that do not add up: of V, and of the 1s it is made of."""
    run = gn.solve(system, method, g0=g0, xi0=np.zeros(system.group.dim), dt=dt, n_steps=n_steps)
    assert np.ptp(run.energy) < 6 * np.sqrt(n_steps) * np.spacing(1 + np.abs(run.energy).max())
    return run


@pytest.mark.parametrize("dt", [1e-4, 1e-3, 1e-2, 1e-1])
@pytest.mark.parametrize("amplitude", [1e-9, 1e-6, 1e-3, 0.1, 1.0, 2.0])
def test_a_pendulum_of_any_amplitude(amplitude, dt):
    """The motion that a method of order 4 finds, to second order; what V is counted from is nothing to it."""
    run = swing(PENDULUM, [amplitude], dt, 10_000)
    accurate = gn.solve(PENDULUM, "gauss4", g0=[amplitude], xi0=[0.0], dt=dt, n_steps=1000).g[:, 0]
    assert np.abs(run.g[:1001, 0] - accurate).max() < amplitude * (1e-10 + 100 * dt**3)
    assert np.abs(run.g).max() < amplitude * (1 + 1e-9)
    raised = eqx.tree_at(lambda system: system.parameters, PENDULUM, {"c": np.float64(1e6)})
    np.testing.assert_allclose(swing(raised, [amplitude], dt, 10_000).g, run.g, rtol=0, atol=1e-10 * amplitude)


@pytest.mark.parametrize("method", ["discrete-gradient", "discrete-gradient4"])
@pytest.mark.parametrize("amplitude", [1e-9, 1e-3, 0.5])
@pytest.mark.parametrize("system", [PARTICLE, SHAPED], ids=lambda s: s.name)
@pytest.mark.quick("particle-0.001-discrete-gradient", "particle-0.5-discrete-gradient")
def test_constrained_systems_near_rest(system, amplitude, method):
    """The motion that a method of order 4 finds, and back by the reversed velocity."""
    g0 = amplitude * np.array([1.0, 0.7, 0.0])[: system.group.dim]
    run = swing(system, g0, 1e-2, 10_000, method)
    accurate = gn.solve(system, "gauss4", g0=g0, xi0=0 * g0, dt=1e-2, n_steps=300).g
    np.testing.assert_allclose(run.g[:301], accurate, rtol=0, atol=3e-5 * amplitude)
    back = gn.solve(system, method, g0=run.g[300], xi0=-run.xi[300], dt=1e-2, n_steps=300)
    np.testing.assert_allclose(back.g[-1], g0, rtol=0, atol=1e-12 * amplitude)


@pytest.mark.parametrize("amplitude", [1e-9, 1e-3, 1.0])
def test_a_pendulum_in_the_plane_near_rest(amplitude):
    g0 = np.array([np.sin(amplitude), -np.cos(amplitude)])
    run = gn.solve(ROD, "discrete-gradient", g0=g0, xi0=[0.0, 0.0], dt=1e-2, n_steps=10_000)
    assert np.abs(run.holonomic_residual).max() < 1e-14
    assert np.ptp(run.energy) < 1e-12
    assert np.abs(run.g[:, 0]).max() <= np.sin(amplitude) * (1 + 1e-6)


@pytest.mark.parametrize("system", [PENDULUM, PARTICLE, SHAPED], ids=lambda s: s.name)
@pytest.mark.parametrize("amplitude", [0.0, 1e-6, 1e-2])
@pytest.mark.quick("1e-06-pendulum")
def test_derivatives_near_rest(system, amplitude):
    """Of the end by the start: near rest those of the linear motion, found by differences that are exact there."""
    n = system.group.dim
    g0 = amplitude * np.array([1.0, 0.7, 0.0])[:n]

    def end(shift):
        return gn.integrate(system, "discrete-gradient", g0=g0 + shift, xi0=jnp.zeros(n), dt=0.02, n_steps=5).g[-1]

    run, h = jax.jit(end), 1e-4
    by_differences = np.stack([(run(h * e) - run(-h * e)) / (2 * h) for e in np.eye(n)], axis=1)
    for derivative in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(jax.jit(derivative(end))(jnp.zeros(n)), by_differences, rtol=0, atol=1e-7)


def test_affine_constraints_and_general_lagrangians_are_refused():
    with pytest.raises(ValueError, match="constraints are affine"):
        DiscreteGradient().refuse(random_system("SO3", affine=True))
    quartic = gn.System(Translations(1), lagrangian=lambda x, v: 0.5 * v @ v + 0.1 * v[0] ** 4)
    with pytest.raises(ValueError, match="quadratic in ξ"):
        DiscreteGradient().refuse(quartic)
    with pytest.raises(ValueError, match="gradient must be one of"):
        DiscreteGradient("mean")


@pytest.mark.slow
def test_itoh_abe_and_its_adjoint_make_a_method_of_order_two():
    system, method = random_system("SO3"), DiscreteGradient("itoh-abe")
    both = method.adjoint() @ method
    assert both.order == 2
    assert abs(slope(system, both, (20, 40, 80), **start(system, speed=1.0)) - 2) <= 0.15
    run = gn.solve(system, both, dt=0.05, n_steps=40, **start(system))
    assert np.ptp(run.energy) < 1e-12


@pytest.mark.slow
def test_itoh_abe_keeps_the_energy_of_small_things():
    """Of lengths of a centimetre, on which an increment of a millimetre is not short."""
    well = gn.System(
        Translations(2), metric=np.eye(2), potential=lambda x: jnp.sum(jnp.cosh(100 * x)) + jnp.sin(100 * x[0] * x[1])
    )
    run = gn.solve(well, DiscreteGradient("itoh-abe"), xi0=[3.0, 2.0], dt=2e-4, n_steps=100)
    assert np.any(np.abs(np.diff(run.g, axis=0)) < 1e-3)
    assert np.ptp(run.energy) < 1e-14 * np.abs(run.energy).max()


@pytest.mark.slow
def test_a_run_is_differentiable():
    system = quadratic(1.0)
    at = start(system)

    def end(shift):
        run = gn.integrate(system, DiscreteGradient(), g0=at["g0"], xi0=at["xi0"] * (1 + shift), dt=0.05, n_steps=4)
        return jnp.sum(run.p_minus[-1] ** 2)

    run = jax.jit(end)
    np.testing.assert_allclose(jax.jit(jax.jacfwd(end))(0.0), (run(1e-5) - run(-1e-5)) / 2e-5, rtol=1e-7)


@pytest.mark.slow
def test_the_average_is_by_quadrature_where_forms_turn():
    """V = ½|q|², M = 1: with a constant form to rounding; with one that turns to O(h¹⁰), and Gonzalez's to rounding."""

    def change(gradient, form, h):
        system = gn.System(
            gn.groups.Translations(3),
            metric=np.eye(3),
            potential=lambda x: 0.5 * x @ x,
            distribution=gn.Distribution(form),
        )
        g0 = [0.3, 0.8, 0.5]
        xi0 = system.project(g0, [0.7, 0.6, -0.5])
        run = gn.solve(system, DiscreteGradient(gradient), xi0=xi0, g0=g0, dt=h, n_steps=round(40 / h))
        return np.abs(run.energy / run.energy[0] - 1).max()

    turning = lambda x: jnp.stack([1 + 0 * x[0], 0 * x[0], x[1]])[None]  # noqa: E731
    assert change("average", np.array([[1.0, 0.0, 0.8]]), 0.8) < 1e-13
    assert change("gonzalez", turning, 0.8) < 1e-13
    errors = [change("average", turning, h) for h in (0.8, 0.4)]
    assert errors[1] > 1e-11
    assert 9 < np.log2(errors[0] / errors[1]) < 11.5
