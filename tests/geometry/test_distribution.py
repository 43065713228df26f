"""Distributions, actions and brackets: projectors, frames, affine parts, growth vectors, groupoid axioms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import geonh as gn
from geonh.algebra.linear import det
from geonh.groups import SE2, SO3, Opposite, Product, Torus, Translations

SEEDS = st.integers(0, 10_000)


def spd(rng, n):
    a = rng.normal(size=(n, n))
    return a @ a.T + np.eye(n)


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.sampled_from([(2, 1), (3, 2), (4, 1), (6, 3)]))
def test_projectors(seed, shape):
    n, m = shape
    rng = np.random.default_rng(seed)
    M, forms = jnp.asarray(spd(rng, n)), rng.normal(size=(m, n))
    frame = np.linalg.svd(forms)[2][m:]
    by_forms, by_frame = gn.Distribution(forms), gn.Distribution(frame=frame)
    P, Q = by_forms.P(M, ()), by_forms.Q(M, ())
    np.testing.assert_allclose(P @ P, P, atol=1e-9)
    np.testing.assert_allclose(P + Q, np.eye(n), atol=1e-9)
    np.testing.assert_allclose(P.T @ M @ Q, 0, atol=1e-8)  # orthogonal for the metric
    np.testing.assert_allclose(forms @ P, 0, atol=1e-8)
    np.testing.assert_allclose(by_frame.P(M, ()), P, atol=1e-7)
    annihilator = by_frame.annihilator(())
    assert annihilator.shape == (m, n)
    np.testing.assert_allclose(annihilator @ frame.T, 0, atol=1e-9)
    assert np.linalg.matrix_rank(annihilator) == m
    p = rng.normal(size=n)
    np.testing.assert_allclose(by_forms.normal_momentum(M, p, ()), by_forms.Q_star(M, ()) @ p, atol=1e-8)
    reflected = p - 2 * by_forms.normal_momentum(M, p, ())
    np.testing.assert_allclose(reflected - 2 * by_forms.normal_momentum(M, reflected, ()), p, atol=1e-8)
    adapted = by_forms.adapted_frame(M, ())
    np.testing.assert_allclose(adapted @ M @ adapted.T, np.eye(n), atol=1e-7)
    np.testing.assert_allclose(forms @ adapted[: n - m].T, 0, atol=1e-7)


def test_frames_with_vanishing_minors():
    one = gn.Distribution(frame=[[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]).annihilator(())
    np.testing.assert_allclose(np.abs(one), [[0.0, 1.0, 0.0]])
    two = gn.Distribution(frame=[[0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0]]).annihilator(())
    assert np.linalg.matrix_rank(two) == 2
    np.testing.assert_allclose(two[:, [0, 2]], 0)


def test_affine_parts_by_drift_and_by_right_hand_side_agree():
    rng = np.random.default_rng(1)
    M, forms, Y = jnp.asarray(spd(rng, 4)), rng.normal(size=(2, 4)), rng.normal(size=4)
    by_drift = gn.AffineDistribution(forms, drift=Y)
    by_rhs = gn.AffineDistribution(forms, rhs=forms @ Y)
    by_frame = gn.AffineDistribution(frame=np.linalg.svd(forms)[2][2:], drift=Y)
    p = rng.normal(size=4)
    expected = by_drift.Q_star(M, ()) @ (p - M @ Y)
    for distribution in (by_drift, by_rhs, by_frame):
        np.testing.assert_allclose(distribution.normal_momentum(M, p, ()), expected, atol=1e-10)
        section = distribution.drift_section(M, ())
        np.testing.assert_allclose(distribution.residual(section, ()), 0, atol=1e-10)


@pytest.mark.slow
def test_runs_from_a_frame_and_from_forms_agree():
    R = Translations(3)
    forms = gn.System(R, metric=np.eye(3), distribution=gn.Distribution(lambda x: [[-x[1], 0.0, 1.0]]))
    frame = gn.Distribution(frame=lambda x: [[1.0, 0.0, x[1]], [0.0, 1.0, 0.0]])
    runs = [
        gn.solve(s, xi0=[1.0, 1.0, 0.0], dt=0.02, n_steps=100)
        for s in (forms, gn.System(R, metric=np.eye(3), distribution=frame))
    ]
    np.testing.assert_allclose(runs[0].g, runs[1].g, atol=1e-13)


@pytest.mark.parametrize(
    ("group", "distribution", "growth"),
    [
        (Translations(3), gn.Distribution(lambda x: [[-x[1], 0.0, 1.0]]), (2, 3)),
        (Translations(3), gn.Distribution([[0.0, 0.0, 1.0]]), (2,)),
        (SE2(), gn.Distribution([[0.0, 0.0, 1.0]]), (2, 3)),
        (SO3(), gn.Distribution([[0.0, 0.0, 1.0]]), (2, 3)),
        (Translations(4), gn.Distribution(lambda x: [[0.0, -x[0], 1.0, 0.0], [0.0, -x[2], 0.0, 1.0]]), (2, 3, 4)),
    ],
)
def test_growth_vectors(group, distribution, growth):
    system = gn.System(group, metric=np.eye(group.dim), distribution=distribution)
    g = group.exp(0.3 * jnp.arange(1.0, group.dim + 1))
    assert gn.geometry.growth_vector(system, g) == growth
    assert bool(gn.geometry.is_integrable(system, g)) == (len(growth) == 1)


ACTIONS = {
    "group": lambda: gn.geometry.GroupBase(SE2()),
    "shape": lambda: gn.geometry.ShapeBase(Product((SE2(), Torus(2)))),
    "advected": lambda: gn.geometry.AdvectedVector(SO3(), [0.1, 0.2, 1.0]),
    "opposite": lambda: gn.geometry.ShapeBase(Product((Translations(2), Opposite(SO3())))),
}


@pytest.mark.quick("shape")
@pytest.mark.parametrize("name", ACTIONS)
def test_groupoid_and_algebroid(name):
    action = ACTIONS[name]()
    group, rng = action.group, np.random.default_rng(3)
    g, W, V = (group.exp(jnp.asarray(rng.normal(size=group.dim))) for _ in range(3))
    x = action.at(g)
    close = lambda a, b, tol=1e-12: jax.tree.map(lambda u, v: np.testing.assert_allclose(u, v, atol=tol), a, b)  # noqa: E731
    close(action.act(action.act(x, W), V), action.act(x, group.compose(W, V)))
    close(action.at(group.compose(g, W)), action.act(x, W))
    arrow, following = (x, W), (action.act(x, W), V)
    close(action.target(action.product(arrow, following)), action.target(following))
    close(action.product(arrow, action.inverse(arrow)), (x, group.identity()))
    xi, h = jnp.asarray(rng.normal(size=group.dim)), 1e-6
    moved = [action.act(x, group.exp(s * h * xi)) for s in (1, -1)]
    close(action.anchor(x, xi), jax.tree.map(lambda a, b: (a - b) / (2 * h), *moved), 1e-8)
    weights = jax.tree.map(lambda a: jnp.asarray(rng.normal(size=a.shape)), x)
    f = lambda x: sum(jnp.sum(w * jnp.sin(a)) for w, a in zip(*map(jax.tree.leaves, (weights, x)), strict=True))  # noqa: E731
    slope = (f(moved[0]) - f(moved[1])) / (2 * h)
    np.testing.assert_allclose(action.coanchor(f, x) @ xi, slope, atol=1e-8)

    def section(seed):
        A = np.random.default_rng(seed).normal(size=(group.dim,))
        return lambda y: A * jnp.cos(f(y)) + jnp.roll(A, 1) * f(y)

    X, Y, Z = section(1), section(2), section(4)
    jacobi = [action.bracket(A, action.bracket(B, C))(x) for A, B, C in ((X, Y, Z), (Y, Z, X), (Z, X, Y))]
    np.testing.assert_allclose(sum(jacobi), 0, atol=1e-10)


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.integers(0, 7))
def test_determinant(seed, n):
    A = np.random.default_rng(seed).normal(size=(n, n))
    np.testing.assert_allclose(det(jnp.asarray(A)), np.linalg.det(A), rtol=1e-9, atol=1e-12)
