"""Nodes: time reversal."""

import jax.numpy as jnp
import numpy as np

from geonh.integrators.node import NextStep, State


def test_reversal_exchanges_the_momenta_and_nothing_else():
    one = jnp.ones(2)
    state = State(jnp.asarray(3), one, one, 2 * one, NextStep(one), (), one[None], jnp.asarray(0))
    turned = state.reversed(NextStep(-one))
    np.testing.assert_array_equal(turned.p_plus, state.p_minus)
    np.testing.assert_array_equal(turned.p_minus, state.p_plus)
    np.testing.assert_array_equal(turned.memory.zeta, -one)
    for name in set(State._fields) - {"p_plus", "p_minus", "memory"}:
        assert getattr(turned, name) is getattr(state, name)
