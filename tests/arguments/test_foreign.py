"""Errors of JAX and NumPy about arguments: the call and its arguments are named."""

import operator

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.arguments.foreign import is_foreign


def raised(function):
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError


def stated():
    raise ValueError("x must be small")


@pytest.mark.parametrize(
    ("function", "foreign"),
    [
        (lambda: np.eye(2) @ np.ones(3), True),
        (lambda: jnp.concatenate([jnp.ones(2), jnp.ones((2, 2))]), True),
        (lambda: operator.getitem((1, 2), "a"), True),
        (stated, False),
    ],
)
def test_errors_from_below_are_known(function, foreign):
    assert is_foreign(raised(function)) == foreign


PLANE = gn.rolling.plane()
SYSTEM = gn.System(gn.groups.Translations(2), metric=[1.0, 1.0])
CALLS = {
    "a method": (lambda: PLANE.value(np.ones(2), {}), r"Plane.value .* X = an array of shape \(2,\)"),
    "a method of a system": (
        lambda: SYSTEM.constrained(np.eye(2), 1.0, np.ones(2), np.zeros(1)),
        "System.constrained .* mu = a number",
    ),
}


@pytest.mark.parametrize(("call", "words"), CALLS.values(), ids=CALLS)
def test_errors_name_the_call_and_its_arguments(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call()
