"""What notebooks show: the numbers of the object, nothing that a name could break, all of it small."""

import numpy as np
import pytest

import geonh as gn
from geonh import analysis
from geonh.groups import SE2, Translations


def test_cards_tell_what_the_object_has():
    sleigh = gn.systems.chaplygin_sleigh(a=0.25)
    text = sleigh._repr_html_()
    for word in ("chaplygin-sleigh", "SE(2), dimension 3", "a = 0.25", "1.062", "μ(x)ξ = 0"):
        assert word in text
    run = gn.solve(sleigh, xi0=[0.8, -0.5, 0.0], dt=0.05, n_steps=20)
    text = run._repr_html_()
    for word in ("21", "t = 0 … 1 s", "energy", "constraint residual", ".view()"):
        assert word in text
    assert "order" in gn.GNI()._repr_html_()
    assert "Nonlinearity" in gn.GNI()._repr_html_() or "2008" in gn.GNI()._repr_html_()
    table = gn.methods._repr_html_()
    assert all(f"<td>{name}</td>" in table for name in gn.methods)
    assert "<td>suslov</td>" in gn.systems.catalogue._repr_html_()
    assert all(len(repr(known).splitlines()) == len(known) < 40 for known in (gn.methods, gn.systems.catalogue))
    ball = gn.systems.rolling_ball()._repr_html_()
    assert "b(x)" in ball  # affine
    own = gn.System(SE2(), metric=np.eye(3), base="point", name="<script>alert(1)</script>")
    assert "<script>" not in own._repr_html_()
    large = gn.System(Translations(9), metric=np.eye(9), base="point", name="large")
    assert "9 × 9" in large._repr_html_()
    assert all(len(thing._repr_html_()) < 20_000 for thing in (sleigh, run, large))
    assert "ℓ = a function" in gn.System(SE2(), lagrangian=lambda x, xi: xi @ xi / 2)._repr_html_()


@pytest.mark.slow
def test_cards_of_ensembles_have_endings_and_spread():
    sleigh = gn.systems.chaplygin_sleigh()
    sweep = gn.Sweep.of(
        sleigh,
        xi0=[0.8, -0.5, 0.0],
        parameters={"a": np.linspace(0.2, 0.4, 5)},
        dt=0.05,
        n_steps=20,
        events=[gn.Event(lambda t, g, xi, lam: g[0] - 0.3, name="east", stop=True)],
        statistics=[gn.ensembles.Mean("energy", over="time")],
    )
    text = sweep._repr_html_()
    assert all(word in text for word in ("5", "differ in", "<td", "energy:mean over time", "east", "Gauss"))
    runs = sweep.solve()
    text = runs._repr_html_()
    t = runs.events["east"].t[:, 0]
    assert "5 × event" in text
    assert f"<td>event east: t</td><td>5</td><td>{t.min():.4g}</td><td>{np.median(t):.4g}</td>" in text
    assert "<td>a</td><td>5</td><td>0.2</td><td>0.3</td><td>0.4</td>" in text


@pytest.mark.slow
def test_cards_of_analyses_have_their_roots():
    sleigh = gn.systems.chaplygin_sleigh(m=1.0, I=1.0, a=0.2)
    line = analysis.linearise(sleigh, None, [0.0, 1.0, 0.0])
    assert all(word in line._repr_html_() for word in ("omega", f"<td>{-0.2 / 1.04:.6g}</td>", "3, factored out"))
    locus = analysis.root_locus(sleigh, np.linspace(-2.0, 2.0, 5), lambda speed: (None, [0.0, speed, 0.0]))
    assert f"{-0.4 / 1.04:.4g} … {0.4 / 1.04:.4g}" in locus._repr_html_()
    body = gn.System(gn.groups.SO3(), metric=[1.0, 2.0, 3.0], base="point", name="body")
    orbit = analysis.periodic_orbit(body, None, [0.3, 0.2, 1.0], 8.0)
    text = orbit._repr_html_()
    assert f"{orbit.period:.10g} s" in text
    assert all(f"{abs(m.imag):.6g}i" in text for m in orbit.multipliers)


def test_constraints_are_told_in_a_line():
    assert repr(gn.AffineDistribution(forms=[[0, 0, 1.0]], rhs=lambda x: x[:1])) == (
        "AffineDistribution(forms=of shape [1, 3], rhs=a function)"
    )


def test_what_describes_a_run_is_told_in_a_line():
    system = gn.systems.chaplygin_sleigh()
    sweep = gn.Sweep.of(system, "gauss4", xi0=[[0.8, -0.5, 0.0], [0.5, 0.1, 0.0]], dt=0.01, n_steps=40, save_every=20)
    assert repr(sweep) == (
        "Sweep of 2 runs of chaplygin-sleigh by gauss4, Gauss(retraction=None, newton=Newton(), stages=2): 40 steps "
        "each, every 20 kept; differing in xi0"
    )
    assert repr(system.action) == "PointBase of SE(2)"
    entry = gn.systems.catalogue["chaplygin-sleigh"]
    assert repr(entry) == f"Entry 'chaplygin-sleigh': {entry.title}"
