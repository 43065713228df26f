"""How a loop is compiled changes its speed, not its result."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.numerics import engine
from geonh.numerics.apart import apart
from geonh.numerics.scalarize import scalar_operations

pytestmark = pytest.mark.skipif(not engine.WHOLE_LOOPS, reason="loops are not compiled whole in this process")


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def pendulums(x, n):
    """Steps of coupled pendulums; x of shape=[2, 6]."""

    def body(_, x):
        q, p = x
        p = p - 0.01 * (jnp.sin(q) + 0.1 * (q - jnp.roll(q, 1)))
        return jnp.stack([q + 0.01 * p, p])

    return jax.lax.fori_loop(0, n, body, x)


X = np.random.default_rng(0).normal(size=(2, 6))


def test_operations_are_counted_once_for_a_loop():
    few, many = (scalar_operations(jax.make_jaxpr(engine.on_scalars(pendulums))(X, n)) for n in (3, 300))
    assert few == many
    assert 6 * 7 <= few <= 6 * 12
    assert scalar_operations(jax.make_jaxpr(pendulums)(X, 3)) == 0


@pytest.mark.parametrize("fused", [0, 10**6])
def test_with_and_without_fusion(monkeypatch, fused):
    monkeypatch.setattr(engine, "FUSED", fused)
    run = engine.compiled(lambda x, n: engine.on_scalars(lambda x: pendulums(x, n))(x), (1,))
    np.testing.assert_allclose(run(jnp.asarray(X), 50), pendulums(jnp.asarray(X), 50), rtol=1e-13, atol=1e-14)


def test_the_longest_straight_piece_is_counted():
    twice = lambda x: jax.lax.cond(x[0, 0] > 0, lambda: pendulums(x, 3), lambda: x) + jnp.sin(x)  # noqa: E731
    assert scalar_operations(jax.make_jaxpr(engine.on_scalars(twice))(X)) < 6 * 12


def test_a_piece_apart_is_the_same_and_says_nan():
    function = lambda x: (jnp.sin(x), x @ x)  # noqa: E731
    x = jnp.arange(3.0)
    run = jax.jit(lambda number: apart(number, function, x))
    np.testing.assert_array_equal(run(0.0)[0], jnp.sin(x))
    assert np.isnan(run(np.nan)[1])
    np.testing.assert_array_equal(jax.jacrev(lambda x: apart(x[1], function, x)[1])(x), 2 * x)
    np.testing.assert_array_equal(jax.vmap(lambda x: apart(x, jnp.cos, x))(x), jnp.cos(x))


def test_a_whole_run_on_scalars_and_on_arrays():
    """A Gauss method of ten unknowns, with loops over stages and columns and a kept inverse."""
    system = gn.System(
        gn.groups.SO3(),
        metric=np.diag([1.0, 1.5, 2.0]),
        potential=lambda R: R[0, 2] + R[1, 0] * R[2, 2],
        distribution=gn.Distribution(lambda R: jnp.array([[0.1, 0.2, 1.0]]) + 0.2 * R[:1]),
    )
    options = {"xi0": system.project(None, [1.0, -0.5, 0.2]), "dt": 0.02, "n_steps": 30}
    run = gn.solve(system, gn.Gauss(2), **options)
    nodes = jax.jit(lambda: gn.integrate(system, gn.Gauss(2), **options))()
    np.testing.assert_allclose(run.p_plus, nodes.p_plus, rtol=1e-12, atol=1e-13)
