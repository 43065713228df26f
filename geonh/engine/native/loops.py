"""Lowerings of loops to control flow: ``rule(emitter, equation, inputs) -> outputs``.

The carry of a loop is in phi nodes, entry by entry, or in a buffer of the loop if it is large. With lanes a loop runs
while some lane does, and finished lanes keep their values (masking).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np
from jax import lax

from geonh.arguments.precision import float64
from geonh.engine.native.emitter import RULES, Emitter
from geonh.engine.native.values import STRAIGHT, Entry, Memory, Value, kind_of, pack

CARRIED = 50
"""Maximum size of an array carried in registers, twice that with lanes, whose entries are vectors anyway."""
SIDE_BY_SIDE = 8
"""Maximum number of independent iterations that are computed in SIMD lanes, in a program of one member."""
LARGE = 256
"""Size of an array within a loop from which iterations are computed one after another, and arrays in vectors."""
UNROLLED = 100
"""Maximum number of operations of an unrolled loop of known length."""


def in_memory(em: Emitter, size: int) -> bool:
    """True if an array of this size is carried in memory."""
    return size > (CARRIED if em.lanes == 1 else 2 * CARRIED)


@dataclass
class _Slot:
    """One value that a loop carries.

    Attributes
    ----------
    aval : abstract array
        Its type.
    first : value, list of str or Memory
        A ``fixed`` value, which never changes; texts of its initial entries; or a buffer, if it is large.
    fixed : bool
    value : value
        In this iteration.
    phis : list of (int, str)
        Reserved line and name of the phi node of each entry.
    """

    aval: Any
    first: Any
    fixed: bool
    value: Any = None
    phis: list[tuple[int, str]] = field(default_factory=list)

    @property
    def buffer(self) -> str | None:
        """Pointer of the buffer, if the value is in one that the loop writes to."""
        return self.first.pointer if isinstance(self.first, Memory) and not self.fixed else None


class Carried:
    """Carry of a loop.

    Made before the loop; ``enter`` begins an iteration and returns the values, ``leave`` ends it with the new ones.

    Parameters
    ----------
    em : Emitter
    avals : sequence
        Types of the values.
    first : sequence of values
        Initial values; those in ``fixed`` never change.
    """

    def __init__(self, em: Emitter, avals: Sequence[Any], first: Sequence[Value], fixed: Sequence[bool]) -> None:
        self.em = em
        self.wide = em.lanes > 1
        self.slots = [
            _Slot(aval, value if same else self._initial(aval, value), same)
            for aval, value, same in zip(avals, first, fixed, strict=True)
        ]
        self.before = self.last = em.function.block

    def _initial(self, aval: Any, value: Value) -> list[str] | Memory:
        """Texts of the initial entries, or a buffer with them."""
        em, kind = self.em, kind_of(aval)
        if not in_memory(em, aval.size):
            return [em.operand(x, kind, self.wide) for x in em.entries(value).ravel().tolist()]
        buffer = em.buffer(aval.shape, kind)
        em.copy(buffer, value)
        return buffer

    def enter(self) -> list[Value]:
        """Values in this iteration; called first in the block that begins it."""
        function = self.em.function
        for slot in self.slots:
            if isinstance(slot.first, list):
                names = [function.name(self.wide) for _ in slot.first]
                slot.phis = [(self.em.reserve(), name) for name in names]
                slot.value = pack(names, slot.aval.shape)
            else:
                slot.value = slot.first
        return [slot.value for slot in self.slots]

    def leave(self, new: Sequence[Value], mask: str | None = None) -> None:
        """Set the values for the next iteration, masked in lanes that have ended; called last in an iteration."""
        em, function = self.em, self.em.function
        changing = [(slot, value) for slot, value in zip(self.slots, new, strict=True) if not slot.fixed]
        buffers = {slot.buffer for slot, _ in changing}
        # What is in a buffer of another value is copied first: it may be overwritten before it is read.
        updates = [
            (slot, self._copy(x) if isinstance(x, Memory) and x.root in buffers and x is not slot.value else x)
            for slot, x in changing
        ]
        texts: list[tuple[int, str]] = []
        for slot, value in updates:
            if isinstance(slot.value, Memory):
                em.copy(slot.value, value, mask)
                continue
            kind = kind_of(slot.aval)
            t = em.type(kind, self.wide)
            for (line, name), before, x in zip(slot.phis, slot.first, em.entries(value).ravel().tolist(), strict=True):
                text = em.operand(x, kind, self.wide)
                if mask is not None and text != name:
                    text = em.emit(f"select {em.type('b', True)} {mask}, {t} {text}, {t} {name}", True)
                texts.append((line, f"{name} = phi {t} [{before}, %{self.before}], [{text}, %"))
        for line, text in texts:
            function.lines[line] = f"{text}{function.block}]"
        self.last = function.block

    def _copy(self, value: Memory) -> Memory:
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
    """Emit ``while going(values): values = advance(values)``; ``together`` if all lanes end in the same iteration."""
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
    """Flags of the carried values that a loop's body does not change."""
    return [jaxpr.outvars[i] is jaxpr.invars[n_consts + i] for i in range(n)]


