"""Parameters of a system that are unknown, number by number: in estimation and in design."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from geonh.arguments.validators import close
from geonh.groups.base import ArrayLike
from geonh.mechanics.system import System, with_parameters


class Sought(NamedTuple):
    """A system, and the names of its parameters that are sought: numbers, arrays, or pytrees of these."""

    system: System
    names: tuple[str, ...]

    @property
    def theta(self) -> np.ndarray:
        """The numbers that the parameters of the system have, shape=[k]."""
        return np.concatenate([np.zeros(0), *(np.ravel(leaf) for leaf in jax.tree.leaves(self._numbers))])

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of all numbers: ``a``, ``A[0, 1]``, ``net.layers[0].weight[2]``."""
        labels: list[str] = []
        for path, leaf in jax.tree_util.tree_leaves_with_path(self._numbers):
            name = self.names[path[0].idx] + jax.tree_util.keystr(path[1:])
            labels += [f"{name}{list(place)}" if place else name for place in np.ndindex(np.shape(leaf))]
        return tuple(labels)

    def values(self, theta: ArrayLike) -> dict[str, Any]:
        """The parameters whose numbers are θ, shape=[k]."""
        leaves, structure = jax.tree.flatten(self._numbers)
        ends = np.cumsum([leaf.size for leaf in leaves])
        parts = [theta[end - leaf.size : end].reshape(leaf.shape) for end, leaf in zip(ends, leaves, strict=True)]
        whole = eqx.combine(jax.tree.unflatten(structure, parts), [self.system.parameters[name] for name in self.names])
        return dict(zip(self.names, whole, strict=True))

    def at(self, theta: ArrayLike) -> System:
        """The system with the parameters whose numbers are θ."""
        return with_parameters(self.system, self.values(theta)) if self.names else self.system

    @property
    def _numbers(self) -> list:
        """The parameters without the functions among their leaves."""
        return eqx.filter([self.system.parameters[name] for name in self.names], callable, inverse=True)


def refuse_unknown(system: System, names: Any, argument: str) -> None:
    """Raise ValueError where a name is not that of a parameter."""
    if unknown := [name for name in names if name not in system.parameters]:
        hint = close(str(unknown[0]), system.parameters)
        raise ValueError(
            f"{argument}: {system.name} has no parameter {unknown[0]!r}, it has {list(system.parameters)}{hint}"
        )
