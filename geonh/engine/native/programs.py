"""Complete programs: the stepping loop, and a map over nodes, around a jaxpr.

Arrays are passed by tables of pointers, each array row-major in its own type; with lanes the lane is its last axis.
Values of the arrays are not part of the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from geonh.engine.native.builder import Function
from geonh.engine.native.emitter import Emitter
from geonh.engine.native.loops import Carried, part
from geonh.engine.native.values import STRAIGHT, Memory, Value, kind_of

ADVANCE = "advance"
BLOCKS = "blocks"
MAP = "apply"

KEPT, KEPT_OF_LANES = 64, 16
"""Number of steps after which a loop stores its state: fewer with lanes, each of which may fail at its own step."""


def stepping_loop(
    step: Any, row: Any, n_params: int, *, fma: bool, lanes: int = 1, varying: Sequence[bool] | None = None
) -> Emitter:
    """Program of ``i64 advance(params, state, status, done, rows, n, stride, first)``.

    Does up to n steps from ``state``, which is overwritten by the last good one; a row is saved after the first
    ``first`` steps, then after every ``stride``. To ``done`` the number of good steps of each lane is added; the number
    of steps is returned. An earlier state is stored every few steps: if a step fails, the steps since then are
    recomputed from ``state``, and the program ends before it. If it is the first, its lane gets the status and stops;
    the others continue. No step is done if no lane's status is 0.

    Parameters
    ----------
    step : ClosedJaxpr
        (params, state) -> (state, status).
    row : ClosedJaxpr
        (params, state) -> vector.
    n_params : int
        Number of arrays in params.
    fma : bool
        True if the CPU has fused multiply-add.
    lanes : int
        Number of SIMD lanes.
    varying : sequence of bool, optional
        Parameters that differ between members.
    """
    em = Emitter(lanes, fma=fma)
    function, wide = em.function, lanes > 1
    avals = [var.aval for var in step.jaxpr.invars]
    differ = [wide and v for v in varying or [False] * n_params]
    params = _values(em, _arrays(em, "%params", avals[:n_params], differ))
    homes = _arrays(em, "%state", avals[n_params:], [wide] * (len(avals) - n_params))
    status, done = Memory("%status", (), "i32", wide, "%status"), Memory("%done", (), "i64", wide, "%done")
    with em.scope():  # status changes
        before = em.compare("eq", "i32", em.load(status, 0), 0)
    em.jump("again")
    em.begin("again")
    running = function.name(wide)
    limit, begin, due, where, mask = (em.reserve() for _ in range(5))
    function.mask = running if wide else None
    with em.scope():
        carried = Carried(em, avals[n_params:], homes, [False] * len(homes))
        em.jump("head")
        em.begin("head")
        state = carried.enter()
        counter, left, place = (em.reserve() for _ in range(3))
        em.branch(em.both(em.emit("icmp slt i64 %i, %limit"), em.any_lane(running)), "within", "end")
        em.begin("within")
        since = em.emit("sub i64 %i, %begin")
        em.branch(em.emit(f"icmp eq i64 {since}, {KEPT_OF_LANES if wide else KEPT}"), "keep", "body")
        em.begin("keep")
        with em.scope():
            _copy(em, homes, state, running if wide else None)
            keeps = function.block
        em.jump("again")
        em.begin("body")
        *new, code = em.closed(step, [*params, *state])
        reason = em.entries(code).item()
        well = em.compare("eq", "i32", reason, 0)
        em.branch(em.any_lane(em.both(running, em.negated(well))), "bad", "good")
        em.begin("good")
        em.line("%less = sub i64 %left, 1")
        em.line("%due = icmp eq i64 %less, 0")
        em.branch("%due", "save", "next")
        unsaved = function.block
        em.begin("save")
        with em.scope():
            entries = em.entries(em.closed(row, [*params, *new])[0]).ravel().tolist()
            written = Memory("%place", (len(entries),), "d", wide)
            for i, entry in enumerate(entries):
                em.store(entry, written, i, past=wide)
            em.line(f"%after = getelementptr inbounds double, ptr %place, i64 {len(entries) * lanes}")
            saved = function.block
            em.jump("next")
        em.begin("next")
        em.line(f"%more = phi i64 [%less, %{unsaved}], [%stride, %{saved}]")
        em.line(f"%following = phi ptr [%place, %{unsaved}], [%after, %{saved}]")
        em.line("%j = add i64 %i, 1")
        carried.leave(new)
        for line, name, kind, first, following in (
            (counter, "%i", "i64", "%begin", "%j"),
            (left, "%left", "i64", "%due.begin", "%more"),
            (place, "%place", "ptr", "%place.begin", "%following"),
        ):
            function.lines[line] = f"{name} = phi {kind} [{first}, %{carried.before}], [{following}, %{carried.last}]"
        em.jump("head")
        em.begin("bad")
        em.branch(em.emit("icmp eq i64 %i, 0"), "fail", "again")
        em.begin("fail")
        with em.scope():
            em.copy(status, code, em.operand(em.both(running, em.negated(well)), "b", True) if wide else None)
        others = em.operand(em.both(running, well), "b", wide)
        em.jump("again")
        em.begin("end")
        _copy(em, homes, state, running if wide else None)
        em.store(em.integer("add", "i64", em.load(done, 0), em.select(running, "%i", 0, "i64")), done)
    t = em.type("b", wide)
    for line, name, first, kept, same in (
        (limit, "i64 %limit", "%n", "%limit", "%i"),
        (begin, "i64 %begin", "0", "%i", "%begin"),
        (due, "i64 %due.begin", "%first", "%left", "%due.begin"),
        (where, "ptr %place.begin", "%rows", "%place", "%place.begin"),
    ):
        kind, name = name.split()
        every = f"[{first}, %entry], [{kept}, %{keeps}], [{same}, %bad], [{first}, %fail]"
        function.lines[line] = f"{name} = phi {kind} {every}"
    every = f"[{before}, %entry], [{running}, %{keeps}], [{running}, %bad], [{others}, %fail]"
    function.lines[mask] = f"{running} = phi {t} {every}"
    em.line("ret i64 %i")
    _define(em, ADVANCE, f"{_POINTERS}, {_MORE}, i64 %n, i64 %stride, i64 %first")
    return em


def stepping_blocks(step: Any, row: Any, n_params: int, *, fma: bool, lanes: int, varying: Sequence[bool]) -> Emitter:
    """Program of ``i64 blocks(each, n_blocks, n, stride, first)``: ``stepping_loop`` for blocks of members.

    ``each`` has for every block the five addresses that ``advance`` takes, followed by the number of steps done, an
    output. Rows are aligned to cache lines and written by nontemporal stores: they are not read until all are complete.
    """
    em = stepping_loop(step, row, n_params, fma=fma, lanes=lanes, varying=varying)
    em.function = Function()

    def advance(b: str) -> None:
        block = em.emit(f"getelementptr inbounds [6 x i64], ptr %each, i64 {b}")
        *places, steps = (em.emit(f"getelementptr inbounds i64, ptr {block}, i64 {i}") for i in range(6))
        addresses = ", ".join("ptr " + em.emit(f"load ptr, ptr {place}, align 8") for place in places)
        em.line(f"%steps = call i64 @{ADVANCE}({addresses}, i64 %n, i64 %stride, i64 %first)")
        em.line(f"store i64 %steps, ptr {steps}, align 8")

    em.for_each("%n_blocks", advance)
    em.line("fence seq_cst")  # makes nontemporal stores visible to other threads
    em.line("ret i64 %n_blocks")
    _define(em, BLOCKS, "ptr noalias %each, i64 %n_blocks, i64 %n, i64 %stride, i64 %first")
    return em


def mapping(function: Any, n_params: int, *, fma: bool) -> Emitter:
    """Program of ``i64 apply(params, nodes, found, n)``: a jaxpr of (params, node) for n ≥ 1 nodes."""
    em = Emitter(fma=fma)
    avals = [var.aval for var in function.jaxpr.invars]
    params = _values(em, _arrays(em, "%params", avals[:n_params]))
    nodes = _arrays(em, "%state", avals[n_params:])
    results = _arrays(em, "%found", function.out_avals)

    def body(i: str) -> None:
        here = _values(em, [part(em, x, i) for x in nodes])
        _store(em, [part(em, x, i) for x in results], em.closed(function, [*params, *here]))

    em.for_each("%n", body)
    em.line("ret i64 %n")
    _define(em, MAP, f"{_POINTERS}, ptr noalias %found, i64 %n")
    return em


_POINTERS = "ptr noalias %params, ptr noalias %state"
_MORE = "ptr noalias %status, ptr noalias %done, ptr noalias %rows"


def _arrays(em: Emitter, table: str, avals: Sequence[Any], wide: Sequence[bool] | None = None) -> list[Memory]:
    arrays = []
    for i, (aval, differs) in enumerate(zip(avals, wide or [False] * len(avals), strict=True)):
        place = em.emit(f"getelementptr inbounds ptr, ptr {table}, i64 {i}")
        pointer = em.emit(f"load ptr, ptr {place}")
        arrays.append(Memory(pointer, tuple(aval.shape), kind_of(aval), differs, pointer))
    return arrays


def _values(em: Emitter, arrays: Sequence[Memory]) -> list[Value]:
    return [em.entries(x) if x.size <= STRAIGHT else x for x in arrays]


def _store(em: Emitter, places: Sequence[Memory], values: Sequence[Value]) -> None:
    for place, value in zip(places, values, strict=True):
        em.copy(place, value)


def _copy(em: Emitter, homes: Sequence[Memory], values: Sequence[Value], mask: str | None) -> None:
    for home, value in zip(homes, values, strict=True):
        em.copy(home, value, mask)


def _define(em: Emitter, name: str, parameters: str) -> None:
    em.functions[f"@{name}"] = f"define i64 @{name}({parameters}) #0 {{\n{em.function.body}\n}}"
