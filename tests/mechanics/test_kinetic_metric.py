"""The kinetic metric on geomstats spaces: conversions, geodesics, logarithms, distances and means."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from geomstats.geometry.euclidean import Euclidean
from geomstats.geometry.special_orthogonal import SpecialOrthogonal
from geomstats.learning.frechet_mean import FrechetMean

import geonh as gn
from geonh.groups import SE2, SO3, Torus, Translations, as_group
from geonh.mechanics.kinetic_metric import KineticMetric


def inertia(n, seed=0):
    """Random inertia matrix that couples everything, of condition at most about 10."""
    factor = np.random.default_rng(seed).uniform(-1, 1, (n, n))
    return factor @ factor.T + np.eye(n)


def varying(x):
    """Kinetic energy on R²×SO(3) that couples the factors and depends on both."""
    position, R = x
    return (1 + 0.3 * jnp.sin(position[0]) * R[2, 2]) * inertia(5) + 0.2 * jnp.outer(
        jnp.concatenate([position, R[0]]), jnp.concatenate([position, R[0]])
    )


def half_plane():
    """Poincaré's half plane y > 0."""
    return gn.System(Translations(2), metric=lambda q: jnp.eye(2) / q[1] ** 2, name="half plane")


SYSTEMS = {
    "SO3": lambda: gn.System(SO3(), metric=inertia(3), base="point"),
    "SE2": lambda: gn.System(SE2(), metric=inertia(3), base="point"),
    "SE2-varying": lambda: gn.System(SE2(), metric=lambda g: jnp.exp(0.3 * jnp.sin(g[1] - g[0])) * inertia(3)),
    "R2×SO3-coupled": lambda: gn.System([Translations(2), SO3()], metric=inertia(5), base="point"),
    "R2×SO3-varying": lambda: gn.System([Translations(2), SO3()], metric=varying),
    "SE2×T1": lambda: gn.System([SE2(), Torus(1)], metric=inertia(4), base="point"),
}
systems = pytest.mark.parametrize("name", SYSTEMS)


@functools.cache
def system_of(name):
    """Kept, so that the tests share the traces of its functions."""
    return SYSTEMS[name]()


def some_points(system, count, spread=0.6, seed=1):
    """Points near the identity, as NumPy group points with a leading axis."""
    xi = np.random.default_rng(seed).uniform(-spread, spread, (count, system.group.dim))
    with gn.float64():
        return jax.tree.map(np.asarray, system.group.exp(jnp.asarray(xi)))


def one(points, i):
    return jax.tree.map(lambda a: a[i], points)


# --- tangent vectors ---------------------------------------------------------------------------------------
@systems
def test_tangent_vectors_convert_and_are_geomstats_own(name):
    system = system_of(name)
    space, metric = system.space, system.space.metric
    points = system.group.to_geomstats(some_points(system, 4))
    xi = np.random.default_rng(2).uniform(-1, 1, (4, system.group.dim))
    vectors = metric.tangent_vec(xi, points)
    assert vectors.shape == points.shape
    assert np.all(space.belongs(points))
    assert np.all(space.is_tangent(vectors, points))
    np.testing.assert_allclose(metric.velocity(vectors, points), xi, atol=1e-13)
    np.testing.assert_allclose(space.to_tangent(vectors, points), vectors, atol=1e-13)
    np.testing.assert_allclose(metric.tangent_vec(xi[1], points[1]), vectors[1], atol=1e-14)
    own = space.random_tangent_vec(points[0])
    np.testing.assert_allclose(metric.tangent_vec(metric.velocity(own, points[0]), points[0]), own, atol=1e-12)


def test_tangent_vectors_of_matrix_groups_are_products_of_matrices():
    system = system_of("SE2")
    point = system.group.to_geomstats(np.array([0.4, 2.0, -1.0]))
    omega, u, v = 0.7, -0.2, 1.5
    algebra = np.array([[0, -omega, u], [omega, 0, v], [0, 0, 0]])
    np.testing.assert_allclose(system.space.metric.tangent_vec([omega, u, v], point), point @ algebra, atol=2e-14)


