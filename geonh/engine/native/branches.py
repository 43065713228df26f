"""Lowerings of branches to control flow: ``rule(emitter, equation, inputs) -> outputs``.

Short branches are all computed, with a selection. Otherwise one runs; with lanes each branch that some lane takes runs,
masked to those lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from geonh.arguments.jaxprs import inner_jaxprs
from geonh.engine.native.emitter import RULES, Emitter
from geonh.engine.native.loops import in_memory
from geonh.engine.native.values import Entry, Memory, NotLowered, Value, kind_of, known, pack

SELECTED = 30
"""Maximum number of operations of branches that are all computed, with a selection,"""
FEW = 2
"""and of their results; more are branched on, since the CPU predicts the condition and does not wait for it."""


def _cond(em: Emitter, eqn: Any, xs: list[Value]) -> list[Value]:
    branches, kind = eqn.params["branches"], kind_of(eqn.invars[0].aval)
    index = em.entries(xs[0]).item()
    if known(index):
        return em.closed(branches[max(0, min(int(index), len(branches) - 1))], xs[1:])
    avals = [var.aval for var in eqn.outvars]
    waits = em.lanes > 1 or sum(aval.size for aval in avals) <= FEW
    if waits and all(em.size(branch.jaxpr) <= SELECTED and not _has_loop(branch.jaxpr) for branch in branches):
        cases = [[em.entries(x) for x in em.closed(branch, xs[1:])] for branch in branches]
        return [_selected(em, index, kind, row, kind_of(aval)) for *row, aval in zip(*cases, avals, strict=True)]
    return (_masked_branches if em.lanes > 1 else _branches)(em, branches, index, kind, xs[1:], avals)


def _is_taken(em: Emitter, index: Entry, kind: str, which: int, n: int) -> Entry:
    """Condition that branch ``which`` of n is taken; an index out of range is clamped."""
    if kind == "b":
        return index if which else em.negated(index)
    first, last = em.compare("le", kind, index, which), em.compare("ge", kind, index, which)
    return first if which == 0 else last if which == n - 1 else em.both(first, last)


def _selected(em: Emitter, index: Entry, kind: str, cases: Sequence[np.ndarray], of: str) -> np.ndarray:
    n, out = len(cases), cases[-1].ravel().tolist()
    for which in reversed(range(n - 1)):
        taken = _is_taken(em, index, kind, 0, n) if which == 0 else em.compare("le", kind, index, which)
        out = [em.select(taken, x, y, of) for x, y in zip(cases[which].ravel().tolist(), out, strict=True)]
    return pack(out, cases[0].shape)


def _branches(
    em: Emitter, branches: Sequence[Any], index: Entry, kind: str, args: list[Value], avals: Sequence[Any]
) -> list[Value]:
    """Run one branch; results are merged by phi nodes, or in memory."""
    function, n = em.function, len(branches)
    end = function.label()
    merged: list[Any] = [em.place(aval) if in_memory(em, aval.size) else [] for aval in avals]
    # All comparisons are emitted before the branches: reused values must be computed on every path.
    first = [_is_taken(em, index, kind, 0, n), *(em.compare("le", kind, index, which) for which in range(1, n - 1))]
    for which, branch in enumerate(branches):
        here, following = function.label(), function.label()
        if which < n - 1:
            em.branch(first[which], here, following, seldom=n == 2)
            em.begin(here)
        with em.scope():
            texts = []
            for aval, value, place in zip(avals, em.closed(branch, args), merged, strict=True):
                if isinstance(place, Memory):
                    em.copy(place, value)
                else:
                    of = kind_of(aval)
                    texts.append([em.operand(x, of) for x in em.entries(value).ravel().tolist()])
            rows = iter(texts)
            for place in merged:
                if isinstance(place, list):
                    place.append([f"[{text}, %{function.block}]" for text in next(rows)])
            em.jump(end)
        if which < n - 1:
            em.begin(following)
    em.begin(end)
    out: list[Value] = []
    for aval, place in zip(avals, merged, strict=True):
        if isinstance(place, Memory):
            out.append(place)
            continue
        names = []
        for ways in zip(*place, strict=True):
            name = function.name()
            em.line(f"{name} = phi {em.type(kind_of(aval))} {', '.join(ways)}")
            names.append(name)
        out.append(pack(names, aval.shape))
    return out


def _masked_branches(
    em: Emitter, branches: Sequence[Any], index: Entry, kind: str, args: list[Value], avals: Sequence[Any]
) -> list[Value]:
    """Run every branch that some lane takes, masked to those lanes."""
    function, outer = em.function, em.function.mask
    results = [em.place(aval) for aval in avals]
    for which, branch in enumerate(branches):
        taken = em.operand(_is_taken(em, index, kind, which, len(branches)), "b", True)
        mask = taken if outer is None else str(em.both(taken, outer))
        here, following = function.label(), function.label()
        em.branch(em.any_lane(mask), here, following)
        em.begin(here)
        with em.scope():
            function.mask = mask
            for place, value in zip(results, em.closed(branch, args), strict=True):
                em.copy(place, value, taken)
            function.mask = outer
            em.jump(following)
        em.begin(following)
    return [place if in_memory(em, place.size) else em.entries(place) for place in results]


def _has_loop(jaxpr: Any) -> bool:
    """True if a jaxpr has a loop of unknown length."""
    return any(eqn.primitive.name == "while" or any(map(_has_loop, inner_jaxprs(eqn))) for eqn in jaxpr.eqns)


def _platform_index(em: Emitter, eqn: Any, xs: list[Value]) -> list[Value]:
    platforms = eqn.params["platforms"]
    for i, names in enumerate(platforms):
        if names is None or "cpu" in names:
            return [pack([i], ())]
    raise NotLowered("code for another platform")


RULES.update({"cond": _cond, "platform_index": _platform_index})
