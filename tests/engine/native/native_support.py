"""Shared by the tests of the native engine."""

import jax
import numpy as np
import pytest

from geonh.engine import native
from geonh.engine.interpreted import in_numpy

needs_compiler = pytest.mark.skipif(not native.available(), reason="no compiler for this machine")


def evaluate(function, *args):
    """The function of arrays, computed by the native engine."""
    program = native.Map(lambda params, node: function(*node), (), args)
    result = program.run((), jax.tree.map(lambda x: np.asarray(x)[None], args))
    return jax.tree.map(lambda x: x[0], result)


def assert_same(got, expected, rtol=4e-15):
    """Same tree, shapes and dtypes; values to rounding, relative to the largest entry."""
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        if np.issubdtype(b.dtype, np.inexact):
            finite = np.abs(b)[np.isfinite(b)]
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * finite.max(initial=0.0))
        else:
            np.testing.assert_array_equal(a, b)


def check(function, *args, rtol=4e-15):
    """The native engine, and NumPy, against JAX, with XLA's own emitters: the old ones, quicker, add twice in some
    scatters."""
    by_jax = jax.jit(function, compiler_options={"xla_cpu_use_fusion_emitters": True})(*args)
    assert_same(evaluate(function, *args), by_jax, rtol)
    assert_same(in_numpy(function, *args)(*args), by_jax, rtol)


def random(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)
