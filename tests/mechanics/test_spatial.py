"""Systems in spatial velocities: the same motions, and symmetries of the material."""

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.groups import SE2, SE3, SO3, Opposite, Product, Translations
from geonh.mechanics import in_spatial_velocities, reduce, symmetries


def moved(system, run):
    """Spatial velocities along a run."""
    return np.asarray(system.group.batched(lambda g, xi: system.group.Ad(g) @ xi, run.g, run.xi, ndims=(None, 1)))


@pytest.mark.slow
@pytest.mark.parametrize("table_rate", [0.0, 0.7])
@pytest.mark.quick("0.7")
def test_a_homogeneous_sphere_becomes_the_rolling_ball(table_rate):
    sphere = gn.systems.chaplygin_sphere(m=1.0, r=1.0, J=[0.4, 0.4, 0.4], table_rate=table_rate)
    spatial = in_spatial_velocities(sphere)
    assert len(symmetries(sphere)) == (2 if table_rate == 0 else 0)
    assert len(symmetries(spatial)) == (5 if table_rate == 0 else 3)
    ball = gn.systems.rolling_ball(m=1.0, r=1.0, I=0.4, table_rate=table_rate)
    reduced = reduce(spatial).system
    assert reduced.group.dim == 5
    assert np.size(reduced.at(reduced.group.identity())) == (0 if table_rate == 0 else 2)
    g0 = (np.array([0.3, -0.2]), np.asarray(SO3().exp(np.array([0.2, 0.5, -0.4]))))
    xi = sphere.project(g0, [0.0, 0.0, 1.0, -0.6, 0.9])
    eta = np.asarray(sphere.group.Ad(g0)) @ xi
    own = gn.solve(reduced, "gauss6", g0=g0, xi0=eta, dt=0.02, n_steps=100)
    other = gn.solve(ball, "gauss6", g0=g0, xi0=eta, dt=0.02, n_steps=100)
    for run in (own, other):
        body = gn.solve(sphere, "gauss6", g0=g0, xi0=xi, dt=0.02, n_steps=100)
        assert np.abs(run.g_vector - body.g_vector).max() < 1e-11
        assert np.abs(run.xi - moved(sphere, body)).max() < 1e-11


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_random_systems_move_as_in_body_velocities(seed):
    rng = np.random.default_rng(seed)
    products = Product([SE2(), Translations(1)]), Product([SO3(), Translations(2)])
    group = (SE2(), SO3(), SE3(), *products, Opposite(SE2()))[seed]
    n = group.dim
    M, forms, a = np.eye(n) + 0.2 * np.ones((n, n)), rng.normal(size=(1, n)), rng.normal(size=n)
    distribution = (
        gn.Distribution(lambda g, p: forms + 0.1 * p["c"] * jnp.sin(group.to_vector(g)[:n])),
        gn.AffineDistribution(forms, [0.3]),
        gn.Distribution(frame=np.linalg.svd(forms)[2][1:]),
        gn.AffineDistribution(forms, drift=a),
        gn.Distribution(forms),
        None,
    )[seed]
    system = gn.System(
        group,
        metric=lambda g, p: M * (1 + 0.1 * p["c"] * jnp.cos(group.to_vector(g)[0])),
        potential=lambda g, p: p["c"] * jnp.sum(jnp.sin(group.to_vector(g))),
        distribution=distribution,
        forces=lambda t, g, xi, u, p: -0.2 * p["c"] * xi + 0.1 * jnp.sin(t) * a,
        parameters={"c": 1.3},
    )
    spatial = in_spatial_velocities(system)
    g0 = group.exp(rng.normal(size=n) / 2)
    xi = system.project(g0, rng.normal(size=n))
    eta = np.asarray(group.Ad(g0)) @ xi
    options = {"g0": g0, "dt": 0.01, "n_steps": 100}
    run = gn.solve(system, "gauss6", xi0=xi, **options)
    other = gn.solve(spatial, "gauss6", xi0=eta, **options)
    assert np.abs(run.g_vector - other.g_vector).max() < 1e-10
    assert np.abs(moved(system, run) - other.xi).max() < 1e-10
    np.testing.assert_allclose(run.energy, other.energy, atol=1e-10)
    back = in_spatial_velocities(spatial)
    assert type(back.group) is type(group)
    again = gn.solve(back, "gauss6", xi0=xi, **options)
    assert np.abs(run.g_vector - again.g_vector).max() < 1e-12
    heavier = spatial.with_parameters(c=0.9)
    changed = gn.solve(heavier, "gauss6", xi0=heavier.project(g0, eta), **options)
    assert np.abs(changed.g_vector - other.g_vector).max() > 1e-4


@pytest.mark.slow
def test_lagrangians_and_first_integrals_are_moved_too():
    top = gn.systems.heavy_top()
    spatial = in_spatial_velocities(top)
    entry = gn.systems.catalogue["heavy-top"]
    start = entry.start(top)
    eta = np.asarray(top.group.Ad(top.point(start.g0))) @ start.xi0
    run = gn.solve(top, "gauss6", g0=start.g0, xi0=start.xi0, dt=0.005, n_steps=100)
    other = gn.solve(spatial, "gauss6", g0=start.g0, xi0=eta, dt=0.005, n_steps=100)
    for name, values in run.integrals.items():
        np.testing.assert_allclose(values, other.integrals[name], atol=1e-9)


def test_what_is_refused():
    timed = gn.System(SO3(), metric=[1.0, 2.0, 3.0], potential=gn.time_dependent(lambda t, g: jnp.sin(t) * g[0, 0]))
    with pytest.raises(ValueError, match="depends on the time: in_spatial_velocities is for others"):
        in_spatial_velocities(timed)
    with pytest.raises(TypeError, match="system"):
        in_spatial_velocities(3)
