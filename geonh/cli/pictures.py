"""``geonh view``: HTML pages made from files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from geonh.cli.console import message_of, refuse, refusing, tell_saved
from geonh.cli.runs import SystemOption, loaded
from geonh.cli.words import entry_of, path_of
from geonh.results.trajectory import Trajectory
from geonh.viewer import view as make_view


def view(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Files of `geonh run`, or of save() in Python.")
    ],
    output: Annotated[
        str | None, typer.Option("--out", metavar="FILE.html", help="The page; left out, beside the first file.")
    ] = None,
    system: SystemOption = None,
    side_by_side: Annotated[bool, typer.Option("--side-by-side", help="Several runs begin side by side.")] = False,
) -> None:
    """Make one HTML file with a viewer in three dimensions, which opens from disk without a network."""
    paths = [path_of(file, "FILE") for file in files]
    page = paths[0].with_suffix(".html") if output is None else Path(output)
    runs = [_with_system(path, system) for path in paths]
    try:
        shown = make_view(*runs, path=page, side_by_side=side_by_side)
    except (ValueError, TypeError) as error:
        refuse(message_of(error).replace("Trajectory.load(path, system=...)", "--system FILE.py:NAME"))
    except OSError as error:
        refuse(f"{page} cannot be written: {error.strerror or error}")
    tell_saved(page, f", {len(shown.html) / 1e6:.2f} MB")


def _with_system(path: Path, word: str | None) -> Trajectory:
    trajectory = loaded(path)
    if word is None:
        return trajectory
    entry = entry_of(word)
    with refusing(ValueError, TypeError):
        return Trajectory.load(path, system=entry.system(**entry.known(trajectory.attributes["parameters"])))
