"""Programs that XLA calls without Python, behind its interface for foreign functions, version 0.1.

A handler takes a call frame, a C struct of XLA (``xla/ffi/api/c_api.h``), of which it needs the fields below; their
places do not change within a major version.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from geonh.engine.native.builder import Function
from geonh.engine.native.emitter import Emitter
from geonh.engine.native.moves import combined
from geonh.engine.native.programs import ADVANCE, MAP, mapping, stepping_loop
from geonh.engine.native.values import STRAIGHT, Entry, Memory, kind_of, pack

HANDLER = "enter"
VERSION = (0, 1)
"""Version of the interface, major and minor."""
EXTENSION, ARGUMENTS, RESULTS = 8, 72, 112
"""Bytes before fields of a call frame: the extension, and tables of the buffers of arguments and of results."""
KIND, METADATA = 8, 24
"""Bytes before fields of an extension: its kind, which is 1 if it asks for the metadata, and these."""
MAJOR, MINOR = 24, 28
"""Bytes before fields of the metadata: the version of the interface that the handler takes."""
DATA, LENGTHS = 24, 40
"""Bytes before fields of a buffer: the address of its numbers, and that of its lengths along its axes."""
SAFE_STACK = 2**15
"""Bytes of stack that a program may use in any thread that calls XLA, whatever stack it has."""
BESIDE = 2**20
"""Bytes of stack of a thread beside those of its program: of C functions, of handlers of signals, of their variables
of threads.
"""
PAGES = 2**16
"""Granularity of stack sizes in bytes: a multiple of the page size of every platform."""


def handled_map(function: Any, order: Sequence[int], n_params: int, *, fma: bool) -> Emitter:
    """Program of ``i64 enter(frame)``: ``mapping`` for as many nodes as results have along their first axis, or one.

    ``order`` has the places among the arguments of the arrays that the function takes, of which the first ``n_params``
    are the same for all nodes.
    """
    em = mapping(function, n_params, fma=fma)
    _begin(em)
    results, arguments = _buffers(em, RESULTS, len(function.out_avals)), _buffers(em, ARGUMENTS, len(order))
    n = _length(em, results[0]) if len(order) > n_params else "1"
    given = [_numbers(em, arguments[i]) for i in order]
    tables = [
        _table(em, given[:n_params]),
        _table(em, given[n_params:]),
        _table(em, [_numbers(em, x) for x in results]),
    ]
    em.branch(em.emit(f"icmp sgt i64 {n}, 0"), "some", "end")
    em.begin("some")
    em.line(f"%done = call i64 @{MAP}({', '.join(f'ptr {x}' for x in tables)}, i64 {n})")
    em.jump("end")
    em.begin("end")
    return _ended(em, n)


def handled_run(first: Any, step: Any, row: Any, n_params: int, *, fma: bool) -> Emitter:
    """Program of ``i64 enter(frame)``: nodes of a run, shape=[n + 1, size], from arrays, x, and the number of steps
    between two nodes, of type int32. After a failure the last good node is repeated, with the status of the step.

    Parameters
    ----------
    first : ClosedJaxpr
        (arrays, x) -> node 0, whose last entry is its status.
    step, row, n_params
        Of ``stepping_loop``; the state is (node without status, warm start, number of the step).
    fma : bool
        True if the CPU has fused multiply-add.
    """
    em = stepping_loop(step, row, n_params, fma=fma)
    _begin(em)
    avals = [var.aval for var in first.jaxpr.invars]
    (result,), arguments = _buffers(em, RESULTS, 1), _buffers(em, ARGUMENTS, len(avals) + 1)
    *places, at_stride = (_numbers(em, x) for x in arguments)
    (size,) = first.out_avals[0].shape
    nodes = Memory(_numbers(em, result), (2, size), "d", False)
    state = [em.place(var.aval) for var in step.jaxpr.invars[n_params:]]
    status, done = em.buffer((), "i32"), em.buffer((), "i64")
    pairs = zip(places, avals, strict=True)
    given = [Memory(place, tuple(aval.shape), kind_of(aval), False, place) for place, aval in pairs]
    node_0 = em.closed(first, [em.entries(x) if x.size <= STRAIGHT else x for x in given])[0]
    begin = em.entries(node_0).ravel().tolist()
    for i, x in enumerate(begin):
        em.store(x, nodes, i)
        if i < size - 1:
            em.store(x, state[0], i)
    if state[1].size:
        em.clear(state[1])
    for counter in (state[2], status, done):
        em.store(0, counter)
    n = em.emit(f"sub i64 {_length(em, result)}, 1")
    stride = em.emit(f"sext i32 {em.emit(f'load i32, ptr {at_stride}, align 4')} to i64")
    every = em.emit(f"mul i64 {n}, {stride}")
    em.branch(em.emit(f"icmp sgt i64 {n}, 0"), "some", "end")
    em.begin("some")
    em.branch(em.compare("ne", "d", begin[-1], 0.0), "bad", "good")
    em.begin("bad")
    with em.scope():
        em.store(em.convert(begin[-1], "d", "i32"), status)
    em.jump("failed")
    em.begin("good")
    tables = [_table(em, places[:n_params]), _table(em, [x.pointer for x in state])]
    em.jump("again")
    em.begin("again")  # a second time where a step fails, which a call tells of its first step alone
    with em.scope():
        so_far = em.load(done, 0)
        saved, since = (em.emit(f"{which} i64 {so_far}, {stride}") for which in ("sdiv", "srem"))
        following = em.emit(f"add i64 {saved}, 1")
        row = em.emit(f"getelementptr inbounds [{size} x double], ptr {nodes.pointer}, i64 {following}")
        addresses = ", ".join(f"ptr {x}" for x in (*tables, status.pointer, done.pointer, row))
        left, due = em.emit(f"sub i64 {every}, {so_far}"), em.emit(f"sub i64 {stride}, {since}")
        em.line(f"%steps = call i64 @{ADVANCE}({addresses}, i64 {left}, i64 {stride}, i64 {due})")
    with em.scope():
        em.branch(em.compare("ne", "i32", em.load(status, 0), 0), "failed", "well")
    em.begin("well")
    with em.scope():
        em.branch(em.emit(f"icmp slt i64 {em.load(done, 0)}, {every}"), "again", "end")
    em.begin("failed")
    with em.scope():
        saved = em.emit(f"sdiv i64 {em.load(done, 0)}, {stride}")
        last = [*(em.load(state[0], i) for i in range(size - 1)), em.convert(em.load(status, 0), "i32", "d")]
        first_place = em.emit(f"mul i64 {em.emit(f'add i64 {saved}, 1')}, {size}")

        def repeat(i: str) -> None:
            place = em.emit(f"add i64 {first_place}, {em.emit(f'mul i64 {i}, {size}')}")
            for j, x in enumerate(last):
                em.store(x, nodes, em.emit(f"add i64 {place}, {j}"))

        em.for_each(em.emit(f"sub i64 {n}, {saved}"), repeat)
    em.jump("end")
    em.begin("end")
    return _ended(em, every)


def handled_pull(first: Any, step: Any, row: Any, n_arrays: int, *, fma: bool) -> Emitter:
    """Program of ``i64 enter(frame)``: cotangents of the active arrays and of x of a run of which every node is known,
    from (arrays, x, y, cotangent of y). The cotangents of x are nan where those of a node are not finite.

    Parameters
    ----------
    first : ClosedJaxpr
        (arrays, x, node 0, its cotangent) -> cotangents of the active arrays and of x.
    step, row
        Backward step and row of nothing, of ``stepping_loop``: the parameters are (arrays, nodes, cotangents that enter
        at them, warm starts, number of the first step), the state is (number, cotangent of the node without status,
        those of the active arrays, warm start).
    n_arrays : int
        Number of arrays.
    fma : bool
        True if the CPU has fused multiply-add.
    """
    em = stepping_loop(step, row, n_arrays + 4, fma=fma)
    _begin(em)
    avals, results = [var.aval for var in first.jaxpr.invars], _buffers(em, RESULTS, len(first.out_avals))
    arguments = _buffers(em, ARGUMENTS, n_arrays + 3)
    places, (size,) = [_numbers(em, x) for x in arguments], avals[-1].shape
    n = em.emit(f"sub i64 {_length(em, arguments[-1])}, 1")
    y, y_bar = (Memory(place, (2, size), "d", False) for place in places[-2:])
    number, node, *sums, warm = (em.place(var.aval) for var in step.jaxpr.invars[n_arrays + 4 :])
    known, begin = (em.place(step.jaxpr.invars[n_arrays + i].aval) for i in (2, 3))
    for place in (node, *sums, warm, known):
        em.for_each(place.size, partial(_clear, em, place))
    status, done, good = em.buffer((), "i32"), em.buffer((), "i64"), em.buffer((), "i64")
    for counter in (begin, status, done, good):
        em.store(0, counter)
    em.branch(em.emit(f"icmp sgt i64 {n}, 0"), "counted", "back")
    em.begin("counted")

    def count(i: str) -> None:
        """Count a good step; of another one, what enters at its node enters at the last good one."""
        row = em.emit(f"mul i64 {em.emit(f'add i64 {i}, 1')}, {size}")
        places = [em.emit(f"add i64 {row}, {j}") for j in range(size)]
        is_good = em.compare("eq", "d", em.load(y, places[-1]), 0.0)
        em.store(em.integer("add", "i64", em.load(good, 0), em.select(is_good, 1, 0, "i64")), good)
        for j in range(size - 1):
            em.store(em.add(em.load(node, j), em.select(is_good, 0.0, em.load(y_bar, places[j]), "d")), node, j)

    em.for_each(n, count)
    with em.scope():
        n_good = em.load(good, 0)
        em.store(em.emit(f"sub i64 {n_good}, 1"), number)
        params = [*places[:n_arrays], *places[-2:], known.pointer, begin.pointer]
        tables = [_table(em, params), _table(em, [x.pointer for x in (number, node, *sums, warm)])]
        addresses = ", ".join(f"ptr {x}" for x in (*tables, status.pointer, done.pointer, node.pointer))
        em.branch(em.emit(f"icmp sgt i64 {n_good}, 0"), "some", "back")
        em.begin("some")
        em.line(f"%steps = call i64 @{ADVANCE}({addresses}, i64 {n_good}, i64 {n_good}, i64 {n_good})")
        em.jump("back")
    em.begin("back")
    with em.scope():
        after = em.entries(node).tolist()
        at_0 = [em.add(em.load(y_bar, j), x) for j, x in enumerate([*after, 0.0])]
        pairs = zip(places[: n_arrays + 2], avals[: n_arrays + 2], strict=True)
        given = [Memory(place, tuple(aval.shape), kind_of(aval), False, place) for place, aval in pairs]
        values = [em.entries(x) if x.size <= STRAIGHT else x for x in given]
        *more, x_bar = em.closed(first, [*values, pack(at_0, (size,))])
        for result, total, extra in zip(results, sums, more, strict=False):
            place = Memory(_numbers(em, result), total.shape, "d", False)
            for i, (a, b) in enumerate(zip(em.entries(total).ravel(), em.entries(extra).ravel(), strict=True)):
                em.store(em.add(a, b), place, i)
        finite = combined(em.add, [em.mul(x, 0.0) if isinstance(x, str) else 0.0 for x in after])
        place = Memory(_numbers(em, results[-1]), tuple(avals[n_arrays].shape), "d", False)
        for i, x in enumerate(em.entries(x_bar).ravel().tolist()):
            em.store(em.select(em.compare("eq", "d", finite, 0.0), x, math.nan, "d"), place, i)
    return _ended(em, n)


def _clear(em: Emitter, place: Memory, i: Entry) -> None:
    em.store(0.0, place, i)


def _begin(em: Emitter) -> None:
    """Begin the handler, which answers a call that asks for the version of the interface."""
    em.function = Function()
    extension = _pointer(em, "%frame", EXTENSION)
    em.branch(em.emit(f"icmp eq ptr {extension}, null"), "run", "asked")
    em.begin("asked")
    kind = em.emit(f"load i32, ptr {_at(em, extension, KIND)}, align 4")
    em.branch(em.emit(f"icmp eq i32 {kind}, 1"), "version", "run")
    em.begin("version")
    with em.scope():
        metadata = _pointer(em, extension, METADATA)
        for place, value in zip((MAJOR, MINOR), VERSION, strict=True):
            em.line(f"store i32 {value}, ptr {_at(em, metadata, place)}, align 4")
    em.line("ret i64 0")
    em.begin("run")


def _ended(em: Emitter, done: str) -> Emitter:
    """End the handler, which counts what it has done."""
    em.line(f"ret i64 {done}")
    em.functions["@handle"] = f"define internal i64 @handle(ptr %frame) #0 {{\n{em.function.body}\n}}"
    apart = "@handle"
    if em.stack >= SAFE_STACK and sys.platform != "win32":
        apart = "@apart"
        size = -(-2 * em.stack // PAGES) * PAGES + BESIDE
        em.functions[apart] = _APART.replace("SIZE", str(size))
        for name, arguments in _THREADS.items():
            em.declare(f"declare i32 @{name}({arguments})")
    em.definitions.append(f"@places = internal global [3 x ptr] [ptr {apart}, ptr null, ptr @handle], align 8")
    em.functions[f"@{HANDLER}"] = _ENTER
    return em


_ENTER = f"""define i64 @{HANDLER}(ptr %frame) #0 {{
  %is_asked = icmp eq ptr %frame, null
  br i1 %is_asked, label %asked, label %called
