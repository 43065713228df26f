"""Every method on every system of the catalogue: it runs at its order and keeps what it promises, or says why not.

The runs take half an hour: on demand, as do the rarer systems of the quick test.
"""

import numpy as np
import pytest
from refusals import refused

import geonh as gn
from geonh.systems import catalogue

SPAN, STEPS = 0.4, (10, 20)  # or four and two of the system's own steps at a time, where that is shorter
FIRST_ORDER = 8  # times as many for methods of order 1


@pytest.mark.parametrize("system_name", catalogue)
@pytest.mark.quick("double-pendulum", "contact-oscillator-nonreversible", "suslov")
def test_it_refuses_what_it_is_not_for(system_name):
    """Without a run, so that a method that wrongly refuses, or takes what it should not, is seen at once."""
    entry = catalogue[system_name]
    system, span = entry.system(), min(SPAN, 40 * entry.dt)
    begin = entry.start(system)
    for name in gn.methods:
        if name == "feedback":  # which computes a Hessian first
            continue
        method = gn.methods[name].make()

        def start(method=method):
            method.refuse(system)
            with gn.float64():
                method.refuse_start(system, span / STEPS[0], system.point(begin.g0), np.asarray(begin.xi0, float))

        if refused(system, name, method.guarantees):
            with pytest.raises(ValueError, match=r"\w+"):
                start()
        else:
            start()


@pytest.mark.slow
@pytest.mark.parametrize("name", gn.methods)
@pytest.mark.parametrize("system_name", catalogue)
def test_it_runs_and_converges(system_name, name):
    entry = catalogue[system_name]
    system = entry.system()
    begin = entry.start(system)
    method = gn.methods[name].make()
    span = min(SPAN, 40 * entry.dt)
    steps = [n * (FIRST_ORDER if method.order == 1 else 1) for n in STEPS]
    options = {"g0": begin.g0, "xi0": begin.xi0, "controls": entry.controls}
    too_fast = name == "feedback"  # its gain of 100, for these steps
    if too_fast or refused(system, name, method.guarantees):
        with pytest.raises(ValueError, match=r"\w+"):
            gn.solve(system, method, dt=span / steps[0], n_steps=steps[0], **options)
        return
    runs = [gn.solve(system, method, dt=span / n, n_steps=n, **options) for n in steps]
    exact = gn.mechanics.reference_trajectory(system, [0.0, span], begin.xi0, begin.g0, controls=entry.controls)
    with gn.float64():
        end = np.concatenate([np.asarray(system.group.to_vector(exact[0]))[-1], exact[1][-1]])
    errors = [np.abs(np.concatenate([run.g_vector[-1], run.xi[-1]]) - end).max() for run in runs]
    assert errors[1] < 0.1 * (1 + np.abs(end).max())
    assert errors[1] < 1e-9 or errors[0] / errors[1] > 0.6 * 2**method.order
    promised, last = method.guarantees, runs[-1]
    if promised.constraint == "nodes":
        assert np.abs(last.constraint_residual).max(initial=0.0) < 1e-13 * (1 + np.abs(last.xi).max())
    if promised.energy in ("always", "quadrature", "projected") and entry.controls is None:
        assert np.ptp(last.energy) < 1e-12 * (1 + np.abs(last.energy).max())
