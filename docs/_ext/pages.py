"""Pages made from data: one for each system of the catalogue, each method, each package of the API.

A system's page has its drawing, its equations from the module, a measured run by several methods, and the viewer. Runs
are short; ``GEONH_PAGES=words`` leaves them out, to look at the words quickly.
"""

import inspect
import os
import re
import sys
import warnings
from pathlib import Path

import api
import numpy as np
from api import PACKAGES
from bibliography import cited
from markup import escaped, prose

import geonh as gn
import geonh.viewer
from geonh.diagnostics.invariants import invariants
from geonh.systems import catalogue

DOCS = Path(__file__).parents[1]
OUT = DOCS / "generated"
COMPARED = ("projected", "gni", "dla", "gauss4", "rkmk4", "discrete-gradient")
CHOSEN = (
    "projected",
    "gauss4",
    "gauss6",
    "rkmk4",
    "commutator-free4",
    "discrete-gradient",
    "gni",
    "rattle",
    "dla",
    "rk4",
)
DEFAULT = "gauss4"
CHOSEN_ON, STEPS = ("suslov", "roller-racer"), 1000
RUNS = os.environ.get("GEONH_PAGES", "runs") == "runs"


def make(app):
    """Write all of them."""
    for folder in ("systems", "methods", "api"):
        (OUT / folder).mkdir(parents=True, exist_ok=True)
    pictures = DOCS / "_static" / "systems"
    pictures.mkdir(parents=True, exist_ok=True)
    for entry in catalogue.values():
        write(OUT / "systems" / f"{entry.name}.md", system_page(entry, pictures))
    write(OUT / "systems" / "index.md", systems_index())
    for name in gn.methods:
        write(OUT / "methods" / f"{name}.md", method_page(name))
    write(OUT / "methods" / "index.md", methods_index())
    write(OUT / "choosing.txt", choosing_table())
    for package in PACKAGES:
        write(OUT / "api" / f"{package}.md", api.page(package))
    write(OUT / "api" / "index.md", api_index())


