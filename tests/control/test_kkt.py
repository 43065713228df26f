"""The linear algebra of Newton's method on the KKT conditions."""

import subprocess
import sys

import numpy as np
import scipy

from geonh.control.kkt import kkt_solver

SINGULAR = """
import numpy as np, scipy
from geonh.control.kkt import kkt_solver
random = np.random.default_rng(1)
for _ in range(100):
    n = random.integers(2, 60)
    m = random.integers(1, n)
    A = scipy.sparse.random(m, n, 0.15, random_state=random.integers(2**31), format="csr")
    H = scipy.sparse.random(n, n, 0.15, random_state=random.integers(2**31), format="csr")
    H.data[:: random.integers(1, 9)] = np.nan
    for first in (scipy.sparse.csr_matrix((n, n)), H):
        assert np.all(np.isnan(kkt_solver(first, A)(np.ones(n + m))))
"""


def test_the_saddle_system_is_solved():
    H, A = scipy.sparse.diags([2.0, 3.0, 0.0]).tocsr(), scipy.sparse.csr_matrix([[1.0, 0.0, 1.0]])
    whole = np.block([[H.toarray(), A.toarray().T], [A.toarray(), np.zeros((1, 1))]])
    right = np.array([1.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose(kkt_solver(H, A)(right), np.linalg.solve(whole, right), rtol=1e-14)
    assert np.all(np.isnan(kkt_solver(H, A)(right * np.nan)))


def test_singular_matrices_and_nan_are_not_handed_to_superlu():
    # in a process of its own: where no diagonal is without zeros, or entries are nan, SuperLU prints errors of BLAS
    # ("parameter had an illegal value"), reads beyond its arrays, and at times ends the process
    done = subprocess.run([sys.executable, "-c", SINGULAR], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-400:]
    assert not done.stdout + done.stderr
