"""``geonh build`` and ``geonh play``: models as code for other programs, and as a page in which they run."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

import geonh as gn
from geonh.cli.console import out, refusing, tell_saved
from geonh.cli.options import Assignments, MethodOption, Point, Retraction, Rule, SystemName, Velocity
from geonh.cli.signals import interruptible

TARGETS = ("c", "casadi", "fmi2", "fmi3", "ptx", "wasm")


@interruptible
def build(
    name: SystemName,
    target: Annotated[str, typer.Option(metavar="|".join(TARGETS), help="What it is for.")] = "c",
    output: Annotated[
        str, typer.Option("--out", metavar="DIR", help="Folder; its name is the prefix of all names.")
    ] = "robot",
    method: MethodOption = None,
    rule: Rule = None,
    retraction: Retraction = None,
    dt: Annotated[float | None, typer.Option(help="Time step by default, in seconds.")] = None,
    xi0: Velocity = None,
    g0: Point = None,
    assignments: Assignments = None,
    triple: Annotated[
        str, typer.Option(help="Machine as LLVM names it, e.g. aarch64-unknown-linux-gnu; left out, this one.")
    ] = "",
    cpu: Annotated[str, typer.Option(help="Its processor, e.g. cortex-m7.")] = "",
    features: Annotated[str, typer.Option(help="Features of the processor, e.g. +fma,-avx512f.")] = "",
    derivatives: Annotated[bool, typer.Option("--derivatives", help="Export the derivatives of a step, too.")] = False,
) -> None:
    """Write a system and a method as code that runs without Python; the numbers of the system stay parameters."""
    from geonh.cli.chosen import chosen
    from geonh.cli.words import path_of

    words = chosen(name, assignments, method=method, rule=rule, retraction=retraction, dt=dt)
    folder = path_of(output, "--out")
    with refusing(ValueError, TypeError, OSError):
        built = gn.build(
            words.system,
            words.integrator,
            folder,
            target=target,
            triple=triple,
            cpu=cpu,
            features=features,
            derivatives=derivatives,
            **words.begin_at(xi0, g0) | {"controls": words.entry.controls},
        )
    for file in built.files:
        out.print(f"saved {escape(str(file))}, {file.stat().st_size / 1e3:.1f} kB", highlight=False, soft_wrap=True)


@interruptible
def play(
    name: SystemName,
    output: Annotated[
        str | None, typer.Option("--out", metavar="FILE.html", help="The page; left out, NAME.html.")
    ] = None,
    methods: Annotated[
        list[str] | None, typer.Option("--method", metavar="NAME", help="Methods to choose from, each by --method.")
    ] = None,
    dt: Annotated[float | None, typer.Option(help="Time step by default, in seconds.")] = None,
    xi0: Velocity = None,
    g0: Point = None,
    assignments: Assignments = None,
) -> None:
    """Make one HTML file in which the system runs, with sliders; it opens from disk without a network."""
    from geonh.cli.chosen import chosen
    from geonh.cli.words import integrator_of, path_of

    words = chosen(name, assignments, dt=dt)
    page = path_of(output or f"{words.entry.name}.html", "--out")
    offered = [integrator_of(method) for method in methods or []]
    with refusing(ValueError, TypeError, OSError):
        steps = min(words.n_steps, 2000)
        begin = words.begin_at(xi0, g0) | {"controls": words.entry.controls}
        made = gn.export.play(words.system, page, offered or None, n_steps=steps, **begin)
    tell_saved(page, f", {len(made.html) / 1e6:.2f} MB")
