"""Nothing is computed in single precision, wherever it is called, and nobody's JAX configuration changes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.engine.precise import in_float64
from geonh.groups import SE2, SO3

pytestmark = pytest.mark.user_precision

suslov = gn.systems.catalogue["suslov"].system()

CALLS = {
    "group": lambda: SO3().exp([0.1, 0.2, 0.3]),
    "default of the group": lambda: SE2().bracket(np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.0, 1.0])),
    "retraction": lambda: gn.groups.Cayley()(SE2(), [0.1, 0.2, 0.3]),
    "distribution": lambda: suslov.distribution.P(np.eye(3), (), suslov.parameters),
    "metric": lambda: suslov.metric.flat([0.1, 0.2, 0.3], (), suslov.parameters),
    "action": lambda: suslov.action.anchor((), [0.1, 0.2, 0.3]),
    "system": lambda: suslov.lagrangian((), np.array([0.1, 0.2, 0.3])),
    "equations": lambda: gn.mechanics.accelerations(suslov, 0.0, np.eye(3), np.array([0.1, 0.2, 0.0])),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_public_methods_give_float64_numpy_arrays_without_64_bit_types(call):
    assert not jax.config.jax_enable_x64
    outside = call()
    assert not jax.config.jax_enable_x64
    with gn.float64():
        inside = call()
    for a, b in zip(jax.tree.leaves(outside), jax.tree.leaves(inside), strict=True):
        assert isinstance(a, np.ndarray)
        assert a.dtype == np.float64
        assert np.array_equal(a, b)


def test_logarithm_of_a_small_rotation_keeps_its_digits():
    xi = np.array([1e-9, -2e-9, 3e-9])
    assert np.allclose(SO3().log(SO3().exp(xi)), xi, rtol=1e-7, atol=0)


def test_single_precision_input_is_refused():
    with pytest.raises(TypeError, match=r"SO3\.exp is float32, its digits are lost"):
        SO3().exp(jnp.array([0.1, 0.2, 0.3]))


@pytest.mark.parametrize("transform", [jax.jit, jax.jacfwd, jax.vmap], ids=["jit", "jacfwd", "vmap"])
def test_a_trace_in_single_precision_is_refused(transform):
    with pytest.raises(RuntimeError, match=r"SO3\.exp is traced in single precision; enclose your jit"):
        transform(SO3().exp)(np.array([[0.1, 0.2, 0.3]]))
    with gn.float64():
        assert transform(SO3().exp)(np.array([[0.1, 0.2, 0.3]])).dtype == np.float64


def test_a_group_of_ones_own_needs_nothing():
    class Mine(SO3):
        def half(self, xi):
            return self.exp(0.5 * xi)

    assert Mine().half(np.array([0.0, 0.0, 0.2])).dtype == np.float64
    assert Mine.half.__qualname__.endswith("Mine.half")


def test_functions_give_numpy_arrays_also_with_64_bit_types():
    double = in_float64(lambda x: 2.0 * jnp.asarray(x))
    assert double(0.5).dtype == np.float64
    with gn.float64():
        assert type(double(0.5)) is np.ndarray
        assert jax.grad(double)(0.5) == 2.0
