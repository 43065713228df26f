"""Whole programs: the stepping loop, and a map over nodes, around the jaxpr of what is done.

Arrays come in and go out through tables of pointers, each array row-major in its own type; with lanes the lane is its
last axis. Nothing of their numbers is in the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from geonh.numerics.native.emitter import Emitter
from geonh.numerics.native.loops import Carried, part
from geonh.numerics.native.values import STRAIGHT, Memory, Value, kind_of, pack

ADVANCE = "advance"
MAP = "apply"


def stepping_loop(
    step: Any, row: Any, n_params: int, *, fma: bool, lanes: int = 1, varying: Sequence[bool] | None = None
) -> Emitter:
    """Program of ``i64 advance(params, state, status, done, rows, n, stride, first)``.

    Up to n steps from ``state``, which is overwritten by the last good one; a row is saved after the first ``first``
    steps, then after every ``stride``. Ends where no lane's status is 0. To ``done`` the number of good steps of each
    lane is added; the number of steps is returned.

    Parameters
    ----------
    step : ClosedJaxpr
        (params, state) -> (state, status).
    row : ClosedJaxpr
        (params, state) -> vector.
    n_params : int
        Number of arrays in params.
    fma : bool
        Whether the CPU has fused multiply-add.
    lanes : int
        Members side by side.
    varying : sequence of bool, optional
        Which parameters differ between members.
    """
    em = Emitter(lanes, fma=fma)
    em.size(step.jaxpr), em.size(row.jaxpr)  # who is called how often
    function, wide = em.function, lanes > 1
    avals = [var.aval for var in step.jaxpr.invars]
    differ = [wide and v for v in varying or [False] * n_params]
    params = _values(em, _arrays(em, "%params", avals[:n_params], differ))
    states = _arrays(em, "%state", avals[n_params:], [wide] * (len(avals) - n_params))
    ends = [Memory("%status", (), "i32", wide, "%status"), Memory("%done", (), "i64", wide, "%done")]
    end_avals = [step.out_avals[-1], jax.ShapeDtypeStruct((), np.int64)]
    start, limit = "entry", "%n"
    if not wide:  # what led to a failure is done again, up to the step before: a step need not keep where it began
        begun = em.load(ends[0], 0)
        most = em.select(em.compare("eq", "i32", begun, 0), "%n", 0, "i64")
        em.jump("again")
        em.begin("again")
        em.line(f"%limit = phi i64 [{most}, %{start}], [%i, %bad]")
        em.line(f"%reached = phi i32 [{begun}, %{start}], [%failure, %bad]")
        start, limit = "again", "%limit"
    homes, carried_avals = (states + ends, avals[n_params:] + end_avals) if wide else (states, avals[n_params:])
    with em.scope():
        carried = Carried(em, carried_avals, homes, [False] * len(homes))
        em.jump("head")
        em.begin("head")
        values = carried.enter()
        counter, left, place = (em.reserve() for _ in range(3))
        state, running = values[: len(states)], None
        on = em.emit(f"icmp slt i64 %i, {limit}")
        if wide:
            status, done = values[len(states) :]
            running = em.compare("eq", "i32", em.entries(status).item(), 0)
            on = em.both(on, em.any_lane(running))
        em.branch(on, "body", "end")
        em.begin("body")
        function.mask = str(running) if wide else None
        *new, code = em.closed(step, [*params, *state])
        failure = em.entries(code).item()
        well = em.compare("eq", "i32", failure, 0)
        if not wide:
            em.branch(well, "good", "bad")
            em.begin("bad")
            em.line(f"%failure = add i32 {em.operand(failure, 'i32')}, 0")
            em.jump("again")
            em.begin("good")
        em.line("%less = sub i64 %left, 1")
        em.line("%due = icmp eq i64 %less, 0")
        em.branch("%due", "save", "next")
        unsaved = function.block
        em.begin("save")
        with em.scope():
            entries = em.entries(em.closed(row, [*params, *new])[0]).ravel().tolist()
            _store(em, [Memory("%place", (len(entries),), "d", wide)], [pack(entries, (len(entries),))])
            em.line(f"%after = getelementptr inbounds double, ptr %place, i64 {len(entries) * lanes}")
            saved = function.block
            em.jump("next")
        em.begin("next")
        em.line(f"%more = phi i64 [%less, %{unsaved}], [%stride, %{saved}]")
        em.line(f"%following = phi ptr [%place, %{unsaved}], [%after, %{saved}]")
        em.line("%j = add i64 %i, 1")
        if wide:
            total = pack([em.integer("add", "i64", em.entries(done).item(), em.convert(well, "b", "i64"))], ())
            going = [str(em.both(well, running))] * len(new)
            carried.leave([*new, code, total], *going, str(running), str(running))
        else:
            carried.leave(new)
        for line, name, kind, first, following in (
            (counter, "%i", "i64", "0", "%j"),
            (left, "%left", "i64", "%first", "%more"),
            (place, "%place", "ptr", "%rows", "%following"),
        ):
            function.lines[line] = f"{name} = phi {kind} [{first}, %{carried.before}], [{following}, %{carried.last}]"
        em.jump("head")
        em.begin("end")
        _store(em, homes, values)
        if not wide:
            em.store("%reached", ends[0])
            em.store(em.integer("add", "i64", em.load(ends[1], 0), "%i"), ends[1])
    em.line("ret i64 %i")
    _define(em, ADVANCE, f"{_POINTERS}, {_MORE}, i64 %n, i64 %stride, i64 %first")
    return em


def mapping(function: Any, n_params: int, *, fma: bool) -> Emitter:
    """Program of ``i64 apply(params, nodes, found, n)``: a jaxpr of (params, node) for n ≥ 1 nodes."""
    em = Emitter(fma=fma)
    em.size(function.jaxpr)
    avals = [var.aval for var in function.jaxpr.invars]
    params = _values(em, _arrays(em, "%params", avals[:n_params]))
    nodes = _arrays(em, "%state", avals[n_params:])
    found = _arrays(em, "%found", function.out_avals)

    def body(i: str) -> None:
        here = _values(em, [part(em, x, i) for x in nodes])
        _store(em, [part(em, x, i) for x in found], em.closed(function, [*params, *here]))

    em.for_each("%n", body)
    em.line("ret i64 %n")
    _define(em, MAP, f"{_POINTERS}, ptr noalias %found, i64 %n")
    return em


_POINTERS = "ptr noalias %params, ptr noalias %state"
_MORE = "ptr noalias %status, ptr noalias %done, ptr noalias %rows"


def _arrays(em: Emitter, table: str, avals: Sequence[Any], wide: Sequence[bool] | None = None) -> list[Memory]:
    found = []
    for i, (aval, differs) in enumerate(zip(avals, wide or [False] * len(avals), strict=True)):
        place = em.emit(f"getelementptr inbounds ptr, ptr {table}, i64 {i}")
        pointer = em.emit(f"load ptr, ptr {place}, align 8")
        found.append(Memory(pointer, tuple(aval.shape), kind_of(aval), differs, pointer))
    return found


def _values(em: Emitter, arrays: Sequence[Memory]) -> list[Value]:
    return [em.entries(x) if x.size <= STRAIGHT else x for x in arrays]


def _store(em: Emitter, places: Sequence[Memory], values: Sequence[Value]) -> None:
    for place, value in zip(places, values, strict=True):
        em.copy(place, value)


def _define(em: Emitter, name: str, parameters: str) -> None:
    em.functions[f"@{name}"] = f"define i64 @{name}({parameters}) #0 {{\n{em.function.body}\n}}"
