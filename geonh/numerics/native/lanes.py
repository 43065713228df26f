"""One stepping loop for many members: the same program, some members side by side, blocks of them over threads.

Each member gets the bits of its own single run. One that fails is frozen, and the others go on.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np

from geonh.numerics.native import machine
from geonh.numerics.native.drivers import Arguments, Pace, Program, check_step, table, trace
from geonh.numerics.native.programs import ADVANCE, stepping_loop


class Members(NamedTuple):
    """What ``Lanes.run`` returns: an entry for each member along the first axis of every array.

    ``state`` is the last good one; ``status`` is 0, or why the step after it failed; ``n_steps`` counts the good steps.
    """

    state: Any
    status: np.ndarray
    n_steps: np.ndarray


class Lanes:
    """A stepping loop in machine code for any number of members.

    Parameters
    ----------
    step, row : callable
        As for ``Loop``.
    params, state : pytrees
        Examples of one member.
    varies : pytree of bool, or bool
        Which arrays of the parameters differ between members.
    width : int, optional
        Members side by side; by the CPU when left out.

    Raises
    ------
    NotLowered
        If a step does what the engine has no code for.
    """

    def __init__(
        self, step: Callable, row: Callable, params: Any, state: Any, varies: Any = True, width: int | None = None
    ) -> None:
        self._params, self._state = Arguments(params), Arguments(state)
        n = len(self._params.types)
        self._varies = [varies] * n if isinstance(varies, bool) else [bool(v) for v in jax.tree.leaves(varies)]
        stepped, shape = trace(step, self._params, self._state)
        saved, vector = trace(row, self._params, self._state)
        check_step(self._state, shape, vector)
        self.row_size = int(vector.shape[0])
        self.width = machine.lanes() if width is None else width
        em = stepping_loop(stepped, saved, n, fma=machine.fma(), lanes=self.width, varying=self._varies)
        self._program = Program(em, ADVANCE, 5, 3)

    def buffer(self, n_members: int, n_nodes: int) -> np.ndarray:
        """Where rows are written, block by block: shape=[blocks, n_nodes, row size, width]."""
        return np.empty(self._shape(n_members, n_nodes))

    def rows(self, buffer: np.ndarray, member: int) -> np.ndarray:
        """Rows of one member, shape=[n_nodes, row size]."""
        return buffer[member // self.width, :, :, member % self.width]

    def _shape(self, n_members: int, n_nodes: int) -> tuple[int, ...]:
        return -(-n_members // self.width), n_nodes, self.row_size, self.width

    def run(
        self,
        params: Any,
        states: Any,
        n_nodes: int,
        stride: int,
        buffer: np.ndarray,
        *,
        threads: int | None = None,
    ) -> Members:
        """Steps of all members up to ``n_nodes`` saved nodes, one every ``stride`` steps.

        Parameters
        ----------
        params : pytree
            Where ``varies``, with the members along a first axis.
        states : pytree
            With the members along the first axis of every array.
        n_nodes, stride : int
        buffer : array
            By ``buffer``. Of a member that fails only the first ``n_steps // stride`` rows mean something.
        threads : int, optional
            As many as there are CPUs when left out.
        """
        n = len(jax.tree.leaves(states)[0])
        expected = self._shape(n, n_nodes)
        if buffer.shape != expected or buffer.dtype != np.float64 or not buffer.flags.c_contiguous:
            raise ValueError(f"expected a buffer of shape {expected} in double precision, got {buffer.shape}")
        leads = [(n,) if v else () for v in self._varies]
        constants = self._params.arrays(params, leads=leads)
        homes = self._state.arrays(states, leads=[(n,)] * len(self._state.types))
        status, done = np.zeros(n, np.int32), np.zeros(n, np.int64)
        after = [np.empty_like(x) for x in homes]
        stop = threading.Event()

        def block(first: int) -> None:
            members = slice(first, min(first + self.width, n))
            shared = [self._aside(x[members]) if v else x for x, v in zip(constants, self._varies, strict=True)]
            state = [self._aside(x[members]) for x in homes]
            statuses, counts = np.ones(self.width, np.int32), np.zeros(self.width, np.int64)
            m = members.stop - first
            statuses[:m] = 0  # those beyond the last never run
            self._advance(shared, state, statuses, counts, buffer[first // self.width], n_nodes * stride, stride, stop)
            status[members], done[members] = statuses[:m], counts[:m]
            for x, y in zip(after, state, strict=True):
                x[members] = np.moveaxis(y, -1, 0)[:m]

        workers = threads or os.cpu_count() or 1
        with ThreadPoolExecutor(workers) as pool:
            try:
                list(pool.map(block, range(0, n, self.width)))
            finally:
                stop.set()
        return Members(self._state.tree(after), status, done)

    def _advance(
        self,
        params: list[np.ndarray],
        state: list[np.ndarray],
        status: np.ndarray,
        counts: np.ndarray,
        rows: np.ndarray,
        total: int,
        stride: int,
        stop: threading.Event,
    ) -> None:
        """All steps of one block."""
        constants, states, done, pace = table(params), table(state), 0, Pace()
        while done < total and not status.all() and not stop.is_set():
            n = min(pace.amount, total - done)
            pace.begin()
            self._program.call(
                constants,
                states,
                status.ctypes.data,
                counts.ctypes.data,
                rows[done // stride :].ctypes.data,
                n,
                stride,
                stride - done % stride,
            )
            pace.end()
            done += n

    def _aside(self, values: np.ndarray) -> np.ndarray:
        """The values of some members with the member as the last axis, the last member repeated up to the width."""
        full = np.concatenate([values, np.repeat(values[-1:], self.width - len(values), axis=0)])
        return np.ascontiguousarray(np.moveaxis(full, 0, -1))
