"""Figures: every system's has axes with units, curves for every velocity, and finite data; odd runs draw too."""

import io
import re

import jax.numpy as jnp
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

import geonh as gn
from geonh.groups import SE2
from geonh.plotting import invariants, plot_fan, plot_histogram, plot_invariants, plot_multipliers, plot_phase
from geonh.plotting.labels import named_method
from geonh.results.trajectory import describe
from geonh.systems import catalogue

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def run(name, **options):
    entry = catalogue[name]
    system = entry.system()
    start = entry.start(system)
    given = {"xi0": start.xi0, "g0": start.g0, "dt": entry.dt, "n_steps": 60, "controls": entry.controls}
    return gn.solve(system, **(given | options))


def words(figure):
    result = [text.get_text() for axes in figure.axes for text in [axes.xaxis.label, axes.yaxis.label]]
    return result + [t.get_text() for axes in figure.axes if axes.get_legend() for t in axes.get_legend().get_texts()]


QUICK = ("chaplygin-sphere", "snakeboard", "suslov", "nonholonomic-particle")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in catalogue])
@pytest.mark.quick("suslov")
def test_every_system_has_a_readable_figure(name):
    trajectory = run(name)
    figure = trajectory.plot()
    figure.canvas.draw()
    said = words(figure)
    assert "time (s)" in said
    assert any("error" in word for word in said)
    curves = [line for axes in figure.axes for line in axes.lines if len(line.get_xdata()) == len(trajectory)]
    assert len(curves) > trajectory.xi.shape[1]  # at least one curve for each velocity, and the energy
    assert "energy (J)" in said
    assert name in figure.get_suptitle()


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_a_run_that_failed_and_a_start_alone_are_drawn():
    stopped = run("snakeboard", xi0=[0.0, 0.0, 0.0, 0.0, 3.0], n_steps=200, throw=False)
    assert not stopped.success
    stopped.plot().canvas.draw()
    failed_at_once = run("snakeboard", xi0=[0.0, 0.0, 0.0, 0.0, 3.0], dt=0.424, n_steps=1, throw=False)
    failed_at_once.plot().canvas.draw()


@pytest.mark.slow
def test_a_long_run_is_drawn_with_few_points():
    figure = run("suslov", n_steps=60_000).plot()
    assert max(len(line.get_xdata()) for axes in figure.axes for line in axes.lines) <= 20_000


@pytest.mark.slow
def test_the_error_panel_shows_the_errors_that_the_trajectory_has():
    trajectory = run("nonholonomic-particle", n_steps=50)
    (panel,) = (axes for axes in trajectory.plot().axes if axes.get_yscale() == "log")
    line = next(line for line in panel.lines if line.get_label() == "energy")
    error = np.abs(trajectory.energy - trajectory.energy[0]) / abs(trajectory.energy[0])
    assert np.isclose(np.max(line.get_ydata()), error.max())


@pytest.mark.slow
def test_a_picture_in_space_stands_in_its_place_with_its_words():
    figure = run("rolling-disc").plot()
    figure.canvas.draw()
    axes = next(axes for axes in figure.axes if hasattr(axes, "zaxis"))
    low, high = figure.transFigure.transform(axes.get_position(original=True).get_points())
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        box = axis.get_tightbbox()
        assert np.all(box.get_points()[0] >= low - 1)
        assert np.all(box.get_points()[1] <= high + 1)
    assert "third body axis\nin space" in words(figure)


@pytest.mark.slow
def test_units_that_are_declared_and_names_that_are_typeset():
    said = words(run("double-pendulum", n_steps=3).plot())
    assert "velocity (m/s)" in said
    assert "$v_{x1}$" in said


@pytest.mark.slow
def test_rates_of_angles_are_typeset():
    assert {r"$\dot{\theta}_{R}$", r"$\dot{\delta}$"} <= set(words(run("whipple-bicycle", n_steps=3).plot()))


@pytest.mark.slow
def test_every_figure_has_the_units_that_were_declared():
    known = catalogue["chaplygin-sleigh"].system()
    declared = {"x": "mm", "y": "mm", "time": "ms", "energy": "uJ"}
    parts = {"metric": np.diag([1.0, 2.0, 2.0]), "distribution": gn.Distribution([[0.0, 0.0, 1.0]]), "draw": known.draw}
    system = gn.System(SE2(), **parts, parameters=known.parameters, units=declared, name="sleigh")
    trajectory = gn.solve(system, xi0=[0.8, -0.5, 0.0], dt=0.01, n_steps=100)
    said = words(trajectory.plot())
    assert {"x (mm)", "y (mm)", "time (ms)", "energy (uJ)", "velocity (mm/ms)", "constraint force (uJ/mm)"} <= set(said)
    assert "angular velocity\n(rad/ms)" in said
    others = [plot_invariants(trajectory), plot_multipliers(trajectory), plot_phase(trajectory, "t", "energy")]
    for figure in (trajectory.plot(), *others):
        assert not re.search(r"\((m|s|J|N|rad/s|m/s)\)", "; ".join(words(figure)))
    ensemble = gn.solve_ensemble(system, xi0=[[0.8, -0.5, 0.0], [0.7, -0.5, 0.0]], dt=0.01, n_steps=9, save_every=1)
    assert {"time (ms)", "energy (uJ)"} <= set(words(plot_fan(ensemble, "energy")))
    assert "$v_{x}$ (mm/ms)" in words(plot_histogram(ensemble, "xi", component=1))
    page = ensemble.to_xarray()
    assert list(page.component_units.values) == ["rad/ms", "mm/ms", "mm/ms"]
    assert page.attrs["dt"] == 0.01


