"""Output of ``geonh list``, ``show`` and ``methods``, computed from the systems and the methods.

Of the catalogue it stands in ``tables.json``, since computing it imports JAX and builds every system;
``python tests/cli/test_described.py`` renews the file, and a test compares it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import geonh as gn
from geonh.cli.console import numbers, value_text, without_rounding
from geonh.cli.own import systems_of
from geonh.integrators.registry import Method
from geonh.plotting.cards import promises
from geonh.systems import Entry


def tables() -> dict[str, Any]:
    """All that is printed of the catalogue and of the methods, as JSON has it."""
    return {
        "systems": {name: described(entry) for name, entry in gn.systems.catalogue.items()},
        "methods": {name: method_described(method) for name, method in gn.methods.items()},
    }


def described(entry: Entry) -> dict[str, Any]:
    """Facts, parameters and conserved quantities of a system."""
    of_modes = systems_of(entry.system())
    system: Any = of_modes[0]
    group = system.group
    start = entry.start(system)
    constraints = len(system.constraint_residual(system.at(group.identity(), 0.0), np.zeros(group.dim)))
    velocity = () if start.xi0 is None else zip(group.velocity_names, without_rounding(start.xi0), strict=True)
    driven = ", driven by controls" if entry.controls else ""
    facts = {
        "space": f"{group}, dimension {group.dim}",
        "functions of": _base_in_words(system),
        "coordinates": ", ".join(group.point_names),
        "velocity ξ": ", ".join(group.velocity_names),
        "constraints": f"{entry.constraints}  ({constraints} of them)" if constraints else entry.constraints,
        "start g0": "the identity" if start.g0 is None else numbers(group.to_vector(system.point(start.g0))),
        "start ξ0": ", ".join(f"{n} = {v:g}" for n, v in velocity) or "none: geonh run takes --xi0",
        "default run": f"dt = {entry.dt:g} s, {entry.n_steps} steps{driven}",
        "exact solution": "known in closed form" if entry.exact else "none in the catalogue",
        "source": entry.source,
        "notes": entry.notes,
    }
    conserved = dict(entry.conserved)
    for key, integral in system.first_integrals.items():
        conserved.setdefault(key, integral.note or "first integral of the motion")
    return {
        "title": entry.title,
        "space": str(group),
        "source": entry.source,
        "facts": {label: text for label, text in facts.items() if text},
        "parameters": [[k, value_text(entry.defaults.get(k)), meaning] for k, meaning in entry.parameters.items()],
        "conserved": conserved,
    }


def method_described(method: Method) -> dict[str, Any]:
    """Guarantees, reference and options of a method."""
    guarantees = method.make().guarantees
    return {
        "title": method.title,
        "order": guarantees.order,
        "reference": guarantees.reference,
        "options": list(method.options),
        "promises": dict(promises(guarantees)[:-1]),  # not the reference
    }


def _base_in_words(system: Any) -> str:
    kind = type(system.action).__name__
    words = {
        "PointBase": "nothing (left-invariant)",
        "GroupBase": "the group element",
        "AdvectedVector": "an advected vector γ",
    }
    if kind == "ShapeBase":
        return f"the shape {', '.join(system.action.names)}"
    return words.get(kind, kind)
