"""HTML representations for notebooks: small tables with more detail than ``repr``."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from geonh.arguments.precision import float64
from geonh.integrators.validity import Result
from geonh.results.trajectory import describe, steps_of, with_reason

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


def sweep_card(sweep: Any) -> str:
    """HTML card of a sweep: method, number of members, nodes, and what differs and is kept."""
    nodes = f"{sweep.n_steps} steps, every {sweep.save_every} kept"
    if sweep.times is not None:
        nodes = f"{len(sweep.times)} at t = {sweep.times[0]:g} … {sweep.times[-1]:g} s"
    kept = [one.name for one in sweep.observables] + [one.label(type(one).__name__.lower()) for one in sweep.statistics]
    facts = [
        ("method", html.escape(with_reason(describe(sweep.method), sweep.method_reason))),
        ("members", str(sweep.members.size)),
        ("differ in", html.escape(", ".join(sweep.members.varied))),
        ("nodes", nodes),
        ("kept", html.escape(", ".join(kept))),
        ("events", html.escape(", ".join(event.name for event in sweep.events) or "none")),
    ]
    return card(f"Sweep of {sweep.system.name}", facts, "<i>.solve(), .run(store)</i>")


def ensemble_card(ensemble: Any) -> str:
    """HTML card of an ensemble: how members ended, ranges of the parameters, and spread of the kept observables."""
    codes, counts = np.unique(ensemble.status, return_counts=True)
    ended = ", ".join(f"{n} × {Result(int(code)).name.lower()}" for code, n in zip(codes, counts, strict=True))
    facts = [
        ("method", html.escape(with_reason(describe(ensemble.method), ensemble.method_reason))),
        ("members", str(len(ensemble))),
        ("differ in", html.escape(", ".join(ensemble.batch.varied))),
        ("nodes", f"{len(ensemble.k)} each"),
        ("ended", html.escape(ended)),
    ]
    if ensemble.faults:
        first = min(ensemble.faults)
        facts.append((f"{len(ensemble.faults)} did not start", html.escape(f"first {first}: {ensemble.faults[first]}")))
    scalars = [(name, np.asarray(values)) for name, values in ensemble.parameters.items()]
    scalars += [(f"event {name}: t", passed.t[:, 0]) for name, passed in ensemble.events.items()]
    scalars += [(name, values) for name, values in ensemble.statistics.items() if name.endswith(" over time")]
    scalars += [(f"{name} at the last node", values) for name, values in ensemble.last.items()]
    rows = [(name, *_spread(values)) for name, values in scalars if values.dtype.kind == "f" and values.ndim == 1]
    spread = table(("quantity", "finite", "least", "median", "largest"), rows) if rows else ""
    return card(
        f"Ensemble of {ensemble.system.name}",
        facts,
        spread + "<i>[member], .to_xarray(), geonh.plotting.plot_fan(ensemble, name)</i>",
    )


def _spread(values: np.ndarray) -> tuple[str, ...]:
    """Number of finite values, and the least, the median and the largest of them."""
    finite = values[np.isfinite(values)]
    return (str(finite.size), *(f"{f(finite):.4g}" if finite.size else "–" for f in (np.min, np.median, np.max)))


def linearisation_card(linear: Any) -> str:
    """HTML card of linear equations: states, matrix, and eigenvalues as decay and frequency."""
    facts = [
        ("states z", html.escape(", ".join(linear.states))),
        ("ż = Az, A", matrix(linear.A)),
        ("growth", f"{linear.growth:.4g} 1/s"),
        ("symmetries", f"{linear.symmetries.shape[1]}, factored out"),
        ("steady motions beside it", f"in {linear.family[0] if linear.family else 0} directions, factored out"),
    ]
    largest = [html.escape(linear.coordinates[i]) for i in np.abs(linear.modes).argmax(axis=0)]
    rows = [
        (_complex(v), _number(np.array(abs(v.imag) / (2 * np.pi))), at)
        for v, at in zip(linear.eigenvalues, largest, strict=True)
    ]
    return card(
        "Linear equations", facts, table(("eigenvalue, 1/s", "frequency, Hz", "largest entry of its mode"), rows)
    )


def root_locus_card(locus: Any) -> str:
    """HTML card of a root locus: parameter, states, growth, and the changes of stability."""
    facts = [
        ("parameter", html.escape(f"{locus.parameter} = {locus.values[0]:g} … {locus.values[-1]:g}")),
        ("values", str(len(locus.values))),
        ("states", html.escape(", ".join(locus.states))),
        ("growth", f"{locus.growth.min():.4g} … {locus.growth.max():.4g} 1/s"),
    ]
    return card("Root locus", facts, "<i>.crossings(), .plot()</i>")


def orbit_card(orbit: Any) -> str:
    """HTML card of a periodic orbit: period, Floquet multipliers, and accuracy."""
    facts = [
        ("period", f"{orbit.period:.10g} s"),
        ("initial velocity ξ", matrix(orbit.xi)),
        ("stable", "yes" if orbit.stable else "no"),
        ("trivial multipliers", str(sum(orbit.trivial))),
        ("residual", f"{orbit.residual:.1e} after {orbit.iterations} Newton steps"),
    ]
    if orbit.parameter:
        facts.insert(0, (html.escape(orbit.parameter), f"{orbit.value:.9g}"))
    rows = [(_complex(m), f"{abs(m):.6g}") for m in orbit.multipliers]
    return card("Periodic orbit", facts, table(("Floquet multiplier", "modulus"), rows))


def _complex(value: complex) -> str:
    return (
        f"{value.real:.6g} {'+' if value.imag > 0 else '−'} {abs(value.imag):.6g}i"
        if value.imag
        else f"{value.real:.6g}"
    )


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
