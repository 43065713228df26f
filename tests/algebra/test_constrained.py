"""Solutions in the null space of many rows, and their derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geonh.algebra import constrained as null_space
from geonh.arguments.precision import float64
from geonh.engine import native
from geonh.engine.compiled import mapped

needs_compiler = pytest.mark.skipif(not native.available(), reason="there is no compiler for this machine")
SIZES = ((7, 7), (7, 9), (11, 13), (16, 24), (21, 23), (41, 43))


def node(m, n, seed, *lead):
    """M, μ, N, force, right and x, of m rows of n entries."""
    rng = np.random.default_rng(seed)
    A, mu = rng.normal(size=(*lead, n, n)), rng.normal(size=(*lead, m, n))
    M, near = A @ np.swapaxes(A, -1, -2) + n * np.eye(n), mu + 0.1 * rng.normal(size=mu.shape)
    return M, mu, near, *(rng.normal(size=(*lead, k)) for k in (n, m, n))


def solutions(_, at):
    M, mu, near, force, right, x = at
    v = null_space.constrained(M, mu, force, right)
    moved = null_space.shifted(mu, near, x, right), null_space.shifted(mu, mu, x, right)
    return v, null_space.multipliers(mu, M @ v - force), *moved


def motions(_, at):
    M, mu, _, force, right, _ = at
    return null_space.constrained_by_products(lambda rows: rows @ M, mu, force, right)


@needs_compiler
@settings(max_examples=8, deadline=None)
@given(st.sampled_from(SIZES), st.integers(0, 10**6))
def test_solutions_satisfy_their_equations(size, seed):
    at = node(*size, seed, 3)
    for found, M, mu, near, force, right, x in zip(zip(*mapped(solutions, (), at), strict=True), *at, strict=True):
        v, lam, y, z = found
        worst = np.linalg.cond(np.block([[M, mu.T], [mu, np.zeros((len(mu), len(mu)))]]))
        tol = {"rtol": 0.0, "atol": 1e-14 * worst * max(1.0, np.abs(lam).max(), np.abs(y).max(), np.abs(z).max())}
        for solution in (v, y, z):
            np.testing.assert_allclose(mu @ solution, right, **tol)
        np.testing.assert_allclose(M @ v - mu.T @ lam, force, **tol)
        for moved, rows in ((y, near), (z, mu)):
            along = np.linalg.lstsq(rows.T, moved - x, rcond=None)[0]
            np.testing.assert_allclose(rows.T @ along, moved - x, **tol)


@pytest.mark.slow
@needs_compiler
@settings(max_examples=8, deadline=None)
@given(st.sampled_from(SIZES[1:]), st.integers(0, 10**6))
def test_products_serve_in_place_of_a_matrix(size, seed):
    at = node(*size, seed, 3)
    for x, image, v, M, mu in zip(*mapped(motions, (), at), mapped(solutions, (), at)[0], *at[:2], strict=True):
        tol = {"rtol": 0.0, "atol": 1e-13 * np.linalg.cond(M) * np.linalg.cond(mu) * np.abs(v).max()}
        np.testing.assert_allclose(x, v, **tol)
        np.testing.assert_allclose(image, M @ x, rtol=0, atol=np.abs(M).max() * tol["atol"])


def null_spaces(_, rows):
    return null_space.oriented_null_space(rows)


@pytest.mark.slow
@needs_compiler
@settings(max_examples=8, deadline=None)
@given(st.sampled_from(SIZES[1:]), st.integers(0, 10**6))
def test_null_spaces_have_the_cosine_of_the_spans_of_their_rows(size, seed):
    rng = np.random.default_rng(seed)
    one = rng.normal(size=size)
    others = one + rng.choice([0.1, 1.0, 3.0], size=(6, 1, 1)) * rng.normal(size=(6, *size))
    rows = np.concatenate([one[None], others, one[None, np.r_[1, 0, 2 : len(one)]]])  # the last is turned over
    bases = mapped(null_spaces, (), rows)
    lower = np.linalg.inv(np.linalg.cholesky(rows @ np.swapaxes(rows, 1, 2))) @ rows
    expected = np.linalg.det(lower[0] @ np.swapaxes(lower, 1, 2))
    np.testing.assert_allclose(np.linalg.det(bases[0] @ np.swapaxes(bases, 1, 2)), expected, atol=1e-12)
    np.testing.assert_allclose(expected[[0, -1]], [1, -1], atol=1e-12)
    with float64():
        by_lapack = np.stack([null_spaces((), jnp.asarray(row)) for row in rows])
    np.testing.assert_allclose(np.linalg.det(by_lapack[0] @ np.swapaxes(bases, 1, 2)), expected, atol=1e-12)


@needs_compiler
@needs_compiler
@pytest.mark.parametrize("size", SIZES)
def test_shifted_rounds_each_row_by_its_own_entries(size):
    """Rows of lengths from 1e-6 to 1e3: small ones are not rounded as long ones are."""
    _, mu, near, _, right, x = node(*size, 3, 5)
    scales = np.logspace(-6, 3, size[0])[:, None]
    mu, near, right = mu * scales, near * scales, right * scales[:, 0]
    at = (np.tile(np.eye(size[1]), (5, 1, 1)), mu, near, x, right, x)
    with float64():
        _, _, moved, nearest = mapped(solutions, None, at)
    for y in (moved, nearest):
        rounding = np.einsum("kij,kj->ki", np.abs(mu), np.abs(y)) + np.abs(right)
        assert (np.abs(np.einsum("kij,kj->ki", mu, y) - right) < 4e-16 * rounding).all()


def test_nearly_parallel_rows_lose_digits_only_along_themselves():
    M, mu, near, force, _, x = node(9, 11, 5)
    mu[8] = mu[7] + 1e-9 * mu[8]
    v, *_ = (a[0] for a in mapped(solutions, (), jax.tree.map(lambda a: a[None], (M, mu, near, force, np.zeros(9), x))))
    Z = np.linalg.svd(np.vstack([mu[:8], (mu[8] - mu[7]) * 1e9]))[2][9:]
    free = np.abs(np.linalg.solve(M, force)).max()
    np.testing.assert_allclose(v, Z.T @ np.linalg.solve(Z @ M @ Z.T, Z @ force), rtol=0, atol=1e-6 * free)
    assert np.abs(mu @ v).max() < 1e-13 * np.abs(v).max() * np.abs(mu).max()


@pytest.mark.quick("size0")
@needs_compiler
@pytest.mark.parametrize("size", [(7, 9), (21, 23), (16, 24)])
def test_each_member_gets_the_bits_of_its_own_run(size):
    at = node(*size, 1, 3)

    def step(_, state):
        v, lam, y, z = solutions((), state)
        M, mu, near, force, right, x = state
        x = x + 0.1 * (v + y) + 0.1 * null_spaces((), mu)[0] + 0.1 * motions((), state).x
        ahead = (M, mu + 0.01 * jnp.sin(near), near, force + 0.1 * z, right + 0.01 * lam, x)
        return ahead, jnp.zeros((), jnp.int32)

    def row(_, state):
        return jnp.concatenate([state[1].ravel(), *state[3:]])

    one = jax.tree.map(lambda a: a[0], at)
    loop, lanes = native.Loop(step, row, (), one), native.Lanes(step, row, (), one, ())
    buffer = lanes.buffer(3, 4)
    lanes.run((), at, 4, 1, buffer, threads=1)
    together = np.moveaxis(buffer, -1, 1).reshape(-1, 4, buffer.shape[2])[:3]
    for i in range(3):
        rows = np.empty((4, loop.width))
        list(loop.pieces((), jax.tree.map(lambda a, i=i: a[i], at), 4, 1, rows))
        np.testing.assert_array_equal(together[i], rows)


def by_solve(at):
    """The same by dense systems, for JAX to differentiate."""
    M, mu, near, force, right, x = at
    both = jnp.concatenate([jnp.concatenate([M, -mu.T], 1), jnp.concatenate([mu, jnp.zeros((len(mu),) * 2)], 1)])
    v, lam = jnp.split(jnp.linalg.solve(both, jnp.concatenate([force, right])), [len(M)])
    y, z = (x + rows.T @ jnp.linalg.solve(mu @ rows.T, right - mu @ x) for rows in (near, mu))
    return v, lam, y, z


@pytest.mark.slow
def test_derivatives_forwards_and_backwards():
    with float64():
        at, ahead = node(7, 9, 2), node(7, 9, 3)
        ahead = (ahead[0] + ahead[0].T, *ahead[1:])
        mine, theirs = (jax.jvp(f, (at,), (ahead,))[1] for f in (lambda a: solutions((), a), by_solve))
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-9 * float(jnp.abs(b).max()))
        weights = [np.cos(np.arange(len(a)) + 1.0) for a in mine]

        def total(f, at):
            M = 0.5 * (at[0] + at[0].T)  # its derivative is symmetric
            return sum(w @ a for w, a in zip(weights, f((M, *at[1:])), strict=True))

        mine = jax.grad(lambda a: total(lambda a: solutions((), a), a))(at)
        for a, b in zip(mine, jax.grad(lambda a: total(by_solve, a))(at), strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-9 * float(jnp.abs(b).max()))