@systems
@pytest.mark.quick("SE2-varying", "R2×SO3-coupled")
def test_inner_product_is_the_kinetic_energy_matrix(name):
    system = system_of(name)
    metric = system.space.metric
    g = some_points(system, 3)
    points = system.group.to_geomstats(g)
    xi, eta = np.random.default_rng(3).uniform(-1, 1, (2, 3, system.group.dim))
    a, b = metric.tangent_vec(xi, points), metric.tangent_vec(eta, points)
    with gn.float64():
        M = np.stack([system.mass_matrix(system.action.at(one(g, i))) for i in range(3)])
    expected = np.einsum("bi,bij,bj->b", xi, M, eta)
    np.testing.assert_allclose(metric.inner_product(a, b, points), expected, atol=1e-12)
    np.testing.assert_allclose(metric.inner_product(a[0], b[0], points[0]), expected[0], atol=1e-12)
    np.testing.assert_allclose(metric.metric_matrix(points), M, atol=1e-13)
    np.testing.assert_allclose(metric.norm(a, points) ** 2, metric.squared_norm(a, points), rtol=1e-14)
    np.testing.assert_allclose(metric.norm(metric.random_unit_tangent_vec(points[0], 3), points[0]), 1, atol=1e-13)


def test_vectors_that_are_not_tangent_and_wrong_shapes_raise():
    system = system_of("SE2")
    metric = system.space.metric
    point = np.eye(3)
    with pytest.raises(ValueError, match="not tangent"):
        metric.norm(np.ones((3, 3)), point)
    with pytest.raises(ValueError, match="shape"):
        metric.exp(np.ones(3), point)
    with pytest.raises(TypeError, match="base_point"):
        metric.norm(np.zeros((3, 3)))
    with pytest.raises(TypeError, match="float32"):
        metric.log(np.eye(3, dtype=np.float32), point)
    with pytest.raises(NotImplementedError):
        metric.christoffels(point)
    fast = gn.System(SE2(), lagrangian=lambda x, xi: -jnp.sqrt(1 - xi @ xi), base="point")
    with pytest.raises(ValueError, match="not quadratic"):
        KineticMetric(fast.space, fast)


def test_a_quadratic_lagrangian_has_a_metric():
    M = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, 0.2], [0.1, 0.2, 1.0]])
    words = {"base": "point", "parameters": {"m": 1.3}}
    given = gn.System(SE2(), metric=lambda x, p: p["m"] * M, **words)
    free = gn.System(SE2(), lagrangian=lambda x, xi, p: 0.5 * p["m"] * xi @ M @ xi + xi[0] - 3.0, **words)
    a, point = free.space.metric.tangent_vec([0.4, 0.3, -0.2], np.eye(3)), np.eye(3)
    for metric in (given.space.metric, free.space.metric):
        np.testing.assert_allclose(metric.exp(a, point), given.space.metric.exp(a, point), atol=1e-12)
        np.testing.assert_allclose(metric.squared_norm(a, point), given.space.metric.squared_norm(a, point), rtol=1e-13)


# --- geodesics ---------------------------------------------------------------------------------------------
@systems
@pytest.mark.quick("SE2-varying", "R2×SO3-coupled")
def test_geodesics_are_free_motions(name):
    system = system_of(name)
    group, metric = system.group, system.space.metric
    g0 = one(some_points(system, 1), 0)
    xi0 = np.random.default_rng(4).uniform(-0.8, 0.8, group.dim)
    times = np.array([0.0, 0.4, 1.0])
    g, xi = gn.mechanics.reference_trajectory(system, times, xi0, g0)
    point = group.to_geomstats(g0)
    path = metric.geodesic(point, initial_tangent_vec=metric.tangent_vec(xi0, point))(times)
    np.testing.assert_allclose(path, group.to_geomstats(g), atol=2e-11)
    assert np.all(system.space.belongs(path))
    speeds = metric.norm(metric.tangent_vec(xi, path), path)
    np.testing.assert_allclose(speeds, speeds[0], rtol=1e-11)