@pytest.mark.slow
def test_energy_of_a_driven_run_is_not_among_what_is_kept_and_what_begins_at_zero_has_absolute_errors():
    quantities = {q.name: q for q in invariants(run("spherical-robot"))}
    assert not quantities["energy"].conserved
    assert quantities["energy"].note == "not kept: the controls do work"
    assert quantities["K"].scale == 1.0
    assert quantities["K"].relative.max() < 1e-12


@pytest.mark.slow
def test_a_notebook_shows_every_figure_and_no_global_state_knows_of_it():
    formatters = pytest.importorskip("IPython.core.formatters", reason="what a notebook shows, IPython knows")
    sleigh = gn.systems.chaplygin_sleigh()
    straight = lambda speed: (None, [0.0, speed, 0.0])  # noqa: E731
    locus = gn.analysis.root_locus(sleigh, [1.0, 2.0], straight)
    over_both = gn.analysis.stability_map(
        sleigh, [1.0, 2.0], [0.1, 0.2], lambda u, a: straight(u), parameters=(None, "a")
    )
    for figure in (run("chaplygin-sleigh", n_steps=5).plot(), locus.plot(), over_both.plot()):
        shown = formatters.DisplayFormatter().format(figure)[0]
        width, height = (figure.get_size_inches() * figure.dpi).astype(int)
        assert plt.imread(io.BytesIO(shown["image/png"])).shape[:2] == (height, width)
    assert plt.get_fignums() == []


@pytest.mark.quick("None-False")
@pytest.mark.parametrize(("forms", "there"), [([[0.0, 1.0]], True), (None, False)])
def test_what_errors_below_the_logarithmic_axis_are_drawn_as_is_said(forms, there):
    """Exact zeros are drawn at the bottom, where the residual of a coordinate form is."""
    given = {} if forms is None else {"distribution": gn.Distribution(forms)}
    system = gn.System(gn.groups.Translations(2), metric=[1.0, 2.0], potential=lambda x: jnp.cos(x[0]), **given)
    figure = gn.solve(system, xi0=[0.7, 0.0], dt=0.3, n_steps=2000).plot()
    words = [text.get_text() for axes in figure.axes if axes.get_legend() for text in axes.get_legend().get_texts()]
    assert (r"bottom: $\leq 10^{-17}$" in words) == there


@pytest.mark.slow
def test_small_bodies_are_enlarged_and_angles_of_unlike_sizes_have_panels_of_their_own():
    entry = gn.systems.catalogue["two-wheeled-robot"]
    system = entry.system()
    start = entry.start(system)
    run = gn.solve(system, g0=start.g0, xi0=start.xi0, dt=0.02, n_steps=1500, controls=entry.controls)
    figure = run.plot()
    words = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    (factor,) = [float(word.split()[2]) for word in words if word.startswith("bodies drawn")]
    assert factor >= 10
    extent = np.ptp(run.g_vector[:, 1:3], axis=0).max()
    drawn = max(
        np.ptp(c.get_paths()[0].vertices, axis=0).max() for c in figure.axes[0].collections if len(c.get_paths())
    )
    assert 0.01 * extent < drawn < 0.2 * extent
    angles = [axes for axes in figure.axes if axes.get_ylabel() == "angle (rad)"]
    sizes = [max(np.abs(line.get_ydata()).max() for line in axes.lines if len(line.get_ydata())) for axes in angles]
    assert len(angles) == 2
    assert sizes[1] > 12 * sizes[0]
    near = run.first(20).plot().axes[0].get_legend().get_texts()
    assert not any(text.get_text().startswith("bodies drawn") for text in near)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (gn.Gauss(2), "gauss4"),
        (gn.GNI(retraction="exp"), "gni, exp retraction"),
        (gn.integrators.Adaptive(gn.RKMK(8), 1e-8), "rkmk8, tolerance 1e-08"),
        (gn.integrators.RungeKutta("rk4", baumgarte=2.0), "RungeKutta"),
        *((entry.make(), name) for name, entry in gn.methods.items()),
    ],
)
def test_methods_are_called_by_their_names(method, words):
    assert named_method(describe(method)) == words
