"""``geonh run``, ``geonh resume``, ``geonh info``: commands that create, resume and describe files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

import geonh as gn
from geonh.cli.options import (
    Assignments,
    FileOrStore,
    MethodOption,
    Point,
    Retraction,
    Rule,
    Steps,
    SystemOption,
    Velocity,
)
from geonh.cli.signals import interruptible

if TYPE_CHECKING:
    from geonh.results.trajectory import Trajectory

NoFigure = Annotated[bool, typer.Option("--no-figure", help="Draw no figure.")]
Checkpoint = Annotated[
    bool, typer.Option("--checkpoint", help="Save what exists every minute, so that a run that is killed is not lost.")
]


@interruptible
def run(
    name: Annotated[
        str, typer.Argument(help="A system of `geonh list`, your own, FILE.py:NAME, or a robot's file, .urdf or .xml.")
    ],
    method: MethodOption = None,
    rule: Rule = None,
    retraction: Retraction = None,
    dt: Annotated[float | None, typer.Option(help="Time step in seconds; negative runs backwards.")] = None,
    steps: Steps = None,
    t0: Annotated[float, typer.Option(help="Initial time in seconds.")] = 0.0,
    save_every: Annotated[int, typer.Option(help="Keep every so many nodes.")] = 1,
    xi0: Velocity = None,
    g0: Point = None,
    assignments: Assignments = None,
    output: Annotated[
        str, typer.Option("--out", metavar="DIR|FILE", help="Where the data file (.nc) and the figure go.")
    ] = "out",
    checkpoint: Checkpoint = False,
    no_figure: NoFigure = False,
) -> None:
    """Integrate a system; print what it kept, save a data file and a figure."""
    from geonh.cli import running
    from geonh.cli.chosen import chosen
    from geonh.cli.words import destination

    words = chosen(name, assignments, method=method, rule=rule, retraction=retraction, dt=dt, steps=steps)
    running.check_counts(words.n_steps, save_every)
    data, picture = destination(output, words.entry.name)

    def solve() -> Trajectory:
        return running.solved(words, xi0, g0, t0=t0, save_every=save_every, checkpoint=data if checkpoint else None)

    note = "" if method is not None else running.note_of(words)
    running.carry_out(solve, data, None if no_figure else picture, words.entry, note)


@interruptible
def resume(
    file: FileOrStore,
    steps: Annotated[int | None, typer.Option(help="Number of further steps; of a sweep, none.")] = None,
    system: SystemOption = None,
    assignments: Assignments = None,
    output: Annotated[
        str | None, typer.Option("--out", metavar="DIR|FILE", help="Where to save; left out, the same file.")
    ] = None,
    allow_changes: Annotated[
        bool, typer.Option("--allow-changes", help="Go on with another system, or other parameters; the file tells.")
    ] = False,
    checkpoint: Checkpoint = False,
    no_figure: NoFigure = False,
) -> None:
    """Go on from a file, to the same bits as one run; or finish a sweep. Old and new are saved together."""
    from geonh.arguments.validators import as_count
    from geonh.cli import running
    from geonh.cli.chosen import chosen
    from geonh.cli.console import refuse, refusing
    from geonh.cli.stores import finish
    from geonh.cli.words import destination, figure_beside, method_in, path_of

    path = path_of(file, "FILE")
    if os.path.isdir(path):
        if steps is not None:
            refuse("--steps goes with a file of one run; a sweep is finished as it was begun")
        finish(path)
        return
    if steps is None:
        refuse("--steps is needed: the number of further steps")
    with refusing(ValueError):
        as_count(steps, "--steps")
    before = running.loaded(path)
    a = before.attributes
    word = a["catalogue"] if system is None else system
    if system == "":
        refuse("--system takes NAME or FILE.py:NAME, got ''")
    if not word:
        refuse(f"{file} is of {a['system']!r}, which is not of the catalogue: say where it is, --system FILE.py:NAME")
    running.check_counts(int(before.k[-1]) + steps, before.save_every)
    words, integrator = chosen(word, assignments), method_in(before)
    data, picture = (path, figure_beside(path)) if output is None else destination(output, words.entry.name)

    def go_on() -> Trajectory:
        return gn.resume(
            before,
            steps,
            system=words.system_of(before),
            method=integrator,
            controls=words.begin["controls"],
            allow_changes=allow_changes,
            throw=False,
            progress=True,
            checkpoint=data if checkpoint else None,
        )

    running.carry_out(go_on, data, None if no_figure else picture, words.entry)


@interruptible
def info(file: FileOrStore) -> None:
    """Tell what is in a file or a store, whether it is sound, and how to go on from it."""
    from geonh.cli import running
    from geonh.cli.report import show_file
    from geonh.cli.stores import show_store
    from geonh.cli.words import path_of

    path = path_of(file, "FILE")
    if os.path.isdir(path):
        show_store(path)
        return
    show_file(running.loaded(path), path)
