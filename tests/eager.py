"""Single operations of JAX outside of programs, in NumPy: XLA would compile each of them, for each shape.

A test calls thousands of them, on arrays of three numbers. Programs of a test's own ``jax.jit`` or of ``integrate`` are
still compiled by XLA; ``tests/engine/native`` compares these operations with it.
"""

import jax
import jax.extend
import numpy as np

from geonh.engine.interpreted import rule_of
from geonh.engine.named import functions

SHORT = 60
"""Maximum number of equations of a program that counts as a single operation, as ``jax.numpy`` compiles them."""

LOOPS = {"while", "scan"}
"""Operations that would be slow in Python."""


def compute_in_numpy():
    """Replace JAX's single operations in this process, where 64-bit types are enabled."""
    for primitive in [*vars(jax.extend.core.primitives).values(), *functions]:
        if isinstance(primitive, jax.extend.core.Primitive) and primitive.name != "jit" and rule_of(primitive):
            _compute_in_numpy(primitive)
    from jax._src import pjit  # if a JAX version has these elsewhere, the tests only take longer

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
        result = _computed(primitive, params, args)
        return result if primitive.multiple_results else result[0]

    primitive.def_impl(implementation)


def _computed(primitive, params, args):
    with np.errstate(all="ignore"):
        return jax.device_put(list(rule_of(primitive)(params, *map(np.asarray, args))))


def _is_single(params):
    """True if a program counts as a single operation, and all its operations have a NumPy rule."""
    eqns = params["jaxpr"].jaxpr.eqns
    if len(eqns) > SHORT or params["compiler_options_kvs"] or not jax.config.jax_enable_x64:
        return False
    names = {eqn.primitive.name for eqn in eqns}
    if names & LOOPS or not all(rule_of(eqn.primitive) for eqn in eqns):
        return False
    return all(_is_single(eqn.params) for eqn in eqns if eqn.primitive.name == "jit")
