"""Elimination of symmetric matrices with known zeros: of trees, with rows of constraints, with entries that fill."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geonh.algebra.elimination import pivots_by_rows
from geonh.algebra.linear import solve_spd
from geonh.algebra.sparse import Sparse
from geonh.engine import native
from geonh.engine.compiled import mapped

needs_compiler = pytest.mark.skipif(not native.available(), reason="there is no compiler for this machine")


def of_tree(n, rng, *, strangers=0):
    """Entries of the mass matrix of a random tree, and of pairs of strangers besides."""
    present = np.eye(n, dtype=bool)
    parents = [-1] + [int(rng.integers(max(0, i - 3), i)) if rng.random() < 0.8 else -1 for i in range(1, n)]
    for i in range(n):
        j = parents[i]
        while j >= 0:
            present[i, j] = present[j, i] = True
            j = parents[j]
    for i, j in rng.integers(0, n, (strangers, 2)):
        present[i, j] = present[j, i] = True
    return present


def matrix(present, rng):
    """Random symmetric positive definite matrix with these entries."""
    A = np.where(present, rng.normal(size=present.shape), 0.0)
    return np.tril(A) + np.tril(A, -1).T + 2 * len(A) * np.eye(len(A))


def zeros_known(A, present):
    """A, of whose entries the engine knows which are zero."""
    return jnp.stack([jnp.stack([A[i, j] if p else jnp.zeros(()) for j, p in enumerate(row)]) for i, row in present])


@needs_compiler
@settings(max_examples=6, deadline=None)
@given(st.integers(17, 40), st.integers(0, 3), st.integers(0, 3), st.sampled_from([1, 3]), st.integers(0, 10**6))
def test_solution_and_pivots(n, m, strangers, k, seed):
    rng = np.random.default_rng(seed)
    present = of_tree(n, rng, strangers=strangers)
    corner = np.zeros((m, m), bool)
    present = np.block([[present, np.ones((n, m), bool)], [np.ones((m, n), bool), corner]])
    A, rows, b = matrix(present[:n, :n], rng), rng.normal(size=(m, n)), rng.normal(size=(n + m, k))
    A = np.block([[A, rows.T], [rows, np.zeros((m, m))]])
    pattern = [(i, row) for i, row in enumerate(present.tolist())]

    def solved(_, at):
        known = zeros_known(at[0], pattern)
        return solve_spd(known, at[1]), *(() if m else (pivots_by_rows(known),))

    assert Sparse(~present).n_last == m
    x, *pivots = mapped(solved, (), (A[None], b[None]))
    expected = np.linalg.solve(A, b)
    tol = 1e-14 * np.linalg.cond(A)
    np.testing.assert_allclose(x[0], expected, rtol=0, atol=tol * max(1.0, np.abs(expected).max()))
    if pivots:
        assert (pivots[0][0] > 0).all()
        np.testing.assert_allclose(np.log(pivots[0][0]).sum(), np.linalg.slogdet(A)[1], rtol=1e-13)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 60), st.integers(0, 10**6))
def test_a_tree_fills_nowhere(n, seed):
    present = of_tree(n, np.random.default_rng(seed))
    found = Sparse(~present)
    assert found.n_last == 0
    assert found.columns == [np.flatnonzero(present[i, :i]).tolist() for i in range(n)]


def test_full_matrices_and_chains_are_not_sparse():
    assert not Sparse(np.zeros((24, 24), bool)).is_worthwhile
    assert not Sparse(np.eye(24, dtype=bool)).is_worthwhile  # no diagonal at all
    assert Sparse(~np.eye(24, dtype=bool)).is_worthwhile


@needs_compiler
def test_lanes_have_the_same_bits():
    from geonh.engine.native.drivers import Map

    rng = np.random.default_rng(1)
    present = of_tree(20, rng, strangers=1)
    pattern = list(enumerate(present.tolist()))
    A, b = np.stack([matrix(present, rng) for _ in range(3)]), rng.normal(size=(3, 20))

    def solved(_, at):
        return solve_spd(zeros_known(at[0], pattern), at[1])

    one = Map(solved, (), (A[0], b[0]))
    every = mapped(solved, (), (A, b))
    for i in range(3):
        np.testing.assert_array_equal(one.one((), (A[i], b[i])), every[i])


@needs_compiler
def test_derivatives():
    rng = np.random.default_rng(2)
    present = of_tree(18, rng)
    pattern = list(enumerate(present.tolist()))
    A, b, v = matrix(present, rng), rng.normal(size=18), rng.normal(size=18)

    def slope(_, at):
        return jax.grad(lambda s: v @ solve_spd(zeros_known(at[0] * s, pattern), at[1]))(1.0)

    found = mapped(slope, (), (A[None], b[None]))
    np.testing.assert_allclose(found[0], -v @ np.linalg.solve(A, b), rtol=1e-12)


@needs_compiler
def test_zeros_are_used(monkeypatch):
    from geonh.algebra import lowerings

    seen, found = [], lowerings.sparse.solution
    monkeypatch.setattr(lowerings.sparse, "solution", lambda *args: seen.append(1) or found(*args))
    rng = np.random.default_rng(3)
    present = of_tree(23, rng)
    pattern = list(enumerate(present.tolist()))
    mapped(lambda _, at: solve_spd(zeros_known(at[0], pattern), at[1]), (), (np.eye(23)[None], np.ones((1, 23))))
    assert seen
