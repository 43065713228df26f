"""Saved data of the nodes of runs, (k, g, p⁺, p⁻): of one node, of many as arrays, and as the rows that loops write."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geonh.groups.base import ArrayLike, Point
from geonh.integrators.base import Problem
from geonh.integrators.clock import Clock
from geonh.integrators.node import State


class Node(NamedTuple):
    """Saved data of a node, of which its observables are functions; or of many, along the first axis of all arrays.

    Attributes
    ----------
    k : int
        Step count.
    g : point of the group
        Configuration.
    p_plus, p_minus : array, shape=[n]
        Incoming and outgoing momenta.
    t : float, or None
        Time, seconds; None for t_k.
    span : float, or None
        Length of the step that follows, for events in it; None for dt.
    """

    k: ArrayLike
    g: Point
    p_plus: ArrayLike
    p_minus: ArrayLike
    t: ArrayLike = None
    span: ArrayLike = None

    def local(self, clock: Clock) -> tuple[Clock, ArrayLike]:
        """Clock that has the time of the node, and the step from there, and the node's number in it."""
        if self.t is None:
            return clock, self.k
        here = clock.starting(self.t)
        return here if self.span is None else here._replace(dt=self.span), 0

    @classmethod
    def of(cls, state: State) -> Node:
        """Saved data of a state."""
        return cls(state.k, state.g, state.p_plus, state.p_minus, state.t)


class Nodes(NamedTuple):
    """Nodes as arrays with any leading axes: of one run, or of some members of an ensemble.

    Attributes
    ----------
    k : ndarray, shape=[…]
        Step counts; nan where a member has no node.
    g_vector : ndarray, shape=[…, size]
        Configurations, flattened as by ``group.to_vector``.
    p_plus, p_minus : ndarray, shape=[…, n]
        Incoming and outgoing momenta.
    t : ndarray, shape=[…], or None
        Times, seconds; None for t_k.
    mode : ndarray of int, shape=[…], or None
        Modes, as indices; None of a run of one system.
    """

    k: ArrayLike
    g_vector: ArrayLike
    p_plus: ArrayLike
    p_minus: ArrayLike
    t: ArrayLike = None
    mode: ArrayLike = None

    @classmethod
    def of_rows(cls, rows: np.ndarray, n: int, *, timed: bool = False) -> Nodes:
        """Create from rows (k, g, p⁺, p⁻), shape=[…, width], of a group of dimension n; with times (…, t) if timed."""
        rows, t = (rows[..., :-1], rows[..., -1]) if timed else (rows, None)
        end = rows.shape[-1]
        plus, minus = end - 2 * n, end - n
        return cls(rows[..., 0], rows[..., 1:plus], rows[..., plus:minus], rows[..., minus:end], t)

    @classmethod
    def of_state(cls, state: State) -> Nodes:
        """One node along the leading axis, from a state of NumPy arrays."""
        g_vector = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(state.g)])
        k, t = np.asarray(state.k, np.int64)[None], None if state.t is None else np.asarray(state.t)[None]
        return cls(k, g_vector[None], np.asarray(state.p_plus)[None], np.asarray(state.p_minus)[None], t)

    @property
    def rows(self) -> np.ndarray:
        """(k, g, p⁺, p⁻) of each node, shape=[…, 1 + size + 2n], and t if it has one."""
        t = [] if self.t is None else [self.t[..., None]]
        return np.concatenate([self.k[..., None], *self[1:4], *t], axis=-1, dtype=np.float64)

    def taken(self, which: Any) -> Nodes:
        """Some of the nodes, by an index of the leading axes."""
        return Nodes(*(part if part is None else part[which] for part in self))


def node_row(problem: Problem, state: State) -> Array:
    """Saved data of a node as a row, shape=[1 + size + 2n], and its time where steps differ in length."""
    position = problem.system.group.to_vector(state.g)
    t = [] if state.t is None else [jnp.asarray(state.t)[None]]
    return jnp.concatenate([jnp.asarray(state.k, float)[None], position, state.p_plus, state.p_minus, *t])
