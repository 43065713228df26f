"""Validity tests of steps."""

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.groups import Translations
from geonh.integrators.node import NextStep, Outcome
from geonh.integrators.validity import Result, judge

PLANE = gn.System(
    Translations(2), metric=np.eye(2), distribution=gn.Distribution(lambda x: jnp.stack([1.0 - x[0], x[1]])[None])
)
ONE = np.ones(2)


def outcome(**changes):
    changes = {name: jnp.asarray(value) if isinstance(value, np.ndarray) else value for name, value in changes.items()}
    return Outcome(jnp.array([0.5, 0.0]), jnp.asarray(ONE), jnp.asarray(ONE))._replace(**changes)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, Result.SUCCESS),
        ({"g": np.array([np.nan, 0.0])}, Result.NOT_FINITE),
        ({"p_plus": ONE * np.inf}, Result.NOT_FINITE),
        ({"p_minus": ONE * np.nan}, Result.NOT_FINITE),
        ({"memory": NextStep(ONE * np.nan)}, Result.NOT_FINITE),
        ({"warm": ONE * np.nan}, Result.SUCCESS),  # speed only
        ({"converged": False}, Result.NEWTON),
        ({"converged": False, "p_plus": ONE * np.nan}, Result.NEWTON),  # why it is not finite
        ({"turn": np.pi}, Result.CHART),
        ({"turn": 3.14}, Result.SUCCESS),
        ({"g": np.array([1.0, 0.0])}, Result.RANK),  # the form vanishes, exactly
        ({"g": np.array([1.0 - 1e-9, 0.0])}, Result.SUCCESS),  # the form is short, its line is known
        ({"g": np.array([1.5, 0.0])}, Result.RANK),  # the form changes its sign: it has vanished on the way
        ({"g": np.array([1.0, 1.0])}, Result.RANK),  # at right angles to the form of the node before
        ({"status": np.int32(Result.CHART), "converged": False}, Result.CHART),  # of substeps, validated already
    ],
)
def test_the_first_failure_decides_the_status(changes, expected):
    before = judge(PLANE, None, outcome())
    assert Result(int(before.status)) is Result.SUCCESS
    assert int(before.k) == 0
    after = judge(PLANE, before, outcome(**changes))
    assert Result(int(after.status)) is expected
    assert int(after.k) == 1
    rows = PLANE.rows(after.g)
    if expected is Result.SUCCESS:
        np.testing.assert_allclose(after.rows * np.linalg.norm(rows), rows, rtol=1e-15)


def test_two_equal_infinities_of_both_signs_are_not_finite():
    """A sum would cancel them to nan, not to a number."""
    state = judge(PLANE, None, outcome(p_plus=np.array([np.inf, -np.inf])))
    assert Result(int(state.status)) is Result.NOT_FINITE


def test_a_system_without_constraints_has_no_rank_to_lose():
    free = gn.System(Translations(2), metric=np.eye(2))
    state = judge(free, judge(free, None, outcome()), outcome(g=np.array([9.0, 9.0])))
    assert state.rows.shape == (0, 2)
    assert int(state.status) == 0


def test_every_result_has_a_message_of_its_own():
    assert len({result.message for result in Result}) == len(Result)


STEEP = gn.System(
    gn.groups.Translations(3), metric=lambda x: jnp.diag(jnp.stack([1 + 0 * x[0], 1 + 0 * x[0], 0.05 - x[0]]))
)
"""The third mass falls to nothing at x₀ = 0.05, and turns back what moves towards it."""


@pytest.mark.parametrize("h", [0.01, 0.1])
@pytest.mark.parametrize(
    "method",
    ["projected", "rkmk4", "rkmk6", "gauss4", "gauss6", "suzuki4", "average-vector-field", "itoh-abe", "rk4-energy"],
)
@pytest.mark.quick("projected-0.1", "rk4-energy-0.1", "rkmk4-0.01", "projected-0.01")
def test_a_metric_that_is_none_between_the_nodes_stops_a_run(method, h):
    run = gn.solve(STEEP, method, xi0=[1.0, 0.3, 0.5], dt=h, n_steps=round(1 / h), throw=False)
    assert run.status is Result.METRIC
    assert np.abs(run.energy - run.energy[0]).max() < 0.3


def test_a_metric_that_stays_positive_stops_none():
    run = gn.solve(STEEP, "gauss4", xi0=[1.0, 0.3, 0.5], dt=1e-4, n_steps=2000)
    assert 0.049 < run.g[:, 0].max() < 0.05  # it was turned back
    np.testing.assert_allclose(run.energy, run.energy[0], rtol=1e-5)


def test_accelerations_are_nan_where_the_metric_is_none():
    assert np.isnan(gn.mechanics.accelerations(STEEP, 0.0, [0.06, 0.0, 0.0], [1.0, 0.0, 0.5])[0]).all()
