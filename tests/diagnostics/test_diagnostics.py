"""Diagnostics give what is known in closed form, and see what is wrong."""

from dataclasses import replace

import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest

import geonh as gn
from geonh.diagnostics import (
    alternation,
    contraction_rate,
    convergence,
    drift,
    poincare_section,
    reversibility_defect,
    symplecticity_defect,
)
from geonh.groups import SE2, Torus, Translations
from geonh.integrators import DLA, Variational
from geonh.results.parasitic import AlternationWarning
from geonh.runs.locating import EventWarning
from geonh.systems import catalogue

matplotlib.use("Agg")


def top():
    entry = catalogue["heavy-top"]
    system = entry.system()
    begin = entry.start(system)
    return system, {"g0": begin.g0, "xi0": begin.xi0}


SLOW = [pytest.param(*pair, marks=pytest.mark.slow) for pair in (("midpoint", "exp"), ("trapezoid", "exp"))]


@pytest.mark.parametrize(("rule", "retraction"), [("trapezoid", "cayley"), ("left", "exp"), *SLOW])
@pytest.mark.quick("trapezoid-cayley")
def test_variational_integrators_are_symplectic(rule, retraction):
    system, at = top()
    assert symplecticity_defect(system, Variational(rule, retraction), dt=0.05, **at) < 1e-13


@pytest.mark.slow
def test_a_runge_kutta_method_is_not_symplectic_by_its_order():
    system, at = top()
    coarse, fine = (symplecticity_defect(system, gn.RKMK(4), dt=h, **at) for h in (0.04, 0.02))
    assert coarse > 1e-8
    assert 20 < coarse / fine < 45


def test_symplecticity_is_refused_for_a_constrained_system():
    sleigh = gn.systems.chaplygin_sleigh()
    with pytest.raises(ValueError, match="no invariant symplectic form"):
        symplecticity_defect(sleigh, gn.GNI(), xi0=[0.8, -0.5, 0.0], dt=0.1)


@pytest.mark.slow
def test_contraction_of_the_sleigh_is_the_divergence_of_its_equations():
    """u̇ = aω², ω̇ = −(ma/(I + ma²)) uω, in exponential coordinates of g: divergence −(ma/(I + ma²)) u."""
    sleigh = gn.systems.chaplygin_sleigh()
    m, inertia, a = (float(sleigh.parameters[k]) for k in ("m", "I", "a"))
    exact = -m * a / (inertia + m * a * a) * -0.5
    found = [contraction_rate(sleigh, gn.Gauss(2), xi0=[0.8, -0.5, 0.0], dt=h) for h in (0.02, 0.01)]
    extrapolated = 2 * found[1] - found[0]  # over a step the rate changes at first order
    assert abs(extrapolated - exact) < 1e-5


@pytest.mark.slow
def test_a_volume_preserving_system_does_not_contract():
    free = gn.System(Translations(3), metric=np.eye(3), potential=lambda x: 0.5 * x @ x)
    assert abs(contraction_rate(free, gn.Gauss(1), xi0=[1.0, 0.2, 0.3], dt=0.1)) < 1e-12


def test_the_multiplier_alternates_at_the_rate_of_contraction():
    """The sleigh: p⁻ ↦ p⁻ keeps Liouville's volume, so what is across the constraint grows as the rest contracts."""
    sleigh = gn.systems.chaplygin_sleigh()
    m, inertia, a = (float(sleigh.parameters[k]) for k in ("m", "I", "a"))
    for dt in (0.04, 0.02):
        with pytest.warns(AlternationWarning):
            run = gn.solve(sleigh, gn.GNI(start="average"), xi0=[0.8, 0.5, 0.0], dt=dt, n_steps=round(8 / dt))
        grown = np.log(alternation(run) / alternation(run)[0])
        contracted = m * a / (inertia + m * a * a) * np.cumsum(run.xi[:, 1]) * dt
        np.testing.assert_allclose(grown[10:] - grown[10], contracted[10:] - contracted[10], atol=0.05)


@pytest.mark.slow
def test_what_has_no_alternating_part():
    sleigh, options = gn.systems.chaplygin_sleigh(), {"dt": 0.02, "n_steps": 4}
    for method in (DLA(), gn.Gauss(2), gn.SymmetricProjection()):
        run = gn.solve(sleigh, method, xi0=[0.8, 0.5, 0.0], **options)
        np.testing.assert_array_equal(alternation(run), 0)
    for system, xi0 in ((sleigh, [0.0, 0.0, 0.0]), (gn.System(Translations(2), metric=np.eye(2)), [0.8, 0.5])):
        np.testing.assert_array_equal(alternation(gn.solve(system, gn.GNI(), xi0=xi0, **options)), 0)


