"""The command line: ``geonh list``, ``show NAME``, ``methods``, ``check NAME``, ``run NAME``, ``resume FILE``,
``info FILE``, ``view FILE``, ``play NAME``, ``build NAME``, ``sweep NAME``, ``merge``, ``export``.

Exit codes: 0 done, 1 the integration stopped early (results so far are saved), 2 usage error, 3 done but standard
output could not be written, 130 interrupted, 143 terminated (in both cases results so far are saved).
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape
from typer.core import TyperGroup

import geonh as gn
from geonh.cli.checks import check
from geonh.cli.console import err, facts_table, new_table, numbers, one_line, out, value_text, without_rounding
from geonh.cli.exports import build, play
from geonh.cli.pictures import view
from geonh.cli.runs import info, resume, run
from geonh.cli.signals import INTERRUPTED, TERMINATED, Termination, exit_with
from geonh.cli.streams import UNSHOWN, robust_streams, write_failure
from geonh.cli.sweeps import export, merge_stores, sweep
from geonh.cli.words import entry_of, integrator_of
from geonh.engine import Interrupts
from geonh.plotting.cards import promises
from geonh.version import __version__


class _Commands(TyperGroup):
    """Command group with one-line usage errors instead of a box, and an orderly end when it is interrupted."""

    def main(self, *args: Any, standalone_mode: bool = True, **kwargs: Any) -> Any:
        if not standalone_mode:
            return super().main(*args, standalone_mode=False, **kwargs)
        sink = robust_streams()
        with Interrupts(at_once=True), Termination() as termination:
            code = self._code(*args, **kwargs)
        failure = write_failure(sink)
        if failure is not None:
            err.print(f"[bold red]error:[/] standard output could not be written: {failure.strerror}")
        exit_with(TERMINATED if termination.asked else code or (0 if failure is None else UNSHOWN))

    def _code(self, *args: Any, **kwargs: Any) -> int:
        """Run, and return the exit code."""
        try:
            code = super().main(*args, standalone_mode=False, **kwargs)
        except KeyboardInterrupt:
            return INTERRUPTED
        except Exception as error:
            if type(error).__name__ == "Abort":
                return INTERRUPTED
            if type(error).__name__ == "NoArgsIsHelpError":
                print(error.format_message())  # type: ignore[attr-defined]
                return 0
            if not hasattr(error, "format_message"):
                raise
            err.print(f"[bold red]error:[/] {escape(one_line(error.format_message()))}")
            return 2
        return code if isinstance(code, int) else 0


app = typer.Typer(
    cls=_Commands,
    name="geonh",
    help="Integrate mechanical systems with nonholonomic constraints.",
    epilog="A first run: geonh run chaplygin-sphere",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"geonh {__version__}")
        raise typer.Exit()


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Integrate mechanical systems with nonholonomic constraints, and look at the result."""


@app.command("list")
def list_systems() -> None:
    """List the systems of the catalogue."""
    table = new_table("name", "space", "what it is", "source")
    table.columns[0].no_wrap = True
    table.columns[1].no_wrap = True
    for entry in gn.systems.catalogue.values():
        table.add_row(*map(escape, (entry.name, str(entry.system().group), entry.title, entry.source)))
    out.print(table)
    out.print("One of them in full: geonh show NAME. Integrate it: geonh run NAME.")


@app.command()
def show(name: Annotated[str, typer.Argument(help="Name of a system, as in `geonh list`.")]) -> None:
    """Show a system: space, constraints, parameters, default start, what is conserved."""
    entry = entry_of(name)
    system = entry.system()
    group = system.group
    start = entry.start(system)
    out.print(f"[bold]{escape(entry.name)}[/]: {escape(entry.title)}")
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
    out.print(facts_table((label, text) for label, text in facts.items() if text))
    if entry.parameters:
        table = new_table("parameter", "default", "meaning, unit")
        for key, meaning in entry.parameters.items():
            table.add_row(key, escape(value_text(entry.defaults.get(key))), escape(meaning))
        out.print(table)
    table = new_table("conserved", "and by the integrator")
    for key, how in entry.conserved.items():
        table.add_row(escape(key), escape(how))
    for key, integral in system.first_integrals.items():
        if key not in entry.conserved:
            table.add_row(escape(key), escape(integral.note or "first integral of the motion"))
    out.print(table if table.row_count else "nothing is known to be conserved")


app.command()(run)
app.command()(resume)
app.command()(info)
app.command()(check)
app.command()(view)
app.command()(play)
app.command()(build)
app.command()(sweep)
app.command("merge")(merge_stores)
app.command()(export)


@app.command()
def methods(name: Annotated[str | None, typer.Argument(help="One of them, in full.")] = None) -> None:
    """List the methods: order, cost, and what each keeps. Every entry is a test."""
    if name is not None:
        guarantees = integrator_of(name).guarantees
        out.print(f"[bold]{name}[/]: {escape(gn.methods[name].title)}; order {guarantees.order}")
        out.print(f"reference: {escape(guarantees.reference)}", highlight=False)
        out.print(f"options of geonh run: {', '.join(f'--{option}' for option in gn.methods[name].options) or 'none'}")
        return
    promised_by = {
        name: promises(method.make().guarantees)[:-1] for name, method in gn.methods.items()
    }  # not the reference
    table = new_table("method", *(word for word, _ in promised_by["gni"]))
    table.columns[0].no_wrap = True
    for name, promised in promised_by.items():
        table.add_row(name, *(value for _, value in promised))
    out.print(table)
    out.print(
        "node: its data (impulse: a part of it alternates in sign). constraint: where μξ = b holds to "
        "rounding (nodes; step: in the method's own discrete form). energy: always = any metric, potential and linear "
        "constraint; quadrature = where that is exact for the slopes, else to O(h¹⁰); bi-invariant = for such an ℓ; "
        "projected = put back. momentum: horizontal = the momentum maps of horizontal symmetries. geonh methods NAME "
        "shows more."
    )


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
