"""How a stepping loop is compiled on a CPU.

XLA:CPU dispatches the body of a ``while_loop`` as many small kernels unless the loop's buffers are below a threshold;
then the whole loop becomes one function of machine code. The threshold is a flag that must stand in ``XLA_FLAGS``
before JAX makes its CPU backend (the first array, not the import), so ``prepare`` puts it there when geonh is imported:
loops over less than 64 MiB are compiled whole. Under it a step evaluated on scalars costs what hand-written C costs;
without it such a step would be slower than an array step, so the array step is taken.

XLA's fusion computes shared subexpressions again in each kernel it makes. That helps short pieces (values stay in
registers) and ruins long ones (a factor of ten at 10⁴ operations, in running and in compiling). So methods cut their
steps where few values pass (``apart``, and loops over stages), and where a straight piece of more than ``FUSED`` scalar
operations remains the program is compiled without fusion.

Set the environment variable ``GEONH_KEEP_XLA_FLAGS`` to leave ``XLA_FLAGS`` alone.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import jax

from geonh.numerics.scalarize import scalar_operations, scalarize

_THRESHOLD = "xla_cpu_small_while_loop_byte_threshold"


def _backend_exists() -> bool:
    try:
        from jax._src.xla_bridge import backends_are_initialized
    except ImportError:
        return True
    return backends_are_initialized()


def prepare() -> bool:
    """Put the flag into ``XLA_FLAGS`` if that is still possible and nobody minds; whether it is in force."""
    flags = os.environ.get("XLA_FLAGS", "")
    if _THRESHOLD in flags:
        return True
    if "xla_backend_extra_options" in flags or os.environ.get("GEONH_KEEP_XLA_FLAGS") or _backend_exists():
        return False
    os.environ["XLA_FLAGS"] = f"{flags} --xla_backend_extra_options={_THRESHOLD}={64 * 2**20}".strip()
    return True


FUSED = 1200
"""Programs with a longer straight piece than this, in scalar operations, are compiled without fusion."""

WHOLE_LOOPS = prepare()
"""Whether small loops are compiled whole in this process."""


def on_scalars(loop: Callable) -> Callable:
    """The function to trace for a stepping loop: evaluated on scalars where loops are compiled whole."""
    return scalarize(loop) if WHOLE_LOOPS else loop


def compiled(function: Callable, static_argnums: tuple[int, ...]) -> Callable:
    """``jax.jit`` of a function with loops made by ``on_scalars``, fused if its straight pieces are short."""
    fused = jax.jit(function, static_argnums=static_argnums)
    if not WHOLE_LOOPS:
        return fused
    plain = jax.jit(function, static_argnums=static_argnums, compiler_options={"xla_disable_hlo_passes": "fusion"})

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        size = scalar_operations(fused.trace(*args).jaxpr)  # the two share the trace
        return (fused if size <= FUSED else plain)(*args)

    return call
