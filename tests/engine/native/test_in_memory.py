"""Arrays of several hundred entries and more: in memory, in vectors, with the bits of a single run in each lane."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax
from native_support import needs_compiler, random

from geonh.algebra.elimination import eliminated, pivots_by_rows
from geonh.algebra.linear import apart, orthonormal_forms, saddle
from geonh.engine import jacobian, native
from geonh.engine.compiled import mapped
from geonh.engine.named import differentiated_as

pytestmark = needs_compiler


def positive(seed, *shape):
    A = random(seed, *shape)
    return A @ np.swapaxes(A, -1, -2) + np.eye(shape[-1])


def symmetric_solution(_, node):
    return eliminated(*node, symmetric=True)


def solution(_, node):
    return eliminated(*node, symmetric=False)


def symmetric_pivots(_, A):
    return pivots_by_rows(A)


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(st.integers(16, 70), st.integers(1, 12), st.integers(0, 10**6))
def test_eliminations_solve(n, k, seed):
    S, N, B = positive(seed, 2, n, n), random(seed, 2, n, n) + 3 * np.sqrt(n) * np.eye(n), random(seed + 1, 2, n, k)
    upper = np.triu(S) + np.tril(np.full((n, n), np.nan), -1)  # which is all that is read
    np.testing.assert_allclose(mapped(symmetric_solution, (), (upper, B)), np.linalg.solve(S, B), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(mapped(solution, (), (N, B)), np.linalg.solve(N, B), rtol=1e-9, atol=1e-12)
    pivots = mapped(symmetric_pivots, (), upper)
    np.testing.assert_allclose(np.cumprod(pivots, axis=1)[:, :9], [minors(A, 9) for A in S], rtol=1e-9)


def constrained(_, node):
    M, forms, force, right = node
    rows, beside = apart(forms, right[:, None])
    return (*saddle(M, forms, force, right), rows, beside[:, 0])


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(st.integers(16, 30), st.integers(0, 9), st.integers(0, 10**6))
def test_many_forms_are_orthogonalized_once(m, more, seed):
    n = m + more
    M, forms = positive(seed, 2, n, n), random(seed + 1, 2, m, n) + 3 * np.sqrt(n) * np.eye(m, n)
    force, right = random(seed + 2, 2, n), random(seed + 3, 2, m)
    v, lam, rows, beside = mapped(constrained, (), (M, forms, force, right))
    for i in range(2):
        whole = np.block([[M[i], -forms[i].T], [forms[i], np.zeros((m, m))]])
        expected = np.linalg.solve(whole, np.concatenate([force[i], right[i]]))
        np.testing.assert_allclose(np.concatenate([v[i], lam[i]]), expected, rtol=1e-9, atol=1e-9)
        square = forms[i, 0] @ forms[i, 0]
        np.testing.assert_allclose(rows[i] @ rows[i].T, square * np.eye(m), atol=1e-10)
        np.testing.assert_allclose(rows[i] @ np.linalg.pinv(forms[i]) @ right[i], beside[i], rtol=1e-9, atol=1e-9)


def orthonormal(_, node):
    return orthonormal_forms(*node)


def slope_of_orthonormal(_, node):
    return jax.jvp(orthonormal_forms, node[:3], node[3:])[1].rows


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(st.integers(16, 40), st.integers(0, 9), st.integers(0, 10**6))
def test_many_forms_become_orthonormal_as_by_cholesky(m, more, seed):
    n = m + more
    M, forms, right = positive(seed, 2, n, n), random(seed + 1, 2, m, n) + 3 * np.eye(m, n), random(seed + 2, 2, m)
    rows, lifts, ends = mapped(orthonormal, (), (M, forms, right))
    inverse = np.linalg.inv(M)
    L = np.linalg.cholesky(forms @ inverse @ np.swapaxes(forms, 1, 2))
    np.testing.assert_allclose(rows @ np.swapaxes(lifts, 1, 2), np.broadcast_to(np.eye(m), (2, m, m)), atol=1e-11)
    np.testing.assert_allclose(L @ rows, forms, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(rows @ inverse, lifts, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(np.einsum("kij,kj->ki", L, ends), right, rtol=1e-8, atol=1e-8)
    change = positive(seed + 3, 2, n, n), random(seed + 4, 2, m, n), random(seed + 5, 2, m)
    slope = mapped(slope_of_orthonormal, (), (M, forms, right, *change))
    ahead, behind = (
        mapped(orthonormal, (), tuple(x + h * y for x, y in zip((M, forms, right), change, strict=True)))[0]
        for h in (1e-6, -1e-6)
    )
    np.testing.assert_allclose(slope, (ahead - behind) / 2e-6, rtol=1e-4, atol=1e-4 * np.abs(slope).max())


def minors(A, n):
    return [np.linalg.det(A[:i, :i]) for i in range(1, n + 1)]


def decompositions(_, node):
    A, B = node
    S = A @ A.T + jnp.eye(len(A))
    return (
        lax.linalg.lu(A),
        jnp.linalg.solve(A, B),
        jnp.linalg.det(A),
        jnp.linalg.cholesky(S),
        jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(S), True), B),
    )


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(st.integers(13, 40), st.integers(0, 10**6))
def test_decompositions_are_those_of_lapack(n, seed):
    A, B = random(seed, 2, n, n), random(seed + 1, 2, n, 3)
    got = mapped(decompositions, (), (A, B))
    for i in range(2):
        want = jax.tree.map(np.asarray, decompositions(None, (jnp.asarray(A[i]), jnp.asarray(B[i]))))
        scale = np.linalg.cond(A[i])
        jax.tree.map(
            lambda x, y, i=i, s=scale: np.testing.assert_allclose(x[i], y, rtol=1e-12 * s, atol=1e-13 * s), got, want
        )


def test_an_indefinite_matrix_has_no_cholesky_factor():
    A = positive(1, 1, 20, 20)
    A[0, 11, 11] = -1.0
    assert np.isnan(mapped(cholesky, (), A)[0][np.tril_indices(20)]).all()


def cholesky(_, A):
    return jnp.linalg.cholesky(A)


@pytest.mark.parametrize("options", range(16))
def test_triangular_solutions(options):
    left, lower, transposed, unit = (bool(options >> bit & 1) for bit in range(4))
    A, B = 0.2 * random(2, 2, 15, 15) + 3 * np.eye(15), random(3, 2, *((15, 4) if left else (4, 15)))

    def solve(_, node):
        A, B = node
        words = {"left_side": left, "lower": lower, "transpose_a": transposed, "unit_diagonal": unit}
        return lax.linalg.triangular_solve(A, B, **words)

    np.testing.assert_allclose(mapped(solve, (), (A, B)), solve(None, (jnp.asarray(A), jnp.asarray(B))), rtol=1e-12)


def sorts(_, x):
    return jnp.sort(x, axis=0), jnp.sort(x, axis=1), jnp.argsort(x[:, 0])


def test_long_arrays_are_sorted():
    x = np.round(random(5, 2, 70, 40), 1)
    x[0, 3, 0] = np.nan
    rows, columns, order = mapped(sorts, (), x)
    np.testing.assert_array_equal(rows, np.sort(x, 1))
    np.testing.assert_array_equal(columns, np.sort(x, 2))
    np.testing.assert_array_equal(order, np.argsort(x[:, :, 0], axis=1, kind="stable"))


def large(_, node):
    """Sums, products, broadcasts, transpositions, blocks, reductions and a Jacobian of hundreds of entries."""
    A, x = node
    n = len(x)
    outer = jnp.outer(x, jnp.sin(x)) * 2.0 - A
    whole = jnp.block([[outer, A[:, :7]], [A[:5] + x, jnp.zeros((5, 7))]])
    slope = jacobian(lambda x: jnp.tanh(A @ x) * x + jnp.cumsum(x), x, together=8)
    moved = jnp.where(outer > 0, outer, A.T) @ A + slope / (2 + x[:, None] ** 2)
    return whole @ whole.T, moved, moved.sum(0), moved.max(1), jnp.eye(n) * x, jnp.einsum("ij,kj,k->i", A, moved, x)


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(st.integers(16, 45), st.integers(0, 10**6))
def test_large_arrays_agree_with_jax(n, seed):
    A, x = random(seed, 2, n, n), random(seed + 1, 2, n)
    got = mapped(large, (), (A, x))
    for i in range(2):
        want = large(None, (jnp.asarray(A[i]), jnp.asarray(x[i])))
        jax.tree.map(lambda a, b, i=i: np.testing.assert_allclose(a[i], b, rtol=1e-11, atol=1e-11), got, want)


def step(params, state):
    """Eliminations, decompositions, a sort and a Jacobian of matrices in memory, different in each member."""
    x, A = state["x"], params["A"]
    S = A @ A.T + jnp.diag(2 + x * x) + params["h"] * jnp.outer(x, x)
    y = (
        eliminated(S, jnp.stack([x, jnp.ones_like(x)], 1), symmetric=True).sum(1)
        + eliminated(S, x[:, None], symmetric=True)[:, 0]
    )
    y = y + 0.1 * jnp.log(pivots_by_rows(S)) + eliminated(S + A, x[:, None], symmetric=False)[:, 0]
    y = (
        y
        + jnp.linalg.solve(A + jnp.diag(x), x) * 1e-3
        + jnp.linalg.cholesky(S)[-1]
        + jnp.sort(jnp.outer(x, y).ravel())[: len(x)]
    )
    forms = A[:16] + 3 * jnp.eye(len(x))[:16]
    y = y + 0.1 * saddle(S, forms, x, x[:16])[0] + 1e-3 * forms.T @ saddle(S, forms, x, x[:16])[1]
    y = y + 1e-3 * jnp.sum(apart(forms, x[:16, None])[1]) + 1e-3 * orthonormal_forms(S, forms, x[:16]).rows[-1]
    slope = jacobian(lambda x: jnp.sin(A @ x) * x, x, together=8)
    new = {"x": jnp.tanh(0.1 * (slope @ y + S @ x))}
    return new, jnp.where(jnp.isnan(new["x"][0]), 3, 0).astype(jnp.int32)


def row(params, state):
    return state["x"]


@pytest.mark.quick("17")
@pytest.mark.parametrize("size", [17, 24])
def test_each_member_gets_the_bits_of_its_own_run(size):
    params, varies = {"A": random(4, size, size), "h": np.linspace(0.1, 1.0, 5)}, {"A": False, "h": True}
    states = {"x": random(1, 5, size)}
    first, member = {"x": states["x"][0]}, lambda i: {"A": params["A"], "h": params["h"][i]}
    lanes, loop = native.Lanes(step, row, member(0), first, varies, width=4), native.Loop(step, row, member(0), first)
    buffer = lanes.buffer(5, 6)
    lanes.run(params, states, 6, 1, buffer, threads=1)
    for i in range(5):
        rows = np.zeros((6, loop.width))
        _, status, _ = loop.run(member(i), {"x": states["x"][i]}, 6, 1, rows)
        assert status == 0
        np.testing.assert_array_equal(lanes.rows(buffer, i), rows)


def with_the_derivative_of_another(_, x):
    other = differentiated_as(jnp.sin(x), x * x)
    return jacobian(lambda y: differentiated_as(y, 3 * y) * jnp.sum(other) + other, x), other


def test_a_value_with_the_derivative_of_another():
    x = random(7, 1, 3)
    slope, value = mapped(with_the_derivative_of_another, (), x)
    np.testing.assert_array_equal(value[0], np.sin(x[0]))
    np.testing.assert_allclose(slope[0], 3 * np.sin(x[0]).sum() * np.eye(3), rtol=1e-14)
    with jax.enable_x64(True):
        want = jax.jacfwd(lambda x: differentiated_as(jnp.sin(x), x * x))(jnp.asarray(x[0]))
    np.testing.assert_allclose(want, np.diag(2 * x[0]), rtol=1e-15)
