"""The library's own operations: natively and by JAX against NumPy, batched, and differentiated twice."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from native_support import check, evaluate, needs_compiler, random

from geonh.algebra.corrections import applied, correction, inverted, with_secant
from geonh.algebra.elimination import eliminated
from geonh.algebra.linear import saddle, solve, solve_spd

pytestmark = needs_compiler


def matrix(seed, n, density=1.0):
    rng = np.random.default_rng(seed)
    wanted = (rng.random((n, n)) < density) | np.eye(n, dtype=bool)
    return wanted, np.where(wanted, rng.normal(size=(n, n)), 0.0) + 3 * np.eye(n)


@pytest.mark.parametrize("density", [1.0, 0.5, 0.3])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7])
def test_corrections_use_the_zeros_that_are_known(n, density):
    """Zeros are known to the program; unknowns that do not need each other are solved for one after another."""
    wanted, A = matrix(n, n, density)
    b = random(n, n)

    def function(A, b):
        rows = [[A[i, j] if wanted[i, j] else jnp.zeros(()) for j in range(n)] for i in range(n)]
        return correction(jnp.stack([jnp.stack(row) for row in rows]), b)

    expected = np.linalg.solve(A, b)
    np.testing.assert_allclose(evaluate(function, A, b), expected, rtol=0, atol=1e-13)
    np.testing.assert_allclose(function(A, b), expected, rtol=0, atol=1e-13)


def test_a_correction_whose_diagonal_vanishes():
    A = np.array([[0.0, 2.0], [3.0, 0.0]])
    result = evaluate(lambda x: correction(jnp.stack([jnp.stack([0.0, x[0]]), jnp.stack([x[1], 0.0])]), x), A.sum(0))
    np.testing.assert_allclose(result, np.linalg.solve([[0.0, 3.0], [2.0, 0.0]], A.sum(0)))


@pytest.mark.parametrize("n", [2, 5, 11, 20])
def test_a_kept_inverse(n):
    """Its inversion, product and secant update, entry by entry and in memory (n = 11, 20)."""
    A, b, c = matrix(n, n)[1], random(1, n), random(2, n)
    np.testing.assert_allclose(evaluate(inverted, A), np.linalg.inv(A), rtol=0, atol=1e-12)
    np.testing.assert_allclose(evaluate(lambda A, b: applied(inverted(A), b), A, b), b @ np.linalg.inv(A), atol=1e-12)
    if n <= 5:
        updated = evaluate(with_secant, A, b, c)
        np.testing.assert_allclose(applied(updated, b), b @ A - (b @ b) / (b @ b) * c, atol=1e-12)


@pytest.mark.parametrize("function", [solve, solve_spd, correction], ids=["solve", "solve_spd", "correction"])
@pytest.mark.parametrize("n", [pytest.param(2, marks=pytest.mark.slow), 3, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.quick("3-correction")
def test_derivatives_and_batches(function, n):
    A, b = matrix(n, n)[1], random(3, n)
    A = A @ A.T if function is solve_spd else A
    by_numpy = jnp.linalg.solve

    def wrapped(solver):
        def scalar(A, b):
            A = (A + A.T) / 2 if function is solve_spd else A
            return jnp.sum(jnp.sin(solver(A, b)))

        return scalar

    for of in (jax.grad, lambda f: jax.hessian(f, 1), lambda f: jax.jacfwd(jax.grad(f, 1), 0)):
        np.testing.assert_allclose(of(wrapped(function))(A, b), of(wrapped(by_numpy))(A, b), rtol=0, atol=1e-11)
    many = np.stack([A, 2 * A, A + np.eye(n)])
    np.testing.assert_allclose(
        jax.vmap(function, (0, None))(many, b), [np.linalg.solve(a, b) for a in many], atol=1e-12
    )
    check(jax.grad(wrapped(function)), A, b, rtol=1e-12)
    check(jax.vmap(function, (0, None)), many, b, rtol=1e-13)


@pytest.mark.parametrize(("n", "m"), [(3, 1), (4, 3), (9, 6), (20, 10)])
@pytest.mark.quick("3-1")
def test_saddle_systems(n, m):
    """Stiff ones too: the masses lie five orders of magnitude apart."""
    root, mu = random(n, n, n) + 3 * np.eye(n), random(m, m, n)
    M = root @ np.diag(np.logspace(-2, 3, n)) @ root.T
    check(saddle, M, mu, random(1, n), random(2, m), rtol=1e-10)
    v, lam = evaluate(saddle, M, mu, random(1, n), random(2, m))
    np.testing.assert_allclose(M @ v - mu.T @ lam, random(1, n), rtol=0, atol=1e-10)
    np.testing.assert_allclose(mu @ v, random(2, m), rtol=0, atol=1e-10)


def test_many_right_hand_sides_of_many_matrices():
    A, B = np.stack([matrix(i, 4)[1] for i in range(3)]), random(5, 3, 4, 2)
    check(lambda A, B: eliminated(A, B, symmetric=False), A, B, rtol=1e-13)
