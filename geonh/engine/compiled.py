"""Functions and stepping loops, compiled once for each structure: natively, or by XLA as a fallback.

A pytree such as (system, method, clock) is partitioned into its arrays, which are arguments of the program, and the
static rest (functions, names, structure), which with the shapes is its cache key. So new parameters, step sizes and
initial values compile nothing.
"""

from __future__ import annotations

import functools
import logging
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from geonh.arguments.precision import float64
from geonh.engine import native
from geonh.engine.captured import captured_variables
from geonh.engine.internals import hashable_combine, hashable_partition
from geonh.engine.interrupts import interruptible
from geonh.engine.native.drivers import CallSize, Reached

_log = logging.getLogger("geonh")
_ARGUMENTS_SEEN: weakref.WeakKeyDictionary[Any, deque[np.ndarray]] = weakref.WeakKeyDictionary()
NEARBY = 0.1
"""Relative distance of numbers for which a loop's arguments count as seen before."""
SEEN, FEW = 32, 1000
"""Numbers of arguments that are kept as seen, and of entries of an array up to which it is compared."""
_ARRAYS = (np.ndarray, np.generic, jax.Array)
PROGRAMS = 128
"""Maximum number of programs kept in memory."""
PIECE = 1000
"""Maximum number of rows saved by one call of an XLA loop."""


class EngineWarning(UserWarning):
    """Warning that the native engine cannot run a function, so that it falls back to XLA, slower."""


def is_array(leaf: Any) -> bool:
    """True if a leaf is an argument of a program, false if it is static."""
    return type(leaf) is np.ndarray or isinstance(leaf, _ARRAYS)


def mapped(function: Callable, tree: Any, nodes: Any) -> Any:
    """``function(tree, node)`` for every node, with the nodes along the first axis of all arrays.

    Parameters
    ----------
    function : callable
        Traceable and defined at module level: part of the cache key.
    tree : pytree
        Arrays and anything hashable.
    nodes : pytree of arrays
        At least one node.

    Returns
    -------
    pytree of NumPy arrays
        New arrays, which may be written to.
    """
    return prepared(function, tree, jax.tree.map(lambda a: np.asarray(a)[0], nodes))(nodes)


def batch_of_one(node: Any) -> Any:
    """A node as NumPy arrays with a batch axis of length 1 in front."""
    return jax.tree.map(lambda a: np.asarray(a)[None], node)


def first_of_batch(nodes: Any) -> Any:
    """The first node along the first axis of all arrays."""
    return jax.tree.map(lambda a: a[0], nodes)


def computed(function: Callable, tree: Any, node: Any) -> Any:
    """``function(tree, node)`` for one node, compiled, as NumPy arrays."""
    parts = Partition.of(tree)
    program = map_of(parts.bound(function), parts.types, types(node))
    return program.one(parts.held(program), node)


def prepared(function: Callable, tree: Any, node: Any) -> Callable[[Any], Any]:
    """Compiled ``mapped`` as a function of the nodes, for repeated calls: like ``node``, with a leading axis."""
    parts = Partition.of(tree)
    program = map_of(parts.bound(function), parts.types, types(node))
    held = parts.held(program)
    return lambda nodes: program.run(held, nodes)


def stepping(step: Callable, row: Callable, tree: Any, state: Any) -> Stepping:
    """Stepping loop of ``step(tree, state)`` → (state, status); the vectors ``row(tree, state)`` are saved."""
    parts = Partition.of(tree)
    return Stepping(parts, loop_of(parts.bound(step), parts.bound(row), parts.types, types(state)))


class Stepping:
    """Stepping loop with its arguments; ``engine`` is the engine that runs it."""

    def __init__(self, parts: Partition, loop: Any) -> None:
        self._parts, self._loop, self._held = parts, loop, parts.held(loop)
        self.engine = "native" if isinstance(loop, native.Loop) else "XLA"
        self.width: int = loop.width

    def is_new(self) -> bool:
        """True unless this loop was asked with arguments that all were within ``NEARBY`` of these."""
        seen = _ARGUMENTS_SEEN.setdefault(self._loop, deque(maxlen=SEEN))
        numbers = [np.ravel(a) for a in self._parts.arrays if a is not None and np.size(a) <= FEW]
        values = np.concatenate(numbers) if numbers else np.zeros(0)
        if any(np.all(np.abs(values - other) <= NEARBY * np.abs(other)) for other in seen):
            return False
        seen.appendleft(values)
        return True

    def pieces(self, state: Any, n_nodes: int, stride: int, buffer: np.ndarray) -> Iterator[Reached]:
        """Steps up to ``n_nodes`` saved nodes, one every ``stride`` steps, rows into ``buffer``; stops at a failure.

        Yields what is reached many times a second, between saved nodes too, and at the end.
        """
        return self._loop.pieces(self._held, state, n_nodes, stride, buffer)


