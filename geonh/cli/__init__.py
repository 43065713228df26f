"""The command line: ``geonh list``, ``show NAME``, ``methods``, ``check NAME``, ``run NAME``, ``resume FILE``,
``info FILE``, ``view FILE``, ``play NAME``, ``build NAME``, ``sweep NAME``, ``merge``, ``export``.

Exit codes: 0 done, 1 the integration stopped early (results so far are saved), 2 usage error, 3 done but standard
output could not be written, 130 interrupted, 143 terminated (in both cases results so far are saved).
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperGroup

from geonh.cli.catalogue import list_systems, methods, show
from geonh.cli.checks import check
from geonh.cli.console import err, one_line
from geonh.cli.exports import build, play
from geonh.cli.pictures import view
from geonh.cli.runs import info, resume, run
from geonh.cli.signals import INTERRUPTED, exit_with
from geonh.cli.streams import UNSHOWN, robust_streams, write_failure
from geonh.cli.sweeps import export, merge_stores, sweep
from geonh.version import __version__


class _Commands(TyperGroup):
    """Command group with one-line usage errors instead of a box, and an orderly end when it is interrupted."""

    def main(self, *args: Any, standalone_mode: bool = True, **kwargs: Any) -> Any:
        if not standalone_mode:
            return super().main(*args, standalone_mode=False, **kwargs)
        sink = robust_streams()
        code = self._code(*args, **kwargs)
        failure = write_failure(sink)
        if failure is not None:
            err.print(f"[bold red]error:[/] standard output could not be written: {failure.strerror}")
        exit_with(code or (0 if failure is None else UNSHOWN))

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


app.command("list")(list_systems)
app.command()(show)
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
app.command()(methods)
