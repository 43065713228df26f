"""``geonh view``: HTML pages made from files."""

from __future__ import annotations

from typing import Annotated

import typer

from geonh.cli.console import message_of, refuse, tell_saved
from geonh.cli.options import Assignments, SystemOption
from geonh.cli.signals import interruptible


@interruptible
def view(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Files of `geonh run`, or of save() in Python; or robots' files."),
    ],
    output: Annotated[
        str | None, typer.Option("--out", metavar="FILE.html", help="The page; left out, beside the first file.")
    ] = None,
    system: SystemOption = None,
    side_by_side: Annotated[bool, typer.Option("--side-by-side", help="Several runs begin side by side.")] = False,
    assignments: Assignments = None,
) -> None:
    """Make one HTML file with a viewer in three dimensions, which opens from disk without a network."""
    from geonh.cli import running
    from geonh.cli.words import path_of
    from geonh.viewer import view as make_view

    paths = [path_of(file, "FILE") for file in files]
    page = paths[0].with_suffix(".html") if output is None else path_of(output, "--out")
    runs = [running.shown(file, system, assignments) for file in files]
    try:
        shown = make_view(*runs, path=page, side_by_side=side_by_side)
    except (ValueError, TypeError) as error:
        refuse(message_of(error).replace("Trajectory.load(path, system=...)", "--system FILE.py:NAME"))
    except OSError as error:
        refuse(f"{page} cannot be written: {error.strerror or error}")
    tell_saved(page, f", {len(shown.html) / 1e6:.2f} MB")
