"""``geonh view``: HTML pages made from files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from geonh.cli.console import out, words_of, wrong
from geonh.cli.runs import loaded
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
    system: Annotated[
        str | None,
        typer.Option("--system", metavar="NAME|FILE.py:NAME", help="The system; needed where it is your own."),
    ] = None,
    side_by_side: Annotated[bool, typer.Option("--side-by-side", help="Several runs begin side by side.")] = False,
) -> None:
    """Make one HTML file with a viewer in three dimensions, which opens from disk without a network."""
    paths = [path_of(file, "FILE") for file in files]
    page = paths[0].with_suffix(".html") if output is None else Path(output)
    runs = [_with_system(path, system) for path in paths]
    try:
        made = make_view(*runs, path=page, side_by_side=side_by_side)
    except (ValueError, TypeError) as error:
        wrong(words_of(error).replace("Trajectory.load(path, system=...)", "--system FILE.py:NAME"))
    except OSError as error:
        wrong(f"{page} cannot be written: {error.strerror or error}")
    out.print(f"saved {escape(str(page))}, {len(made.html) / 1e6:.2f} MB", highlight=False, soft_wrap=True)


def _with_system(path: Path, word: str | None) -> Trajectory:
    trajectory = loaded(path)
    if word is None:
        return trajectory
    entry = entry_of(word)
    given = trajectory.attributes["parameters"]
    known = {key: value for key, value in given.items() if key in entry.parameters and value is not None}
    try:
        return Trajectory.load(path, system=entry.system(**known))
    except (ValueError, TypeError) as error:
        wrong(words_of(error))
