"""Names of JAX and equinox outside of their public interfaces, in one place; ``.ci/newest`` tries newer versions.

From JAX: interpreters of primitives (``ad``, ``batching``, ``mlir``), dead code elimination of jaxprs, ``ShapedArray``,
the effect of equations that only keep values from being eliminated, and whether a trace is under way. From equinox: the
partition of a pytree into arrays and a hashable remainder.
"""

from equinox.internal import hashable_combine, hashable_partition
from jax._src.lax.lax import NoDCEEffect
from jax.core import ShapedArray
from jax.interpreters import ad, batching, mlir
from jax.interpreters.partial_eval import dce_jaxpr

try:
    from jax.extend.core import get_opaque_trace_state
except ImportError:  # before JAX 0.10
    from jax.core import get_opaque_trace_state  # type: ignore[no-redef]

__all__ = [
    "NoDCEEffect",
    "ShapedArray",
    "ad",
    "batching",
    "dce_jaxpr",
    "get_opaque_trace_state",
    "hashable_combine",
    "hashable_partition",
    "mlir",
]