def test_an_alternating_part_is_read_from_a_file_too(tmp_path):
    run = gn.solve(gn.systems.chaplygin_sleigh(), gn.GNI(start="average"), xi0=[0.8, 0.5, 0.0], dt=0.02, n_steps=4)
    assert alternation(run).min() > 1e-4
    path = run.save(tmp_path / "run.nc")
    np.testing.assert_array_equal(alternation(gn.Trajectory.load(path)), alternation(run))
    older = replace(run, loaded={name.replace("alternating", "alternation"): a for name, a in run.observables.items()})
    older.save(path)
    np.testing.assert_array_equal(alternation(gn.Trajectory.load(path)), alternation(run))
    assert "alternation" not in run.observables


@pytest.mark.slow
def test_reversibility():
    system, at = top()
    assert reversibility_defect(system, gn.GNI(), dt=0.05, **at) < 1e-12
    assert reversibility_defect(system, gn.RKMK(4), dt=0.05, **at) > 1e-8


def test_convergence_table_and_plot():
    sleigh = gn.systems.chaplygin_sleigh()
    measured = convergence(sleigh, gn.GNI(), xi0=[0.8, -0.5, 0.0])
    assert abs(measured.order - 2) < 0.05
    assert list(measured.table.columns) == ["error of g", "error of ξ", "order"]
    assert np.allclose(measured.table["order"].iloc[1:], 2, atol=0.1)
    assert "measured order 2.00, declared 2" in str(measured)
    axes = measured.plot().axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("dt (s)", "largest error at the end")
    with pytest.raises(ValueError, match="increasing"):
        convergence(sleigh, gn.GNI(), xi0=[0.8, -0.5, 0.0], steps=(80, 40))


def test_errors_at_rounding_tell_no_order():
    start = {"xi0": [0.0, 1.0, 0.0], "steps": (5, 10, 20, 320, 640)}
    found = convergence(gn.systems.suslov(), "gauss6", **start)
    assert found.error[-1] < found.floor < found.error[0]
    assert abs(found.order - 6) < 0.1
    assert "3 errors at rounding left out" in str(found)
    assert np.isnan(convergence(gn.systems.suslov(), gn.Gauss(3), xi0=[0.0, 1.0, 0.0], steps=(320, 640)).order)


@pytest.mark.slow
def test_methods_may_be_named():
    body = gn.systems.heavy_top()
    at = {"xi0": [0.1, 0.2, 3.0], "dt": 0.01}
    by_name = reversibility_defect(body, "variational", **at), symplecticity_defect(body, "variational", **at)
    method = gn.methods["variational"].make()
    assert by_name == (reversibility_defect(body, method, **at), symplecticity_defect(body, method, **at))


def test_drift_sees_a_slope_and_none():
    t = np.linspace(0, 100, 5001)
    wobble = 0.01 * np.sin(3 * t)
    assert not drift(t, wobble).drifts
    found = drift(t, wobble + 1e-3 * t)
    assert found.drifts
    assert abs(found.slope - 1e-3) < 4 * found.error + 1e-6
    assert "per second" in str(found)
    with pytest.raises(ValueError, match="N ≥ 30"):
        drift(t[:10], t[:10])


def test_poincare_section_of_a_harmonic_oscillator():
    system = gn.System(Translations(2), metric=np.eye(2), potential=lambda x: 0.5 * x @ x)
    run = gn.solve(system, gn.Gauss(2), g0=[1.0, 0.0], xi0=[0.0, 0.5], dt=0.01, n_steps=3000)
    section = poincare_section(run, lambda g, xi: g[0], direction=-1)
    assert len(section) == 5
    np.testing.assert_allclose(section.t, np.pi / 2 + 2 * np.pi * np.arange(5), atol=1e-9)
    np.testing.assert_allclose(section.values(system.group.point_names[1]), 0.5, atol=1e-9)
    both = poincare_section(run, lambda g, xi: g[0], direction=0)
    assert len(both) == len(section) + len(poincare_section(run, lambda g, xi: g[0]))
    nothing = poincare_section(run, lambda g, xi: g[0] - 5)
    assert len(nothing) == 0
    assert section.plot(*system.group.point_names).axes[0].get_title() == "Poincaré section, 5 crossings"
    with pytest.raises(ValueError, match="none of"):
        section.values("altitude")
    with pytest.raises(ValueError, match="direction"):
        poincare_section(run, lambda g, xi: g[0], direction=2)


