"""Constraints nonlinear in the velocity, by Chetaev's rule: exact solutions, orders, energy, refusals."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.groups import SO3, Translations
from geonh.integrators import methods
from geonh.mechanics import accelerations

F, C, M, A, G = 2.0, 1.5, 0.8, 0.7, 9.81
TAKE = [name for name, method in methods.items() if method.make().guarantees.nonlinear]
ON_NODES = [name for name in TAKE if methods[name].make().guarantees.constraint == "nodes"]
QUICK = ("gauss4", "rkmk4", "lobatto4")


@functools.cache
def isokinetic():
    """A particle of constant speed under a constant force (Gauss's thermostat)."""
    return gn.System(
        Translations(2),
        metric=[M, M],
        potential=lambda x: -F * x[0],
        distribution=gn.VelocityConstraints(lambda x, xi: [xi @ xi - C**2]),
        name="isokinetic",
    )


@functools.cache
def appell():
    return gn.System(
        Translations(3),
        metric=[1.0, 1.0, 1.0],
        potential=lambda x: G * x[2],
        distribution=gn.VelocityConstraints(lambda x, xi, p: [xi[0] ** 2 + xi[1] ** 2 - p["a"] ** 2 * xi[2] ** 2]),
        parameters={"a": A},
        name="Appell's machine",
    )


def perpendicular():
    """Two particles in a plane whose velocities are perpendicular, in potentials."""
    return gn.System(
        Translations(4),
        metric=[1.0, 1.0, 2.0, 2.0],
        potential=lambda x: 0.5 * (x[:2] @ x[:2]) + jnp.sin(x[2]) + 0.3 * x[3] * x[0],
        distribution=gn.VelocityConstraints(lambda x, xi: [xi[:2] @ xi[2:]]),
        name="perpendicular velocities",
    )


@functools.cache
def on_a_group():
    """A random system on SO(3) × R³ with one nonlinear and one linear constraint, of the time too."""
    rng = np.random.default_rng(2)
    L = rng.normal(size=(6, 6))
    S, b = rng.normal(size=(6, 6)), rng.normal(size=6)

    def c(t, x, xi):
        along = S @ xi
        return jnp.stack([xi @ xi + jnp.cos(x[1][0] + 0.3 * t) * along[0] - 1.4, (b + x[0].ravel()[:6]) @ xi])

    return gn.System(
        [SO3(), Translations(3)],
        metric=L @ L.T + 4 * np.eye(6),
        potential=lambda x: jnp.sum(jnp.sin(x[1])) + x[0][0, 1],
        distribution=gn.VelocityConstraints(gn.time_dependent(c)),
    )


@pytest.mark.parametrize("name", QUICK)
def test_isokinetic_particle(name):
    """tan(θ/2) decays as e^(−Ft/mc)."""
    theta = 2.0
    start, errors = C * np.array([np.cos(theta), np.sin(theta)]), []
    for n in (25, 50, 100, 200):
        run = gn.solve(isokinetic(), name, xi0=start, dt=2.0 / n, n_steps=n)
        exact = 2 * np.arctan(np.tan(theta / 2) * np.exp(-F * run.t / (M * C)))
        errors.append(np.abs(np.arctan2(run.xi[:, 1], run.xi[:, 0]) - exact).max())
        assert np.abs(run.constraint_residual).max() < 1e-14
    orders = np.diff(np.log(errors)) / -np.log(2)
    assert np.all(np.abs(orders - 4) < 0.1), orders
    lam = -F * run.xi[:, 0] / (2 * C**2)  # so that force and reaction do no work together
    np.testing.assert_allclose(run.multipliers[:, 0], lam, atol=1e-12)


@pytest.mark.quick("rkmk4")
@pytest.mark.parametrize("name", QUICK)
def test_appell(name):
    """The vertical acceleration is −g/(1 + a²), and the horizontal direction is kept; c is homogeneous: energy."""
    system = appell()
    start = system.project(None, [1.0, 0.5, -1.4])
    run = gn.solve(system, name, xi0=start, dt=0.01, n_steps=100)
    assert np.abs(run.xi[:, 2] - (start[2] - G / (1 + A**2) * run.t)).max() < 1e-12
    assert np.ptp(np.arctan2(run.xi[:, 1], run.xi[:, 0])) < 1e-14
    assert np.ptp(run.energy) < 1e-11 * abs(run.energy[0])


@pytest.mark.slow
def test_perpendicular_velocities_keep_the_energy():
    system = perpendicular()
    start = system.project([0.3, -0.2, 0.5, 0.1], [1.0, 0.4, -0.7, 0.9])
    assert abs(start[:2] @ start[2:]) < 1e-15
    errors = []
    for n in (25, 50, 100, 200):
        run = gn.solve(system, g0=[0.3, -0.2, 0.5, 0.1], xi0=start, dt=1.0 / n, n_steps=n)
        assert np.abs(run.constraint_residual).max() < 1e-14
        errors.append(np.ptp(run.energy))
    assert np.all(np.abs(np.diff(np.log(errors)) / -np.log(2) - 4) < 0.2), errors
    assert (
        gn.diagnostics.reversibility_defect(
            system, gn.Gauss(2), g0=[0.3, -0.2, 0.5, 0.1], xi0=start, dt=0.02, n_steps=30
        )
        < 1e-12
    )


@pytest.mark.parametrize("name", TAKE)
@pytest.mark.quick("rkmk4")
def test_orders_on_a_group(name):
    system, order = on_a_group(), methods[name].make().guarantees.order
    g0 = (np.eye(3), np.array([0.1, 0.2, 0.3]))
    xi0 = system.project(g0, [0.35, -0.37, 1.79, 0.29, -1.5, 1.01])  # a fast motion, whose small errors are seen
    steps = {2: (40, 80, 160, 320), 4: (16, 24, 32, 48), 5: (12, 16, 24, 32), 6: (6, 8, 12, 16), 8: (4, 5, 6, 8)}[order]
    steps = (20, 28, 36, 48) if name == "dormand-prince" else steps
    measured = gn.diagnostics.convergence(system, methods[name].make(), g0=g0, xi0=xi0, steps=steps)
    assert abs(measured.order - order) < 0.15, str(measured)
    if name in ON_NODES:
        run = gn.solve(system, methods[name].make(), g0=g0, xi0=xi0, dt=0.02, n_steps=30)
        assert np.abs(run.constraint_residual).max() < 1e-13


@pytest.mark.slow
def test_linear_constraints_are_the_same():
    rows = np.array([[1.0, 0.3, -0.2], [0.1, 1.0, 0.4]])
    options = {"metric": [1.0, 2.0, 3.0], "potential": lambda x: jnp.sin(x[0]) + x[1] ** 2 * x[2]}
    linear = gn.System(Translations(3), distribution=gn.Distribution(rows), **options)
    same = gn.System(Translations(3), distribution=gn.VelocityConstraints(lambda x, xi: rows @ xi), **options)
    start = linear.project(None, [0.3, -0.4, 1.0])
    np.testing.assert_allclose(same.project(None, [0.3, -0.4, 1.0]), start, atol=1e-15)
    for name in QUICK:
        one, two = (gn.solve(s, name, xi0=start, dt=0.05, n_steps=40) for s in (linear, same))
        np.testing.assert_allclose(one.g, two.g, atol=1e-13)
        np.testing.assert_allclose(one.multipliers, two.multipliers, atol=1e-12)


@pytest.mark.slow
def test_with_holonomic_constraints():
    """A particle of constant speed on a sphere, without forces: a great circle."""
    system = gn.System(
        Translations(3),
        metric=np.eye(3),
        holonomic=lambda x: [x @ x - 1.0],
        distribution=gn.VelocityConstraints(lambda x, xi: [xi @ xi - 1.0]),
    )
    g0, xi0 = system.project([1.0, 0.1, 0.0], [0.2, 0.5, 0.8])
    run = gn.solve(system, "gauss4", g0=g0, xi0=xi0, dt=0.01, n_steps=100)
    exact = np.cos(run.t)[:, None] * g0 + np.sin(run.t)[:, None] * xi0
    assert np.abs(run.g - exact).max() < 1e-9
    assert np.abs(run.holonomic_residual).max() < 1e-14
    assert np.abs(run.constraint_residual).max() < 1e-14


@pytest.mark.slow
def test_gradient_ensemble_and_resume(tmp_path):
    system = appell()
    start = system.project(None, [1.0, 0.5, -1.4])

    def reached(theta):
        xi0 = jnp.stack([A * 1.2 * jnp.cos(theta), A * 1.2 * jnp.sin(theta), -1.2])
        return gn.integrate(system, "rkmk4", xi0=xi0, dt=0.01, n_steps=20).g[-1, 0]

    with gn.float64():
        slope = jax.grad(reached)(0.4)
        difference = (reached(0.4 + 1e-5) - reached(0.4 - 1e-5)) / 2e-5
    assert abs(slope - difference) < 1e-9
    many = gn.solve_ensemble(isokinetic(), xi0=C * np.array([[0.6, 0.8], [0.8, -0.6], [0.0, 1.0]]), dt=0.02, n_steps=20)
    one = gn.solve(isokinetic(), xi0=C * np.array([0.8, -0.6]), dt=0.02, n_steps=20)
    np.testing.assert_array_equal(np.asarray(many.g_vector)[1, -1], one.g_vector[-1])
    whole = gn.solve(system, xi0=start, dt=0.01, n_steps=40)
    gn.solve(system, xi0=start, dt=0.01, n_steps=25).save(tmp_path / "run.nc")
    np.testing.assert_array_equal(gn.resume(tmp_path / "run.nc", 15, system=system, method="gauss4").g, whole.g)


def test_accelerations_satisfy_the_equations():
    system = on_a_group()
    g = (np.eye(3), np.array([0.1, 0.2, 0.3]))
    xi = system.project(g, np.array([0.5, -0.3, 0.4, 0.3, 0.6, -0.7]), t0=0.4)
    a, _ = accelerations(system, 0.4, g, xi)
    h = 1e-6

    def c(s):
        at = system.group.compose(g, system.group.exp(s * xi + s * s / 2 * a))
        return system.constraint_residual(system.at(at, 0.4 + s), xi + s * a)

    assert np.abs(c(h) - c(-h)).max() / (2 * h) < 1e-8


def test_what_is_refused():
    system = isokinetic()
    for name in methods:
        if name not in TAKE:
            with pytest.raises(ValueError, match="nonlinear in the velocity"):
                gn.solve(system, name, xi0=[C, 0.0], dt=0.01, n_steps=1)
    with pytest.raises(ValueError, match="nonlinear in the velocity: use Gauss"):
        gn.solve(system, gn.RKMK(4).adjoint(), xi0=[C, 0.0], dt=0.01, n_steps=1)
    with pytest.raises(ValueError, match="does not satisfy the constraints"):
        gn.solve(system, xi0=[1.0, 0.0], dt=0.01, n_steps=1)
    with pytest.raises(ValueError, match="linear_at"):
        system.annihilator(np.zeros(2))
    with pytest.raises(ValueError, match="linear_at"):
        gn.geometry.growth_vector(system)
    with pytest.raises(TypeError, match="velocity takes"):
        gn.VelocityConstraints(lambda x: x)
    with pytest.raises(ValueError, match="leave at least one to move"):
        gn.System(Translations(1), metric=[1.0], distribution=gn.VelocityConstraints(lambda x, xi: [xi[0] ** 2 - 1.0]))
    singular = gn.System(
        Translations(2), metric=[1.0, 1.0], distribution=gn.VelocityConstraints(lambda x, xi: [xi[0] ** 2])
    )
    with pytest.raises(ValueError, match="constraints of system"):
        gn.solve(singular, xi0=[0.0, 1.0], dt=0.01, n_steps=1)
    assert "nonlinear" in repr(system)
    assert "nonlinear" in system._repr_html_()
    with pytest.raises(ValueError, match="linear_at"):
        gn.analysis.linearise(system, None, [C, 0.0])
