"""Products of rotations against the flow of a gyroscopic force: order, volume, length."""

import jax
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import geonh as gn
from geonh.algebra.rotations import turned


def trace_free(r, rng):
    """Random S[c, a, b], skew in a and b, with S[a, a, b] = 0."""
    S = rng.normal(size=(r, r, r))
    S = S - np.swapaxes(S, 1, 2)
    part = np.einsum("ca,b->cab", np.eye(r), np.einsum("aab->b", S) / (r - 1))
    return S - part + np.swapaxes(part, 1, 2)


@pytest.mark.parametrize("r", [2, 3, *(pytest.param(r, marks=pytest.mark.slow) for r in (4, 5))])
def test_rotations_are_of_order_two_and_keep_volume_and_length(r):
    rng = np.random.default_rng(r)
    S, p = trace_free(r, rng), rng.normal(size=r)
    assert np.abs(np.einsum("aab->b", S)).max() < 1e-14
    rate = lambda t, p: -np.einsum("cab,c,b->a", S, p, p)  # noqa: E731
    exact = solve_ivp(rate, (0, 0.5), p, method="DOP853", rtol=1e-13, atol=1e-13).y[:, -1]
    with gn.float64():
        errors = [np.abs(turned(S, p, np.full(n, 0.5 / n)) - exact).max() for n in (20, 40, 80, 160)]
        derivative = np.asarray(jax.jacobian(lambda p: turned(S, p, np.full(20, 0.04)))(p))
        far = turned(S, p, np.full(20, 0.04))
        back = turned(S, far, np.full(20, -0.04))
    assert abs(np.linalg.det(derivative) - 1) < 1e-12
    assert abs(np.linalg.norm(far) / np.linalg.norm(p) - 1) < 1e-13
    np.testing.assert_allclose(back, p, atol=1e-13)
    if r == 2:  # a tensor without trace vanishes
        np.testing.assert_allclose(far, p, atol=1e-14)
    else:
        np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), 2.0, atol=0.1)
        assert np.linalg.norm(derivative - np.eye(r)) > 0.5
