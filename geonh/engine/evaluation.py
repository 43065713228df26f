"""Functions as JAX operations: pytrees as vectors, and a single native evaluation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.engine import native
from geonh.engine.captured import captured_variables
from geonh.engine.compiled import Types, example, is_array, map_of, types
from geonh.engine.foreign import target_of_map
from geonh.engine.internals import hashable_combine, hashable_partition
from geonh.engine.operations import Foreign, Operation, Transformed, foreign_call, members

MANY = 10_000
"""Number of members of a batch up to which an evaluation calls no Python."""


@dataclass(frozen=True)
class Layout:
    """Layout of a pytree of arrays and numbers as a float64 vector."""

    types: Types

    @classmethod
    def of(cls, tree: Any) -> Layout:
        """Layout of an example pytree, of arrays or of their shapes."""
        return cls(types(tree))

    @property
    def size(self) -> int:
        """Length of the vector."""
        return sum(int(np.prod(shape)) for shape, _ in self.types.leaves)

    def flat(self, tree: Any) -> Array:
        """Flatten a pytree to a vector, shape=[size]."""
        leaves = [jnp.asarray(x).reshape(-1).astype(jnp.float64) for x in jax.tree.leaves(tree)]
        return jnp.concatenate(leaves) if leaves else jnp.zeros(0)

    def tree(self, vectors: Array) -> Any:
        """Unflatten vectors, shape=[..., size], to a pytree whose arrays all have the leading axes."""
        leaves, begin, lead = [], 0, vectors.shape[:-1]
        for shape, dtype in self.types.leaves:
            end = begin + int(np.prod(shape))
            leaves.append(vectors[..., begin:end].reshape(*lead, *shape).astype(dtype))
            begin = end
        return jax.tree.unflatten(self.types.structure, leaves)


@dataclass(frozen=True)
class Parts:
    """Static part of a pytree, without its arrays; hashable.

    Attributes
    ----------
    static, types : hashable
        Leaves that are not arrays, and structure and types of the arrays.
    captured : tuple
        Captured variables of the functions in ``static``.
    """

    static: Any
    types: Types
    captured: tuple

    @classmethod
    def of(cls, tree: Any) -> tuple[list[Any], Parts]:
        """Partition a pytree into its arrays and the static part."""
        arrays, static = hashable_partition(tree, is_array)
        return jax.tree.leaves(arrays), cls(static, types(arrays), captured_variables(static))

    def tree(self, arrays: list[Any]) -> Any:
        return hashable_combine(jax.tree.unflatten(self.types.structure, arrays), self.static)

    @property
    def shapes(self) -> list[jax.ShapeDtypeStruct]:
        """Shapes and dtypes of the arrays."""
        return jax.tree.leaves(example(self.types))


@dataclass(frozen=True)
class Evaluation(Operation):
    """y = function(tree, x), shape=[size]; the function is hashable, and part of the cache key of its program."""

    function: Callable[[Any, Array], Array]
    parts: Parts
    size: int

    def shape(self, x: Any) -> tuple[int, ...]:
        return (self.size,)

    def plain(self, arrays: list[Any], x: Array) -> Array:
        return self.function(self.parts.tree(arrays), x)

    def native(self, part: Transformed, operands: list[Any], batched: tuple[bool, ...]) -> Callable | None:
        return mapped_part(part, operands, batched)

    def foreign(self, part: Transformed, operands: list[Any], batched: tuple[bool, ...], n: int) -> Foreign | None:
        target = target_of_map(_Mapped(part), types(operands), batched) if n <= MANY else None
        if target is None:
            return None
        lead = (n,) if any(batched) else ()
        shapes = [(*lead, *shape) for shape in part.result_shapes(part.named(operands))]
        return Foreign(lambda *operands: foreign_call(target, operands, shapes))


def mapped_part(part: Transformed, operands: list[Any], batched: tuple[bool, ...]) -> Callable | None:
    """Native code of a part of an evaluation, as for ``Operation.native``."""
    program = map_of(_Mapped(part), types(()), types(operands))
    if not isinstance(program, native.Map):
        return None

    def call(*values: np.ndarray) -> list[np.ndarray]:
        n, flags = members(values, batched), batched or (False,) * len(values)
        many = [x if b else np.repeat(x[None], n or 1, axis=0) for x, b in zip(values, flags, strict=True)]
        results = program.run((), many)
        return results if n is not None else [x[0] for x in results]

    return call


@dataclass(frozen=True)
class _Mapped:
    part: Transformed

    def __call__(self, _: tuple, operands: list[Any]) -> list[Any]:
        return self.part(*operands)