def _while(em: Emitter, eqn: Any, xs: list[Value]) -> list[Value]:
    cond, body = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
    n, m = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    first = xs[n + m :]
    avals = [var.aval for var in body.jaxpr.outvars]
    carried = Carried(em, avals, first, _changing(body.jaxpr, m, len(first)))
    apart = cond.out_avals[0].shape != ()  # batched loops, each with its own condition
    on, masked = _batched_while(cond.out_avals[0], avals) if apart else (None, None)

    def going(values: list[Value]) -> Any:
        condition = em.closed(cond, [*xs[:n], *values])
        return em.entries((em.closed(on, condition) if apart else condition)[0]).item()

    def advance(values: list[Value]) -> Sequence[Value]:
        new = em.closed(body, [*xs[n : n + m], *values])
        return em.closed(masked, [*em.closed(cond, [*xs[:n], *values]), *new, *values]) if apart else new

    return repeat(em, carried, going, advance, together=False)


def _batched_while(condition: Any, avals: list[Any]) -> tuple[Any, Any]:
    """Jaxprs for batched loops: whether any continues, and the carry with finished loops masked."""

    def masked(going: Any, *values: Any) -> list[Any]:
        pairs = zip(values[: len(avals)], values[len(avals) :], strict=True)
        return [lax.select(lax.broadcast_in_dim(going, new.shape, range(going.ndim)), new, old) for new, old in pairs]

    with float64():
        on = jax.make_jaxpr(lambda going: lax.reduce_or(going, range(going.ndim)))(condition)
        return on, jax.make_jaxpr(masked)(condition, *avals, *avals)


class Stacked(NamedTuple):
    """Arrays with one row for each iteration of a loop, and their types."""

    values: Sequence[Value]
    avals: Sequence[Any]


Body: TypeAlias = Callable[[Sequence[Value], Sequence[Value]], tuple[Sequence[Value], Sequence[Value]]]
"""Loop body: carried values and rows of this iteration to the new carried values and rows of the results."""


