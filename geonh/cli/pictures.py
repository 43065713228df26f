"""``geonh view``: HTML pages made from files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import geonh as gn
from geonh.cli.console import message_of, refuse, refusing, tell_saved
from geonh.cli.robots import is_robot_file
from geonh.cli.runs import Assignments, SystemOption, loaded
from geonh.cli.words import entry_of, parameters_of, path_of
from geonh.results.trajectory import Trajectory
from geonh.viewer import view as make_view


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
    paths = [path_of(file, "FILE") for file in files]
    page = paths[0].with_suffix(".html") if output is None else Path(output)
    runs = [
        _of_robot(file, assignments or []) if is_robot_file(file) else _with_system(path, system)
        for file, path in zip(files, paths, strict=True)
    ]
    try:
        shown = make_view(*runs, path=page, side_by_side=side_by_side)
    except (ValueError, TypeError) as error:
        refuse(message_of(error).replace("Trajectory.load(path, system=...)", "--system FILE.py:NAME"))
    except OSError as error:
        refuse(f"{page} cannot be written: {error.strerror or error}")
    tell_saved(page, f", {len(shown.html) / 1e6:.2f} MB")


def _of_robot(file: str, assignments: list[str]) -> Trajectory:
    """Run of a robot from rest."""
    entry = entry_of(file)
    system = entry.system(**parameters_of(entry, assignments))
    start = entry.start(system)
    with refusing(ValueError, TypeError):
        return gn.solve(system, g0=start.g0, xi0=start.xi0, dt=entry.dt, n_steps=entry.n_steps, throw=False)


def _with_system(path: Path, word: str | None) -> Trajectory:
    trajectory = loaded(path)
    if word is None:
        return trajectory
    entry = entry_of(word)
    with refusing(ValueError, TypeError):
        return Trajectory.load(path, system=entry.system(**entry.known(trajectory.attributes["parameters"])))
