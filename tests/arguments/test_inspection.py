"""What a function does that JAX lets pass without a word: scalars in single precision that become float64."""

import jax
import jax.numpy as jnp
import jax.scipy.special as special
import numpy as np
import pytest
from jax import lax
from scipy.integrate import solve_ivp

import geonh as gn
from geonh.arguments.inspection import inspected
from geonh.groups import Translations
from geonh.runs.loop import IntegrationError

SINGLE = {
    "a factor": lambda x: np.float32(0.1) * x[0],
    "a factor of JAX": lambda x: jnp.float32(9.81) * x[0],
    "an array of one": lambda x: np.array(0.1, np.float32) + x[0],
    "a power": lambda x: (x[0] + 1) ** np.float32(2.1),
    "an entry": lambda x: jnp.stack([x[0], np.float32(0.7)]) @ x,
    "within a loop": lambda x: jax.lax.fori_loop(0, 3, lambda i, y: y * np.float32(0.3), x[0]),
}
HALF = {
    "a factor": lambda x: np.float16(0.1) * x[0],
    "a factor of few digits": lambda x: jnp.float16(9.81) * x[0],
    "an array of one": lambda x: np.array(0.1, np.float16) + x[0],
    "a power": lambda x: (x[0] + 1) ** np.float16(2.1),
    "an entry": lambda x: jnp.stack([x[0], np.float16(0.7)]) @ x,
    "a branch": lambda x: jnp.where(x[0] > 0, np.float16(0.1), x[0]),
    "within a loop": lambda x: jax.lax.fori_loop(0, 3, lambda i, y: y * np.float16(0.3), x[0]),
}
DOUBLE = {
    "what float32 holds": lambda x: np.float32(0.5) * x[0] + np.float32(3) * x[1],
    "what float16 holds": lambda x: np.float16(0.5) * x[0] + np.float16(3) * x[1],
    "parts of two": lambda x: 2.0**-20 * x[0] + 1011 / 8192 * x[1] + 429 / 2048 * x[0] + float(np.float16(0.1)),
    "whole numbers and parts of two": lambda x: np.arange(2) @ x * (np.int64(3) + np.float64(231 / 1024)),
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


@pytest.mark.parametrize("name", HALF)
def test_scalars_in_half_precision_are_refused(name):
    with pytest.raises(TypeError, match=r"^potential computes with float16 data"):
        gn.System(Translations(2), metric=np.eye(2), potential=HALF[name])


@pytest.mark.parametrize("potential", [lambda x: jnp.bfloat16(0.1) * x[0], lambda x: -jnp.bfloat16(0.1) * x[0]])
def test_scalars_in_bfloat16_are_refused(potential):
    with pytest.raises(TypeError, match=r"^potential computes with b?float16 data"):
        gn.System(Translations(2), metric=np.eye(2), potential=potential)
    with pytest.raises(TypeError, match=r"^parameters\['k'\] is bfloat16"):
        gn.System(Translations(2), metric=np.eye(2), parameters={"k": jnp.bfloat16(0.1)})


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


@pytest.mark.quick("rkmk4")
@pytest.mark.parametrize("method", ["gauss4", "rkmk4"])
def test_what_is_read_by_data_within_a_loop_of_unknown_length_runs_natively(method):
    def drag(shift):
        def force(t, x, xi, u):
            def further(carry):
                i, y = carry
                return i + 1, y + 0.1 * y[jnp.argmin(y) + jnp.asarray(shift + 0 * y[0], int)]

            return -0.1 * lax.while_loop(lambda carry: carry[0] < 3, further, (0, x))[1] * jnp.ones(3)

        return gn.System(gn.groups.Translations(3), metric=np.eye(3), forces=force)

    start = {"g0": [0.1, 0.2, 0.3], "xi0": [1.0, 0.0, 0.0], "dt": 0.01, "n_steps": 5}
    run = gn.solve(drag(0), method, **start)
    assert run.attributes["engine"] == "native"
    x, xi = np.array(start["g0"]), np.array(start["xi0"])
    by_hand = solve_ivp(lambda t, y: [*y[3:], *-0.1 * grown(y[:3])], (0, 0.05), [*x, *xi], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(run.g[-1], by_hand.y[:3, -1], atol=1e-10)
    with pytest.raises(IntegrationError, match="forces had no finite value"):
        gn.solve(drag(7), method, **start)


def grown(y):
    for _ in range(3):
        y = y + 0.1 * y[np.argmin(y)]
    return y
