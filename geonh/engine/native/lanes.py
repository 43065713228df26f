"""Stepping loop for a batch: the same program, with members in SIMD lanes, and blocks of them distributed over threads.

Each member has the same bits as its single run. A member that fails is frozen, and the others continue.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np

from geonh.engine.native import machine
from geonh.engine.native.drivers import FIRST_CALL, Arguments, CallSize, Program, check_step, trace
from geonh.engine.native.programs import BLOCKS, stepping_blocks
from geonh.engine.native.storage import LINE
from geonh.engine.tracing import uncollected

BLOCK = np.dtype([(name, np.int64) for name in ("params", "state", "status", "done", "rows", "steps")])
"""Entry of a program's table of blocks: the addresses that ``advance`` takes, and the number of steps done by the last
call."""


class FinalStates(NamedTuple):
    """Result of ``Lanes.run``: every array has the batch as its first axis.

    ``state`` is the last good one; ``status`` is 0, or the reason why the step after it failed; ``n_steps`` counts the
    good steps.
    """

    state: Any
    status: np.ndarray
    n_steps: np.ndarray


class Lanes:
    """Native stepping loop for a batch of any size.

    Parameters
    ----------
    step, row : callable
        As for ``Loop``.
    params, state : pytrees
        Examples of one member.
    varies : pytree of bool, or bool
        Arrays of the parameters that differ between members.
    width : int, optional
        Number of lanes; chosen by the CPU when left out.

    Raises
    ------
    NotLowered
        If a step has an operation without a lowering.
    """

    @uncollected()
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
        em = stepping_blocks(stepped, saved, n, fma=machine.fma(), lanes=self.width, varying=self._varies)
        self._program = Program(em, BLOCKS, 1, 4)
        self._known = FIRST_CALL

    def buffer(self, n_members: int, n_nodes: int) -> np.ndarray:
        """Allocate the buffer of rows, by blocks: shape=[blocks, n_nodes, row size, width]."""
        shape = self._shape(n_members, n_nodes)
        storage = np.empty(math.prod(shape) + LINE // 8)
        first = -storage.ctypes.data % LINE // 8  # stores across two cache lines take twice as long
        return storage[first : first + math.prod(shape)].reshape(shape)

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
    ) -> FinalStates:
        """Steps of all members up to ``n_nodes`` saved nodes, one every ``stride`` steps.

        Parameters
        ----------
        params : pytree
            Parameters; where ``varies``, with the batch along a leading axis.
        states : pytree
            States, with the batch along the first axis of every array.
        n_nodes, stride : int
        buffer : array
            Made by ``buffer``. Of a member that fails only the first ``n_steps // stride`` rows are defined.
        threads : int, optional
            Number of threads, by default the number of CPUs.
        """
        n = len(jax.tree.leaves(states)[0])
        expected = self._shape(n, n_nodes)
        if buffer.shape != expected or buffer.dtype != np.float64 or not buffer.flags.c_contiguous:
            raise ValueError(f"expected a buffer of shape {expected} in double precision, got {buffer.shape}")
        if buffer.size and buffer.ctypes.data % LINE:
            raise ValueError(f"expected a buffer that begins at a multiple of {LINE} bytes: make it by buffer()")
        leads = [(n,) if varies else () for varies in self._varies]
        constants = [
            self._in_blocks(x) if varies else x
            for x, varies in zip(self._params.arrays(params, leads=leads), self._varies, strict=True)
        ]
        homes = [self._in_blocks(x) for x in self._state.arrays(states, leads=[(n,)] * len(self._state.types))]
        n_blocks, padding = expected[0], -n % self.width
        status = np.zeros((n_blocks, self.width), np.int32)
        status[-1:, self.width - padding :] = 1  # padding lanes never run
        n_steps = np.zeros((n_blocks, self.width), np.int64)
        of_blocks = {
            "params": _tables(constants, [not varies for varies in self._varies], n_blocks),
            "state": _tables(homes, [False] * len(homes), n_blocks),
            "status": status,
            "done": n_steps,
            "rows": buffer,
        }
        table = np.zeros(n_blocks, BLOCK)
        for name, array in of_blocks.items():
            table[name] = array.ctypes.data + array.strides[0] * np.arange(n_blocks)
        self._advance(
            table, status, n_nodes * stride, stride, threads or os.cpu_count() or 1, (constants, homes, of_blocks)
        )
        after = [self._from_blocks(x, n) for x in homes]
        return FinalStates(self._state.tree(after), status.ravel()[:n], n_steps.ravel()[:n])

    def _advance(
        self, table: np.ndarray, status: np.ndarray, total: int, stride: int, threads: int, keep_alive: Any
    ) -> None:
        """Do ``total`` steps of all blocks, over threads.

        ``table`` has a ``BLOCK`` for each, with the statuses of its members, shape=[blocks, width]; ``keep_alive`` are
        the arrays at its addresses, which are kept alive.
        """
        if not total:
            return
        workers, stop = max(min(threads, len(table)), 1), threading.Event()
        queue = _Queue(table, 2 * workers)

        def work() -> Any:
            """Take blocks until none is left; the arrays are returned, so that they live as long as this runs."""
            pace = CallSize(self._known)

            def call(blocks: np.ndarray, done: int) -> None:
                n, to_next_row = min(pace.amount, total - done), stride - done % stride
                pace.begin()
                self._program.call_here(blocks.ctypes.data, len(blocks), n, stride, to_next_row)
                pace.end(int(blocks["steps"].sum()))

            def finish(block: np.ndarray) -> None:
                """Continue a block after its first call, to the end or until all its members have failed."""
                first_row, done = int(block["rows"][0]), int(block["steps"][0])
                codes = status[(int(block["status"][0]) - status.ctypes.data) // status.strides[0]]
                while done < total and not codes.all() and not stop.is_set():
                    block["rows"] = first_row + done // stride * 8 * self.row_size * self.width
                    call(block, done)
                    done += int(block["steps"][0])

            while not stop.is_set() and len(blocks := queue.take(pace.amount // total)):
                call(blocks, 0)
                for i in np.flatnonzero(blocks["steps"] < total):
                    finish(blocks[i : i + 1])
            self._known = pace.amount
            return keep_alive

        with ThreadPoolExecutor(max(workers - 1, 1)) as pool:
            try:
                others = [pool.submit(self._program.with_stack, work) for _ in range(workers - 1)]
                self._program.with_stack(work)
                for other in others:
                    other.result()
            finally:
                stop.set()

    def _in_blocks(self, values: np.ndarray) -> np.ndarray:
        """Values of all members as shape=[blocks, ..., width], padded with the last member."""
        full = np.concatenate([values, np.repeat(values[-1:], -len(values) % self.width, axis=0)])
        blocks = full.reshape(len(full) // self.width, self.width, *values.shape[1:])
        return np.ascontiguousarray(np.moveaxis(blocks, 1, -1))

    def _from_blocks(self, blocks: np.ndarray, n: int) -> np.ndarray:
        return np.moveaxis(blocks, -1, 1).reshape(len(blocks) * self.width, *blocks.shape[1:-1])[:n]


class _Queue:
    """Blocks that no thread has taken yet, of which each takes a fraction 1/``parts``, so that threads end together."""

    def __init__(self, blocks: np.ndarray, parts: int) -> None:
        self._left, self._parts, self._lock = blocks, parts, threading.Lock()

    def take(self, most: int) -> np.ndarray:
        """Some of the blocks left, up to ``most``, but at least one; none if none is left."""
        with self._lock:
            n = max(min(most, len(self._left) // self._parts), 1)
            taken, self._left = self._left[:n], self._left[n:]
            return taken


def _tables(arrays: list[np.ndarray], shared: list[bool], n_blocks: int) -> np.ndarray:
    """Addresses of the arrays of each block, shape=[blocks, arrays]."""
    table = np.zeros((n_blocks, max(len(arrays), 1)), np.uintp)
    for i, (array, same) in enumerate(zip(arrays, shared, strict=True)):
        steps = 0 if same or not n_blocks else array.strides[0]
        table[:, i] = array.ctypes.data + steps * np.arange(n_blocks)
    return table
