"""Single operations of JAX outside of programs, in NumPy: XLA would compile each of them, for each shape.

A test calls thousands of them, on arrays of three numbers. What is compiled by a test's own ``jax.jit`` or by
``integrate`` is XLA's still; ``tests/engine/native`` holds these operations against it.
"""

import jax
import jax.extend
import numpy as np

from geonh.engine.interpreted import rule_of
from geonh.engine.named import functions

SHORT = 60
"""Equations, at most, of a program that counts as a single operation, as those of which ``jax.numpy`` is made."""

LOOPS = {"while", "scan"}
"""Operations that are long ones in Python."""


def compute_in_numpy():
    """From now on, in this process, wherever JAX has 64-bit types."""
    for primitive in [*vars(jax.extend.core.primitives).values(), *functions]:
        if isinstance(primitive, jax.extend.core.Primitive) and primitive.name != "jit" and rule_of(primitive):
            _compute_in_numpy(primitive)
    from jax._src import pjit  # where these are elsewhere, the tests only take longer

    by_xla = getattr(pjit, "_pjit_call_impl_python", None)
    if by_xla is not None:
        pjit._pjit_call_impl_python = lambda *args, **params: (
            (_computed(pjit.jit_p, params, args), None, None, []) if _is_single(params) else by_xla(*args, **params)
        )


def _compute_in_numpy(primitive):
    by_xla = primitive.impl

    def implementation(*args, **params):
        if not jax.config.jax_enable_x64:
            return by_xla(*args, **params)
        found = _computed(primitive, params, args)
        return found if primitive.multiple_results else found[0]

    primitive.def_impl(implementation)


def _computed(primitive, params, args):
    with np.errstate(all="ignore"):
        return jax.device_put(list(rule_of(primitive)(params, *map(np.asarray, args))))


def _is_single(params):
    """Whether a program is one of those, of operations that have a rule."""
    eqns = params["jaxpr"].jaxpr.eqns
    if len(eqns) > SHORT or params["compiler_options_kvs"] or not jax.config.jax_enable_x64:
        return False
    names = {eqn.primitive.name for eqn in eqns}
    if names & LOOPS or not all(rule_of(eqn.primitive) for eqn in eqns):
        return False
    return all(_is_single(eqn.params) for eqn in eqns if eqn.primitive.name == "jit")
