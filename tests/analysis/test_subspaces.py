"""Kernels, staircases and invariant subspaces of matrices that are known."""

import numpy as np
import scipy.linalg

from geonh.analysis.subspaces import complement, invariant_kernel, kernel, leading, span, staircase


def nilpotent(length):
    return np.eye(length, k=1)


def turned(blocks, seed=0):
    """Blocks on a diagonal, in other coordinates."""
    J = scipy.linalg.block_diag(*blocks)
    S = np.linalg.qr(np.random.default_rng(seed).normal(size=J.shape))[0] + 0.2 * np.triu(np.ones(J.shape))
    return S @ J @ np.linalg.inv(S)


def test_staircase_at_zero():
    regular = np.array([[1e-3, 2.0], [-2.0, 1e-3]])
    J = turned([nilpotent(3), nilpotent(1), regular])
    dims, basis = staircase(J)
    assert dims == (2, 1, 1)
    np.testing.assert_allclose(J @ basis, basis @ (basis.T @ J @ basis), rtol=0, atol=1e-13)
    np.testing.assert_allclose(np.linalg.matrix_power(basis.T @ J @ basis, 3), 0.0, rtol=0, atol=1e-12)
    rest = complement(np.eye(6), basis)
    left = np.linalg.eigvals(rest.T @ J @ rest)
    np.testing.assert_allclose(np.sort(left.imag), [-2.0, 2.0], rtol=1e-13)
    assert staircase(J, (1,))[0] == (1,)
    assert staircase(np.zeros((3, 3)))[0] == (3,)
    assert staircase(np.zeros((0, 0)))[0] == ()
    assert staircase(regular)[0] == ()


def test_unobservable_subspace():
    F = np.zeros((4, 4))
    F[0, 1] = F[2, 3] = 1.0
    seen = np.array([[1.0, 0.0, 0.0, 0.0]])  # z₁ is moved by z₂, so z₂ shows; z₃ and z₄ never do
    result = invariant_kernel(seen, F, 1.0)
    np.testing.assert_allclose(result @ result.T, np.diag([0.0, 0.0, 1.0, 1.0]), rtol=0, atol=1e-14)
    assert invariant_kernel(np.eye(4), F, 1.0).shape == (4, 0)


def test_bases():
    assert kernel(np.zeros((0, 3)), 1.0).shape == (3, 3)
    assert kernel(1e-12 * np.eye(2), 1.0).shape == (2, 2)  # nothing but rounding
    assert span(np.array([[1.0, 2.0], [1.0, 2.0]])).shape == (2, 1)
    columns = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.5, 3.0], [2.0, 0.1]])
    assert leading(columns, range(0, 3), range(3, 5)) == [1, 3]
