"""``geonh run``, ``geonh resume``, ``geonh info``: commands that create, resume and describe files."""

from __future__ import annotations

import os
import re
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape

import geonh as gn
from geonh.arguments.validators import as_count
from geonh.cli.console import err, message_of, one_line, out, refuse, refusing, tell_saved, without_rounding
from geonh.cli.own import is_user_file, line_of_error
from geonh.cli.report import save, show_file, show_run
from geonh.cli.sweeps import finish, show_store
from geonh.cli.words import (
    RETRACTIONS,
    RULES,
    destination,
    entry_of,
    floats,
    integrator_of,
    method_in,
    parameters_of,
    path_of,
    point,
)
from geonh.engine import Interrupts
from geonh.integrators.base import Integrator
from geonh.results.parasitic import AlternationWarning
from geonh.results.trajectory import Trajectory

MAX_NODES = 20_000_000

MethodOption = Annotated[
    str | None,
    typer.Option(
        "--method", metavar="NAME", help="Integrator, as in `geonh methods`; left out, what suits the system."
    ),
]
Rule = Annotated[str | None, typer.Option("--rule", metavar="|".join(RULES), help="How ℓ is discretised.")]
Retraction = Annotated[
    str | None,
    typer.Option("--retraction", metavar="|".join(RETRACTIONS), help="Map from the algebra to the group."),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Set a parameter, e.g. --set J=0.5,0.6,0.8, or a matrix by rows, --set 'J=1,0,0;0,2,0;0,0,2'.",
    ),
]
FileOrStore = Annotated[
    str, typer.Argument(help="A file of `geonh run` or of save() in Python, or a store of a sweep.")
]
SystemOption = Annotated[
    str | None, typer.Option("--system", metavar="NAME|FILE.py:NAME", help="The system; needed where it is your own.")
]
NoFigure = Annotated[bool, typer.Option("--no-figure", help="Draw no figure.")]
Checkpoint = Annotated[
    bool, typer.Option("--checkpoint", help="Save what exists every minute, so that a run that is killed is not lost.")
]


def run(
    name: Annotated[
        str, typer.Argument(help="A system of `geonh list`, your own, FILE.py:NAME, or a robot's file, .urdf or .xml.")
    ],
    method: MethodOption = None,
    rule: Rule = None,
    retraction: Retraction = None,
    dt: Annotated[float | None, typer.Option(help="Time step in seconds; negative runs backwards.")] = None,
    steps: Annotated[int | None, typer.Option(help="Number of steps.")] = None,
    t0: Annotated[float, typer.Option(help="Initial time in seconds.")] = 0.0,
    save_every: Annotated[int, typer.Option(help="Keep every so many nodes.")] = 1,
    xi0: Annotated[str | None, typer.Option(metavar="A,B,…", help="Initial velocity, in place of the default.")] = None,
    g0: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Initial group element, the coordinates of `geonh show`.")
    ] = None,
    assignments: Assignments = None,
    output: Annotated[
        str, typer.Option("--out", metavar="DIR|FILE.nc", help="Where the NetCDF file and the figure go.")
    ] = "out",
    checkpoint: Checkpoint = False,
    no_figure: NoFigure = False,
) -> None:
    """Integrate a system; print what it kept, save a NetCDF file and a figure."""
    entry = entry_of(name)
    word = entry.method if method is None else method
    integrator = integrator_of(word, rule=rule, retraction=retraction)
    n_steps = entry.n_steps if steps is None else steps
    _check_counts(n_steps, save_every)
    parameters = parameters_of(entry, assignments or [])
    data, picture = destination(output, entry.name)
    step = entry.dt if dt is None else dt

    def solve() -> Trajectory:
        system = entry.system(**parameters)
        start = entry.start(system)
        n = len(system.group.velocity_names)
        if xi0 is None and start.xi0 is None:
            refuse(f"{name} has no start: give --xi0 with {n} numbers ({', '.join(system.group.velocity_names)})")
        velocity = start.xi0 if xi0 is None else floats(xi0, "--xi0", n)
        place = start.g0 if g0 is None else point(g0, system)
        try:
            return gn.solve(
                system,
                integrator,
                xi0=velocity,
                g0=place,
                dt=step,
                t0=t0,
                n_steps=n_steps,
                controls=entry.controls,
                save_every=save_every,
                throw=False,
                progress=True,
                checkpoint=data if checkpoint else None,
            )
        except ValueError as error:
            _nearest(error, system, place, velocity)
            raise

    note = ""
    if method is None and not isinstance(word, Integrator):
        of = "the default" if word is None else f"{word}, that of its source"
        note = f"method: {of} (--method NAME takes another: geonh methods)"
    source = Path(entry.source) if is_user_file(name) else None
    _carry_out(solve, data, None if no_figure else picture, source, note)