def write(path, text):
    """Write a page, unless it is as it was."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


# --- systems ---------------------------------------------------------------------------------------------------
def system_page(entry, pictures):
    """Figure, description, equations, parameters, invariants, accuracy, example."""
    system = entry.system()
    doc = sys.modules[entry.build.__module__].__doc__
    title, _, rest = inspect.cleandoc(doc).partition("\n")
    lines = [f"# {entry.heading}", "", f"{entry.title[:1].upper()}{entry.title[1:]}. `geonh run {entry.name}`", ""]
    if RUNS:
        default = draw(entry, system, pictures)
        files = f"../../_static/systems/{entry.name}"
        lines += [f'<a href="{files}.png"><img src="{files}.png" alt="Figure of a run of {entry.name}"></a>', ""]
        lines += [f'<a href="{files}.html">Open this run in the viewer</a>; click on the figure to enlarge it.', ""]
        lines += ["## Run it here", "", f"```{{live}} {entry.name}", "```", ""]
    lines += ["## Description", "", prose(section_free(entry.build.__doc__)), ""]
    group = system.group
    lines += ["## Data", "", "| | |", "|---|---|"]
    lines += [
        f"| space | {group}, dimension {group.dim} |",
        f"| coordinates | {', '.join(map(code, group.point_names))} |",
    ]
    lines += [
        f"| velocity ξ | {', '.join(map(code, group.velocity_names))} |",
        f"| constraints | {cell(entry.constraints)} |",
    ]
    lines += [f"| exact solution | {'closed form' if entry.exact else 'none'} |"]
    lines += [f"| default run | dt = {entry.dt:g} s, {entry.n_steps} steps, by `{entry.method or DEFAULT}` |", ""]
    if entry.parameters:
        lines += ["| parameter | default | meaning, unit |", "|---|---|---|"]
        lines += [
            f"| `{k}` | {cell(str(entry.defaults.get(k)))} | {cell(v)} |" for k, v in entry.parameters.items()
        ] + [""]
    if entry.conserved:
        lines += ["## Invariants", "", "| quantity | preserved by |", "|---|---|"]
        lines += [f"| {cell(k)} | {cell(v)} |" for k, v in entry.conserved.items()] + [""]
    if RUNS:
        lines += measured(entry, system, default)
    lines += ["## Model", "", escaped(title), prose(rest), ""]
    lines += ["## References", "", cited(entry.source), ""]
    lines += ["## Example", "", "```python", "import geonh as gn", "", f'entry = gn.systems.catalogue["{entry.name}"]']
    lines += ["system = entry.system()", "start = entry.start(system)"]
    driven = ", controls=entry.controls" if entry.controls else ""
    lines += [f"run = gn.solve(system, g0=start.g0, xi0=start.xi0, dt=entry.dt, n_steps=entry.n_steps{driven})"]
    lines += [f'run.view(path="{entry.name}.html")', "```", ""]
    return "\n".join(lines)


def solved(entry, system, method, n_steps):
    """A run of an entry; up to the failed step if one fails."""
    start = entry.start(system)
    begin = {"g0": start.g0, "xi0": start.xi0, "controls": entry.controls}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return gn.solve(system, method, dt=entry.dt, n_steps=n_steps, throw=False, **begin)


def draw(entry, system, pictures):
    """The figure and the viewer of a run by the default method, or by that of the entry where it is more accurate."""
    run = solved(entry, system, shown_by(entry), min(entry.n_steps, 2000))
    run.plot().savefig(pictures / f"{entry.name}.png", dpi=100)
    run.view(path=pictures / f"{entry.name}.html", max_frames=1001)
    return run


def shown_by(entry):
    """Method of the run that a page shows."""
    return "projected" if entry.method == "gni" else entry.method or DEFAULT


def measured(entry, system, default):
    """Table of the errors of methods on the default run."""
    lines = [
        "## Accuracy",
        "",
        f"Largest relative change of the invariants in {len(default) - 1} steps of {entry.dt:g} s from the default initial state:",
    ]
    known = [q for q in invariants(default) if q.name != "constraint residual"]
    shown = [q.name for q in known if q.conserved]
    lines += [
        "",
        f"| method | {' | '.join([*map(cell, shown), 'constraint residual'])} |",
        "|---" * (len(shown) + 2) + "|",
    ]
    for name in COMPARED:
        try:
            run = default if name == shown_by(entry) else solved(entry, system, name, len(default) - 1)
        except (ValueError, TypeError):
            continue  # it refuses the system
        found = {q.name.replace("energy at p̃", "energy"): q for q in invariants(run)}
        cells = [f"{found[n].relative.max():.1e}" if n in found else "" for n in shown]
        residual = np.abs(run.constraint_residual).max(initial=0.0)
        end = "" if run.success else f", stopped at {run.t[-1]:.3g} s"
        end += f", parasitic part over 1 % from {run.spoiled_from:.3g} s" if run.spoiled_from is not None else ""
        lines.append(f"| [`{name}`](../methods/{name}.md){end} | {' | '.join([*cells, f'{residual:.1e}'])} |")
    lines += ["", *(f"{q.name[0].upper()}{q.name[1:]}: {escaped(q.note)}." for q in known if not q.conserved)]
    return [*lines, ""]


def systems_index():
    """All systems with their pictures."""
    lines = [
        "# Catalogue of systems",
        "",
        "The catalogue, `gn.systems.catalogue`; `geonh list` on the command line.",
        "",
    ]
    lines += ["| | system | space | description |", "|---|---|---|---|"]
    lines += [
        f"| {thumbnail(e)} | [{e.heading}]({e.name}.md) | {e.system().group} | {cell(e.title)} |"
        for e in catalogue.values()
    ]
    lines += ["", "```{toctree}", ":hidden:", "", *catalogue, "```", ""]
    return "\n".join(lines)


def thumbnail(entry):
    """The figure of a run, small."""
    picture = f"../../_static/systems/{entry.name}.png"
    return f'<a href="{picture}"><img src="{picture}" alt="" width="160" loading="lazy"></a>' if RUNS else ""


# --- methods ---------------------------------------------------------------------------------------------------
def method_page(name):
    """Scheme, guarantees, options, reference."""
    entry = gn.methods[name]
    method = entry.make()
    g = method.guarantees
    kind = type(method)
    lines = [
        f"# {name}",
        "",
        f'{entry.title[0].upper()}{entry.title[1:]}. `gn.solve(system, "{name}", ...)`; `geonh run … --method {name}`.',
        "",
    ]
    lines += [f"## `{kind.__name__}`", "", prose(section_free(kind.__doc__)), ""]
    lines += ["## Scheme", "", prose(sys.modules[kind.__module__].__doc__), ""]
    lines += ["## Guarantees", "", "Every entry is tested on random systems.", "", "| | |", "|---|---|"]
    said = {
        "order": g.order,
        "solve": "implicit" if g.implicit else "explicit",
        "symmetric": "yes" if g.symmetric else "no",
        "node": g.node,
        "constraint": g.constraint,
        "energy": g.energy,
        "momentum": g.momentum,
        "affine constraints": "yes" if g.affine else "no",
        "spaces": g.groups,
        "steps": g.steps,
    }
    lines += [f"| {key} | {cell(str(value))} |" for key, value in said.items()]
    lines += ["", "The terms are explained with the [table of all methods](../../methods.md).", ""]
    lines += ["## Cost", "", *cost(name), ""]
    lines += ["## References", "", cited(g.reference), ""]
    return "\n".join(lines)


def cost(name):
    """Cost of a step, from the page of all methods."""
    tables = (DOCS / "methods.md").read_text(encoding="utf-8").split("## Cost of a step")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in tables.splitlines() if line[:1] == "|"]
    found = [row for row in rows if f"`{name}`" in row[0]]
    if not found:
        raise ValueError(f"docs/methods.md has no cost of a step of {name}")
    (row,), more = (
        found,
        "Conditions of the measurement, and other methods: [cost of a step](../../methods.md#cost-of-a-step).",
    )
    if len(row) == 2:
        return [f"A step: {row[1]}.", "", more]
    return [
        f"| {' | '.join(rows[0][1:])} |",
        "|---" * (len(row) - 1) + "|",
        f"| {' | '.join(row[1:])} |",
        "",
        f"Nanoseconds for a step. {more}",
    ]


def section_free(doc):
    """A docstring up to its first section; the API has them all."""
    return re.split(r"\n\s*(?:Parameters|Attributes|Returns|References)\n\s*-+", doc or "")[0]


def methods_index():
    """All methods."""
    lines = ["# Reference of methods", "", "| method | description | order |", "|---|---|---|"]
    lines += [f"| [`{n}`]({n}.md) | {cell(m.title)} | {m.make().guarantees.order} |" for n, m in gn.methods.items()]
    lines += ["", "```{toctree}", ":hidden:", "", *gn.methods, "```", ""]
    return "\n".join(lines)


def choosing_table():
    """Guarantees and measured errors of recommended methods, for the page on choosing one."""
    shown = [catalogue[name] for name in CHOSEN_ON] if RUNS else []
    head = ["method", "order", "solve", "symmetric", "constraint", "energy"]
    head += [f"{word} on {e.name}" for e in shown for word in ("energy change", "constraint residual")]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name in CHOSEN:
        g = gn.methods[name].make().guarantees
        kind = "implicit" if g.implicit else "explicit"
        cells = [f"[`{name}`](generated/methods/{name}.md)", g.order, kind, "yes" if g.symmetric else "no"]
        cells += [g.constraint, g.energy]
        for entry in shown:
            run = solved(entry, entry.system(), name, STEPS)
            energy = next(q for q in invariants(run) if q.name.startswith("energy"))
            spoiled = "" if run.spoiled_from is None else f", parasitic part over 1 % from {run.spoiled_from:.0f} s"
            cells += [f"{energy.relative.max():.1e}{spoiled}", f"{np.abs(run.constraint_residual).max():.1e}"]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    if shown:
        steps = " and ".join(f"{e.dt:g} s ({e.name})" for e in shown)
        lines += ["", f"Largest values in {STEPS} steps of {steps} from the initial state of the catalogue."]
    return "\n".join([*lines, ""])


def api_index():
    """The packages."""
    lines = [
        "# API",
        "",
        "Public names, with shapes, units, errors and references.",
        "",
        "```{toctree}",
        ":maxdepth: 1",
        "",
    ]
    return "\n".join([*lines, *PACKAGES, "```", ""])


def code(word):
    return f"`{word}`"


def cell(text):
    """Words in a cell of a table."""
    return escaped(str(text)).replace("\n", " ")
