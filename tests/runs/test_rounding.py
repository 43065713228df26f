"""Rounding of functions, against that of exact arithmetic."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from geonh.runs.rounding import with_rounding


@pytest.mark.parametrize(
    ("function", "exact"),
    [
        (lambda y: 0.3 + y - 0.3, lambda y: y),
        (lambda y: (1e3 + y) ** 2 - 1e6 - 2e3 * y, lambda y: y * y),
        (lambda y: jax.jit(lambda z: (1.0 + z) * (1.0 - z) - 1.0)(y), lambda y: -y * y),
    ],
)
def test_bounds_hold_and_are_no_more_than_some_times_the_rounding(function, exact):
    draws, ratios = np.random.default_rng(0), []
    with jax.enable_x64(True):
        for _ in range(200):
            y = float(draws.normal() * 10.0 ** draws.uniform(-12, 0))
            value, bound = with_rounding(function, jnp.asarray(y))
            ratios.append(abs(float(Fraction(float(value)) - exact(Fraction(y)))) / float(bound))
    assert 0.01 < max(ratios) <= 1.0


def test_what_moves_numbers_rounds_nothing():
    with jax.enable_x64(True):
        _, bound = with_rounding(lambda x: -x[0], jnp.asarray([1e9, 2.0]))
        assert bound == 0