asked:
  ret i64 ptrtoint (ptr @places to i64)
called:
  %handle = load atomic ptr, ptr @places monotonic, align 8
  %done = call i64 %handle(ptr %frame)
  %told = load atomic ptr, ptr getelementptr (i8, ptr @places, i64 8) monotonic, align 8
  %is_told = icmp ne ptr %told, null
  br i1 %is_told, label %tell, label %end
tell:
  call void %told(i64 %done)
  br label %end
end:
  ret i64 0
}}"""
"""Function that XLA calls. Without a frame it returns the address of ``Places``."""


class Places(ctypes.Structure):
    """Addresses of functions of a program.

    Attributes
    ----------
    called
        The handler that is called, in whose place a better one may be put; at first in a thread of its own, if it is
        not sure to have the stack for it in any other.
    told
        Function that is told the number of steps or nodes of each call, or None.
    handle
        The handler in the calling thread.
    """

    _fields_ = tuple((name, ctypes.c_void_p) for name in ("called", "told", "handle"))


_THREADS = {
    "pthread_attr_init": "ptr",
    "pthread_attr_setstacksize": "ptr, i64",
    "pthread_create": "ptr, ptr, ptr, ptr",
    "pthread_join": "i64, ptr",
    "pthread_attr_destroy": "ptr",
}
"""Functions of the C library, all but those of Windows, and the types of their arguments."""
_APART = """define internal i64 @apart(ptr %frame) #0 {
  %thread = alloca i64, align 16
  %done = alloca ptr, align 16
  %attributes = alloca [16 x i64], align 16
  call i32 @pthread_attr_init(ptr %attributes)
  call i32 @pthread_attr_setstacksize(ptr %attributes, i64 SIZE)
  br label %begin
