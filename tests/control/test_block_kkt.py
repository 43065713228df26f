"""The block factorisation of KKT systems against a dense one."""

import numpy as np
import pytest

from geonh.control.block_kkt import Factors
from geonh.control.transcription import Parts

K, M, ROWS, ENDS, GIVEN = 5, 4, 2, 2, 2


def random_system(rng, free_span, n_parameters=0, *, free_start=False):
    """Hessian and Jacobian in blocks, and the whole matrix with the identity for what is given."""
    shared, start = 1 + n_parameters, GIVEN * free_start
    inner_width, end_width = 2 * M + shared, M + shared + start
    H, H_end = rng.normal(size=(K, inner_width, inner_width)), rng.normal(size=(1, end_width, end_width))
    H, H_end = H + H.transpose(0, 2, 1), H_end + H_end.transpose(0, 2, 1)
    E, R = rng.normal(size=(K, ROWS, inner_width)), rng.normal(size=(1, ENDS, end_width))
    nodes = (K + 1) * M
    size = nodes + shared + start
    given = np.zeros(size, bool)
    given[:GIVEN], given[nodes] = True, not free_span
    if free_start:
        given[-1] = True  # one of its coordinates is given
    of_span = np.tile(nodes + np.arange(shared), (K, 1))
    inner = np.concatenate([M * np.arange(K)[:, None] + np.arange(2 * M), of_span], axis=1)
    inner[0, :start] = nodes + shared + np.arange(start)
    end = np.append(M * K + np.arange(M), nodes + np.arange(shared + start))[None]
    n = size + K * ROWS + ENDS
    whole, row = np.zeros((n, n)), size
    for h, e, columns in ((H, E, inner), (H_end, R, end)):
        for hessian, equations, c in zip(h, e, columns, strict=True):
            fixed = given[c]
            hessian[fixed, :], hessian[:, fixed], equations[:, fixed] = 0.0, 0.0, 0.0
            whole[np.ix_(c, c)] += hessian
            whole[row : row + len(equations), c] += equations
            row += len(equations)
    whole[:size, size:] = whole[size:, :size].T
    return Parts(H, H_end), Parts(E, R), given, whole


@pytest.mark.parametrize(
    ("free_span", "others"),
    [
        (False, {}),
        (True, {}),
        (False, {"n_parameters": 2}),
        (True, {"free_start": True}),
        (False, {"n_parameters": 3, "free_start": True}),
    ],
)
@pytest.mark.parametrize(("shift", "corner"), [(0.0, 0.0), (0.3, 0.2), (20.0, 1e-9)])
def test_solution_and_inertia(free_span, others, shift, corner):
    rng = np.random.default_rng(3)
    for _ in range(5):
        hessian, equations, given, whole = random_system(rng, free_span, **others)
        size = len(given)
        factors = Factors(hessian, equations, given, shift=shift, corner=corner)
        whole[range(size), range(size)] += np.where(given, 1.0, shift)
        rows = range(size, len(whole))
        whole[rows, rows] -= corner
        right = rng.normal(size=len(whole))
        right[:size][given] = 0.0
        np.testing.assert_allclose(factors.solve(right), np.linalg.solve(whole, right), atol=1e-9)
        assert factors.n_negative == int((np.linalg.eigvalsh(whole) < 0).sum())


def test_corners_of_rows_may_differ():
    rng = np.random.default_rng(4)
    hessian, equations, given, whole = random_system(rng, True)
    corner, size = rng.uniform(0.1, 2.0, K * ROWS + ENDS), len(given)
    whole[range(size), range(size)] += np.where(given, 1.0, 0.5)
    whole[range(size, len(whole)), range(size, len(whole))] -= corner
    right = np.where(np.append(given, np.zeros(len(corner), bool)), 0.0, rng.normal(size=len(whole)))
    found = Factors(hessian, equations, given, shift=0.5, corner=corner).solve(right)
    np.testing.assert_allclose(found, np.linalg.solve(whole, right), atol=1e-9)


def test_a_matrix_that_is_singular_or_not_finite_is_known():
    rng = np.random.default_rng(5)
    hessian, equations, given, _ = random_system(rng, False)
    equations.intervals[2, 1] = equations.intervals[2, 0]
    assert Factors(hessian, equations, given).is_singular
    hessian.intervals[1, 3, 3] = np.nan
    assert Factors(hessian, equations, given).is_singular
