"""Interface of the native engine: compiled stepping loops and maps, on arrays.

Both take pytrees of arrays and of numbers; structures, shapes and types are those of the examples, values are free.
A call of native code takes at most some 20 ms, so that interrupts are handled and other threads run in between.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

from geonh.arguments.precision import float64
from geonh.engine.internals import dce_jaxpr
from geonh.engine.interrupts import interruptible, stack_of_thread
from geonh.engine.native import machine
from geonh.engine.native.emitter import Emitter
from geonh.engine.native.programs import ADVANCE, MAP, mapping, stepping_loop
from geonh.engine.native.values import NotLowered
from geonh.engine.tracing import forward_only, uncollected

Out = TypeVar("Out")
CALL_SECONDS = 0.02
"""Maximum duration of a call in seconds."""
LARGEST_CALL = 2**40
"""Maximum number of steps in a call."""
FIRST_CALL = 16
"""Number of steps of the first call: short enough for a user to wait even if a step takes milliseconds."""
SMALL_STACK, LARGE_STACK = 2**14, 2**20
"""Bytes of stack that a program may use in any thread, and in one with a stack eight times as large."""
LARGEST_STACK = 2**30
"""Maximum number of bytes of stack that a program may use."""
_POINTER = ctypes.c_void_p
_BYTE = ctypes.c_char
_INTEGER = ctypes.c_int64


class Arguments:
    """Pytree of arrays, as a table of pointers."""

    def __init__(self, example: Any) -> None:
        leaves, structure = jax.tree.flatten(example)
        self.structure: Any = structure
        self.types = [jax.ShapeDtypeStruct(np.shape(x), getattr(x, "dtype", np.asarray(x).dtype)) for x in leaves]
        self.kinds = [(x.shape, x.dtype) for x in self.types]

    def arrays(
        self, tree: Any, *, leads: Sequence[tuple[int, ...]] | None = None, copy: bool = False
    ) -> list[np.ndarray]:
        """Leaves as contiguous arrays of the known types; ``leads`` are leading axes of each.

        Raises
        ------
        ValueError
            If structure or shapes differ.
        """
        leaves, structure = jax.tree.flatten(tree)
        if structure != self.structure:
            raise ValueError(f"expected the structure {self.structure}, got {structure}")
        converted = []
        for i, (leaf, (shape, dtype)) in enumerate(zip(leaves, self.kinds, strict=True)):
            array = np.array(leaf, dtype, order="C", copy=copy or None)
            shape = (*leads[i], *shape) if leads else shape
            if array.shape != shape:
                raise ValueError(f"expected an array of shape {shape}, got {array.shape}")
            converted.append(array)
        return converted

    def held(self, tree: Any) -> Held:
        """Pytree as the table that a program takes, for many calls."""
        if isinstance(tree, Held):
            return tree
        arrays = self.arrays(tree)
        return Held(arrays, table(arrays))

    def tree(self, arrays: list[np.ndarray]) -> Any:
        return jax.tree.unflatten(self.structure, arrays)

    def __eq__(self, other: object) -> bool:
        """True for the same structure and types."""
        return isinstance(other, Arguments) and (self.structure, self.kinds) == (other.structure, other.kinds)

    def __hash__(self) -> int:
        return hash((self.structure, *self.kinds))


class Held(NamedTuple):
    """Arrays of a pytree, and the table of their addresses."""

    arrays: list[np.ndarray]
    table: Any


def table(arrays: list[np.ndarray]) -> Any:
    """Table of addresses of arrays, which the caller keeps alive."""
    return (_POINTER * max(len(arrays), 1))(*map(_address, arrays))


def _address(array: np.ndarray) -> int:
    """Address of a contiguous array, 0 if it is empty; ``array.ctypes``, for constant arrays, is slower."""
    if not array.size:
        return 0
    try:
        return ctypes.addressof(_BYTE.from_buffer(array))  # type: ignore[arg-type]
    except TypeError:
        return array.ctypes.data


def trace(function: Callable, *arguments: Arguments, forward: bool = True) -> tuple[Any, Any]:
    """Jaxpr of a function of pytrees on flat arrays, without dead code, and the types of its result.

    Unless ``forward``, the function differentiates what it calls.
    """

    def flat(*leaves: Any) -> Any:
        left = iter(leaves)
        return function(*(a.tree([next(left) for _ in a.types]) for a in arguments))

    with float64(), forward_only() if forward else contextlib.nullcontext():
        closed, shape = jax.make_jaxpr(flat, return_shape=True)(*(t for a in arguments for t in a.types))
    jaxpr, _ = dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True)
    return closed.replace(jaxpr=jaxpr), shape


def optimised_stack(em: Emitter, text: str) -> int:
    """Bytes of stack that optimised code of a program uses, to a factor of 2; ``text`` is that of the emitter."""
    shares = em.stack >= SMALL_STACK and machine.effort(text, quick=False) > 0
    return em.frame if shares else em.stack


class Program:
    """Program with its code, which lives as long as this object; calls release the GIL."""

    def __init__(self, em: Emitter, name: str, n_pointers: int, n_integers: int) -> None:
        self._stack = em.stack
        if self._stack > LARGEST_STACK:
            raise NotLowered(f"{self._stack / 2**20:.0f} MB of arrays")
        text = em.text
        self._optimised_stack = optimised_stack(em, text)
        self.code = machine.compiled(text, name, tuple(em.externals))
        self._type = ctypes.CFUNCTYPE(_INTEGER, *[_POINTER] * n_pointers, *[_INTEGER] * n_integers)
        self._update()

    def _update(self) -> None:
        """Take the best version of the code, which may be one better than the version that is stated."""
        version = self.code.version
        self._function = self._type(self.code.address)
        self._version = version

    def call(self, *args: Any, keep_alive: Any) -> int:
        """Call the program and return its result, a number; ``keep_alive`` are the arrays that it reads and writes."""
        return self.with_stack(lambda: (self.call_here(*args), keep_alive))[0]

    def with_stack(self, function: Callable[[], Out]) -> Out:
        """Call a function that uses ``call_here``, in a thread of its own if this one has not the stack for that."""
        stack = self._optimised_stack if self._version >= self.code.optimised else self._stack
        if stack < SMALL_STACK or stack < min(LARGE_STACK, stack_of_thread() // 8):
            return function()
        return interruptible(function, stack=2 * self._stack)

    def call_here(self, *args: Any) -> int:
        """Version of ``call`` for a thread with the stack for it, whose caller keeps the arrays alive."""
        begun = time.perf_counter()
        status = self._function(*args)
        self.code.used(time.perf_counter() - begun)
        if self._version != self.code.version:
            self._update()
        return status


class CallSize:
    """Adaptive amount of work for a call, to last about ``CALL_SECONDS``; ``known`` is an amount found before."""

    def __init__(self, known: int = FIRST_CALL) -> None:
        self.amount = known
        self.begun = 0.0

    def begin(self) -> None:
        self.begun = time.perf_counter()

    def end(self, done: int) -> None:
        elapsed = time.perf_counter() - self.begun
        if elapsed < CALL_SECONDS / 2:
            self.amount = max(self.amount, min(done * (16 if elapsed < CALL_SECONDS / 32 else 2), LARGEST_CALL))
        elif elapsed > CALL_SECONDS:
            self.amount = max(int(self.amount * CALL_SECONDS / elapsed), 1)


def check_step(state: Arguments, shape: Any, row: Any) -> None:
    """Raise TypeError unless a step returns (state, status) and a row is a vector."""
    after, status = shape
    leaves, structure = jax.tree.flatten(after)
    returned = [(x.shape, x.dtype) for x in leaves]
    if structure != state.structure or returned != [(x.shape, x.dtype) for x in state.types]:
        raise TypeError(f"a step must return a state like the one it takes, not {after} for {state.types}")
    if status.shape != () or status.dtype != np.int32:
        raise TypeError(f"status must be a number of type int32, got {status}")
    if len(row.shape) != 1 or row.dtype != np.float64:
        raise TypeError(f"a row must be a vector in double precision, got {row}")


class Traced(NamedTuple):
    """Jaxprs of a step, (params, state) -> (state, status), and of the row of a node, (params, state) -> vector."""

    step: Any
    row: Any


@functools.lru_cache(maxsize=2)
def traced_steps(step: Callable, row: Callable, params: Arguments, state: Arguments) -> Traced:
    """Jaxprs of a hashable step and row; TypeError as of ``check_step``."""
    stepped, shape = trace(step, params, state)
    saved, width = trace(row, params, state)
    check_step(state, shape, width)
    return Traced(stepped, saved)


class Reached(NamedTuple):
    """Outcome of a loop: last good state, status (why the step after it failed, or 0), and number of saved rows.

    Of a batch, each has the members along the first axis.
    """

    state: Any
    status: Any
    n_rows: Any


class Loop:
    """Native stepping loop.

    Parameters
    ----------
    step : callable
        (params, state) -> (state, status), with status of type int32, 0 while all is well.
    row : callable
        (params, state) -> vector in double precision, the saved row of a node.
    params, state : pytrees of arrays and numbers
        Examples.

    Raises
    ------
    NotLowered
        If a step has an operation without a lowering.
    """

    @uncollected()
    def __init__(self, step: Callable, row: Callable, params: Any, state: Any) -> None:
        self._params, self._state = Arguments(params), Arguments(state)
        stepped, saved = traced_steps(step, row, self._params, self._state)
        self.width = int(saved.out_avals[0].shape[0])
        em = stepping_loop(stepped, saved, len(self._params.types), fma=machine.fma())
        self._program = Program(em, ADVANCE, 5, 3)
        self._known = FIRST_CALL

    def run(self, params: Any, state: Any, n_nodes: int, stride: int, buffer: np.ndarray) -> Reached:
        """Take steps up to ``n_nodes`` saved nodes, one every ``stride`` steps; stop at a failure.

        Parameters
        ----------
        params, state : pytrees
            Like the examples.
        n_nodes, stride : int
        buffer : array, shape=[≥ n_nodes, width]
            Output buffer of the rows.

        Returns
        -------
        Reached
        """
        reached = Reached(state, 0, 0)
        for reached in self.pieces(params, state, n_nodes, stride, buffer):  # noqa: B007 - the last one
            pass
        return reached

    def held(self, params: Any) -> Held:
        """Parameters in the form that is prepared for many calls; ``run`` and ``pieces`` take it in their place."""
        return self._params.held(params)

    def pieces(self, params: Any, state: Any, n_nodes: int, stride: int, buffer: np.ndarray) -> Iterator[Reached]:
        """Iterator version of ``run``: yields its result after each call, between saved nodes too."""
        if buffer.dtype != np.float64 or not buffer.flags.c_contiguous or not buffer.flags.writeable:
            raise ValueError("the buffer must be a writeable, contiguous array in double precision")
        if n_nodes < 0 or stride < 1 or buffer.ndim != 2 or buffer.shape[1] != self.width or len(buffer) < n_nodes:
            raise ValueError(f"{n_nodes} rows of width {self.width} do not fit into a buffer of shape {buffer.shape}")
        constants, home = self._params.held(params), self._state.arrays(state, copy=True)
        status, good = np.zeros((), np.int32), np.zeros((), np.int64)
        states, at_status, at_good = table(home), _address(status), _address(good)
        done, total, pace = 0, n_nodes * stride, CallSize(self._known)
        while done < total and status == 0:
            left = stride - done % stride
            n = pace.amount // stride * stride if pace.amount >= stride and left == stride else min(pace.amount, left)
            n = min(n, total - done)
            pace.begin()
            steps = self._program.call(
                constants.table,
                states,
                at_status,
                at_good,
                _address(buffer[done // stride :]),
                n,
                stride,
                left,
                keep_alive=(constants, home, status, good, buffer),
            )
            pace.end(steps)
            self._known = pace.amount
            done += steps
            yield Reached(self._state.tree([x.copy() for x in home]), int(status), done // stride)


class Map:
    """Native function of parameters and a node, for any number of nodes.

    Parameters
    ----------
    function : callable
        (params, node) -> pytree of arrays.
    params, node : pytrees of arrays and numbers
        Examples.

    Raises
    ------
    NotLowered
        If the function has an operation without a lowering.
    """

    @uncollected()
    def __init__(self, function: Callable, params: Any, node: Any) -> None:
        self._params, self._node = Arguments(params), Arguments(node)
        closed, shape = trace(function, self._params, self._node)
        self._results = Arguments(shape)
        em = mapping(closed, len(self._params.types), fma=machine.fma())
        self._program = Program(em, MAP, 3, 1)

    def held(self, params: Any) -> Held:
        """Parameters in the form that is prepared for many calls; ``run`` takes it in their place."""
        return self._params.held(params)

    def run(self, params: Any, nodes: Any) -> Any:
        """Evaluate the function for all nodes.

        Parameters
        ----------
        params : pytree
            Like the example.
        nodes : pytree
            Like the example, with the nodes along a first axis of every array.

        Returns
        -------
        pytree of arrays
            Results, with the nodes along the first axis.
        """
        total = len(jax.tree.leaves(nodes)[0])
        constants = self._params.held(params)
        arrays = self._node.arrays(nodes, leads=[(total,)] * len(self._node.types))
        results = [np.empty((total, *t.shape), t.dtype) for t in self._results.types]
        done, pace = 0, CallSize()
        while done < total:
            n = min(pace.amount, total - done)
            pace.begin()
            here, there = (table([x[done:] for x in xs] if done else xs) for xs in (arrays, results))
            self._program.call(constants.table, here, there, n, keep_alive=(constants, arrays, results))
            pace.end(n)
            done += n
        return self._results.tree(results)

    def one(self, params: Any, node: Any) -> Any:
        """Evaluate the function for one node, without further axes; numbers are NumPy scalars."""
        constants, arrays = self._params.held(params), self._node.arrays(node)
        results = [np.empty(shape, dtype) for shape, dtype in self._results.kinds]
        here, there = table(arrays), table(results)
        self._program.call(constants.table, here, there, 1, keep_alive=(constants, arrays, results))
        return self._results.tree([x if x.ndim else x[()] for x in results])


__all__ = ["Loop", "Map", "NotLowered"]
