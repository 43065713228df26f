"""Report of ``geonh run``: the table of conserved quantities, and the location of the result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.markup import escape

from geonh.cli.console import facts_table, new_table, numbers, out, refuse, value_text
from geonh.diagnostics.invariants import invariants
from geonh.plotting.labels import method_in_words
from geonh.results.trajectory import Trajectory, steps_of, with_reason

SHOWN = 8
"""Number of transitions that are listed."""


def show_run(trajectory: Trajectory, seconds: float) -> None:
    assert trajectory.method is not None
    a = trajectory.attributes
    steps = int(trajectory.k[-1])
    out.print(
        f"[bold]{escape(a['system'])}[/] on {escape(a['group'])}: "
        f"{method_in_words(trajectory)} (order {trajectory.method.order}), "
        f"{steps_of(trajectory)}, {steps} steps, t = {trajectory.t[0]:g} … {trajectory.t[-1]:g} s",
        highlight=False,
    )
    if a["parameters"]:
        out.print("parameters: " + escape(_parameters(a)))
    out.print(f"integrated in {seconds:.2f} s, compilation included", highlight=False)
    show_kept(trajectory)


def _parameters(attributes: dict[str, Any]) -> str:
    """Parameters in words; those of modes once, where all modes have the same."""
    known = attributes["parameters"]
    if "modes" in attributes:
        each = [of_mode for of_mode in known.values() if of_mode]
        known = each[0] if each and all(of_mode == each[0] for of_mode in each) else known
    return ", ".join(f"{name} = {value_text(value)}" for name, value in known.items())


def _transitions(trajectory: Trajectory) -> str:
    """Times and targets of the first transitions of a run with modes in words; "" of other runs."""
    switches = trajectory.switches
    if trajectory.nodes.mode is None or switches is None:
        return ""
    pairs = zip(switches.t[:SHOWN], switches.target[:SHOWN], strict=True)
    more = f", and {len(switches.t) - SHOWN} more" if len(switches.t) > SHOWN else ""
    listed = "; ".join(f"{switches.names[i]} from t = {t:.6g}" for t, i in pairs) or "none"
    return f"begins in {trajectory.mode[0]}; transitions: {listed}{more}"


def show_kept(trajectory: Trajectory) -> None:
    """Show the table of conserved quantities of a run, and a warning if the run is unreliable."""
    table = new_table("quantity", "at the start", "at the end", "largest change", "relative", "known of it")
    table.columns[0].no_wrap = True
    for column in table.columns[1:5]:
        column.justify, column.no_wrap = "right", True
    for q in invariants(trajectory):
        relative = "" if q.name == "constraint residual" else f"{q.relative.max():.1e}"
        ends, change = (numbers(q.start), numbers(q.end)), f"{q.error.max():.1e}"
        table.add_row(escape(q.name), *ends, change, relative, escape(q.note))
    out.print(table)
    if passed := _transitions(trajectory):
        out.print(escape(passed), highlight=False)
    since = trajectory.spoiled_from
    if since is not None:
        out.print(
            f"[bold yellow]the multipliers alternate:[/] from t = {since:g} s the swing of the momentum from node to "
            f"node is more than 1 % of it, at most {100 * trajectory.alternation.max():.2g} %. A smaller step does not "
            "cure it, a method without it does: --method projected or gauss4",
            highlight=False,
        )


def show_file(trajectory: Trajectory, path: Path) -> None:
    """Show the content of a file, the conserved quantities of its run, and the command that resumes it."""
    a, t = trajectory.attributes, trajectory.t
    facts = [
        ("system", f"{a['system']} on {a['group']}" + (", of the catalogue" if a["catalogue"] else "")),
        ("parameters", _parameters(a) or "none"),
        ("method", with_reason(a["method"], a["method_reason"])),
        *([("controls", a["controls"])] if a["controls"] else []),
        ("time", f"t = {t[0]:g} … {t[-1]:g} s, {steps_of(trajectory)}, {trajectory.k[-1]} steps"),
        ("nodes", f"{len(trajectory)}, one every {trajectory.save_every} steps"),
        ("ended", f"{trajectory.status.name.lower()}: {trajectory.message}"),
    ]
    for change in a["changes"]:
        what = "; ".join(f"{name}: {words}" for name, words in change["what"].items())
        facts.append(("changed", f"after step {change['step']}, t = {change['t']:g} s: {what}"))
    size = path.stat().st_size
    facts += [
        ("coordinates", ", ".join(a["point_names"])),
        ("velocity ξ", ", ".join(a["velocity_names"])),
        ("written by", f"geonh {a['geonh_version']}, {a['engine'] or 'no'} engine, {size:,} bytes"),
    ]
    out.print(facts_table(facts))
    show_kept(trajectory)
    if trajectory.state is not None:
        option = "" if a["catalogue"] else " --system FILE.py:NAME"
        out.print(f"To go on: geonh resume {escape(str(path))} --steps N{option}", highlight=False, soft_wrap=True)


def save(trajectory: Trajectory, data: Path | None, picture: Path | None) -> None:
    try:
        if data is not None:
            trajectory.save(data)
        if picture is not None:
            trajectory.plot().savefig(picture, dpi=150)
    except (OSError, ValueError) as error:
        refuse(f"the result could not be saved: {getattr(error, 'strerror', None) or error}")