def test_constraints_potential_and_forces_play_no_part():
    plain = system_of("SE2")
    dressed = gn.System(
        SE2(),
        metric=inertia(3),
        distribution=gn.Distribution(forms=[[0.0, 0.0, 1.0]]),
        potential=lambda g: g[1],
        forces=lambda t, x, xi, u: -xi,
    )
    point = np.eye(3)
    vector = plain.space.metric.tangent_vec([0.5, 1.0, -0.3], point)
    np.testing.assert_allclose(
        dressed.space.metric.exp(vector, point), plain.space.metric.exp(vector, point), atol=1e-12
    )


@systems
@pytest.mark.quick("SE2")
def test_log_inverts_exp_and_distances_are_those_of_a_metric(name):
    system = system_of(name)
    metric = system.space.metric
    points = system.group.to_geomstats(some_points(system, 5))
    logs = metric.log(points, points[0])
    np.testing.assert_allclose(metric.exp(logs, points[0]), points, atol=1e-11)
    vectors = metric.tangent_vec(0.5 * np.random.default_rng(5).uniform(-1, 1, (5, system.group.dim)), points)
    np.testing.assert_allclose(metric.log(metric.exp(vectors, points), points), vectors, atol=1e-10)
    first, second = points[[0, 0, 0, 1, 1, 2]], points[[1, 2, 3, 2, 3, 3]]
    there, back = metric.dist(first, second), metric.dist(second, first)
    np.testing.assert_allclose(there, back, rtol=1e-10)
    d = np.zeros((4, 4))
    d[[0, 0, 0, 1, 1, 2], [1, 2, 3, 2, 3, 3]] = there
    d = d + d.T
    assert np.all(d[:, None, :] <= d[:, :, None] + d[None, :, :] + 1e-10)
    np.testing.assert_allclose(metric.squared_dist(points[0], points), metric.norm(logs, points[0]) ** 2, rtol=1e-9)


@pytest.mark.slow
def test_distance_along_a_geodesic_is_the_time_times_the_speed():
    system = system_of("R2×SO3-varying")
    metric = system.space.metric
    start, end = system.group.to_geomstats(some_points(system, 2))
    path = metric.geodesic(start, end_point=end)(np.array([0.0, 0.25, 0.75, 1.0]))
    np.testing.assert_allclose(path[[0, 3]], [start, end], atol=1e-11)
    whole = metric.dist(start, end)
    np.testing.assert_allclose(metric.dist(path[[0, 1, 2]], path[[1, 2, 3]]), whole * np.array([0.25, 0.5, 0.25]))


def test_half_plane_has_its_distance_in_closed_form():
    metric = half_plane().space.metric
    a, b = np.array([[0.0, 1.0], [0.3, 0.5], [-1.0, 2.0]]), np.array([[1.0, 1.0], [0.3, 3.0], [2.0, 0.2]])
    gap = np.sum((a - b) ** 2, axis=1)
    np.testing.assert_allclose(metric.dist(a, b), np.arccosh(1 + gap / (2 * a[:, 1] * b[:, 1])), rtol=1e-10)


def test_the_circle_is_measured_the_short_way_round():
    system = gn.System([SE2(), Torus(1)], metric=np.eye(4), base="point")
    angles = [np.array([[3.0, 0.0, 0.0], [-3.0, 0.0, 0.0]]), np.array([[-2.9], [2.9]])]
    points = system.group.to_geomstats(tuple(angles))
    expected = np.hypot(2 * np.pi - 6.0, 2 * np.pi - 5.8)
    np.testing.assert_allclose(system.space.metric.dist(points[0], points[1]), expected, rtol=1e-11)


@pytest.mark.slow
def test_far_logarithms_follow_the_subgroup_and_a_failure_is_loud():
    system = gn.System(SO3(), metric=[1.0, 2.0, 2.9], base="point")
    metric = system.space.metric
    axes = np.array([[0.6, -0.2, 0.7], [1.0, 1.0, 1.0], [0.0, 0.1, 1.0]])
    with gn.float64():
        points = np.asarray(SO3().exp(3.0 * axes / np.linalg.norm(axes, axis=1, keepdims=True)))
    np.testing.assert_allclose(metric.exp(metric.log(points, np.eye(3)), np.eye(3)), points, atol=1e-11)
    with pytest.raises(RuntimeError, match="no geodesic of half plane"):  # its boundary is infinitely far
        half_plane().space.metric.log(np.array([0.0, -1.0]), np.array([0.0, 1.0]))