@pytest.mark.slow
def test_poincare_section_looks_inside_steps_and_counts_neither_poles_nor_jumps():
    line = gn.System(Translations(2), metric=np.eye(2), potential=lambda x: 0.5 * x @ x)
    run = gn.solve(line, gn.Gauss(3), g0=[1.0, 0.0], xi0=[0.0, 1.0], dt=0.05, n_steps=400)  # (cos t, sin t)
    # twice within the step from 1.55 to 1.6, about its turning point at π/2
    late, early = np.pi / 2 + np.arccos(1 - 2e-4) * np.array([1, -1])
    section = poincare_section(run, lambda g, xi: g[1] - (1 - 2e-4), direction=0)
    np.testing.assert_allclose(section.t[:2], [early, late], atol=1e-5)
    assert len(section) == 6
    falling = poincare_section(run, lambda g, xi: g[1] - (1 - 2e-4), direction=-1)
    np.testing.assert_array_equal(falling.t, section.t[1::2])
    with pytest.warns(EventWarning, match="surface.*jumps over zero at t = 1.56"):  # a pole at 1.5612
        assert len(poincare_section(run, lambda g, xi: 1 / (g[0] - 0.0096), direction=0)) == 0
    with pytest.warns(EventWarning, match="jumps over zero"):  # an angle that is wrapped at π, and zero at 2π
        wrapped = poincare_section(run, lambda g, xi: jnp.arctan2(g[1], g[0]), direction=0)
    np.testing.assert_allclose(wrapped.t, 2 * np.pi * np.arange(1, 4), atol=1e-6)


@pytest.mark.slow
def test_poincare_section_at_zeros_on_nodes():
    line = gn.System(Translations(1), metric=[[1.0]])
    run = gn.solve(line, "midpoint", g0=[0.0], xi0=[1.0], dt=0.25, n_steps=8)

    def times(run, surface):
        return poincare_section(run, surface, direction=0).t

    np.testing.assert_allclose(times(run, lambda g, xi: g[0] - 1.0), [1.0], atol=1e-13)
    np.testing.assert_allclose(times(run, lambda g, xi: g[0] - 2.0), [2.0], atol=1e-13)  # at the last node
    assert len(times(run, lambda g, xi: g[0])) == 0  # where the run begins
    assert len(times(run, lambda g, xi: (g[0] - 1.0) ** 2)) == 0
    back = gn.solve(line, "midpoint", g0=[0.0], xi0=[1.0], dt=-0.25, n_steps=8)
    np.testing.assert_allclose(times(back, lambda g, xi: (g[0] + 1.0) * (g[0] + 1.5)), [-1.0, -1.5], atol=1e-13)
    short = gn.solve(line, "midpoint", g0=[0.0], xi0=[1.0], dt=0.25, n_steps=1)
    np.testing.assert_allclose(times(short, lambda g, xi: g[0] - 0.1), [0.1], atol=1e-13)


@pytest.mark.slow
def test_poincare_section_on_a_product_of_groups():
    roller = catalogue["roller-racer"]
    system = roller.system()
    begin = roller.start(system)
    run = gn.solve(system, gn.GNI(), g0=begin.g0, xi0=begin.xi0, dt=0.02, n_steps=500)
    section = poincare_section(run, lambda g, xi: xi[0] - np.median(run.xi[:, 0]), direction=0)
    assert len(section) >= 1
    assert np.abs(section.xi[:, 0] - np.median(run.xi[:, 0])).max() < 1e-10
    assert (SE2().dim + Torus(1).dim) == section.xi.shape[1]


def test_bad_input_is_named():
    sleigh = gn.systems.chaplygin_sleigh()
    at = {"xi0": [0.8, -0.5, 0.0]}
    with pytest.raises(TypeError, match="method must be an integrator"):
        convergence(sleigh, gn.GNI, **at)
    with pytest.raises(ValueError, match=r"steps must be a positive integer, got 10.5"):
        convergence(sleigh, gn.GNI(), steps=(10.5, 40), **at)
    with pytest.raises(ValueError, match="span"):
        convergence(sleigh, gn.GNI(), span=0.0, **at)
    run = gn.solve(sleigh, gn.GNI(), dt=0.1, n_steps=1, **at)
    with pytest.raises(ValueError, match="one number"):
        poincare_section(run, lambda g, xi: xi)


@pytest.mark.parametrize(("method", "margin"), [(None, 0.35), ("rkmk5", 0.15), ("gauss4", 0.15)])
@pytest.mark.quick("rkmk5-0.15")
def test_errors_follow_the_tolerance(method, margin):
    """That of order 8 more slowly: its estimate is of an order between 5 and 7 where steps are long."""
    sleigh = gn.systems.chaplygin_sleigh()
    found = convergence(sleigh, method, xi0=[0.8, -0.5, 0.0], span=10.0, tolerances=[1e-4, 1e-5, 1e-6, 1e-7, 1e-8])
    assert abs(found.order - 1) < margin
    assert np.all(np.diff(found.dt) < 0)
    assert "in the tolerance, expected 1" in str(found)
    assert list(found.table.index) == [1e-4, 1e-5, 1e-6, 1e-7, 1e-8]
    assert found.plot().axes[0].get_xlabel() == "tolerance"
    with pytest.raises(ValueError, match="tolerances must be two or more decreasing"):
        convergence(sleigh, method, xi0=[0.8, -0.5, 0.0], tolerances=[1e-8, 1e-6])
