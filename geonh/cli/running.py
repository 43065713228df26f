"""Runs of ``geonh run`` and ``geonh resume``: made, reported and saved."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.markup import escape

import geonh as gn
from geonh.arguments.validators import as_count
from geonh.cli.chosen import Chosen, chosen
from geonh.cli.console import err, message_of, one_line, out, refuse, refusing, tell_saved, without_rounding
from geonh.cli.own import is_user_file, line_of_error
from geonh.cli.report import save, show_run
from geonh.cli.robots import is_robot_file
from geonh.cli.words import path_of
from geonh.engine import Interrupts
from geonh.integrators.base import Integrator
from geonh.results.parasitic import AlternationWarning
from geonh.results.trajectory import Trajectory
from geonh.systems import Entry

MAX_NODES = 20_000_000


def solved(
    words: Chosen, xi0: str | None, g0: str | None, *, t0: float, save_every: int, checkpoint: Path | None
) -> Trajectory:
    """Run from the start of the entry, or from the velocity and the point of the command line."""
    system, begin = words.first, words.begin_at(xi0, g0)
    if begin["xi0"] is None:
        names = system.group.velocity_names
        refuse(f"{words.entry.name} has no start: give --xi0 with {len(names)} numbers ({', '.join(names)})")
    try:
        return gn.solve(
            words.system,
            words.integrator,
            **begin,
            mode=words.entry.mode,
            t0=t0,
            n_steps=words.n_steps,
            save_every=save_every,
            throw=False,
            progress=True,
            checkpoint=checkpoint,
        )
    except ValueError as error:
        _nearest(error, system, begin["g0"], begin["xi0"])
        raise


def note_of(words: Chosen) -> str:
    """Line about the method where the user named none; empty if the user's file has an integrator."""
    if isinstance(words.entry.method, Integrator):
        return ""
    of = "the default" if words.entry.method is None else f"{words.entry.method}, that of its source"
    return f"method: {of} (--method NAME takes another: geonh methods)"


def loaded(path: Path) -> Trajectory:
    try:
        return Trajectory.load(path)
    except gn.FileError as error:
        refuse(str(error))
    except OSError as error:
        refuse(f"{path} cannot be read: {error.strerror or error}")


def shown(file: str, system: str | None, assignments: list[str] | None) -> Trajectory:
    """Run of a file with its system, or of a robot's file from rest."""
    if is_robot_file(file):
        words = chosen(file, assignments)
        with refusing(ValueError, TypeError):
            return gn.solve(words.system, n_steps=words.n_steps, throw=False, **words.begin)
    trajectory = loaded(path_of(file, "FILE"))
    if system is None:
        return trajectory
    words = chosen(system, assignments)
    with refusing(ValueError, TypeError):
        return Trajectory.load(path_of(file, "FILE"), system=words.system_of(trajectory))


def convert(file: str, output: str) -> None:
    """Write a file of a run as CSV or MCAP."""
    target, trajectory = path_of(output, "--out"), loaded(path_of(file, "FILE"))
    if target.suffix.lower() not in (".csv", ".mcap"):
        refuse(f"--out {output}: a run is written as .csv or .mcap")
    with refusing(ValueError, OSError, ImportError):
        trajectory.to_csv(target) if target.suffix.lower() == ".csv" else gn.export.mcap(trajectory, target)
    tell_saved(target)


def check_counts(n_steps: int, save_every: int) -> None:
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


def carry_out(
    act: Callable[[], Trajectory],
    data: Path,
    picture: Path | None,
    entry: Entry,
    note: str = "",
) -> None:
    """Run, report, save, and exit with the code of the outcome."""
    source = Path(entry.source) if is_user_file(entry.source) else None
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
