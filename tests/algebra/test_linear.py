"""Small dense systems against LAPACK, and through JAX's transformations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geonh.algebra.elimination import UNROLLED
from geonh.algebra.linear import (
    apart,
    det,
    gram_schmidt,
    orthonormal_forms,
    pivots,
    polar_adjoint,
    saddle,
    saddle_inverses,
    solve,
    solve_spd,
)


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def spd(n: int, seed: int = 0) -> np.ndarray:
    a = np.random.default_rng(seed).normal(size=(n, n))
    return a @ a.T + n * np.eye(n)


def skewed(n: int, seed: int = 0) -> np.ndarray:
    """Not symmetric, with a positive definite symmetric part: no pivot vanishes."""
    b = np.random.default_rng(seed + 1).normal(size=(n, n))
    return spd(n, seed) + (b - b.T)


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 6), seed=st.integers(0, 2**32 - 2), columns=st.sampled_from([None, 1, 3]))
def test_agrees_with_lapack(n, seed, columns):
    with jax.enable_x64(True):
        b = np.random.default_rng(seed).normal(size=(n,) if columns is None else (n, columns))
        for function, a in ((solve, skewed(n, seed)), (solve, spd(n, seed)), (solve_spd, spd(n, seed))):
            x = function(jnp.asarray(a), jnp.asarray(b))
            assert x.shape == b.shape
            assert x.dtype == np.float64
            np.testing.assert_allclose(a @ x, b, rtol=0, atol=1e-12 * max(1, np.abs(b).max()))
        np.testing.assert_allclose(det(jnp.asarray(skewed(n, seed))), np.linalg.det(skewed(n, seed)), rtol=1e-12)


def test_lapack_takes_over_above_the_limit():
    n = UNROLLED + 2
    b = np.arange(n, dtype=float)
    for function, a in ((solve, skewed(n)), (solve_spd, spd(n))):
        np.testing.assert_allclose(a @ function(a, b), b, atol=1e-10)
    np.testing.assert_allclose(det(jnp.asarray(spd(n))), np.linalg.det(spd(n)), rtol=1e-12)


def test_solve_spd_reads_the_upper_triangle_in_every_dimension():
    for n in (4, UNROLLED + 1):
        a, b = spd(n), np.ones(n)
        np.testing.assert_allclose(solve_spd(jnp.asarray(np.triu(a)), b), np.linalg.solve(a, b), rtol=1e-10)


def test_dimension_zero():
    assert solve(jnp.zeros((0, 0)), jnp.zeros(0)).shape == (0,)
    assert det(jnp.zeros((0, 0))) == 1.0


def test_no_pivoting_shows_in_the_residual():
    x = solve(jnp.array([[0.0, 1.0], [1.0, 0.0]]), jnp.array([1.0, 2.0]))
    assert not np.all(np.isfinite(x))


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="square"):
        solve(jnp.ones((2, 3)), jnp.ones(2))
    with pytest.raises(ValueError, match="right-hand side"):
        solve(jnp.eye(2), jnp.ones(3))
    with pytest.raises(ValueError, match="square"):
        det(jnp.ones(3))


@pytest.mark.slow
def test_derivatives_and_vmap():
    a, b = jnp.asarray(skewed(4)), jnp.arange(4.0)
    np.testing.assert_allclose(jax.jacfwd(solve, argnums=1)(a, b), jnp.linalg.inv(a), atol=1e-13)
    np.testing.assert_allclose(jax.jacrev(solve)(a, b), jax.jacrev(jnp.linalg.solve)(a, b), atol=1e-13)
    np.testing.assert_allclose(jax.grad(det)(a), det(a) * jnp.linalg.inv(a).T, rtol=1e-11)
    batch = jnp.stack([jnp.asarray(skewed(4, seed)) for seed in range(5)])
    np.testing.assert_allclose(jax.vmap(solve, (0, None))(batch, b), [np.linalg.solve(m, b) for m in batch], rtol=1e-12)


def test_a_determinant_is_machine_code_without_logarithms():
    closed = jax.make_jaxpr(det)(jnp.eye(9))
    assert " log " not in str(closed)
    exchanged = jnp.eye(9)[jnp.array([1, 0, 2, 3, 4, 5, 6, 8, 7])]
    assert det(exchanged) == 1.0
    assert det(exchanged.at[2].multiply(-3.0)) == -3.0


def test_derivatives_above_the_limit():
    n = UNROLLED + 2
    a, b, da = jnp.asarray(skewed(n)), jnp.arange(n) / n, jnp.asarray(skewed(n, 7))
    along = jax.jvp(lambda a: solve(a, b), (a,), (da,))[1]
    back = jax.grad(lambda b: solve(a, b).sum())(b)
    inverse = np.linalg.inv(a)
    np.testing.assert_allclose(along, -inverse @ da @ inverse @ b, atol=1e-12)
    np.testing.assert_allclose(back, inverse.T @ np.ones(n), atol=1e-13)


@pytest.mark.quick("1-0", "3-1", "5-2", "24-17", "9-6")
@pytest.mark.parametrize(("n", "m"), [(1, 0), (3, 1), (5, 2), (6, 4), (9, 6), (24, 17)])
def test_the_saddle_system(n, m):
    rng = np.random.default_rng(n)
    M, mu, force, right = spd(n), rng.normal(size=(m, n)), rng.normal(size=n), rng.normal(size=m)
    whole = np.block([[M, -mu.T], [mu, np.zeros((m, m))]])
    expected = np.linalg.solve(whole, np.concatenate([force, right]))
    v, lam = saddle(*map(jnp.asarray, (M, mu, force, right)))
    np.testing.assert_allclose(np.concatenate([v, lam]), expected, atol=1e-12)
    inverse, raised, schur = saddle_inverses(jnp.asarray(M), jnp.asarray(mu))
    np.testing.assert_allclose(schur @ (right - mu @ inverse @ force), lam, atol=1e-12)
    np.testing.assert_allclose(raised, np.linalg.solve(M, mu.T), atol=1e-13)


def polar_factor(A):
    return np.array([polar_adjoint(jnp.asarray(A), jnp.asarray(v)) for v in np.eye(len(A))]).reshape(A.shape)


@pytest.mark.parametrize("m", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("mirrored", [False, True])
def test_the_polar_factor(m, mirrored):
    """Against the singular value decomposition, for matrices near orthogonal ones, of either determinant."""
    rng = np.random.default_rng(m)
    A = np.linalg.qr(rng.normal(size=(m, m)))[0] @ (np.eye(m) + 0.05 * rng.normal(size=(m, m)))
    A = A * np.where(np.arange(m) == 0, -1.0 if mirrored else 1.0, 1.0)
    u, _, vh = np.linalg.svd(A)
    result = polar_factor(A)
    np.testing.assert_allclose(result, u @ vh, atol=1e-14)
    np.testing.assert_allclose(result @ result.T, np.eye(m), atol=1e-14)


@pytest.mark.parametrize("cosine", [0.9999, 0.98, 0.7, 0.43, 0.2, 0.01])
def test_the_polar_factor_of_bases_far_apart(cosine):
    """To rounding, or nan: never nearly orthogonal."""
    rng = np.random.default_rng(7)
    u, v = (np.linalg.qr(rng.normal(size=(4, 4)))[0] for _ in range(2))
    result = polar_factor(u @ np.diag([1.0, 0.9999, (1 + cosine) / 2, cosine]) @ v)
    np.testing.assert_allclose(result, u @ v if cosine > 0.4 else np.full((4, 4), np.nan), atol=1e-14)


@pytest.mark.parametrize(("n", "m"), [(3, 1), (5, 2), (9, 6), (4, 0), (30, 20)])
def test_forms_made_orthonormal(n, m):
    M, mu = spd(n), np.random.default_rng(m).normal(size=(m, n))
    b, xi = np.arange(1.0, m + 1), np.random.default_rng(n).normal(size=n)
    N, lifts, c = orthonormal_forms(*map(jnp.asarray, (M, mu, b)))
    np.testing.assert_allclose(lifts @ N.T, np.eye(m), atol=1e-13)
    np.testing.assert_allclose(lifts, N @ np.linalg.inv(M), atol=1e-13)
    root = np.linalg.cholesky(mu @ np.linalg.inv(M) @ mu.T)
    np.testing.assert_allclose(root @ N, mu, atol=1e-12)
    np.testing.assert_allclose(root @ (N @ xi - c), mu @ xi - b, atol=1e-12)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 7))
@settings(max_examples=20, deadline=None)
def test_pivots_tell_whether_a_matrix_is_positive_definite(seed, n):
    a = np.random.default_rng(seed).normal(size=(n, n))
    A = a + a.T + 2 * np.sqrt(n) * np.eye(n)
    assert bool(np.all(pivots(jnp.asarray(A)) > 0)) == (np.linalg.eigvalsh(A)[0] > 0)


def test_pivots_of_a_large_matrix():
    A = jnp.asarray(spd(30))
    np.testing.assert_allclose(pivots(A), np.diag(np.linalg.cholesky(A)) ** 2, rtol=1e-11)
    result = pivots(A.at[20, 20].add(-1e3))
    assert np.all(result[:20] > 0)
    assert result[20] < 0


def test_gram_schmidt():
    rng = np.random.default_rng(0)
    rows, M = jnp.asarray(rng.normal(size=(3, 5))), jnp.asarray(spd(5))
    result = gram_schmidt(rows, M)
    np.testing.assert_allclose(result @ M @ result.T, np.eye(3), atol=1e-14)
    np.testing.assert_allclose(np.tril(result @ M @ rows.T, -1), 0, atol=1e-14)  # each lies in the span of those before


@pytest.mark.parametrize(("m", "n"), [(0, 3), (1, 4), (2, 3), (4, 6), (17, 24)])
def test_rows_apart_are_orthogonal_of_one_length_and_of_the_same_flag(m, n):
    rows, beside = (np.random.default_rng(m).normal(size=shape) for shape in ((m, n), (m, 2)))
    made, along = apart(rows, beside)
    np.testing.assert_allclose(made @ made.T, np.eye(m) * np.sum(rows[:1] ** 2), atol=1e-13)
    T = np.asarray(made) @ np.linalg.pinv(rows) if m else np.eye(0)
    np.testing.assert_allclose(T, np.tril(T), atol=1e-13)
    assert (np.diag(T) > 0).all()
    np.testing.assert_allclose(along, T @ beside, atol=1e-12)


@pytest.mark.parametrize(("m", "n"), [(3, 5), (17, 24)])
def test_derivatives_of_saddle_systems_know_that_rows_were_taken_apart(m, n):
    rng = np.random.default_rng(3)
    M, mu, force, right = spd(n), rng.normal(size=(m, n)), rng.normal(size=n), rng.normal(size=m)

    def whole(M, mu, force, right):
        A = jnp.block([[M, -mu.T], [mu, jnp.zeros((m, m))]])
        x = jnp.linalg.solve(A, jnp.concatenate([force, right]))
        return x[:n], x[n:]

    tangents = (spd(n, 1), *(rng.normal(size=shape) for shape in ((m, n), (n,), (m,))))
    result, expected = (jax.jvp(f, (M, mu, force, right), tangents) for f in (saddle, whole))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10), result, expected)