def resume(
    file: FileOrStore,
    steps: Annotated[int | None, typer.Option(help="Number of further steps; of a sweep, none.")] = None,
    system: SystemOption = None,
    assignments: Assignments = None,
    output: Annotated[
        str | None, typer.Option("--out", metavar="DIR|FILE.nc", help="Where to save; left out, the same file.")
    ] = None,
    allow_changes: Annotated[
        bool, typer.Option("--allow-changes", help="Go on with another system, or other parameters; the file tells.")
    ] = False,
    checkpoint: Checkpoint = False,
    no_figure: NoFigure = False,
) -> None:
    """Go on from a file, to the same bits as one run; or finish a sweep. Old and new are saved together."""
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
    before = loaded(path)
    a = before.attributes
    word = a["catalogue"] if system is None else system
    if system == "":
        refuse("--system takes NAME or FILE.py:NAME, got ''")
    if not word:
        refuse(f"{file} is of {a['system']!r}, which is not of the catalogue: say where it is, --system FILE.py:NAME")
    _check_counts(int(before.k[-1]) + steps, before.save_every)
    entry, integrator = entry_of(word), method_in(before)
    given = parameters_of(entry, assignments or [])
    data, picture = destination(str(path.with_suffix(".nc") if output is None else output), entry.name)
    data = path if output is None else data

    def go_on() -> Trajectory:
        system = entry.system(**{**entry.known(a["parameters"]), **given})
        return gn.resume(
            before,
            steps,
            system=system,
            method=integrator,
            controls=entry.controls,
            allow_changes=allow_changes,
            throw=False,
            progress=True,
            checkpoint=data if checkpoint else None,
        )

    source = Path(entry.source) if is_user_file(word) else None
    _carry_out(go_on, data, None if no_figure else picture, source)


def info(file: FileOrStore) -> None:
    """Tell what is in a file or a store, whether it is sound, and how to go on from it."""
    path = path_of(file, "FILE")
    if os.path.isdir(path):
        show_store(path)
        return
    show_file(loaded(path), path)


def loaded(path: Path) -> Trajectory:
    try:
        return Trajectory.load(path)
    except gn.FileError as error:
        refuse(str(error))
    except OSError as error:
        refuse(f"{path} cannot be read: {error.strerror or error}")


def _check_counts(n_steps: int, save_every: int) -> None:
    with refusing(ValueError):
        as_count(n_steps, "--steps")
        as_count(save_every, "--save-every")
    if n_steps // save_every > MAX_NODES:
        refuse(f"--steps {n_steps} would keep more than {MAX_NODES:,} nodes; keep fewer with --save-every")


def _nearest(error: ValueError, system: Any, place: Any, velocity: Any) -> None:
    """Suggest a consistent start in place of one that violates the constraints or is off the group."""
    text = message_of(error)
    if "does not satisfy the constraints" in text:
        values = without_rounding(system.project(place, velocity))
        if not np.all(np.isfinite(values)):
            refuse(f"{text.split(';')[0]}, and no velocity is nearest: give another --xi0")
        nearest = ",".join(f"{v:.12g}" for v in values)
        refuse(f"{text.split(';')[0]}\nthe nearest velocity that does: --xi0={nearest}")
    if "does not lie on" in text:
        with gn.float64():
            values = np.asarray(system.group.to_vector(system.group.project(place)))
        if not np.all(np.isfinite(values)):
            refuse(f"{text.split(';')[0]}, and no point is nearest: give another --g0")
        nearest = ",".join(f"{v:.17g}" for v in values)
        refuse(f"{text.split(';')[0]}\nthe nearest point that does: --g0={nearest}")


def _carry_out(
    act: Callable[[], Trajectory],
    data: Path,
    picture: Path | None,
    source: Path | None,
    note: str = "",
) -> None:
    """Run, report, save, and exit with the code of the outcome; ``source`` is the file of a user's system."""
    began = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AlternationWarning)  # shown in the table
            trajectory = act()
    except OSError as error:
        refuse(f"{message_of(error)}; what was saved before is in {data}")
    except Exception as error:
        line = line_of_error(error, source) if source is not None else None
        if line is None and not isinstance(error, ValueError | TypeError):
            raise
        text = re.sub(r"resume\(\.\.\., allow_changes=\[.*?\]\)", "geonh resume --allow-changes", message_of(error))
        text = re.sub(r"begin a new run from .*solve\(.*\)", "begin a new run, with geonh run", text)
        kind = "" if isinstance(error, ValueError | TypeError) else f"{type(error).__name__}: "
        refuse(f"{source}, line {line}: {kind}{text}" if line else text)
    except SystemExit as error:
        refuse(f"a function of the system ended the program: SystemExit: {message_of(error)}")
    seconds = time.perf_counter() - began
    interrupted = trajectory.status is gn.integrators.Result.INTERRUPTED
    if interrupted and trajectory.k[-1] == 0:
        err.print("[bold red]interrupted[/] before the first step; there is nothing to save", highlight=False)
        raise typer.Exit(130)
    with Interrupts():  # not while saving
        save(trajectory, data, None)
    if note:
        out.print(note, highlight=False)
    show_run(trajectory, seconds)
    tell_saved(data)
    if picture is not None and not interrupted:  # an interrupted run makes no figure
        save(trajectory, None, picture)
        tell_saved(picture)
    if interrupted:
        err.print(
            f"[bold red]interrupted[/] at t = {trajectory.t[-1]:g} s; what exists is saved. To go on: "
            f"geonh resume {escape(str(data))} --steps N",
            highlight=False,
        )
        raise typer.Exit(130)
    if not trajectory.success:
        err.print(f"[bold red]stopped early:[/] {escape(one_line(trajectory.message))}")
        raise typer.Exit(1)
