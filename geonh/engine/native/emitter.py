"""Lowering of a jaxpr of arrays to LLVM instructions, equation by equation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import jax
import numpy as np

from geonh.arguments.jaxprs import CALLS, called_jaxpr, evaluate, inner_jaxprs, linear_solution
from geonh.engine import jacobians
from geonh.engine.internals import NoDCEEffect
from geonh.engine.named import differentiated_as
from geonh.engine.native.arithmetic import Arithmetic
from geonh.engine.native.elementwise import ELEMENTWISE, UNCHANGED
from geonh.engine.native.storage import APART
from geonh.engine.native.values import (
    DTYPES,
    STRAIGHT,
    WIDTH,
    Entry,
    Memory,
    NotLowered,
    Value,
    constants,
    kind_of,
    number,
    pack,
    spread,
)

Rule: TypeAlias = "Callable[[Emitter, Any, list[Value]], Sequence[Value]]"
RULES: dict[Any, Rule] = {}
"""Lowering rules, by primitive or its name: ``rule(emitter, equation, inputs) -> outputs``."""


class Emitter(Arithmetic):
    """Builder that lowers jaxprs."""

    def __init__(self, lanes: int = 1, *, fma: bool = True) -> None:
        super().__init__(lanes, fma=fma)
        self._sizes: dict[int, int] = {}
        self._used: dict[tuple[int, bool], list[Any]] = {}
        self._largest: dict[int, int] = {}
        self._seen: list[Any] = []  # kept alive, so that an id names one jaxpr

    def closed(self, jaxpr: Any, args: Sequence[Value]) -> list[Value]:
        """Lower a jaxpr, closed or without constants, and return its outputs."""
        if effects := [effect for effect in jaxpr.effects if not isinstance(effect, NoDCEEffect)]:
            raise NotLowered(f"side effects ({', '.join(map(str, effects))})")
        return evaluate(jaxpr, args, self.equation, self.constant, self.used(getattr(jaxpr, "jaxpr", jaxpr)))

    def constant(self, array: Any) -> Value:
        if isinstance(array, jax.core.Tracer):
            raise TypeError(
                "a function of the system, or controls, closes over a value that is being traced: give the value as "
                "parameters=, and such controls as jax.tree_util.Partial(function of (value, t), value)"
            )
        array = np.asarray(array)
        if array.size <= APART:
            return constants(array)
        return self.table(array, kind_of(array))

    def equation(self, eqn: Any, inputs: list[Value]) -> Sequence[Value]:
        if eqn.primitive is differentiated_as.primitive:
            return inputs[:1]  # the other one may not be computed
        self.pause()
        name = eqn.primitive.name
        if name in UNCHANGED:
            return inputs
        if name in ELEMENTWISE:
            return [self.elementwise(ELEMENTWISE[name].lower(self, eqn), inputs, eqn)]
        if name in CALLS or eqn.primitive is jacobians.primitive:
            return self._once(eqn, inputs)
        rule = RULES.get(eqn.primitive) or RULES.get(name)
        if rule is not None:
            return rule(self, eqn, inputs)
        raise NotLowered(f"the operation {name}")

    def elementwise(self, function: Callable[..., Entry], inputs: list[Value], eqn: Any) -> Value:
        shape = eqn.outvars[0].aval.shape
        if not shape:
            return number(function(*[self.entries(x).item() for x in inputs]))
        if math.prod(shape) > STRAIGHT and self._unknown(inputs, shape) > STRAIGHT:
            return self._in_a_loop(function, inputs, eqn)
        columns = [spread(x, shape) for x in map(self.entries, inputs)]
        results = []
        for row in zip(*columns, strict=True):
            self.pause()
            results.append(function(*row))
        return pack(results, shape)

    @staticmethod
    def _unknown(inputs: list[Value], shape: tuple[int, ...]) -> int:
        """Number of entries of an elementwise result that need instructions."""
        unknown = np.zeros(shape, bool)
        for x in inputs:
            unknown |= True if isinstance(x, Memory) else np.vectorize(lambda y: isinstance(y, str), otypes=[bool])(x)
        return int(unknown.sum())

    def _in_a_loop(self, function: Callable[..., Entry], inputs: list[Value], eqn: Any) -> Memory:
        aval, kinds = eqn.outvars[0].aval, [kind_of(var.aval) for var in eqn.invars]
        shape, out = aval.shape, self.place(aval)
        vectors = self.lanes == 1 and {out.kind, *kinds} == {"d"}
        if vectors and shape[-1] >= WIDTH and all(self._rows_of(x, shape) is not None for x in inputs):
            self._by_rows(function, inputs, out)
            return out
        reads = []
        for x, kind in zip(inputs, kinds, strict=True):
            if math.prod(x.shape) == 1:
                reads.append(partial(lambda entry, i: entry, self.entries(x).item()))
                continue
            if x.shape != shape:
                x, small = self.place(jax.ShapeDtypeStruct(shape, DTYPES[kind])), x
                places = np.broadcast_to(np.arange(math.prod(small.shape)).reshape(small.shape), shape)
                self.move(small, places.ravel(), x)
            reads.append(partial(self.load, self.memory(x, kind)))
        self.for_each(aval.size, lambda i: self.store(function(*(read(i) for read in reads)), out, i))
        return out

    @staticmethod
    def _rows_of(x: Value, shape: tuple[int, ...]) -> int | None:
        """Distance between the rows of an array broadcast to a shape, or None if it is not uniform."""
        if math.prod(x.shape) == 1:
            return 0
        places = np.broadcast_to(np.arange(math.prod(x.shape)).reshape(x.shape), shape).reshape(-1, shape[-1])[:, 0]
        step = int(places[1] - places[0]) if len(places) > 1 else 0
        return step if np.array_equal(places, step * np.arange(len(places))) else None

    def _by_rows(self, function: Callable[..., Entry], inputs: list[Value], out: Memory) -> None:
        """Apply an elementwise function of real numbers to the rows of arrays, in vectors; the last may overlap."""
        length, steps = out.shape[-1], [self._rows_of(x, out.shape) or 0 for x in inputs]
        if all(math.prod(x.shape) == 1 or x.shape == out.shape for x in inputs):
            length = out.size  # one row of all entries
        known = [None if math.prod(x.shape) == 1 else self.memory(x, "d") for x in inputs]
        one = [self.entries(x).item() if memory is None else 0.0 for x, memory in zip(inputs, known, strict=True)]

        def row(r: Entry) -> None:
            firsts = [self.integer("mul", "i64", r, step) for step in steps]

            def some(at: Entry) -> None:
                with self.side_by_side(WIDTH):
                    entries: list[Entry] = []
                    for first, memory, x, entry in zip(firsts, known, inputs, one, strict=True):
                        if memory is None:
                            entries.append(entry)
                        elif x.shape[-1] == 1:
                            entries.append(self.load(memory, first))
                        else:
                            entries.append(self.load_row(memory, self.integer("add", "i64", first, at)))
                    place = self.integer("add", "i64", self.integer("mul", "i64", r, length), at)
                    self.store_row(function(*entries), out, place)

            self.in_pieces(length, some)

        self.for_each(out.size // length, row) if out.size > length else row(0)

    def in_pieces(self, length: int, body: Callable[[Entry], None]) -> None:
        """Emit ``body`` for the first index of each vector of a row: a few one after another, many in a loop."""
        count = -(-length // WIDTH)
        if count <= WIDTH:
            for i in range(count):
                body(min(i * WIDTH, length - WIDTH))
            return
        self.for_each(count, lambda i: body(self.minimum("i64", self.integer("mul", "i64", i, WIDTH), length - WIDTH)))

    def move(self, x: Value, places: np.ndarray, out: Memory) -> None:
        """Write entries of x into memory, in a loop: at each place the entry with this flat index, if there is one."""
        inside = np.flatnonzero((places >= 0) & (places < math.prod(x.shape)))

        def listed(places: np.ndarray) -> Callable[[Entry], Entry]:
            step = int(places[1] - places[0]) if len(places) > 1 else 1
            if np.array_equal(places, places[0] + step * np.arange(len(places))):
                return lambda i: self.integer("add", "i64", self.integer("mul", "i64", i, step), int(places[0]))
            table = self.table(places, "i64")
            return lambda i: self.load(table, i)

        if not len(inside):
            return
        if math.prod(x.shape) == 1:
            to, one = listed(inside), self.entries(x).item()
            self.for_each(len(inside), lambda i: self.store(one, out, to(i)))
            return
        sources, source = places[inside], self.memory(x, out.kind)
        apart = np.flatnonzero((np.diff(inside) != 1) | (np.diff(sources) != 1)) + 1  # where a run of entries ends
        lengths = np.diff([0, *apart, len(inside)])
        begins = np.array([0, *apart])
        if self.lanes == 1 and out.kind == "d" and lengths.min() == lengths.max() >= WIDTH:
            to, where = listed(inside[begins]), listed(sources[begins])

            def run(r: Entry) -> None:
                def some(at: Entry) -> None:
                    with self.side_by_side(WIDTH):
                        entries = self.load_row(source, self.integer("add", "i64", where(r), at))
                        self.store_row(entries, out, self.integer("add", "i64", to(r), at))

                self.in_pieces(int(lengths[0]), some)

            self.for_each(len(begins), run) if len(begins) > 1 else run(0)
            return
        to, where = listed(inside), listed(sources)
        self.for_each(len(inside), lambda i: self.store(self.load(source, where(i)), out, to(i)))

    # calls

    def _once(self, eqn: Any, inputs: list[Value]) -> Sequence[Value]:
        """Lower an equation that evaluates a jaxpr, or reuse the results for the same arguments."""
        write = RULES.get(eqn.primitive, Emitter._call)
        jaxpr = called_jaxpr(eqn.params)
        key: list[Any] = [id(jaxpr), eqn.primitive]
        for value in inputs:
            if isinstance(value, Memory):
                return write(self, eqn, inputs)
            key += [x if isinstance(x, str) else (type(x), repr(x)) for x in value.ravel().tolist()]
        outputs = self.function.known.get(tuple(key))
        if outputs is None:
            self._seen.append(jaxpr)
            outputs = write(self, eqn, inputs)
            self.remember(tuple(key), outputs)
        return outputs

    def _call(self, eqn: Any, inputs: list[Value]) -> list[Value]:
        return self.closed(called_jaxpr(eqn.params), inputs)

    def used(self, jaxpr: Any, *, derivatives: bool = False) -> list[Any]:
        """Equations that the outputs of a jaxpr depend on, or that these and their derivatives do."""
        key = (id(jaxpr), derivatives)
        if key not in self._used:
            self._seen.append(jaxpr)
            needed, live = {var for var in jaxpr.outvars if not hasattr(var, "val")}, []
            for eqn in reversed(jaxpr.eqns):
                if not needed.isdisjoint(eqn.outvars):
                    alone = eqn.primitive is differentiated_as.primitive and not derivatives
                    inputs = eqn.invars[:1] if alone else eqn.invars
                    needed.update(var for var in inputs if not hasattr(var, "val"))
                    live.append(eqn)
            self._used[key] = live[::-1]
        return self._used[key]

    # sizes

    def size(self, jaxpr: Any) -> int:
        """Number of scalar operations in a jaxpr, with loop bodies counted once."""
        if id(jaxpr) not in self._sizes:
            self._seen.append(jaxpr)
            total = 0
            for eqn in jaxpr.eqns:
                total += max((getattr(v.aval, "size", 1) for v in eqn.outvars), default=1) * (
                    eqn.primitive.name in ELEMENTWISE
                )
                if eqn.primitive.name == "dot_general":
                    total += eqn.outvars[0].aval.size * math.isqrt(
                        math.prod(v.aval.size for v in eqn.invars) // max(eqn.outvars[0].aval.size, 1)
                    )
                if eqn.params:
                    total += sum(map(self.size, inner_jaxprs(eqn)))
            self._sizes[id(jaxpr)] = total
        return self._sizes[id(jaxpr)]

    def largest(self, jaxpr: Any) -> int:
        """Number of entries of the largest array that a jaxpr computes."""
        if id(jaxpr) not in self._largest:
            self._seen.append(jaxpr)
            self._largest[id(jaxpr)] = max(
                (
                    max([0, *(getattr(v.aval, "size", 1) for v in eqn.outvars), *map(self.largest, inner_jaxprs(eqn))])
                    for eqn in jaxpr.eqns
                ),
                default=0,
            )
        return self._largest[id(jaxpr)]


def _linear_solve(em: Emitter, eqn: Any, xs: list[Value]) -> list[Value]:
    return em.closed(*linear_solution(eqn.params, xs))


RULES["custom_linear_solve"] = _linear_solve
RULES["optimization_barrier"] = lambda em, eqn, xs: xs
