"""Programs that XLA calls without Python, behind its interface for foreign functions, version 0.1.

A handler takes a call frame, a C struct of XLA (``xla/ffi/api/c_api.h``), of which it needs the fields below; their
places do not change within a major version.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from geonh.engine.native.builder import Function
from geonh.engine.native.emitter import Emitter
from geonh.engine.native.programs import ADVANCE, MAP, mapping, stepping_loop
from geonh.engine.native.values import STRAIGHT, Memory, kind_of

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
    em.definitions.append("@places = internal global { ptr, ptr } { ptr @handle, ptr null }, align 8")
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
"""Function that XLA calls. Without a frame it returns the address of two others: of the handler, in whose place a
better one may be put, and of one that is told the number of steps or nodes of each call, if there is one.
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
