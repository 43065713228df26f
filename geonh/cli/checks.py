"""``geonh check``: what a method will do to the invariants of a system, before a run."""

from __future__ import annotations

import time
from typing import Annotated

import numpy as np
import typer
from rich.markup import escape

import geonh as gn
from geonh.cli.console import new_table, out, refuse, refusing
from geonh.cli.runs import Assignments, MethodOption, Retraction, Rule
from geonh.cli.words import entry_of, integrator_of, parameters_of
from geonh.integrators.base import Integrator
from geonh.runs.loop import IntegrationError


def check(
    name: Annotated[
        str, typer.Argument(help="A system of `geonh list`, or your own: FILE.py:NAME, a System or a function of it.")
    ],
    method: MethodOption = None,
    rule: Rule = None,
    retraction: Retraction = None,
    dt: Annotated[float | None, typer.Option(help="Time step in seconds.")] = None,
    steps: Annotated[int | None, typer.Option(help="Number of steps.")] = None,
    assignments: Assignments = None,
) -> None:
    """Predict how a method changes the energy and first integrals in a run, from its modified equation."""
    entry = entry_of(name)
    integrator: Integrator | None = integrator_of(
        entry.method if method is None else method, rule=rule, retraction=retraction
    )
    step, n_steps = entry.dt if dt is None else dt, entry.n_steps if steps is None else steps
    parameters = parameters_of(entry, assignments or [])
    system = entry.system(**parameters)
    start = entry.start(system)
    if start.xi0 is None:
        refuse(f"{name} has no start: give it a variable xi0")
    began = time.perf_counter()
    with refusing(ValueError, TypeError, IntegrationError):
        predicted = gn.diagnostics.predicted_drift(
            system,
            integrator,
            xi0=start.xi0,
            g0=start.g0,
            dt=step,
            n_steps=n_steps,
            controls=entry.controls,
        )
    table = new_table("quantity", "largest change", "± quadrature", "slope, 1/s")
    for key, change in predicted.changes.items():
        slope = np.abs(predicted.slope(key)).max()
        row = (f"{np.abs(change).max():.2e}", f"{predicted.errors[key]:.0e}", f"{slope:.1e}")
        table.add_row(escape(key.replace("energy_minus", "energy at p⁻")), *row)
    seconds = time.perf_counter() - began
    out.print(
        f"[bold]{escape(name)}[/], dt = {step:g} s, {n_steps} steps: predicted in {seconds:.1f} s", highlight=False
    )
    out.print(table)
    if predicted.growth.max() > 1.01:
        out.print(
            f"the alternating part of p⁻ grows by a factor of up to {predicted.growth.max():.2g}; Gauss and the "
            "symmetric projection have none"
        )
