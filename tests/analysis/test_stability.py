"""Stability over two parameters, against closed forms."""

import numpy as np
import pytest

import geonh as gn
from geonh.analysis import root_locus, stability_map

SLEIGH = gn.systems.chaplygin_sleigh(m=1.0, I=1.0, a=0.2)
TOP = gn.systems.heavy_top(J=(1.0, 1.0, 0.5), mgl=1.0)


def straight(speed, a):
    return None, [0.0, speed, 0.0]


def test_the_sleigh_over_speed_and_offset():
    """Its one eigenvalue is −mau/(I + ma²)."""
    speeds, offsets = np.array([-1.0, -0.5, 0.5, 2.0]), np.array([-0.3, 0.2, 0.5])
    result = stability_map(SLEIGH, speeds, offsets, straight, parameters=(None, "a"))
    exact = -offsets * speeds[:, None] / (1 + offsets**2)
    np.testing.assert_allclose(result.growth, exact, rtol=1e-12)
    np.testing.assert_array_equal(result.stable(), exact <= 0)
    assert not result.frequency.any()
    row = root_locus(SLEIGH, speeds, lambda u: (None, [0.0, u, 0.0]))
    np.testing.assert_allclose(result.growth[:, 1], row.growth, rtol=1e-13)


def test_the_sleeping_top_over_spin_and_weight():
    """Stable where (Cω₃)² > 4A·mgl, and there it does not grow but swing."""
    spins, weights = np.linspace(1.1, 6.1, 6), np.array([0.3, 1.0, 2.0])
    result = stability_map(TOP, spins, weights, lambda s, w: (None, [0.0, 0.0, s]), parameters=(None, "mgl"))
    np.testing.assert_array_equal(result.stable(1e-6), (0.5 * spins[:, None]) ** 2 > 4 * weights)
    assert result.frequency[result.stable(1e-6)].min() > 0
    figure = result.plot(("spin, rad/s", "weight times arm, N m"))
    assert figure.axes[0].get_xlabel() == "spin, rad/s"


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"first": []}, ValueError, "first must be of shape"),
        ({"parameters": ("a", "b")}, ValueError, "not a number among those"),
        ({"parameters": "a"}, TypeError, "two names"),
        ({"motion": (None, [0.0, 1.0, 0.0])}, ValueError, "motion must be a function of the values"),
        ({"motion": lambda u, a: 1 / 0}, ValueError, "could not be evaluated at 1, 0.2"),
        ({"motion": lambda u, a: (None, [0.3, u, 0.0])}, ValueError, "at value = 1, a = 0.2: this is no steady"),
    ],
)
def test_bad_input_is_named(changes, error, words):
    given = {"first": [1.0], "second": [0.2], "motion": straight, "parameters": (None, "a")} | changes
    with pytest.raises(error, match=words):
        stability_map(SLEIGH, **given)


@pytest.mark.parametrize("n", [20, 21, 50])
def test_a_pair_that_meets_at_zero_is_a_crossing_between_any_values(n):
    system = gn.System(
        gn.groups.Translations(1),
        metric=[1.0],
        potential=lambda x, p: 0.5 * (1 - p["c"]) * x[0] ** 2,
        parameters={"c": 0.1},
    )
    (crossing,) = gn.analysis.root_locus(system, np.linspace(-2, 2, n), ([0.0], [0.0]), parameter="c").crossings()
    assert crossing.kind == "collision"
    assert crossing.value == pytest.approx(1.0, abs=2e-8)
