"""HTML representations of systems, runs and methods for notebooks: small tables with more detail than ``repr``."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from geonh.arguments.precision import float64
from geonh.results.trajectory import steps_of, with_reason

LARGEST = 6
"""Maximum number of rows of matrices shown in full."""


def card(title: str, facts: Iterable[tuple[str, str]], below: str = "") -> str:
    """HTML card: a title, and rows of name and HTML content."""
    cell = 'style="text-align:left;vertical-align:top;padding:1px 10px 1px 0"'
    rows = "".join(f"<tr><th {cell}>{html.escape(name)}</th><td {cell}>{value}</td></tr>" for name, value in facts)
    return f"<div><b>{html.escape(title)}</b><table>{rows}</table>{below}</div>"


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """HTML table of text."""
    first = "".join(f"<th>{html.escape(word)}</th>" for word in head)
    rest = "".join("<tr>" + "".join(f"<td>{html.escape(str(word))}</td>" for word in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{first}</tr></thead><tbody>{rest}</tbody></table>"


def matrix(values: Any) -> str:
    """HTML of a matrix, in full if it is small."""
    rows = np.atleast_2d(np.asarray(values))
    if len(rows) > LARGEST:
        return f"{rows.shape[0]} × {rows.shape[1]}"
    inside = "".join("<tr>" + "".join(f"<td>{v:.4g}</td>" for v in row) + "</tr>" for row in rows)
    return f'<table style="border-left:1px solid;border-right:1px solid;display:inline-table">{inside}</table>'


def system_card(system: Any) -> str:
    """HTML card of a system: space, Lagrangian, constraints, parameters, first integrals, M and μ at identity."""
    group = system.group
    with float64():
        x = system.at(group.identity(), 0.0)
        M = system.mass_matrix(x)
        mu, b = (None, None) if system.is_nonlinear else (system.annihilator(x), system.right_hand_side(x))
    energy = "½ ξᵀM(x)ξ" if system.metric is not None else "a function of (x, ξ)"
    facts = [
        ("space", html.escape(f"{group}, dimension {group.dim}")),
        ("point", html.escape(", ".join(group.point_names))),
        ("velocity ξ", html.escape(", ".join(group.velocity_names))),
        ("Lagrangian", f"ℓ = {energy}{'' if system.potential is None else ' − V(x)'}"),
        ("M at the identity", matrix(M)),
    ]
    if mu is None:
        facts.append(("constraints", "c(x, ξ) = 0, nonlinear in ξ"))
    elif len(mu):
        right = matrix(np.asarray(b)[:, None]) if system.is_affine else "0"
        facts.append(("constraints", f"μ(x)ξ = {'b(x)' if system.is_affine else '0'}, at the identity"))
        facts.append(("", f"{matrix(mu)} ξ = {right}"))
    if system.forces is not None:
        facts.append(("forces", "f(t, x, ξ, u)"))
    if system.multiplier_forces is not None:
        facts.append(("forces of the multipliers", "C(t, x, ξ)λ"))
    shown = [(key, np.asarray(value)) for key, value in system.parameters.items() if not callable(value)]
    if shown:
        words = [f"{html.escape(str(key))} = {_number(value)}" for key, value in shown]
        facts.append(("parameters", ", ".join(words)))
    if system.first_integrals:
        facts.append(("first integrals", html.escape(", ".join(system.first_integrals))))
    return card(f"System {system.name}", facts)


def _number(value: np.ndarray) -> str:
    if value.dtype == object:  # a shape, a surface, a body
        return html.escape(type(value.item()).__name__.lstrip("_").lower())
    return f"{value:.6g}" if value.ndim == 0 else html.escape(np.array2string(value, precision=4, separator=", "))


def trajectory_card(trajectory: Any) -> str:
    """HTML card of a trajectory: system, method, outcome, and conserved quantities."""
    from geonh.diagnostics.invariants import invariants  # would be a circular import

    a = trajectory.attributes
    facts = [
        ("space", html.escape(a["group"])),
        ("method", html.escape(with_reason(a["method"], a["method_reason"]))),
        ("time", f"t = {trajectory.t[0]:g} … {trajectory.t[-1]:g} s, {steps_of(trajectory)}"),
        ("nodes", f"{len(trajectory)}"),
        ("ended", html.escape(trajectory.message)),
    ]
    if trajectory.spoiled_from is not None:
        facts.append(("spoiled", f"<b>from t = {trajectory.spoiled_from:.4g} s: the momentum alternates</b>"))
    rows = [(q.name, f"{q.error.max():.1e}", f"{q.relative.max():.1e}", q.note) for q in invariants(trajectory)]
    conserved = table(("quantity", "largest change", "relative", "known of it"), rows)
    return card(f"Trajectory of {a['system']}", facts, conserved + "<i>.plot(), .view(), .animate(path)</i>")


def method_card(method: Any) -> str:
    """HTML card of the guarantees of a method."""
    return card(type(method).__name__, [(name, html.escape(value)) for name, value in promises(method.guarantees)])


def promises(guarantees: Any) -> list[tuple[str, str]]:
    """Names and descriptions of guarantees."""
    g = guarantees
    return [
        ("order", str(g.order)),
        ("solve", "implicit" if g.implicit else "explicit"),
        ("symmetric", "yes" if g.symmetric else "no"),
        ("node", g.node),
        ("constraint", g.constraint),
        ("energy", g.energy),
        ("momentum", g.momentum),
        ("affine", "yes" if g.affine else "no"),
        ("spaces", g.groups),
        ("steps", g.steps),
        ("reference", g.reference),
    ]


def methods_card(methods: Any) -> str:
    """HTML table of the guarantees of methods."""
    rows, head = [], ["method", "what it is"]
    for name, method in methods.items():
        said = promises(method.make().guarantees)[:-1]
        head = ["method", "what it is", *(word for word, _ in said)]
        rows.append([name, method.title, *(value for _, value in said)])
    return table(head, rows)
