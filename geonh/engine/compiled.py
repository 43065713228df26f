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
_ARGUMENTS_SEEN: weakref.WeakKeyDictionary[Any, set[int]] = weakref.WeakKeyDictionary()
PROGRAMS = 128
"""Maximum number of programs kept in memory."""
PIECE = 1000
"""Maximum number of rows saved by one call of an XLA loop."""


class EngineWarning(UserWarning):
    """Warning that the native engine cannot run a function, so that it falls back to XLA, slower."""


def is_array(leaf: Any) -> bool:
    """True if a leaf is an argument of a program, false if it is static."""
    return isinstance(leaf, np.ndarray | np.generic | jax.Array)


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


def computed(function: Callable, tree: Any, node: Any) -> Any:
    """``function(tree, node)`` for one node, compiled, as NumPy arrays."""
    values = mapped(function, tree, jax.tree.map(lambda a: np.asarray(a)[None], node))
    return jax.tree.map(lambda a: a[0], values)


def prepared(function: Callable, tree: Any, node: Any) -> Callable[[Any], Any]:
    """Compiled ``mapped`` as a function of the nodes, for repeated calls: like ``node``, with a leading axis."""
    arrays, static = hashable_partition(tree, is_array)
    program = map_of(Bound.to(function, static), types(arrays), types(node))
    held = program.held(arrays)
    return lambda nodes: program.run(held, nodes)


def stepping(step: Callable, row: Callable, tree: Any, state: Any) -> Stepping:
    """Stepping loop of ``step(tree, state)`` → (state, status); the vectors ``row(tree, state)`` are saved."""
    arrays, static = hashable_partition(tree, is_array)
    return Stepping(arrays, loop_of(Bound.to(step, static), Bound.to(row, static), types(arrays), types(state)))


class Stepping:
    """Stepping loop with its arguments; ``engine`` is the engine that runs it."""

    def __init__(self, arrays: Any, loop: Any) -> None:
        self._arrays, self._loop, self._held = arrays, loop, loop.held(arrays)
        self.engine = "native" if isinstance(loop, native.Loop) else "XLA"
        self.width: int = loop.width

    def is_new(self) -> bool:
        """True for the first call of the loop with these arguments."""
        earlier = _ARGUMENTS_SEEN.setdefault(self._loop, set())
        values = hash(b"".join(np.asarray(a).tobytes() for a in jax.tree.leaves(self._arrays)))
        is_new = values not in earlier
        earlier.add(values)
        return is_new

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
    arrays, static = hashable_partition(one, is_array)
    of_batch, _ = hashable_partition(many, is_array)
    pairs = zip(jax.tree.leaves(arrays), jax.tree.leaves(of_batch), strict=True)
    varies = tuple(np.ndim(b) > np.ndim(a) for a, b in pairs)
    step, row = Bound.to(step, static), Bound.to(row, static)
    kinds = types(arrays), types(state)
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
        run = self._in_lanes if isinstance(self._loop, native.Lanes) else self._one_by_one
        return run(members, states, n_nodes, stride, threads)

    def _members(self, members: Any) -> Any:
        leaves = [a[members] if varies else a for a, varies in zip(self._leaves, self._varies, strict=True)]
        return jax.tree.unflatten(self._structure, leaves)

    def _in_lanes(self, members: np.ndarray, states: Any, n_nodes: int, stride: int, threads: int) -> tuple:
        buffer = self._loop.buffer(len(members), n_nodes)
        done = self._loop.run(self._members(members), states, n_nodes, stride, buffer, threads=threads)
        blocks, *shape, lanes = buffer.shape
        rows = np.moveaxis(buffer, -1, 1).reshape(blocks * lanes, *shape)[: len(members)]
        return rows, Reached(done.state, done.status, done.n_steps // stride)

    def _one_by_one(self, members: np.ndarray, states: Any, n_nodes: int, stride: int, _: int) -> tuple:
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
    kinds = [np.dtype(getattr(leaf, "dtype", None) or np.asarray(leaf).dtype).str for leaf in leaves]
    return Types(structure, tuple(zip(map(np.shape, leaves), kinds, strict=True)))


def example(types: Types) -> Any:
    """Pytree of shapes with these types."""
    shapes = [jax.ShapeDtypeStruct(shape, np.dtype(dtype)) for shape, dtype in types.leaves]
    return jax.tree.unflatten(types.structure, shapes)


@dataclass(frozen=True)
class Bound:
    """``function(tree, node)`` as a function of the tree's arrays and the node; equal if the programs are equal."""

    function: Callable
    static: Any
    captured: tuple
    """Captured variables of the functions in ``static``."""

    @classmethod
    def to(cls, function: Callable, static: Any) -> Bound:
        return cls(function, static, captured_variables(static))

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
