"""Records of a run with modes: nodes and transitions, and these joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from geonh.results.modes import Switches
from geonh.results.nodes import Nodes


class Record:
    """Nodes of a run: rows (k, g, p⁺, p⁻), times and modes, in arrays with room for more.

    Parameters
    ----------
    width : int
        Length of a row.
    room : int, optional
        Number of rows for which there is room at first.
    """

    def __init__(self, width: int, room: int = 0) -> None:
        self._rows, self._t, self._mode = np.empty((room, width)), np.empty(room), np.empty(room, np.int64)
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def room(self, n: int) -> np.ndarray:
        """Buffer for the next n rows, shape=[n, width]."""
        if self._n + n > len(self._rows):
            size = max(self._n + n, 2 * self._n)
            for name in ("_rows", "_t", "_mode"):
                old = getattr(self, name)
                new = np.empty((size, *old.shape[1:]), old.dtype)
                new[: self._n] = old[: self._n]
                setattr(self, name, new)
        return self._rows[self._n : self._n + n]

    def keep(self, n: int, t: Any, mode: Any) -> None:
        """Append the first n rows in the buffer, with their times and modes, of shape=[n] or a number."""
        new = slice(self._n, self._n + n)
        self._t[new], self._mode[new] = t, mode
        self._n += n

    def add(self, rows: np.ndarray, t: Any, mode: Any) -> None:
        """Append rows, shape=[n, width], with their times and modes, of shape=[n] or a number."""
        self.room(len(rows))[:] = rows
        self.keep(len(rows), t, mode)

    @property
    def last(self) -> np.ndarray:
        """Row of the last node."""
        return self._rows[self._n - 1]

    def drop_last(self) -> None:
        """Remove the last node."""
        self._n -= 1

    def nodes(self, n: int) -> Nodes:
        """All nodes, of a group of dimension n; not to be written to."""
        nodes = Nodes.of_rows(self._rows[: self._n], n)
        return nodes._replace(k=nodes.k.astype(np.int64), t=self._t[: self._n], mode=self._mode[: self._n])


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


def joined_switches(earlier: Switches, later: Sequence[Switch]) -> Switches:
    """Transitions of an earlier run, and those of one that continues it."""
    if not later:
        return earlier
    columns = list(map(np.array, zip(*later, strict=True)))
    return earlier.joined(Switches(earlier.names, *columns[:-2]))


def rows_at(nodes: Nodes, k: np.ndarray) -> np.ndarray:
    """Rows of the nodes k of a run, the first of each number, as far as it came; those of transitions follow it."""
    at = np.searchsorted(nodes.k, k)
    there = nodes.k[np.minimum(at, len(nodes.k) - 1)] == k
    return at[: int(np.cumprod(there).sum())]
