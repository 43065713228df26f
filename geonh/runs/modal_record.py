"""Records of a run with modes: nodes in pieces of one mode, transitions and events, and these joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from geonh.results.events import Crossings
from geonh.results.modes import Switches
from geonh.results.nodes import Nodes


class Piece(NamedTuple):
    """Consecutive nodes in one mode: rows (k, g, p⁺, p⁻), shape=[j, width], and their times, shape=[j]."""

    mode: int
    rows: np.ndarray
    t: np.ndarray


class Switch(NamedTuple):
    """A transition: the step in which it lies, its time, modes before and after, configuration as a vector of
    shape=[size], velocities before and after, shape=[n]; its number among those that leave the mode, and the row of the
    node before it.
    """

    k: int
    t: float
    source: int
    target: int
    g_vector: np.ndarray
    xi_before: np.ndarray
    xi_after: np.ndarray
    which: int
    row: int


def nodes_of(pieces: Sequence[Piece], n: int) -> Nodes:
    """Nodes of all pieces, of a group of dimension n."""
    nodes = Nodes.of_rows(np.concatenate([piece.rows for piece in pieces]), n)
    return nodes._replace(
        k=nodes.k.astype(np.int64),
        t=np.concatenate([piece.t for piece in pieces]),
        mode=np.repeat([piece.mode for piece in pieces], [len(piece.rows) for piece in pieces]),
    )


def joined_switches(earlier: Switches, later: Sequence[Switch]) -> Switches:
    """Transitions of an earlier run, and those of one that continues it."""
    if not later:
        return earlier
    columns = list(map(np.array, zip(*later, strict=True)))
    return earlier.joined(Switches(earlier.names, *columns[:-2]))


def joined_crossings(found: Sequence[Crossings], names: Sequence[str], size: int, n: int) -> Crossings:
    """Events of these names in all modes, of points with ``size`` entries and velocities of dimension n; nan for the
    multipliers that a mode has not.
    """
    names, m = tuple(names), max((c.multipliers.shape[1] for c in found), default=0)
    joined = Crossings.none(names, size, n, m)
    for c in found:
        lam = np.full((len(c.t), m), np.nan)
        lam[:, : c.multipliers.shape[1]] = c.multipliers
        which = np.array([names.index(c.names[i]) for i in c.which], np.int64)
        joined = joined.joined(c._replace(names=names, which=which, multipliers=lam))
    return joined


def rows_at(nodes: Nodes, k: np.ndarray) -> np.ndarray:
    """Rows of the nodes k of a run, the first of each number, as far as it came; those of transitions follow it."""
    at = np.searchsorted(nodes.k, k)
    there = nodes.k[np.minimum(at, len(nodes.k) - 1)] == k
    return at[: int(np.cumprod(there).sum())]
