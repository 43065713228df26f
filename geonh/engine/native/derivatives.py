"""Forward-mode differentiation during lowering: each equation gives its values and a JVP.

``linearised`` emits a function's values and returns ``push``, which maps the tangents of the arguments to those of the
results, and is emitted wherever it is called. A tangent is a value like any other, or None for zero, so zeros cost
nothing. Sums, moves and products are differentiated by themselves, elementwise primitives by partial derivatives
(``elementwise.py``), loops of known length by repeating them with tangents, and others (loops of unknown length,
branches, functions with custom rules) by JAX, equation by equation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, jaxpr_as_fun

from geonh.arguments.jaxprs import CALLS, called_jaxpr, evaluate
from geonh.arguments.precision import float64
from geonh.engine.dependence import ABSENT, BILINEAR, LINEAR, degrees_of_loop
from geonh.engine.named import constant_to_first_order, differentiated_as
from geonh.engine.native import partials
from geonh.engine.native.elementwise import ELEMENTWISE
from geonh.engine.native.emitter import Emitter
from geonh.engine.native.loops import Stacked, scan_loop
from geonh.engine.native.values import STRAIGHT, Entry, Value, pack
from geonh.engine.tracing import forward_only

Tangent: TypeAlias = "Value | None"
Push: TypeAlias = Callable[[list[Tangent]], Sequence[Tangent]]
TANGENTS: dict[str, Callable[[Emitter, Any, list[Value], list[Value]], Push | None]] = {}
"""JVP rules of ``register_lowering`` by name of the primitive: ``rule(emitter, equation, inputs, outputs) -> push``, or
None to let JAX differentiate. Elementwise primitives have theirs in ``elementwise.py``."""


class Active(NamedTuple):
    """Value, and whether it changes with the arguments that are differentiated."""

    value: Value
    moves: bool


def linearised(
    em: Emitter, jaxpr: Any, args: Sequence[Value], moving: Sequence[bool]
) -> tuple[list[Value], list[bool], Push]:
    """Linearize a jaxpr, closed or without constants: its values, flags of the active ones, and the JVP ``push``."""
    jaxpr = jaxpr if hasattr(jaxpr, "consts") else ClosedJaxpr(jaxpr, ())
    inner = jaxpr.jaxpr
    steps: list[tuple[Any, Push]] = []

    def equation(eqn: Any, inputs: list[Active]) -> list[Active]:
        xs, before = [x.value for x in inputs], [x.moves for x in inputs]
        if not any(before):
            return [Active(x, False) for x in em.equation(eqn, xs)]
        out, after, push = _equation(em, eqn, xs, before, inner.debug_info)
        if any(after):
            steps.append((eqn, push))
        return list(map(Active, out, after))

    outputs = evaluate(
        jaxpr,
        list(map(Active, args, moving)),
        equation,
        lambda array: Active(em.constant(array), False),
        em.used(inner, derivatives=True),
    )
    live = {var for var in inner.outvars if not hasattr(var, "val")}  # those whose tangents are needed
    needed: list[tuple[Any, Push]] = []
    for eqn, push in reversed(steps):
        if not live.isdisjoint(eqn.outvars):
            inputs = eqn.invars[1:] if eqn.primitive is differentiated_as.primitive else eqn.invars
            live.update(var for var in inputs if not hasattr(var, "val"))
            needed.append((eqn, push))
    needed.reverse()

    def push_all(tangents: list[Tangent]) -> list[Tangent]:
        known = dict(zip(inner.invars, tangents, strict=True))
        for eqn, push in needed:
            here = [None if hasattr(var, "val") else known.get(var) for var in eqn.invars]
            if any(t is not None for t in here):
                known.update(zip(eqn.outvars, push(here), strict=True))
        return [None if hasattr(var, "val") else known.get(var) for var in inner.outvars]

    return [x.value for x in outputs], [x.moves for x in outputs], push_all


def _equation(
    em: Emitter, eqn: Any, xs: list[Value], moving: list[bool], debug_info: Any
) -> tuple[list[Value], list[bool], Push]:
    name = eqn.primitive.name
    if name in CALLS and not name.startswith("custom"):
        return linearised(em, called_jaxpr(eqn.params), xs, moving)
    if eqn.primitive is differentiated_as.primitive:
        return [xs[0]], [moving[1]], lambda tangents: [tangents[1]]
    if eqn.primitive is constant_to_first_order.primitive:
        return [xs[0]], [False], lambda tangents: [None]
    out = list(em.equation(eqn, xs))
    if name == "scan":
        changing, push = _scan(em, eqn, xs, moving)
        return out, changing, push
    real = [_is_real(var) for var in eqn.outvars]
    derivatives = ELEMENTWISE[name].partials if name in ELEMENTWISE else None
    if name in LINEAR and all(map(_is_real, _selected(eqn.invars, moving))):
        push = _linear(em, eqn, xs)
    elif name in BILINEAR:
        push = _bilinear(em, eqn, xs)
    elif derivatives not in (None, partials.zero) and eqn.outvars[0].aval.size <= STRAIGHT:
        push = _by_partials(em, eqn, xs, out, moving, derivatives)
    elif name in TANGENTS and (rule_push := TANGENTS[name](em, eqn, xs, out)) is not None:
        push = rule_push
    elif any(real) and derivatives is not partials.zero:
        push = _by_jax(em, eqn, xs, moving, debug_info)
    else:
        real, push = [False] * len(out), lambda tangents: [None] * len(out)
    return out, real, push


def _linear(em: Emitter, eqn: Any, xs: list[Value]) -> Push:
    """JVP of a linear primitive: the same primitive on the tangents in place of the real arguments.

    Terms of a sum with zero tangent are left out, unless the other term has yet to be broadcast to the sum's shape.
    """
    name, shape = eqn.primitive.name, eqn.outvars[0].aval.shape

    def push(tangents: list[Tangent]) -> Sequence[Tangent]:
        if name in ("add", "add_any", "sub"):
            first, second = tangents
            alone = first if second is None else second if first is None and name != "sub" else None
            if alone is not None and alone.shape == shape:
                return [alone]
        return em.equation(
            eqn,
            [
                (zero_tangent(em, var) if t is None else t) if _is_real(var) else x
                for var, x, t in zip(eqn.invars, xs, tangents, strict=True)
            ],
        )

    return push


def _bilinear(em: Emitter, eqn: Any, xs: list[Value]) -> Push:
    def push(tangents: list[Tangent]) -> Sequence[Tangent]:
        da, db = tangents
        first = None if da is None else em.equation(eqn, [da, xs[1]])[0]
        second = None if db is None else em.equation(eqn, [xs[0], db])[0]
        if first is None or second is None:
            return [second if first is None else first]
        return [em.elementwise(em.add, [first, second], eqn)]

    return push


def _by_partials(
    em: Emitter, eqn: Any, xs: list[Value], out: list[Value], moving: list[bool], derivatives: partials.Partials
) -> Push:
    """JVP of an elementwise function: Σ ∂f/∂xᵢ dxᵢ, with partial derivatives emitted before."""
    shape = eqn.outvars[0].aval.shape
    rows = [np.broadcast_to(em.entries(x), shape).ravel().tolist() for x in (*xs, out[0])]
    slopes = [derivatives(em, eqn.params, moving, *entries) for entries in zip(*rows, strict=True)]

    def push(tangents: list[Tangent]) -> Sequence[Tangent]:
        arrays = [None if t is None else np.broadcast_to(em.entries(t), shape).ravel().tolist() for t in tangents]
        entries: list[Entry] = []
        for k, row in enumerate(slopes):
            total: Entry = 0.0
            for slope, array in zip(row, arrays, strict=True):
                if array is not None and slope is not None:
                    total = em.add(total, em.mul(slope, array[k]))
            entries.append(total)
        return [pack(entries, shape)]

    return push


def _scan(em: Emitter, eqn: Any, xs: list[Value], moving: list[bool]) -> tuple[list[bool], Push]:
    """JVP of a loop of known length, by repeating it with tangents."""
    body, n, m = eqn.params["jaxpr"], eqn.params["num_consts"], eqn.params["num_carry"]
    after = [
        degree > ABSENT and _is_real(var)
        for degree, var in zip(degrees_of_loop(eqn, list(map(int, moving))), eqn.outvars, strict=True)
    ]
    carried = [a or b for a, b in zip(moving[n : n + m], after[:m], strict=True)]
    within = [*moving[:n], *carried, *moving[n + m :]]
    parts = len(xs) - n - m

    def push(tangents: list[Tangent]) -> Sequence[Tangent]:
        def once(values: Sequence[Value], here: Sequence[Value]) -> tuple[list[Value], list[Value]]:
            out, _, push_on = linearised(em, body, [*xs[:n], *values[:m], *here[:parts]], within)
            moved = push_on(
                [*tangents[:n], *_spread(values[m:], carried), *_spread(here[parts:], [t is not None for t in rows])]
            )
            moved = [zero_tangent(em, v) if t is None else t for t, v in zip(moved, body.jaxpr.outvars, strict=True)]
            return [*out[:m], *_selected(moved[:m], carried)], _selected(moved[m:], after[m:])

        rows = tangents[n + m :]
        given = [t for t in rows if t is not None]
        stacked = Stacked(
            [*xs[n + m :], *given],
            [v.aval for v in (*eqn.invars[n + m :], *_selected(eqn.invars[n + m :], [t is not None for t in rows]))],
        )
        begun = [
            zero_tangent(em, v) if t is None else t
            for t, v in zip(tangents[n : n + m], eqn.invars[n : n + m], strict=True)
        ]
        moved_avals = [v.aval for v in _selected(eqn.outvars[:m], carried)]
        values, rows_out = scan_loop(
            em,
            eqn,
            once,
            [*xs[n : n + m], *_selected(begun, carried)],
            stacked,
            [v.aval for v in _selected(eqn.outvars[m:], after[m:])],
            more=moved_avals,
        )
        return [*_spread(values[m:], carried), *_spread(rows_out, after[m:])]

    return [*carried, *after[m:]], push


def _by_jax(em: Emitter, eqn: Any, xs: list[Value], moving: list[bool], debug_info: Any) -> Push:
    """JVP of any equation, by JAX's own rule."""
    variables = list(dict.fromkeys(var for var in eqn.invars if not hasattr(var, "val")))
    values = {var: x for var, x in zip(eqn.invars, xs, strict=True) if not hasattr(var, "val")}
    moved = {var for var, moves in zip(eqn.invars, moving, strict=True) if moves and _is_real(var)}
    evaluate = jaxpr_as_fun(ClosedJaxpr(Jaxpr((), variables, eqn.outvars, [eqn], eqn.effects, debug_info), ()))

    def pushed(points: dict, directions: dict) -> list[Any]:
        def function(moving_points: dict) -> list[Any]:
            return evaluate(*({**points, **moving_points}[i] for i in range(len(variables))))

        return jax.jvp(function, ({i: points[i] for i in directions},), (directions,))[1]

    @functools.cache
    def traced(directions: tuple[int, ...]) -> Any:
        points = {i: jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for i, v in enumerate(variables)}
        with float64(), forward_only():
            return jax.make_jaxpr(pushed)(points, {i: points[i] for i in directions})

    def push(tangents: list[Tangent]) -> Sequence[Tangent]:
        given = {var: t for var, t in zip(eqn.invars, tangents, strict=True) if t is not None and var in moved}
        directions = tuple(i for i, v in enumerate(variables) if v in given)
        results = em.closed(
            traced(directions), [values[v] for v in variables] + [given[variables[i]] for i in directions]
        )
        return [t if _is_real(var) else None for t, var in zip(results, eqn.outvars, strict=True)]

    return push


def _spread(values: Sequence[Value], places: Sequence[bool]) -> list[Tangent]:
    """Place the values where the flags are true, None elsewhere."""
    left = iter(values)
    return [next(left) if there else None for there in places]


def _selected(items: Sequence[Any], chosen: Sequence[bool]) -> list[Any]:
    return [item for item, wanted in zip(items, chosen, strict=True) if wanted]


def zero_tangent(em: Emitter, var: Any) -> Value:
    return em.constant(np.zeros(var.aval.shape, var.aval.dtype))


def _is_real(var: Any) -> bool:
    return _is_floating(var.aval.dtype)


@functools.cache
def _is_floating(dtype: Any) -> bool:
    return bool(np.issubdtype(dtype, np.floating))
