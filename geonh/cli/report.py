"""What ``geonh run`` shows: the table of what was kept, and where the result is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.markup import escape

from geonh.cli.console import new_table, numbers, out, value_text, wrong
from geonh.plotting.invariants import invariants
from geonh.plotting.labels import method_in_words
from geonh.trajectory import Trajectory


def show_run(trajectory: Trajectory, integrator: Any, seconds: float) -> None:
    a = trajectory.attributes
    steps = int(trajectory.k[-1])
    out.print(
        f"[bold]{escape(a['system'])}[/] on {escape(a['group'])}: "
        f"{method_in_words(trajectory)} (order {integrator.order}), "
        f"dt = {trajectory.dt:g} s, {steps} steps, t = {trajectory.t[0]:g} … {trajectory.t[-1]:g} s",
        highlight=False,
    )
    if a["parameters"]:
        out.print("parameters: " + escape(", ".join(f"{k} = {value_text(v)}" for k, v in a["parameters"].items())))
    out.print(f"integrated in {seconds:.2f} s, compilation included", highlight=False)
    table = new_table("quantity", "at the start", "at the end", "largest change", "relative", "known of it")
    table.columns[0].no_wrap = True
    for column in table.columns[1:5]:
        column.justify, column.no_wrap = "right", True
    for q in invariants(trajectory):
        relative = "" if q.name == "constraint residual" else f"{q.relative.max():.1e}"
        table.add_row(
            escape(q.name),
            numbers(q.start),
            numbers(q.end),
            f"{q.error.max():.1e}",
            relative,
            escape(q.note),
        )
    out.print(table)
    since = trajectory.spoiled_from
    if since is not None:
        out.print(
            f"[bold yellow]the multipliers alternate:[/] from t = {since:g} s the swing of the momentum from node to "
            f"node is more than 1 % of it, at most {100 * trajectory.alternation.max():.2g} %. A smaller step does not "
            "cure it, a method without it does: --method projected or gauss4",
            highlight=False,
        )


def save(trajectory: Trajectory, data: Path, picture: Path | None) -> None:
    try:
        trajectory.save(data)
        out.print(f"saved {escape(str(data))}", highlight=False, soft_wrap=True)
        if picture is not None:
            trajectory.plot().savefig(picture, dpi=150)
            out.print(f"saved {escape(str(picture))}", highlight=False, soft_wrap=True)
    except OSError as error:
        wrong(f"the result could not be saved: {error.strerror or error}")
