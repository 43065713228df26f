"""A pytree as traced arrays and a hashable rest, so that ``jit`` compiles once for a structure, not for its numbers."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray | np.generic | jax.Array)


def split(tree: Any) -> tuple[list, tuple]:
    """Arrays of a pytree, and a hashable rest (functions, names, structure)."""
    leaves, treedef = jax.tree.flatten(tree)
    arrays = [leaf for leaf in leaves if _is_array(leaf)]
    return arrays, (treedef, tuple(None if _is_array(leaf) else (leaf,) for leaf in leaves))


def join(arrays: list, rest: tuple) -> Any:
    """Inverse of ``split``."""
    treedef, entries = rest
    left = iter(arrays)
    return jax.tree.unflatten(treedef, [next(left) if entry is None else entry[0] for entry in entries])