def _scan(em: Emitter, eqn: Any, xs: list[Value]) -> list[Value]:
    closed, n, m = eqn.params["jaxpr"], eqn.params["num_consts"], eqn.params["num_carry"]

    def body(values: Sequence[Value], here: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        out = em.closed(closed, [*xs[:n], *values, *here])
        return out[:m], out[m:]

    rows = Stacked(xs[n + m :], [var.aval for var in eqn.invars[n + m :]])
    carried, stacked = scan_loop(em, eqn, body, xs[n : n + m], rows, [var.aval for var in eqn.outvars[m:]])
    return [*carried, *stacked]


def scan_loop(
    em: Emitter,
    eqn: Any,
    body: Body,
    first: Sequence[Value],
    rows: Stacked,
    results: Sequence[Any],
    more: Sequence[Any] = (),
) -> tuple[list[Value], list[Value]]:
    """Emit a loop of known length; return the carried values after it, and its results, of the types given.

    The equation gives carry and length; a body may carry further values after those, of the types ``more``.
    """
    jaxpr, length = eqn.params["jaxpr"].jaxpr, eqn.params["length"]
    large = any(aval.size > STRAIGHT for aval in (*rows.avals, *results))
    if length <= 1 or (em.size(jaxpr) * length <= UNROLLED and not large):
        return _unrolled(em, eqn, body, first, rows, results)
    if em.lanes == 1 and length <= SIDE_BY_SIDE and not (first or large or em.largest(jaxpr) >= LARGE):
        return [], _side_by_side(em, length, body, rows, results)
    n, m = eqn.params["num_consts"], eqn.params["num_carry"]
    counters = _counters(jaxpr, n, first[:m])
    tables = [em.memory(x, kind_of(aval), wide=False) for x, aval in zip(*rows, strict=True)]
    stacked = [em.place(aval) for aval in results]
    fixed = [same or i in counters for i, same in enumerate(_changing(jaxpr, n, m))] + [False] * len(more)
    carried = Carried(em, [*(var.aval for var in jaxpr.outvars[:m]), *more], first, fixed)
    function = em.function
    i, following = function.name(), function.name()
    phi = -1

    def going(values: list[Value]) -> Entry:
        nonlocal phi
        phi = em.reserve()
        return em.emit(f"icmp slt i64 {i}, {length}")

    def advance(values: list[Value]) -> Sequence[Value]:
        k = em.integer("sub", "i64", length - 1, i) if eqn.params["reverse"] else i
        here = [part(em, table, k, aval.shape[1:]) for table, aval in zip(tables, rows.avals, strict=True)]
        now = list(values)
        for c, step in counters.items():
            now[c] = _counted(em, first[c], i, step, kind_of(jaxpr.outvars[c].aval))
        new, out = body(now, here)
        for place, aval, value in zip(stacked, results, out, strict=True):
            em.copy(part(em, place, k, aval.shape[1:]), value)
        em.line(f"{following} = add nuw nsw i64 {i}, 1")
        return new

    values = repeat(em, carried, going, advance, together=True)
    function.lines[phi] = f"{i} = phi i64 [0, %{carried.before}], [{following}, %{carried.last}]"
    for c, step in counters.items():
        values[c] = _counted(em, first[c], length, step, kind_of(jaxpr.outvars[c].aval))
    return values, list(stacked)


def _unrolled(
    em: Emitter, eqn: Any, body: Body, carry: Sequence[Value], rows: Stacked, results: Sequence[Any]
) -> tuple[list[Value], list[Value]]:
    arrays = [em.entries(x) for x in rows.values]
    turns: list[list[np.ndarray]] = []
    order = range(eqn.params["length"])
    for i in reversed(order) if eqn.params["reverse"] else order:
        carry, out = body(carry, [x[i] if x.ndim > 1 else pack([x[i]], ()) for x in arrays])
        turns.append([em.entries(x) for x in out])
    if eqn.params["reverse"]:
        turns.reverse()
    stacked: list[Value] = [
        pack([x for row in turns for x in row[k].ravel().tolist()], aval.shape) for k, aval in enumerate(results)
    ]
    return list(carry), stacked


def _side_by_side(em: Emitter, length: int, body: Body, rows: Stacked, results: Sequence[Any]) -> list[Value]:
    """Compute independent iterations in SIMD lanes, padded with the last one.

    Inputs and outputs are as unknown as in a loop (no constant folding), so that with lanes a member has the same bits.
    """
    lanes = 1 << (length - 1).bit_length()
    columns = [em.entries(x).reshape(length, -1).T.tolist() for x in rows.values]
    with em.side_by_side(lanes):
        here = []
        for column, aval in zip(columns, rows.avals, strict=True):
            entries = [em.from_lanes(x + x[-1:] * (lanes - length), kind_of(aval)) for x in column]
            here.append(pack(entries, aval.shape[1:]))
        updated: list[Value] = []
        for value, aval in zip(body([], here)[1], results, strict=True):
            vector = em.type(kind_of(aval), True)
            wide = [em.operand(x, kind_of(aval), True) for x in em.entries(value).ravel().tolist()]
            entries = [em.emit(f"extractelement {vector} {x}, i64 {i}") for i in range(length) for x in wide]
            updated.append(pack(entries, aval.shape))
    return updated


def part(em: Emitter, memory: Memory, k: Entry, shape: tuple[int, ...] | None = None) -> Memory:
    """Element k of an array of arrays, each of a shape, or as large as ``memory``."""
    shape = memory.shape if shape is None else shape
    pointer = em.address(memory, em.integer("mul", "i64", k, int(np.prod(shape, dtype=int))))
    return Memory(pointer, shape, memory.kind, memory.wide, memory.root)


def _counters(jaxpr: Any, n_consts: int, first: Sequence[Value]) -> dict[int, int]:
    """Carried integers with a known increment in every iteration: computed from the loop counter."""
    sums = {eqn.outvars[0]: eqn for eqn in jaxpr.eqns if eqn.primitive.name == "add"}
    steps = {}
    for c, value in enumerate(first):
        eqn = sums.get(jaxpr.outvars[c]) if not hasattr(jaxpr.outvars[c], "val") else None
        if eqn is None or isinstance(value, Memory) or value.ndim or kind_of(eqn.outvars[0].aval) not in ("i32", "i64"):
            continue
        literals = [v.val for v in eqn.invars if hasattr(v, "val")]
        if len(literals) == 1 and jaxpr.invars[n_consts + c] in [v for v in eqn.invars if not hasattr(v, "val")]:
            steps[c] = int(literals[0])
    return steps


def _counted(em: Emitter, first: Value, i: Entry, step: int, kind: str) -> np.ndarray:
    advanced = em.integer("mul", kind, em.convert(i, "i64", kind), step)
    return pack([em.integer("add", kind, em.entries(first).item(), advanced)], ())


RULES.update({"while": _while, "scan": _scan})
