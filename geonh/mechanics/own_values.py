"""Programs whose arguments have values of parameters of their own, as those of the members of an ensemble."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
from jax import Array

from geonh.mechanics.system import System, with_parameters


def with_values(tree: Any, values: Mapping[str, Any]) -> Any:
    """Pytree with other values of parameters, in all its systems that have them."""
    if not values:
        return tree

    def changed(system: Any) -> Any:
        if not isinstance(system, System):
            return system
        return with_parameters(system, {k: v for k, v in values.items() if k in system.parameters})

    return jax.tree.map(changed, tree, is_leaf=lambda leaf: isinstance(leaf, System))


class Own(NamedTuple):
    """Argument of a program, and values of parameters, by name, in place of those of its systems."""

    values: dict[str, Any]
    what: Any


@dataclass(frozen=True)
class OfOwn:
    """Function of (tree, argument) as one of (tree, ``Own``)."""

    function: Callable

    def __call__(self, tree: Any, own: Own) -> Any:
        return self.function(with_values(tree, own.values), own.what)


@dataclass(frozen=True)
class StepOfOwn:
    """Step of (tree, state) as one of (tree, ``Own``)."""

    function: Callable

    def __call__(self, tree: Any, own: Own) -> tuple[Own, Array]:
        after, status = self.function(with_values(tree, own.values), own.what)
        return own._replace(what=after), status
