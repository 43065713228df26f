"""What a function does that JAX lets pass without a word: scalars in single precision that become float64."""

import jax
import jax.numpy as jnp
import jax.scipy.special as special
import numpy as np
import pytest

import geonh as gn
from geonh.arguments.inspection import inspected
from geonh.groups import Translations

SINGLE = {
    "a factor": lambda x: np.float32(0.1) * x[0],
    "a factor of JAX": lambda x: jnp.float32(9.81) * x[0],
    "an array of one": lambda x: np.array(0.1, np.float32) + x[0],
    "a power": lambda x: (x[0] + 1) ** np.float32(2.1),
    "an entry": lambda x: jnp.stack([x[0], np.float32(0.7)]) @ x,
    "within a loop": lambda x: jax.lax.fori_loop(0, 3, lambda i, y: y * np.float32(0.3), x[0]),
}
DOUBLE = {
    "what float32 holds": lambda x: np.float32(0.5) * x[0] + np.float32(3) * x[1],
    "parts of two": lambda x: 2.0**-20 * x[0] + 1011 / 8192 * x[1],
    "decimals": lambda x: 0.1 * x[0] + 1234567.0 * x[1] + 1e-7 * x[0] / 3,
    "bounds": lambda x: jnp.clip(x[0], -np.inf, np.finfo(float).max) + jnp.nan_to_num(x[1]),
    "special functions": lambda x: sum(
        f(0.5 + 0.1 * x[0]) for f in (special.erf, special.gammaln, special.digamma, special.i0e, special.ndtri)
    ),
}


@pytest.mark.parametrize("name", SINGLE)
def test_scalars_in_single_precision_are_refused(name):
    with pytest.raises(TypeError, match=r"^potential computes with float32 data"):
        gn.System(Translations(2), metric=np.eye(2), potential=SINGLE[name])


@pytest.mark.parametrize("name", DOUBLE)
def test_numbers_in_double_precision_are_taken(name):
    gn.System(Translations(2), metric=np.eye(2), potential=DOUBLE[name])


def test_how_many_scalars_are_told_apart():
    """Of decimal numbers none is refused, and in single precision all but one in a hundred are."""
    decimals = np.random.default_rng(0).normal(size=200).round(4)
    with gn.float64():
        seen = {
            kind: [is_refused(kind(number)) for number in decimals if number != np.float32(number)]
            for kind in (float, np.float32)
        }
    assert not any(seen[float])
    assert np.mean(seen[np.float32]) > 0.98


def is_refused(number):
    try:
        inspected("f", jax.make_jaxpr(lambda x: number * x)(np.float64(1.0)))
    except TypeError:
        return True
    return False