def batch_stepping(step: Callable, row: Callable, one: Any, many: Any, state: Any) -> BatchStepping:
    """Stepping loop of ``stepping`` for a batch.

    Parameters
    ----------
    step, row : callable
        As for ``stepping``.
    one : pytree
        Tree of one member.
    many : pytree
        The same tree, with the batch along a leading axis of those arrays that differ between members.
    state : pytree of arrays
        State of one member.
    """
    parts = Partition.of(one)
    of_batch, _ = hashable_partition(many, is_array)
    pairs = zip(jax.tree.leaves(parts.arrays), jax.tree.leaves(of_batch), strict=True)
    varies = tuple(np.ndim(b) > np.ndim(a) for a, b in pairs)
    step, row, kinds = parts.bound(step), parts.bound(row), (parts.types, types(state))
    return BatchStepping(of_batch, varies, lanes_of(step, row, *kinds, varies) or loop_of(step, row, *kinds))


class BatchStepping:
    """Stepping loop for a batch; ``engine`` is the engine that runs it."""

    def __init__(self, arrays: Any, varies: tuple[bool, ...], loop: Any) -> None:
        self._leaves, self._structure = jax.tree.flatten(arrays)
        self._varies, self._loop = varies, loop
        self.engine = "XLA" if isinstance(loop, _XlaLoop) else "native"
        self.width: int = loop.row_size if isinstance(loop, native.Lanes) else loop.width

    def run(
        self, members: np.ndarray, states: Any, n_nodes: int, stride: int, threads: int
    ) -> tuple[np.ndarray, Reached]:
        """Rows of these members, shape=[members, n_nodes, width], and their final states.

        Rows of a member after its last good step are undefined.
        """
        if not isinstance(self._loop, native.Lanes):
            return self._one_by_one(members, states, n_nodes, stride)
        buffer, reached = self._in_lanes(self._loop, members, states, n_nodes, stride, threads)
        blocks, *shape, lanes = buffer.shape
        return np.moveaxis(buffer, -1, 1).reshape(blocks * lanes, *shape)[: len(members)], reached

    def run_each(
        self, members: np.ndarray, states: Any, n_nodes: int, stride: int, threads: int
    ) -> tuple[list[np.ndarray], Reached]:
        """Version of ``run`` with the rows of each member where they were computed, which need not be contiguous."""
        loop = self._loop
        if not isinstance(loop, native.Lanes):
            rows, reached = self._one_by_one(members, states, n_nodes, stride)
            return list(rows), reached
        buffer, reached = self._in_lanes(loop, members, states, n_nodes, stride, threads)
        return [loop.rows(buffer, i) for i in range(len(members))], reached

    def _members(self, members: Any) -> Any:
        leaves = [a[members] if varies else a for a, varies in zip(self._leaves, self._varies, strict=True)]
        return jax.tree.unflatten(self._structure, leaves)

    def _in_lanes(
        self, loop: native.Lanes, members: np.ndarray, states: Any, n_nodes: int, stride: int, threads: int
    ) -> tuple[np.ndarray, Reached]:
        """Buffer of the rows of all members, and their final states."""
        buffer = loop.buffer(len(members), n_nodes)
        done = loop.run(self._members(members), states, n_nodes, stride, buffer, threads=threads)
        return buffer, Reached(done.state, done.status, done.n_steps // stride)

    def _one_by_one(self, members: np.ndarray, states: Any, n_nodes: int, stride: int) -> tuple[np.ndarray, Reached]:
        rows, ends = np.empty((len(members), n_nodes, self.width)), []
        for i, member in enumerate(members):
            state = jax.tree.map(lambda a, i=i: a[i], states)
            ends.append(list(self._loop.pieces(self._members(member), state, n_nodes, stride, rows[i]))[-1])
        return rows, Reached(*jax.tree.map(lambda *ends: np.stack(ends), *ends))


class Types(NamedTuple):
    """Structure of a pytree, and shape and dtype of each array; hashable."""

    structure: Any
    leaves: tuple[tuple[tuple[int, ...], str], ...]


def types(tree: Any) -> Types:
    """Types of a pytree of arrays, numbers or shapes."""
    leaves, structure = jax.tree.flatten(tree)
    return Types(structure, tuple(map(_type, leaves)))


def _type(leaf: Any) -> tuple[tuple[int, ...], str]:
    if type(leaf) is np.ndarray:
        return leaf.shape, leaf.dtype.str
    return np.shape(leaf), np.dtype(getattr(leaf, "dtype", None) or np.asarray(leaf).dtype).str


def example(types: Types) -> Any:
    """Pytree of shapes with these types."""
    shapes = [jax.ShapeDtypeStruct(shape, np.dtype(dtype)) for shape, dtype in types.leaves]
    return jax.tree.unflatten(types.structure, shapes)


@dataclass(eq=False)
class Partition:
    """Pytree in parts: its arrays, which are arguments of programs, and the rest.

    Programs take it in place of the tree, so that several calls with one tree take it apart once. It is not to be kept,
    since functions and dicts in the tree may change.

    Attributes
    ----------
    arrays : pytree of arrays
    static : hashable
        Leaves that are not arrays, and the structure.
    captured : tuple
        Captured variables of the functions in ``static``.
    types : Types
        Types of the arrays.
    """

    arrays: Any
    static: Any
    captured: tuple
    types: Types
    _held: Any = None

    @classmethod
    def of(cls, tree: Any) -> Partition:
        """Parts of a tree; a partition is returned as it is."""
        if isinstance(tree, Partition):
            return tree
        arrays, static = hashable_partition(tree, is_array)
        return cls(arrays, static, captured_variables(static), types(arrays))

    def is_current(self) -> bool:
        """True if what its functions capture is the same as when it was made."""
        return captured_variables(self.static) == self.captured

    def held(self, program: Any) -> Any:
        """The arrays as a program takes them, made once for all native programs."""
        if isinstance(program, _XlaMap | _XlaLoop):
            return self.arrays
        if self._held is None:
            self._held = program.held(self.arrays)
        return self._held

    def bound(self, function: Callable) -> Bound:
        """Function of the arrays and a node."""
        return Bound(function, self.static, self.captured)


@dataclass(frozen=True)
class Bound:
    """``function(tree, node)`` as a function of the tree's arrays and the node; equal if the programs are equal."""

    function: Callable
    static: Any
    captured: tuple
    """Captured variables of the functions in ``static``."""

    def __call__(self, arrays: Any, node: Any) -> Any:
        return self.function(hashable_combine(arrays, self.static), node)


@functools.lru_cache(maxsize=PROGRAMS)
def map_of(function: Callable, arrays: Types, node: Types) -> Any:
    """Compiled map of ``function(arrays, node)``, hashable, for arrays and nodes of these types."""
    return _native_or_xla(
        function, lambda: native.Map(function, example(arrays), example(node)), lambda: _XlaMap(function)
    )


@functools.lru_cache(maxsize=PROGRAMS)
def loop_of(step: Callable, row: Callable, arrays: Types, state: Types) -> Any:
    """Compiled loop of ``step(arrays, state)``, hashable, for arrays and states of these types."""
    examples = example(arrays), example(state)
    return _native_or_xla(step, lambda: native.Loop(step, row, *examples), lambda: _XlaLoop(step, row, *examples))


@functools.lru_cache(maxsize=PROGRAMS)
def lanes_of(step: Callable, row: Callable, arrays: Types, state: Types, varies: tuple[bool, ...]) -> Any:
    """Native loop for a batch in SIMD lanes, or None."""
    if not native.available():
        return None
    try:
        return native.Lanes(step, row, example(arrays), example(state), jax.tree.unflatten(arrays.structure, varies))
    except native.NotLowered:
        return None


def _native_or_xla(function: Callable, make: Callable, otherwise: Callable) -> Any:
    if not native.available():
        warnings.warn("geonh has no native engine here (llvmlite is missing): XLA runs it", EngineWarning, stacklevel=5)
        return otherwise()
    try:
        began = time.perf_counter()
        program = make()
        _log.debug("program of %s written and compiled in %.3f s", _name(function), time.perf_counter() - began)
        return program
    except native.NotLowered as reason:
        warnings.warn(f"the native engine has no code for {reason}: XLA runs it, slower", EngineWarning, stacklevel=5)
        return otherwise()


def _name(function: Callable) -> str:
    inner = getattr(function, "function", function)
    return str(getattr(inner, "__qualname__", type(inner).__name__))


class _XlaMap:
    """``native.Map`` as an XLA program."""

    def __init__(self, function: Callable) -> None:
        self._function = jax.jit(jax.vmap(function, in_axes=(None, 0)))

    def held(self, arrays: Any) -> Any:
        """Arguments in the form of ``native.Map.held``: as they are."""
        return arrays

    def run(self, arrays: Any, nodes: Any) -> Any:
        return jax.tree.map(np.array, _by_xla(self._function, arrays, nodes))  # JAX arrays are read-only

    def one(self, arrays: Any, node: Any) -> Any:
        """XLA counterpart of ``native.Map.one``."""
        return first_of_batch(self.run(arrays, batch_of_one(node)))


class _LoopState(NamedTuple):
    """Carry of an XLA loop: number of steps or rows so far, last good state, status, and rows."""

    i: Array
    state: Any
    status: Array
    rows: Any = None


class _XlaLoop:
    """``native.Loop`` as an XLA program."""

    def __init__(self, step: Callable, row: Callable, arrays: Any, state: Any) -> None:
        with float64():
            self.width = int(jax.eval_shape(row, arrays, state).shape[0])

        def advance(arrays: Any, state: Any, n_steps: Array) -> tuple[Any, Array]:
            def body(now: _LoopState) -> _LoopState:
                new, status = step(arrays, now.state)
                state = jax.tree.map(lambda a, b: jnp.where(status == 0, a, b), new, now.state)
                return _LoopState(now.i + 1, state, status)

            begin = _LoopState(jnp.zeros_like(n_steps), state, jnp.zeros((), jnp.int32))
            end = lax.while_loop(lambda now: (now.i < n_steps) & (now.status == 0), body, begin)
            return end.state, end.status

        def chunk(arrays: Any, state: Any, n_nodes: Array, buffer: Array) -> _LoopState:
            def body(now: _LoopState) -> _LoopState:
                state, status = advance(arrays, now.state, jnp.asarray(1))
                saved = lax.dynamic_update_slice(now.rows, row(arrays, state)[None], (now.i, jnp.zeros_like(now.i)))
                return _LoopState(now.i + (status == 0), state, status, jnp.where(status == 0, saved, now.rows))

            begin = _LoopState(jnp.zeros_like(n_nodes), state, jnp.zeros((), jnp.int32), buffer)
            return lax.while_loop(lambda now: (now.i < n_nodes) & (now.status == 0), body, begin)

        self._advance, self._chunk, self._row = jax.jit(advance), jax.jit(chunk), jax.jit(row)

    def held(self, arrays: Any) -> Any:
        """Arguments in the form of ``native.Loop.held``: as they are."""
        return arrays

    def pieces(self, arrays: Any, state: Any, n_nodes: int, stride: int, buffer: np.ndarray) -> Iterator[Reached]:
        """XLA counterpart of ``native.Loop.pieces``."""
        saved = since = 0  # rows, and steps since the last one
        status, pace = 0, CallSize()
        while saved < n_nodes and status == 0:
            pace.begin()
            if stride == 1:
                empty = np.zeros((PIECE, self.width))
                wanted = np.asarray(min(n_nodes - saved, PIECE, pace.amount))
                done = _by_xla(self._chunk, arrays, state, wanted, empty, if_recorded=True)
                steps, state, status = int(done.i), done.state, done.status
                buffer[saved : saved + steps] = done.rows[:steps]
                saved += steps
            else:
                steps = min(stride - since, pace.amount)
                state, status = _by_xla(self._advance, arrays, state, np.asarray(steps), if_recorded=True)
                since += steps
                if status == 0 and since == stride:
                    buffer[saved] = _by_xla(self._row, arrays, state)
                    saved, since = saved + 1, 0
            pace.end(steps)
            yield Reached(state, int(status), saved)


def _by_xla(function: Callable, *arguments: Any, if_recorded: bool = False) -> Any:
    """Result of a JAX function, as NumPy arrays; Ctrl-C interrupts its compilation and its run."""

    def call() -> Any:
        with float64():
            return jax.tree.map(np.asarray, function(*arguments))

    return interruptible(call, if_recorded=if_recorded)
