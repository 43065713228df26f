"""``geonh list``, ``geonh show``, ``geonh methods``: what there is, from a table where it is of the library."""

from __future__ import annotations

import json
from importlib import resources
from typing import Annotated, Any

import typer
from rich.markup import escape

from geonh.cli.console import facts_table, new_table, out
from geonh.cli.options import SystemName
from geonh.cli.signals import interruptible


def _table(kind: str) -> dict[str, dict[str, Any]]:
    return json.loads(resources.files("geonh.cli").joinpath("tables.json").read_text(encoding="utf-8"))[kind]


def list_systems() -> None:
    """List the systems of the catalogue."""
    table = new_table("name", "space", "what it is", "source")
    table.columns[0].no_wrap = True
    table.columns[1].no_wrap = True
    for name, system in _table("systems").items():
        table.add_row(*map(escape, (name, system["space"], system["title"], system["source"])))
    out.print(table)
    out.print("One of them in full: geonh show NAME. Integrate it: geonh run NAME.")


def show(name: SystemName) -> None:
    """Show a system: space, constraints, parameters, default start, what is conserved."""
    systems, plain = _table("systems"), name if name in _table("systems") else name.lower().replace("_", "-")
    if plain in systems:
        _show(plain, systems[plain])
    else:
        _show_other(name=name)


@interruptible
def _show_other(name: str) -> None:
    from geonh.cli.described import described
    from geonh.cli.words import entry_of

    entry = entry_of(name)
    _show(entry.name, described(entry))


def _show(name: str, system: dict[str, Any]) -> None:
    out.print(f"[bold]{escape(name)}[/]: {escape(system['title'])}")
    out.print(facts_table(system["facts"].items()))
    if system["parameters"]:
        table = new_table("parameter", "default", "meaning, unit")
        for row in system["parameters"]:
            table.add_row(*map(escape, row))
        out.print(table)
    table = new_table("conserved", "and by the integrator")
    for row in system["conserved"].items():
        table.add_row(*map(escape, row))
    out.print(table if table.row_count else "nothing is known to be conserved")


def methods(name: Annotated[str | None, typer.Argument(help="One of them, in full.")] = None) -> None:
    """List the methods: order, cost, and what each keeps. Every entry is a test."""
    found = _table("methods")
    if name is not None and name not in found:
        _refuse_method(name=name)
    if name is not None:
        method = found[name]
        out.print(f"[bold]{name}[/]: {escape(method['title'])}; order {method['order']}")
        out.print(f"reference: {escape(method['reference'])}", highlight=False)
        out.print(f"options of geonh run: {', '.join(f'--{option}' for option in method['options']) or 'none'}")
        return
    table = new_table("method", *found["gni"]["promises"])
    table.columns[0].no_wrap = True
    for key, method in found.items():
        table.add_row(key, *method["promises"].values())
    out.print(table)
    out.print(
        "node: its data (impulse: a part of it alternates in sign). constraint: where μξ = b holds to "
        "rounding (nodes; step: in the method's own discrete form). energy: always = any metric, potential and linear "
        "constraint; quadrature = where that is exact for the slopes, else to O(h¹⁰); bi-invariant = for such an ℓ; "
        "projected = put back. momentum: horizontal = the momentum maps of horizontal symmetries. geonh methods NAME "
        "shows more."
    )


@interruptible
def _refuse_method(name: str) -> None:
    from geonh.cli.words import integrator_of

    integrator_of(name)  # refuses it, with the nearest name
