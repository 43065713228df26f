"""Loops as control flow: ``rule(emitter, equation, inputs) -> outputs``.

What a loop carries is in phi nodes, entry by entry, or in a buffer of the loop's own if it is large. With lanes a loop
goes on while some lane does, and a lane that has finished keeps what it has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from geonh.numerics.native.values import STRAIGHT, Entry, Memory, Value, kind_of, pack

if TYPE_CHECKING:
    from geonh.numerics.native.emitter import Emitter

CARRIED = 100
"""A larger array is carried round a loop in memory."""
UNROLLED = 100
"""A loop of known length is unrolled up to so many operations."""


class Carried:
    """What goes round a loop.

    Made before the loop; ``enter`` begins a pass and gives the values, ``leave`` ends it and takes the new ones.

    Parameters
    ----------
    em : Emitter
    avals : sequence
        Types of the values.
    first : sequence of values
        Of which those in ``fixed`` never change.
    """

    def __init__(self, em: Emitter, avals: Sequence[Any], first: Sequence[Value], fixed: Sequence[bool]) -> None:
        self.em, self.avals, self.fixed = em, list(avals), list(fixed)
        self.wide = em.lanes > 1
        self.first: list[Any] = []  # texts of the first entries, or a buffer
        self.values: list[Value] = []
        self.phis: list[list[tuple[int, str]]] = []
        for aval, value, same in zip(avals, first, fixed, strict=True):
            kind = kind_of(aval)
            if same:
                self.first.append(value)
            elif aval.size > CARRIED:
                buffer = em.buffer(aval.shape, kind)
                em.copy(buffer, value)
                self.first.append(buffer)
            else:
                self.first.append([em.operand(x, kind, self.wide) for x in em.entries(value).ravel().tolist()])
        self.before = self.last = em.function.block

    def enter(self) -> list[Value]:
        """Values in this pass; called first in the block that begins it."""
        function = self.em.function
        for aval, value in zip(self.avals, self.first, strict=True):
            if not isinstance(value, list):
                self.phis.append([])
                self.values.append(value)
                continue
            names = [function.name(self.wide) for _ in value]
            self.phis.append([(self.em.reserve(), name) for name in names])
            self.values.append(pack(names, aval.shape))
        return self.values

    def leave(self, new: Sequence[Value], *masks: str | None) -> None:
        """Values for the next pass, in the lanes of one mask or of one for each; called last in a pass."""
        masks = masks if len(masks) == len(new) else (*masks, None)[:1] * len(new)
        em, function = self.em, self.em.function
        buffers = {
            x.pointer for x, same in zip(self.values, self.fixed, strict=True) if isinstance(x, Memory) and not same
        }
        updates = []
        for old, value, same in zip(self.values, new, self.fixed, strict=True):
            if isinstance(value, Memory) and not same and value.root in buffers and value is not old:
                value = self._saved(value)  # its memory may be overwritten before it is read
            updates.append(value)
        texts: list[tuple[int, str]] = []
        for aval, old, value, same, phis, first, mask in zip(
            self.avals, self.values, updates, self.fixed, self.phis, self.first, masks, strict=True
        ):
            if same:
                continue
            if isinstance(old, Memory):
                em.copy(old, value, mask)
                continue
            kind = kind_of(aval)
            t = em.type(kind, self.wide)
            entries = em.entries(value).ravel().tolist()
            for (line, name), before, x in zip(phis, first, entries, strict=True):
                text = em.operand(x, kind, self.wide)
                if mask is not None and text != name:
                    text = em.emit(f"select {em.type('b', True)} {mask}, {t} {text}, {t} {name}", True)
                texts.append((line, f"{name} = phi {t} [{before}, %{self.before}], [{text}, %"))
        for line, text in texts:
            function.lines[line] = f"{text}{function.block}]"
        self.last = function.block

    def _saved(self, value: Memory) -> Memory:
        copy = self.em.buffer(value.shape, value.kind)
        self.em.copy(copy, value)
        return copy


def repeat(
    em: Emitter,
    carried: Carried,
    going: Callable[[list[Value]], Entry],
    advance: Callable[[list[Value]], Sequence[Value]],
    *,
    together: bool,
) -> list[Value]:
    """``while going(values): values = advance(values)``; ``together`` where all lanes end in the same pass."""
    function = em.function
    head, body, end = function.label(), function.label(), function.label()
    masked, outer = em.lanes > 1 and not together, function.mask
    active = em.operand(True if outer is None else outer, "b", True) if masked else ""
    em.jump(head)
    em.begin(head)
    with em.scope():
        values = carried.enter()
        remaining, phi = (function.name(True), em.reserve()) if masked else ("", -1)
        condition = going(values)
        mask = None
        if masked:
            mask = str(em.both(condition, remaining))
            condition = em.any_lane(mask)
        em.branch(condition, body, end)
        em.begin(body)
        function.mask = mask if masked else outer
        carried.leave(advance(values), mask)
        function.mask = outer
        if masked:
            t = em.type("b", True)
            function.lines[phi] = f"{remaining} = phi {t} [{active}, %{carried.before}], [{mask}, %{function.block}]"
        em.jump(head)
    em.begin(end)
    return values


def _changing(jaxpr: Any, n_consts: int, n: int) -> list[bool]:
    """Which of the carried values a loop's body leaves as they are."""
    return [jaxpr.outvars[i] is jaxpr.invars[n_consts + i] for i in range(n)]