begin:
  %refused = call i32 @pthread_create(ptr %thread, ptr %attributes, ptr @handle, ptr %frame)
  %runs = icmp eq i32 %refused, 0
  br i1 %runs, label %wait, label %begin
wait:
  %id = load i64, ptr %thread, align 8
  call i32 @pthread_join(i64 %id, ptr %done)
  call i32 @pthread_attr_destroy(ptr %attributes)
  %n = load i64, ptr %done, align 8
  ret i64 %n
}"""
"""The handler in a thread of its own, which has the stack for it; where there is no thread to be had it waits for
one.
"""


def _buffers(em: Emitter, field: int, n: int) -> list[str]:
    """Buffers of arguments or results."""
    table = _pointer(em, "%frame", field)
    return [_pointer(em, table, 8 * i) for i in range(n)]


def _numbers(em: Emitter, buffer: str) -> str:
    return _pointer(em, buffer, DATA)


def _length(em: Emitter, buffer: str) -> str:
    """Length of a buffer's array along its first axis."""
    return em.emit(f"load i64, ptr {_pointer(em, buffer, LENGTHS)}, align 8")


def _table(em: Emitter, places: Sequence[str]) -> str:
    """Table of addresses."""
    table = em.buffer((max(len(places), 1),), "i64").pointer
    for i, place in enumerate(places):
        em.line(f"store ptr {place}, ptr {_at(em, table, 8 * i)}, align 8")
    return table


def _at(em: Emitter, pointer: str, n_bytes: int) -> str:
    return em.emit(f"getelementptr inbounds i8, ptr {pointer}, i64 {n_bytes}")


def _pointer(em: Emitter, pointer: str, n_bytes: int) -> str:
    """Pointer that stands so many bytes after a place."""
    return em.emit(f"load ptr, ptr {_at(em, pointer, n_bytes)}, align 8")
