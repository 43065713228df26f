"""``geonh check``: what a method will do to the invariants of a system, before a run."""

from __future__ import annotations

import time

from rich.markup import escape

import geonh as gn
from geonh.cli.console import new_table, out, refuse, refusing
from geonh.cli.options import Assignments, Dt, MethodOption, Retraction, Rule, Steps, SystemName
from geonh.cli.signals import interruptible


@interruptible
def check(
    name: SystemName,
    method: MethodOption = None,
    rule: Rule = None,
    retraction: Retraction = None,
    dt: Dt = None,
    steps: Steps = None,
    assignments: Assignments = None,
) -> None:
    """Predict how a method changes the energy and first integrals in a run, from its modified equation."""
    from geonh.cli.chosen import chosen

    words = chosen(name, assignments, method=method, rule=rule, retraction=retraction, dt=dt, steps=steps)
    if words.start.xi0 is None:
        refuse(f"{name} has no start: give it a variable xi0")
    began = time.perf_counter()
    with refusing(ValueError, TypeError, gn.IntegrationError):
        predicted = gn.diagnostics.predicted_drift(words.system, words.integrator, n_steps=words.n_steps, **words.begin)
    table = new_table("quantity", "largest change", "± quadrature", "slope, 1/s")
    for key, change in predicted.changes.items():
        row = (f"{abs(change).max():.2e}", f"{predicted.errors[key]:.0e}", f"{abs(predicted.slope(key)).max():.1e}")
        table.add_row(escape(key.replace("energy_minus", "energy at p⁻")), *row)
    seconds = time.perf_counter() - began
    out.print(
        f"[bold]{escape(name)}[/], dt = {words.dt:g} s, {words.n_steps} steps: predicted in {seconds:.1f} s",
        highlight=False,
    )
    out.print(table)
    if predicted.growth.max() > 1.01:
        out.print(
            f"the alternating part of p⁻ grows by a factor of up to {predicted.growth.max():.2g}; Gauss and the "
            "symmetric projection have none"
        )