def _while(em: Emitter, eqn: Any, xs: list[Value]) -> list[Value]:
    cond, body = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
    n, m = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    first = xs[n + m :]
    avals = [var.aval for var in body.jaxpr.outvars]
    carried = Carried(em, avals, first, _changing(body.jaxpr, m, len(first)))
    return repeat(
        em,
        carried,
        lambda values: em.entries(em.closed(cond, [*xs[:n], *values])[0]).item(),
        lambda values: em.closed(body, [*xs[n : n + m], *values]),
        together=False,
    )


def _scan(em: Emitter, eqn: Any, xs: list[Value]) -> list[Value]:
    body, length, reverse = eqn.params["jaxpr"], eqn.params["length"], eqn.params["reverse"]
    n, m = eqn.params["num_consts"], eqn.params["num_carry"]
    consts, first, rows = xs[:n], xs[n : n + m], xs[n + m :]
    large = any(var.aval.size > STRAIGHT for var in (*eqn.invars[n + m :], *eqn.outvars[m:]))
    if length <= 1 or (em.size(body.jaxpr) * length <= UNROLLED and not large):
        return _unrolled(em, eqn, consts, first, rows)
    jaxpr = body.jaxpr
    counters = _counters(jaxpr, n, first)
    tables = [em.memory(x, kind_of(var.aval)) for x, var in zip(rows, eqn.invars[n + m :], strict=True)]
    found = [em.place(var.aval) for var in eqn.outvars[m:]]
    fixed = [same or i in counters for i, same in enumerate(_changing(jaxpr, n, m))]
    carried = Carried(em, [var.aval for var in jaxpr.outvars[:m]], first, fixed)
    function = em.function
    i, following = function.name(), function.name()
    phi = -1

    def going(values: list[Value]) -> Entry:
        nonlocal phi
        phi = em.reserve()
        return em.emit(f"icmp slt i64 {i}, {length}")

    def advance(values: list[Value]) -> list[Value]:
        k = em.integer("sub", "i64", length - 1, i) if reverse else i
        here = [part(em, t, k, var.aval.shape) for t, var in zip(tables, jaxpr.invars[n + m :], strict=True)]
        now = list(values)
        for c, step in counters.items():
            now[c] = _counted(em, first[c], i, step, kind_of(jaxpr.outvars[c].aval))
        out = em.closed(body, [*consts, *now, *here])
        for place, var, value in zip(found, jaxpr.outvars[m:], out[m:], strict=True):
            em.copy(part(em, place, k, var.aval.shape), value)
        em.line(f"{following} = add nuw nsw i64 {i}, 1")
        return out[:m]

    values = repeat(em, carried, going, advance, together=True)
    function.lines[phi] = f"{i} = phi i64 [0, %{carried.before}], [{following}, %{carried.last}]"
    for c, step in counters.items():
        values[c] = _counted(em, first[c], length, step, kind_of(jaxpr.outvars[c].aval))
    return [*values, *found]


def _unrolled(em: Emitter, eqn: Any, consts: list[Value], carry: list[Value], rows: list[Value]) -> list[Value]:
    length, m = eqn.params["length"], eqn.params["num_carry"]
    arrays = [em.entries(x) for x in rows]
    found: list[list[np.ndarray]] = []
    for i in reversed(range(length)) if eqn.params["reverse"] else range(length):
        here = [x[i] if x.ndim > 1 else pack([x[i]], ()) for x in arrays]
        out = em.closed(eqn.params["jaxpr"], [*consts, *carry, *here])
        carry = out[:m]
        found.append([em.entries(x) for x in out[m:]])
    if eqn.params["reverse"]:
        found.reverse()
    avals = [var.aval for var in eqn.outvars[m:]]
    return [
        *carry,
        *(pack([x for row in found for x in row[k].ravel().tolist()], aval.shape) for k, aval in enumerate(avals)),
    ]


def part(em: Emitter, memory: Memory, k: Entry, shape: tuple[int, ...] | None = None) -> Memory:
    """The k-th of many arrays one after another, each of a shape, or as large as ``memory`` says."""
    shape = memory.shape if shape is None else shape
    pointer = em.address(memory, em.integer("mul", "i64", k, int(np.prod(shape, dtype=int))))
    return Memory(pointer, shape, memory.kind, memory.wide, memory.root)


def _counters(jaxpr: Any, n_consts: int, first: Sequence[Value]) -> dict[int, int]:
    """Carried integers that grow by a known number in every pass: they follow the loop's own counter."""
    made = {eqn.outvars[0]: eqn for eqn in jaxpr.eqns if eqn.primitive.name == "add"}
    found = {}
    for c, value in enumerate(first):
        eqn = made.get(jaxpr.outvars[c]) if not hasattr(jaxpr.outvars[c], "val") else None
        if eqn is None or isinstance(value, Memory) or value.ndim or kind_of(eqn.outvars[0].aval) not in ("i32", "i64"):
            continue
        literals = [v.val for v in eqn.invars if hasattr(v, "val")]
        if len(literals) == 1 and jaxpr.invars[n_consts + c] in [v for v in eqn.invars if not hasattr(v, "val")]:
            found[c] = int(literals[0])
    return found


def _counted(em: Emitter, first: Value, i: Entry, step: int, kind: str) -> np.ndarray:
    passes = em.integer("mul", kind, em.convert(i, "i64", kind), step)
    return pack([em.integer("add", kind, em.entries(first).item(), passes)], ())


RULES: dict[str, Callable] = {"while": _while, "scan": _scan}
