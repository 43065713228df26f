"""Elementary functions in units of the last place, over all their range, on one number and on lanes."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from native_support import needs_compiler

from geonh.engine import native
from geonh.engine.native import machine

pytestmark = needs_compiler
RNG = np.random.default_rng(11)
SPREAD = np.concatenate([RNG.choice([-1, 1], 3000) * 10 ** RNG.uniform(-300, 300, 3000), RNG.normal(size=3000)])
EDGES = np.array([0.0, -0.0, 5e-324, 2.2e-308, 1.0, -1.0, np.sqrt(2) - 1, np.sqrt(2) + 1, 1.7e308, np.inf, -np.inf])
NEAR_EDGES = (np.array([[np.sqrt(2) - 1], [np.sqrt(2) + 1], [1.0]]) * (1 + np.arange(-50, 50) * 2e-16)).ravel()
MULTIPLES = np.arange(-400, 400) * np.pi / 4


def computed(function, x):
    """By a program for one number at a time."""
    return native.Map(lambda params, x: function(x), (), x[0]).run((), x)


def ulps(got, function, x):
    """Largest error in units of the last place of the exact value."""
    with mpmath.workdps(60 + 310):
        exact = [function(mpmath.mpf(float(v))) for v in x]
        near = np.array([float(v) for v in exact])
        error = np.array([float(abs(mpmath.mpf(float(g)) - e)) for g, e in zip(got, exact, strict=True)])
    return np.max(error / np.spacing(np.abs(near)))


@pytest.mark.quick("False-sin")
@pytest.mark.parametrize(
    ("function", "exact", "x", "bound"),
    [
        (jnp.arctan, mpmath.atan, np.concatenate([SPREAD, NEAR_EDGES, EDGES[2:-2]]), 2.0),
        (jnp.sin, mpmath.sin, np.concatenate([SPREAD[np.abs(SPREAD) < 1e9], MULTIPLES]), 1.5),
        (jnp.cos, mpmath.cos, np.concatenate([SPREAD[np.abs(SPREAD) < 1e9], MULTIPLES]), 1.5),
    ],
    ids=["arctan", "sin", "cos"],
)
@pytest.mark.parametrize("fused", [True, False])
def test_units_of_the_last_place(function, exact, x, bound, fused, monkeypatch):
    if not fused:
        monkeypatch.setattr(machine, "fma", lambda: False)
    result = ulps(computed(function, x), exact, x)
    print(f"\n{function.__name__}: {result:.2f} units of the last place")
    assert result < bound


@pytest.mark.parametrize("function", [jnp.arctan, jnp.sin, jnp.cos], ids=["arctan", "sin", "cos"])
def test_zeros_infinities_and_nan(function):
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324])
    with np.errstate(invalid="ignore"):
        got, expected = computed(function, x), getattr(np, function.__name__)(x)
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.signbit(got[:2]), np.signbit(expected[:2]))


@pytest.mark.parametrize("function", [jnp.arctan, jnp.sin, jnp.cos], ids=["arctan", "sin", "cos"])
def test_lanes_compute_the_same_bits(function):
    """As state of a loop, one member for each number, far ones beside near ones."""
    x = np.concatenate([SPREAD[:200], EDGES[2:-2]])

    def step(params, state):
        return jax.tree.map(function, state), jnp.zeros((), jnp.int32)

    lanes = native.Lanes(step, lambda params, state: state[None], (), x[0])
    result = lanes.run((), x, 1, 1, lanes.buffer(len(x), 1)).state
    np.testing.assert_array_equal(result, computed(function, x))
