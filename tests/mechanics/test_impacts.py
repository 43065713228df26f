"""Impacts: the restitution law, the loss of energy, Carnot's theorem, on random systems."""

import numpy as np
import pytest

import geonh as gn
from geonh.groups import Translations
from geonh.mechanics import impact


@pytest.mark.parametrize("seed", range(6))
def test_restitution_and_loss(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 8))
    A, mu, row = rng.normal(size=(n, n)), rng.normal(size=(int(rng.integers(1, n - 1)), n)), rng.normal(size=n)
    M, e = A @ A.T + np.eye(n), rng.uniform()
    system = gn.System(Translations(n), metric=M, distribution=gn.Distribution(mu))
    xi = system.project(None, rng.normal(size=n))
    after = impact(system, np.zeros(n), xi, row, restitution=e)
    assert abs(row @ after.xi + e * (row @ xi)) < 1e-13
    assert np.abs(mu @ after.xi).max() < 1e-13
    inverse = np.linalg.inv(M)
    P = inverse - inverse @ mu.T @ np.linalg.solve(mu @ inverse @ mu.T, mu @ inverse)
    across = row @ P @ row
    expected = xi - (1 + e) * (row @ xi) / across * (P @ row)
    np.testing.assert_allclose(after.xi, expected, atol=1e-12)
    loss = (xi @ M @ xi - after.xi @ M @ after.xi) / 2
    assert abs(loss - (1 - e**2) * (row @ xi) ** 2 / across / 2) < 1e-11
    np.testing.assert_allclose(after.impulses, -(1 + e) * (row @ xi) / across, atol=1e-11)


def test_carnot():
    """For e = 0 the loss is the kinetic energy of the velocity that is lost."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(5, 5))
    M = A @ A.T + np.eye(5)
    system, rows, xi = gn.System(Translations(5), metric=M), rng.normal(size=(2, 5)), rng.normal(size=5)
    after = impact(system, np.zeros(5), xi, rows, right=[0.3, -0.2])
    still = impact(system, np.zeros(5), xi, rows)
    np.testing.assert_allclose(rows @ after.xi, [0.3, -0.2], atol=1e-14)
    lost = xi - still.xi
    assert abs((xi @ M @ xi - still.xi @ M @ still.xi) - lost @ M @ lost) < 1e-12


def test_what_is_refused():
    system = gn.System(Translations(2), metric=np.eye(2))
    with pytest.raises(ValueError, match="between 0 and 1"):
        impact(system, [0.0, 0.0], [1.0, 0.0], [1.0, 0.0], restitution=1.5)
    with pytest.raises(ValueError, match="rows must be of shape"):
        impact(system, [0.0, 0.0], [1.0, 0.0], [1.0, 0.0, 0.0])


@pytest.mark.parametrize("rows", [[[1.0, 0.0], [2.0, 0.0]], [[0.0, 0.0]]])
def test_dependent_rows_are_refused(rows):
    free = gn.System(Translations(2), metric=[1.0, 2.0])
    with pytest.raises(ValueError, match=r"rows of shape \[\d, 2\] depend on each other"):
        impact(free, [0.0, 0.0], [1.0, -1.0], rows)
