"""The main figures against pictures of them that were looked at.

Words and ticks are taken out, so that fonts and their rasteriser do not matter, and what is left is compared by the
root mean square of all channels, after a blur that forgives a line half a pixel off. After a change that is meant,
renew the pictures and look at them:

    python tests/plotting/test_images.py
"""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFilter

import geonh as gn
from geonh import plotting
from geonh.diagnostics import convergence, poincare_section
from geonh.systems import catalogue

REFERENCE = Path(__file__).parent / "reference"
TOLERANCE = 1.2
"""Of 255. A curve that is left out makes more: see the last test."""


def run(name, method="projected", n_steps=200, **options):
    entry = catalogue[name]
    system = entry.system()
    start = entry.start(system)
    given = {"g0": start.g0, "xi0": start.xi0, "controls": entry.controls, "dt": entry.dt}
    return gn.solve(system, method, n_steps=n_steps, **(given | options))


def section():
    oscillator = run("nonholonomic-oscillator", dt=0.05, n_steps=4000)
    return plotting.plot_poincare({"default": poincare_section(oscillator, lambda g, xi: g[1])}, "x", "z")


def orders():
    suslov = gn.systems.suslov()
    return plotting.plot_convergence(
        [
            convergence(suslov, method, xi0=[0.0, 1.0, 0.0], steps=(20, 40, 80))
            for method in (gn.SymmetricProjection(), gn.RKMK(4))
        ]
    )


FIGURES = {
    "plot-sleigh": lambda: run("chaplygin-sleigh", dt=0.05).plot(),
    "plot-sphere": lambda: run("chaplygin-sphere").plot(),
    "plot-snakeboard": lambda: run("snakeboard").plot(),
    "invariants": lambda: plotting.plot_invariants(run("chaplygin-sphere")),
    "multipliers": lambda: plotting.plot_multipliers(run("chaplygin-sleigh", "gni", dt=0.05)),
    "phase": lambda: plotting.plot_phase(run("nonholonomic-oscillator", dt=0.05, n_steps=1000), "x", "z"),
    "poincare": section,
    "convergence": orders,
}


def picture(figure):
    """A figure without its words, small."""
    for text in figure.texts:
        text.set_visible(False)
    figure.set_layout_engine(None)
    figure.subplots_adjust(0.05, 0.05, 0.95, 0.95, 0.2, 0.2)
    for axes in figure.axes:
        axes.set_title("")
        if hasattr(axes, "zaxis"):  # whose size depends on that of its words
            axes.set_box_aspect(np.ptp([axes.get_xlim(), axes.get_ylim(), axes.get_zlim()], axis=1), zoom=1.2)
        for axis in (axes.xaxis, axes.yaxis, *([axes.zaxis] if hasattr(axes, "zaxis") else [])):
            axis.label.set_visible(False)
            axis.offsetText.set_visible(False)
            axis.set_tick_params(which="both", length=0, labelsize=0, labelcolor="none")
        if axes.get_legend():
            axes.get_legend().remove()
        if axes.get_yscale() == "log" and "error" in axes.get_ylabel() and len(figure.axes) > 1:
            axes.set_visible(False)  # rounding, which is another on each machine
    figure.set_dpi(50)
    return pixels(figure)


def pixels(figure):
    figure.canvas.draw()
    return Image.fromarray(np.asarray(figure.canvas.buffer_rgba())[:, :, :3].copy())


def apart(made, wanted):
    """Root mean square of the differences, of 255."""
    if made.size != wanted.size:
        return np.inf
    soft = [np.asarray(image.filter(ImageFilter.GaussianBlur(1.0)), float) for image in (made, wanted)]
    return float(np.sqrt(np.mean((soft[0] - soft[1]) ** 2)))


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.quick("multipliers", "poincare")
def test_the_figure_is_the_one_that_was_looked_at(name, tmp_path):
    made = picture(FIGURES[name]())
    with Image.open(REFERENCE / f"{name}.png") as wanted:
        distance = apart(made, wanted.convert("RGB"))
    if distance > TOLERANCE:
        made.save(tmp_path / f"{name}.png")
    assert distance <= TOLERANCE, f"compare {tmp_path / name}.png with {REFERENCE / name}.png"


@pytest.mark.slow
def test_what_is_missing_is_seen():
    figure = FIGURES["plot-snakeboard"]()
    picture(figure)
    with Image.open(REFERENCE / "plot-snakeboard.png") as reference:
        wanted = reference.convert("RGB")
    curves = [line for axes in figure.axes if axes.get_visible() for line in axes.lines if len(line.get_xdata()) > 5]
    assert len(curves) > 8
    for curve in curves:
        curve.set_visible(False)
        assert apart(pixels(figure), wanted) > TOLERANCE
        curve.set_visible(True)


if __name__ == "__main__":
    REFERENCE.mkdir(exist_ok=True)
    for name, make in FIGURES.items():
        picture(make()).quantize(256).save(REFERENCE / f"{name}.png", optimize=True)
        print(REFERENCE / f"{name}.png")
