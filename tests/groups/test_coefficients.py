"""Coefficient functions and their derivatives, against sums of many terms in exact rational arithmetic."""

import math
from fractions import Fraction

import jax
import numpy as np
import pytest

from geonh.groups import coefficients

X = np.concatenate([[0.0, 1e-300, 1e-12, 1e-4], np.linspace(0.05, 9.85, 25), [0.9999, 1.0001, 3.9999, 4.0001]])


def even_series(start, sign, order):
    """Derivatives of Σ ±(−1)ᵏ xᵏ/(start + 2k)!."""

    def value(x):
        x = Fraction(float(x))
        terms = (
            Fraction((-1) ** k * math.perm(k, order), math.factorial(start + 2 * k)) * x ** (k - order)
            for k in range(order, 30)
        )
        return sign * float(sum(terms))

    return value


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize(("name", "start", "sign"), [("A", 1, 1), ("B", 2, 1), ("C", 3, 1), ("E", 5, -1), ("F", 4, -1)])
def test_even_series(name, start, sign, order):
    function = getattr(coefficients, name)
    for _ in range(order):
        function = jax.grad(function)
    expected = np.array([even_series(start, sign, order)(x) for x in X])
    got = np.asarray(jax.vmap(function)(X))
    assert np.abs(got - expected).max() < [2e-15, 5e-14, 2e-12][order] * np.abs(expected).max()


def test_D_satisfies_its_equation():
    """D = (1 − A/(2B))/x, multiplied out, and its derivative."""
    A, B, D = (jax.vmap(jax.value_and_grad(getattr(coefficients, n))) for n in "ABD")
    (a, da), (b, db), (d, dd) = A(X), B(X), D(X)
    np.testing.assert_allclose(2 * b * (1 - X * d), a, atol=5e-15)
    np.testing.assert_allclose(2 * db * (1 - X * d) - 2 * b * (d + X * dd), da, atol=5e-14)


def test_angle_over_sine():
    angle = np.concatenate([[0.0, 1e-8], np.linspace(0.01, np.pi / 2, 40)])
    s = np.sin(angle) ** 2
    expected = np.divide(angle, np.sin(angle), out=np.ones_like(angle), where=angle > 0)
    np.testing.assert_allclose(coefficients.angle_over_sine(s, np.cos(angle)), expected, rtol=1e-14)
