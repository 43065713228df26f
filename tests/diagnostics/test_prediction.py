"""What is predicted before a run is what happens in it."""

import numpy as np
import pytest

import geonh as gn
from geonh.diagnostics import alternation_rates, contraction_rate, predicted_drift
from geonh.results.parasitic import AlternationWarning

SLEIGH = {"xi0": [0.8, -0.5, 0.0]}


@pytest.mark.parametrize("method", ["rkmk4", "lobatto4", "dla", "commutator-free4"])
@pytest.mark.quick("dla")
def test_the_energy_of_the_sleigh_changes_as_predicted(method):
    sleigh = gn.systems.chaplygin_sleigh()
    predicted = predicted_drift(sleigh, method, dt=0.1, n_steps=400, **SLEIGH)
    run = gn.solve(sleigh, method, dt=0.1, n_steps=400, **SLEIGH)
    change = run.energy[::2] - run.energy[0]
    assert np.abs(change).max() > 1e4 * predicted.errors["energy"]
    # node 0 of DLA has the momenta of the start, not those of a step: its energy is apart
    change, expected = change[1:] - change[1], predicted.changes["energy"][1:] - predicted.changes["energy"][1]
    np.testing.assert_allclose(expected, change, rtol=0, atol=0.01 * np.abs(change).max())


@pytest.mark.slow
def test_first_integrals_of_the_veselova_system_change_as_predicted():
    entry = gn.systems.catalogue["veselova"]
    system = entry.system()
    start = entry.start(system)
    options = {"g0": start.g0, "xi0": start.xi0, "dt": 2 * entry.dt, "n_steps": 200}
    predicted = predicted_drift(system, "rkmk4", **options)
    run = gn.solve(system, "rkmk4", **options)
    for name in system.first_integrals:
        change = run.integrals[name] - run.integrals[name][0]
        np.testing.assert_allclose(predicted.changes[name], change, rtol=0, atol=0.02 * np.abs(change).max())


@pytest.mark.parametrize("method", ["gauss4", "projected", "discrete-gradient"])
def test_no_drift_is_predicted_where_the_energy_is_kept(method):
    predicted = predicted_drift(gn.systems.chaplygin_sleigh(), method, dt=0.1, n_steps=200, **SLEIGH)
    assert np.abs(predicted.changes["energy"]).max() < 1e-12
    assert np.all(predicted.growth == 1)


@pytest.mark.slow
def test_work_of_forces_is_no_drift():
    damped = gn.System(gn.groups.SE2(), metric=np.eye(3), forces=lambda t, x, xi, u: -0.3 * xi)
    predicted = predicted_drift(damped, "gauss4", xi0=[1.0, 0.5, 0.2], dt=0.05, n_steps=80)
    assert np.abs(predicted.changes["energy"]).max() < 1e-7


@pytest.mark.slow
def test_alternation_grows_as_the_motion_contracts():
    sleigh = gn.systems.chaplygin_sleigh()
    rate = alternation_rates(sleigh, "gni", dt=1e-3, **SLEIGH)
    assert rate.shape == (1,)
    assert abs(rate[0] + contraction_rate(sleigh, gn.Gauss(2), dt=1e-4, **SLEIGH)) < 1e-4
    assert alternation_rates(sleigh, "gauss4", dt=0.1, **SLEIGH).shape == (0,)


@pytest.mark.slow
def test_alternation_of_suslov_grows_by_the_predicted_factor():
    """From a start with a multiplier, which GNI from the average momentum makes alternate."""
    system = gn.systems.suslov()
    options = {"xi0": system.project(None, [0.8, -0.6, 0.0]), "dt": 0.01, "n_steps": 400}
    predicted = predicted_drift(system, gn.GNI(), **options)
    with pytest.warns(AlternationWarning):
        run = gn.solve(system, gn.GNI(start="average"), **options)
    alternating = run.observables["alternating"]
    measured = np.log(alternating[-1] / alternating[0])
    assert abs(measured) > 1
    assert abs(np.log(predicted.growth[-1]) - measured) < 0.02 * abs(measured)


def test_too_few_samples_are_refused():
    with pytest.raises(ValueError, match="at least 4"):
        predicted_drift(gn.systems.chaplygin_sleigh(), dt=0.1, n_steps=3, **SLEIGH)
