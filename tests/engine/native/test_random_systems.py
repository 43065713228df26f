"""Whole runs of random systems and their gradients: the engine against differences, and against XLA."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native_support import evaluate, needs_compiler
from random_functions import GROUPS, random_function, random_system

import geonh as gn
from geonh.engine import jacobian
from geonh.engine.interpreted import in_numpy
from geonh.integrators.validity import Result

pytestmark = needs_compiler

METHODS = ("gauss4", "projected", "midpoint", "dla", "lobatto4", "rkmk4", "gni", "pontryagin", "discrete-gradient")


def experiment(seed):
    """Where a random run ends, as a function of its parameter and of how far its start is moved; and a description."""
    rng = np.random.default_rng(seed)
    name = str(rng.choice(list(GROUPS)))
    made, warned = random_system(rng, GROUPS[name])
    system = made(1.0)
    method = str(rng.choice(METHODS if system.lagrangian is None else METHODS[:-1]))
    n = system.group.dim
    g0 = jax.tree.map(np.asarray, system.group.exp(0.4 * rng.normal(size=n)))
    velocity = system.project(g0, rng.normal(size=n))
    along = system.project(g0, velocity + rng.normal(size=n)) - velocity
    weights = rng.normal(size=len(system.group.point_names) + n)

    @jax.jit
    def end(k, s):
        nodes = gn.integrate(made(k), method, g0=g0, xi0=velocity + s * along, dt=0.1, n_steps=3)
        last = [jnp.ravel(leaf[-1]) for leaf in jax.tree.leaves(nodes.g)]
        return weights @ jnp.concatenate([*last, 0.5 * (nodes.p_plus[-1] + nodes.p_minus[-1])]), nodes.status[-1]

    return end, f"seed {seed}: {method} on {name}, {warned}"


def check_gradient(seed):
    """The derivative of a run, in reverse or in forward mode, against central differences of two widths.

    False where the run or one beside it fails, or the random Lagrangian has an indefinite Hessian at the start.
    """
    try:
        end, warned = experiment(seed)
    except ValueError as fault:
        if "not positive definite" not in str(fault):
            raise
        return False
    if seed % 2:
        (_, status), slopes = jax.value_and_grad(end, (0, 1), has_aux=True)(1.0, 0.0)
        slope = sum(slopes)
    else:
        _, slope, status = jax.jvp(end, (1.0, 0.0), (1.0, 1.0), has_aux=True)
    beside = {h: (end(1 + h, h), end(1 - h, -h)) for h in (1e-3, 5e-4)}
    if any(s != Result.SUCCESS for s in (status, *(s for pair in beside.values() for _, s in pair))):
        return False
    wide, narrow = ((ahead - behind) / (2 * h) for h, ((ahead, _), (behind, _)) in beside.items())
    differences = (4 * narrow - wide) / 3  # Richardson: O(h⁴)
    np.testing.assert_allclose(slope, differences, rtol=1e-7, atol=abs(wide - narrow) / 30 + 1e-9, err_msg=warned)
    return True


def check_jacobians(seed):
    rng = np.random.default_rng(seed)
    function, warned = random_function(rng)
    x, k = rng.normal(size=3), rng.normal()

    def both(x, k):
        y = jnp.append(x, k)
        first = jacobian(lambda y: jnp.reshape(function(y[:3], y[3]), 1), y)
        return first, jacobian(jax.grad(lambda y: function(y[:3], y[3])), y)

    result, expected = evaluate(both, x, k), in_numpy(by_jax(function), x, k)(x, k)
    for a, b in zip(result, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * (1 + np.abs(b).max()), err_msg=str(warned))


@pytest.mark.slow
@settings(max_examples=5, deadline=None)
@given(st.integers(0, 10**6))
def test_jacobians_of_random_functions(seed):
    """Of a function, and of its gradient, as they are written for the metric and for the potential."""
    check_jacobians(seed)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**6))
def test_jacobians_of_many_random_functions(seed):
    check_jacobians(seed)


def by_jax(function):
    def both(x, k):
        y = jnp.append(x, k)
        return jax.jacfwd(lambda y: jnp.reshape(function(y[:3], y[3]), 1))(y), jax.jacfwd(
            jax.grad(lambda y: function(y[:3], y[3]))
        )(y)

    return both


@pytest.mark.slow
def test_gradients_of_random_systems():
    """One forwards, one in reverse; two more with the slow ones."""
    assert sum(map(check_gradient, range(2))) == 2


@pytest.mark.slow
@pytest.mark.parametrize("block", range(40))
def test_gradients_of_many_random_systems(block):
    assert sum(map(check_gradient, range(100 + 50 * block, 150 + 50 * block))) >= 40


@pytest.mark.slow
def test_gradients_of_more_random_systems():
    assert sum(map(check_gradient, range(2, 4))) == 2
