"""Energy to rounding: quadratic ℓ however it is given, badly scaled metrics, from the smallest speeds, with forces."""

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


def test_order_with_a_gyroscopic_part():
    system = quadratic(1.0)
    assert abs(slope(system, DiscreteGradient(), (20, 40, 80), **start(system)) - 2) <= 0.1


@pytest.mark.parametrize("method", [DiscreteGradient(), gn.GNI(), gn.Gauss(1)], ids=lambda m: type(m).__name__)
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


def test_a_run_is_differentiable():
    system = quadratic(1.0)
    at = start(system)

    def end(shift):
        run = gn.integrate(system, DiscreteGradient(), g0=at["g0"], xi0=at["xi0"] * (1 + shift), dt=0.05, n_steps=4)
        return jnp.sum(run.p_minus[-1] ** 2)

    run = jax.jit(end)
    np.testing.assert_allclose(jax.jit(jax.jacfwd(end))(0.0), (run(1e-5) - run(-1e-5)) / 2e-5, rtol=1e-7)