# --- against geomstats -------------------------------------------------------------------------------------
def test_agrees_with_euclidean_space():
    system = gn.System(Euclidean(3), metric=np.eye(3), base="point")
    ours, theirs = system.space.metric, Euclidean(3).metric
    a, b = np.random.default_rng(6).uniform(-2, 2, (2, 4, 3))
    np.testing.assert_allclose(ours.exp(a, b), theirs.exp(a, b), atol=1e-13)
    np.testing.assert_allclose(ours.log(a, b), theirs.log(a, b), atol=1e-13)
    np.testing.assert_allclose(ours.dist(a, b), theirs.dist(a, b), rtol=1e-13)
    np.testing.assert_allclose(ours.inner_product(a, b, b), theirs.inner_product(a, b), rtol=1e-12)
    np.testing.assert_allclose(FrechetMean(system.space).fit(a).estimate_, a.mean(axis=0), atol=1e-12)


def test_agrees_with_the_bi_invariant_metric_up_to_its_normalisation():
    """geomstats takes tr(AᵀB) or half of it, according to the group; geodesics do not depend on that."""
    system = gn.System(SpecialOrthogonal(3), metric=np.eye(3), base="point")
    ours, theirs = system.space.metric, SpecialOrthogonal(3).metric
    points = system.group.to_geomstats(some_points(system, 4))
    vectors = ours.tangent_vec(np.random.default_rng(7).uniform(-1, 1, (4, 3)), points)
    np.testing.assert_allclose(ours.exp(vectors, points), theirs.exp(vectors, points), atol=1e-12)
    np.testing.assert_allclose(ours.log(points[1:], points[0]), theirs.log(points[1:], points[0]), atol=1e-11)
    ratio = theirs.squared_norm(vectors, points) / ours.squared_norm(vectors, points)
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-12)
    assert ratio[0] == pytest.approx(1.0) or ratio[0] == pytest.approx(2.0)
    distances = theirs.squared_dist(points[1:], points[0]) / ours.squared_dist(points[1:], points[0])
    np.testing.assert_allclose(distances, ratio[0], rtol=1e-9)


# --- means -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["SE2", "SO3", "R2×SO3-coupled", "R2×SO3-varying"])
@pytest.mark.quick("SE2")
def test_frechet_mean_satisfies_its_equation(name):
    system = system_of(name)
    space = system.space
    points = system.group.to_geomstats(some_points(system, 5, spread=0.5))
    mean = FrechetMean(space)
    mean.set(epsilon=1e-20, max_iter=100)
    estimate = mean.fit(points).estimate_
    assert space.belongs(estimate)
    logs = space.metric.log(points, estimate)
    assert np.abs(logs.sum(axis=0)).max() < 1e-8
    assert np.abs(logs).max() > 0.1
    variance = np.sum(space.metric.squared_dist(estimate, points))
    step = space.metric.tangent_vec(1e-3 * np.eye(system.group.dim), estimate)
    moved = space.metric.exp(np.concatenate([step, -step]), estimate)
    assert all(np.sum(space.metric.squared_dist(m, points)) > variance for m in moved)


def test_space_is_equipped_both_ways():
    system = system_of("R2×SO3-coupled")
    space = as_group([Translations(2), SO3()]).space()
    space.equip_with_metric(KineticMetric, system=system)
    point = system.group.to_geomstats(one(some_points(system, 1), 0))
    vector = space.metric.tangent_vec(np.arange(5.0), point)
    assert space.metric.norm(vector, point) == pytest.approx(system.space.metric.norm(vector, point), rel=1e-14)
    pairs = system.group.to_geomstats(some_points(system, 3))
    distances = system.space.metric.dist_pairwise(pairs)
    np.testing.assert_allclose(distances, distances.T)
    np.testing.assert_allclose(distances[0, 1], system.space.metric.dist(pairs[0], pairs[1]), rtol=1e-11)
