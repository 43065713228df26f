"""``geonh build`` and ``geonh play``: models as code for other programs, and as a page in which they run."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from geonh.cli.console import out, refusing, tell_saved
from geonh.cli.runs import Assignments, MethodOption, Retraction, Rule
from geonh.cli.words import entry_of, integrator_of, parameters_of, path_of
from geonh.export import build as make
from geonh.export import play as make_page
from geonh.export.building import TARGETS


def build(
    name: Annotated[
        str, typer.Argument(help="A system of `geonh list`, or your own: FILE.py:NAME, a System or a function of it.")
    ],
    target: Annotated[str, typer.Option(metavar="|".join(TARGETS), help="What it is for.")] = "c",
    output: Annotated[
        str, typer.Option("--out", metavar="DIR", help="Folder; its name is the prefix of all names.")
    ] = "robot",
    method: MethodOption = None,
    rule: Rule = None,
    retraction: Retraction = None,
    dt: Annotated[float | None, typer.Option(help="Time step by default, in seconds.")] = None,
    assignments: Assignments = None,
    triple: Annotated[
        str, typer.Option(help="Machine as LLVM names it, e.g. aarch64-unknown-linux-gnu; left out, this one.")
    ] = "",
    cpu: Annotated[str, typer.Option(help="Its processor, e.g. cortex-m7.")] = "",
    features: Annotated[str, typer.Option(help="Features of the processor, e.g. +fma,-avx512f.")] = "",
    derivatives: Annotated[bool, typer.Option("--derivatives", help="Export the derivatives of a step, too.")] = False,
) -> None:
    """Write a system and a method as code that runs without Python; the numbers of the system stay parameters."""
    entry = entry_of(name)
    word = entry.method if method is None else method
    integrator = integrator_of(word, rule=rule, retraction=retraction)
    parameters, folder = parameters_of(entry, assignments or []), path_of(output, "--out")
    with refusing(ValueError, TypeError, OSError):
        system = entry.system(**parameters)
        start = entry.start(system)
        built = make(
            system,
            integrator,
            folder,
            target=target,
            triple=triple,
            cpu=cpu,
            features=features,
            derivatives=derivatives,
            xi0=start.xi0,
            g0=start.g0,
            dt=entry.dt if dt is None else dt,
            controls=entry.controls,
        )
    for file in built.files:
        out.print(f"saved {escape(str(file))}, {file.stat().st_size / 1e3:.1f} kB", highlight=False, soft_wrap=True)


def play(
    name: Annotated[
        str, typer.Argument(help="A system of `geonh list`, or your own: FILE.py:NAME, a System or a function of it.")
    ],
    output: Annotated[
        str | None, typer.Option("--out", metavar="FILE.html", help="The page; left out, NAME.html.")
    ] = None,
    methods: Annotated[
        list[str] | None, typer.Option("--method", metavar="NAME", help="Methods to choose from, each by --method.")
    ] = None,
    dt: Annotated[float | None, typer.Option(help="Time step by default, in seconds.")] = None,
    assignments: Assignments = None,
) -> None:
    """Make one HTML file in which the system runs, with sliders; it opens from disk without a network."""
    entry = entry_of(name)
    parameters, page = parameters_of(entry, assignments or []), path_of(output or f"{entry.name}.html", "--out")
    chosen = [integrator_of(method) for method in methods or []]
    with refusing(ValueError, TypeError, OSError):
        system = entry.system(**parameters)
        start = entry.start(system)
        made = make_page(
            system,
            page,
            chosen or None,
            xi0=start.xi0,
            g0=start.g0,
            dt=entry.dt if dt is None else dt,
            controls=entry.controls,
            n_steps=min(entry.n_steps, 2000),
        )
    tell_saved(page, f", {len(made.html) / 1e6:.2f} MB")
