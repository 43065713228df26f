"""Members of an ensemble in one mode, as trees of arrays with a first axis of members."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from geonh.mechanics.own_values import Own, with_values
from geonh.runs.event_loop import Watched


class Crossed(NamedTuple):
    """Members, as indices of a batch, at the crossings of one guard each, with a first axis of members."""

    members: np.ndarray
    which: np.ndarray
    t: np.ndarray
    g_vector: np.ndarray
    xi: np.ndarray


class Group(NamedTuple):
    """Members in one mode, with a first axis of members.

    Attributes
    ----------
    mode : int
    members : array of int
        Indices of runs.
    begins : Watched
        Loop states.
    enters : array of bool
        True where guards are looked at before the next step, as of ``ModalRun``.
    """

    mode: int
    members: np.ndarray
    begins: Watched
    enters: np.ndarray

    @classmethod
    def entering(cls, mode: int, members: np.ndarray, begins: Watched) -> Group:
        """Members at places where a mode begins."""
        return cls(mode, members, begins, np.ones(len(members), bool))

    def taken(self, some: np.ndarray) -> Group:
        """Some of them, by a mask or indices."""
        return Group(self.mode, *taken((self.members, self.begins, self.enters), some))


def rows_of_states(states: Any) -> np.ndarray:
    """Rows of nodes, from states with a first axis."""
    number = np.asarray(states.k, float)[:, None]
    return np.concatenate([number, vectors(states.g), states.p_plus, states.p_minus], axis=1)


def targets_of(target: Any, places: Own) -> list[str | None]:
    """Next modes at places with a first axis; of a function with a method ``of_many`` by that."""
    t, g, xi = places.what
    if isinstance(target, str):
        return [target] * len(t)
    if hasattr(target, "of_many"):
        return target.of_many(places)
    every = zip(t, parted(g), xi, strict=True)
    return [with_values(target, taken(places.values, i))(*place) for i, place in enumerate(every)]


def taken(tree: Any, some: Any) -> Any:
    """Some of the members of a tree with a first axis, by an index of it."""
    return jax.tree.map(lambda a: a[some], tree)


def parted(tree: Any, some: Any = np.s_[:]) -> list[Any]:
    """Trees of some of the members of one with a first axis."""
    leaves, structure = jax.tree.flatten(taken(tree, some))
    return [jax.tree.unflatten(structure, [leaf[i] for leaf in leaves]) for i in range(len(leaves[0]))]


def vectors(points: Any) -> np.ndarray:
    """Points with a first axis as vectors, shape=[N, size]."""
    leaves = jax.tree.leaves(points)
    return np.concatenate([np.reshape(leaf, (len(leaf), -1)) for leaf in leaves], axis=1)


def points(vectors: np.ndarray, like: Any) -> Any:
    """Points from vectors, shape=[N, size], in the form of others, with a first axis."""
    leaves, structure = jax.tree.flatten(like)
    shapes = [leaf.shape[1:] for leaf in leaves]
    ends = np.cumsum([int(np.prod(shape, dtype=int)) for shape in shapes])
    parts = np.split(vectors, ends[:-1], axis=1)
    shaped = [part.reshape(len(vectors), *shape) for part, shape in zip(parts, shapes, strict=True)]
    return jax.tree.unflatten(structure, shaped)
