"""Reports of ``check`` on trees: redundant contacts and loops, and limits that a start violates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import compress
from typing import Any

import jax
import numpy as np

from geonh.arguments.validators import as_float64
from geonh.bodies.ranks import CLOSED, Place, closed, evaluated_at, mover
from geonh.mechanics.check import Report
from geonh.mechanics.redundancy import Dependence, dependence

PLAY = 1e-9
"""Excess of a limit that counts as rounding."""
OPEN = 1e-9
"""Residual of a constraint, m or m/s, relative to the start, up to which it counts as satisfied."""


def report(system: Any, at: Any, xi0: Any, check: Callable[..., Report], options: Mapping[str, Any]) -> Report:
    """Report of ``check``, with what is known of a tree besides."""
    problems, notes = [], []
    tree, held, forms = system.tree, system.held, system.forms
    g = system.point(system.group.identity() if at is None else at, name="at")
    if at is None and held is not None:
        whole = replace(held, reduced=False)
        g, left = closed(evaluated_at(tree, whole, None, system.parameters), mover(tree), g)
        if left > CLOSED * 100:
            problems.append(f"contacts and loops are not closed near the identity, {left:.3g} m is left; pass at=")
    told = check(at=g, **options)
    xi = None if xi0 is None else as_float64(xi0, "xi0", (tree.dim,))
    if at is not None:
        problems += _beyond(tree, g, xi)
    if held is not None or forms is not None:
        whole, rolling = held and replace(held, reduced=False), forms and replace(forms, reduced=False)
        place = evaluated_at(tree, whole, rolling, system.parameters)(g)
        rows = np.concatenate([place.G, place.mu])
        unknown = ~np.isfinite(rows).all(axis=1)
        problems += [f"{name} is no number: a wheel lies flat there" for name in compress(system.row_names, unknown)]
        if at is not None:
            problems += _violated(place, g, xi, system.row_names)
        if np.all(np.isfinite(rows)) and np.linalg.matrix_rank(rows) == tree.dim:
            notes.append("nothing can move: there are as many independent constraints as velocities")
        if np.all(np.linalg.norm(rows, axis=1) > 0):
            notes += _redundant(dependence(rows, len(place.G)), system.row_names)
    unlimited = [name for name, joint in tree.joints.items() if joint.friction]
    if unlimited:
        notes.append(f"dry friction of {unlimited} is data, which the motion does not use")
    return Report(told.system, (*told.problems, *problems), (*told.notes, *notes))


def _violated(place: Place, g: Any, xi: np.ndarray | None, names: list[str]) -> list[str]:
    """Constraints that a start violates; the velocities of prescribed joints are not compared."""
    size = 1 + max(np.abs(part).max() for part in jax.tree.leaves(g))
    told = [
        f"{name} is {value:.3g} at the start, not 0"
        for name, value in zip(names, place.phi, strict=False)
        if not abs(value) <= OPEN * size
    ]
    if xi is None:
        return told
    rates = zip(names, [*place.G @ xi, *place.mu @ xi], strict=True)
    size = 1 + np.abs(xi).max(initial=0.0)
    return told + [
        f"{name} has the velocity {value:.3g} at the start, not 0"
        for name, value in rates
        if not name.startswith("prescribed") and not abs(value) <= OPEN * size
    ]


def _redundant(relations: Dependence, names: list[str]) -> list[str]:
    """Rows that follow from others, in words."""
    told = []
    for i, j in enumerate(relations.others):
        weights = np.abs(relations.coefficients[i])
        used = sorted(relations.kept[np.flatnonzero(weights > PLAY * weights.max(initial=0.0))])
        told.append(f"redundant: {names[j]} follows from {', '.join(names[k] for k in used)}")
    return told


def _beyond(tree: Any, g: Any, xi: np.ndarray | None) -> list[str]:
    """Limits of joints that a start violates."""
    told = []
    at = tree.coordinates(g, False)
    for name, joint in tree.joints.items():
        if joint.dim != 1:
            continue
        q = float(at[name])
        if joint.lower is not None and q < joint.lower - PLAY:
            told.append(f"joint {name!r} starts at {q:.6g}, below its limit {joint.lower:.6g}")
        if joint.upper is not None and q > joint.upper + PLAY:
            told.append(f"joint {name!r} starts at {q:.6g}, above its limit {joint.upper:.6g}")
        if xi is not None and joint.speed is not None:
            factor = 1.0 if joint.mimic is None else joint.mimic.factor
            rate = float(factor * xi[tree.velocity_slices[name]][0])
            if abs(rate) > joint.speed + PLAY:
                told.append(f"joint {name!r} starts at the rate {rate:.6g}, beyond its limit {joint.speed:.6g}")
    return told
