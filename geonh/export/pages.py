"""``play``: one HTML file in which the integrator itself runs, as WebAssembly, beside a view and curves."""

from __future__ import annotations

import base64
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from typing import Any

from geonh.arguments.signatures import validated
from geonh.arguments.validators import as_count, as_float64, entries, shortly
from geonh.diagnostics.invariants import invariants
from geonh.drawing import Scene, scene
from geonh.drawing.picture import Picture
from geonh.export import javascript, motions
from geonh.export.model import Model, default_start
from geonh.export.programs import as_function
from geonh.integrators.base import Integrator
from geonh.integrators.registry import stepping_method
from geonh.mechanics.system import System
from geonh.plotting.labels import named_method, plain
from geonh.results.trajectory import Trajectory, describe
from geonh.runs.solve import solve
from geonh.systems import catalogue
from geonh.viewer.packing import Block, packed_body, trace_of
from geonh.viewer.page import Page, as_page_path, page_text

SHOWN = 2000
"""Number of steps of the run in Python by which the view is framed."""
SECOND = "rkmk4"
"""Method offered beside the one asked for."""
NAME = "model"
"""Prefix of the functions' names."""


@validated
def play(
    system: System,
    path: str | os.PathLike | None = None,
    methods: Integrator | str | Sequence[Integrator | str | None] | None = None,
    *,
    xi0: Any = None,
    g0: Any = None,
    dt: float | None = None,
    controls: Any = None,
    n_steps: int | None = None,
) -> Page:
    """Make a page in which the system runs: it opens from disk, without a network.

    The page has the method as WebAssembly, with the parameters of the system and its start as sliders; what is kept,
    and the velocities, as curves that grow; a body can be pushed with the mouse; two runs can be compared.

    Parameters
    ----------
    system : System
        A system with a drawing; one of the catalogue has the start and the step of its entry by default.
    path : path, optional
        Output file, a name that ends in ``.html`` or ``.htm``.
    methods : Integrator, str, or sequence of these, optional
        Methods to choose from; the first is that of the beginning. When left out, the default of ``solve``, and
        "rkmk4".
    xi0 : array_like, shape=[n], optional
    g0 : point of the group, optional
    dt : float, optional
    controls : callable or array_like, shape=[…], optional
        Start by default and controls, as for ``build``.
    n_steps : int, optional
        Number of steps by which the view is framed.

    Returns
    -------
    Page
        Jupyter displays it, ``save(path)`` writes it.

    Raises
    ------
    TypeError, ValueError
        For invalid input, as of ``build``; if the system cannot be drawn.
    OSError
        If the file cannot be written.
    """
    entry = catalogue.get(catalogue.name_of(system))
    if entry is not None and xi0 is None and g0 is None:
        start = entry.start(system)
        xi0, g0 = start.xi0, start.g0
        controls = entry.controls if controls is None else controls
    if dt is None:
        dt = 0.01 if entry is None else entry.dt
    if not as_float64(dt, "dt", ()) > 0:
        raise ValueError(f"dt must be > 0, got {dt}: a page runs forwards")
    usual = min(SHOWN, 1000 if entry is None else entry.n_steps)
    steps = usual if n_steps is None else as_count(n_steps, "n_steps")
    meanings = {} if entry is None else entry.parameters
    path = None if path is None else as_page_path(path)
    chosen = _chosen(methods, as_function(controls))
    xi0, g0 = default_start(system, xi0, g0)
    given = {"xi0": xi0, "g0": g0, "dt": dt}
    models = [Model.of(system, method, controls=controls, meanings=meanings, **given) for method in chosen]
    shown = solve(system, chosen[0], n_steps=steps, throw=False, controls=models[0].controls_of_time, **given)
    title = system.name if entry is None else entry.heading
    page = Page(_text(title, models, shown))
    if path is not None:
        page.save(path)
    return page


def _chosen(methods: Any, controls: Any) -> list[Integrator]:
    """Methods of a page, distinct."""
    if methods is None:
        methods = [None, SECOND]
    listed = [methods] if isinstance(methods, str | Integrator) else entries(methods)
    if not listed:
        raise TypeError(f"methods must be a method, or a list of them, got {shortly(methods)}")
    found = [stepping_method(method, None, controls)[0] for method in listed]
    words = [describe(method) for method in found]
    return [method for i, method in enumerate(found) if words[i] not in words[:i]]


def _text(title: str, models: Sequence[Model], shown: Trajectory) -> str:
    drawn, block = scene(shown), Block()
    header = {
        "title": title,
        "system": models[0].system.name,
        "second": models[0].observed[0].unit,
        "flat": bool(drawn.is_flat),
        "low": drawn.extent[0].tolist(),
        "high": drawn.extent[1].tolist(),
        "bodies": [packed_body(block, replace(body, R=body.R[:1], x=body.x[:1])) for body in drawn.bodies],
        "traces": [[drawn.bodies.index(body), trace_of(body)] for body in drawn.traces],
        "panels": _panels(models[0], shown),
        "models": [_model(model, word, drawn) for model, word in zip(models, _words(models), strict=True)],
    }
    files = resources.files("geonh.export").joinpath("files")
    scripts, styles = [files / "run.js", files / "play.js"], [files / "play.css"]
    return page_text(header, bytes(block.bytes), files / "play.html", scripts=scripts, styles=styles, kind="live")


def _model(model: Model, word: str, drawn: Scene) -> dict[str, Any]:
    """Method, vectors and module of a model."""
    picture, n = Picture(model.system), len(drawn.bodies)
    more = motions.functions(model, picture, n)
    module = javascript.compiled(model, NAME, **more)
    data = javascript.data(model)
    data["sizes"] |= {"pose": 12 * n, "hand": n + 6, "pushed": model.state_size}
    shapes = model.system.group.point_shapes
    data["free"] = [len(shape) < 2 for shape in shapes for _ in range(math.prod(shape))]
    return {
        "method": word,
        "about": describe(model.method),
        "data": data,
        "code": base64.b64encode(module.code).decode(),
    }


def _words(models: Sequence[Model]) -> list[str]:
    """Methods in words; with all of their options where the words are the same."""
    texts = [describe(model.method) for model in models]
    words = [named_method(text) for text in texts]
    return [word if words.count(word) == 1 else text for word, text in zip(words, texts, strict=True)]


def _panels(model: Model, shown: Trajectory) -> list[dict[str, Any]]:
    """Curves against time: errors of what is kept, the energy, the velocities by unit."""
    names = [quantity.name for quantity in model.observed]

    def places(name: str) -> list[int]:
        return [i for i, known in enumerate(names) if known == name or known.startswith(f"{name}[")]

    known = {"energy at p⁻": "energy_minus", "energy at p̃": "energy", "constraint residual": "constraint_residual"}
    kept = [
        {"name": q.name, "places": places(known.get(q.name, q.name)), "absolute": q.name == "constraint residual"}
        for q in invariants(shown)
        if q.conserved
    ]
    energy = names.index("energy")
    joules = model.observed[energy].unit
    panels = [
        {"title": "error of what is kept", "unit": "relative; residual absolute", "log": True, "curves": kept},
        {"title": "energy", "unit": joules, "log": False, "curves": [{"name": "energy", "places": [energy]}]},
    ]
    for unit in dict.fromkeys(quantity.unit for quantity in model.velocity):
        curves = [{"name": plain(q.name), "places": places(q.name)} for q in model.velocity if q.unit == unit]
        title = "angular velocity" if unit.startswith("rad/") else "velocity"
        panels.append({"title": title, "unit": unit, "log": False, "curves": curves})
    return [panel for panel in panels if panel["curves"]]
