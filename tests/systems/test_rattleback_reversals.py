"""Kane and Levinson's rattleback: it turns round when they say, and again."""

import numpy as np
import pytest

import geonh as gn

SPIN = gn.Event(lambda t, g, xi, lam: g[2, :3] @ xi[:3], name="spin")
THIRD = gn.Event(lambda t, g, xi, lam: xi[2], name="omega3")
REVERSAL = 2.352731
"""When ω₃ is zero first, s: from Kane and Levinson's equations, started as in their figures."""


def spun(method, dt, span, events, reverse=False):
    system = gn.systems.rattleback()
    g0, xi0 = gn.systems.catalogue["rattleback"].start(system)
    return gn.solve(system, method, g0=g0, xi0=-xi0 if reverse else xi0, dt=dt, n_steps=round(span / dt), events=events)


def vertical(run):
    return np.einsum("ki,ki->k", run.g[:, 2, :3], run.xi[:, :3])


@pytest.mark.slow
def test_the_default_method_finds_it_at_second_order():
    errors = [abs(spun("projected", h, 2.4, THIRD).events["omega3"].t[0] - REVERSAL) for h in (1e-3, 5e-4, 2.5e-4)]
    assert errors[0] < 2e-3
    np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), 2, atol=0.35)  # 109 rad/s are fast for it


@pytest.mark.slow
def test_it_turns_round_when_it_was_published_and_again():
    """From −5 rad/s it reverses at 2.8 s and back at 17.3 s."""
    run = spun("gauss4", 1e-3, 25.0, [SPIN, THIRD])
    assert abs(run.events["omega3"].t[0] - REVERSAL) < 1e-6
    times, spin = run.events["spin"].t, vertical(run)
    assert np.all(((times > 2.6) & (times < 2.9)) | ((times > 17.3) & (times < 17.45)))  # it trembles as it turns
    assert np.sum(times < 3) % 2 == 1
    assert np.sum(times > 3) % 2 == 1
    assert spin[0] < -4.9
    assert spin[8000] > 3.0
    assert spin[-1] < -3.0
    assert np.ptp(run.energy) < 1e-5 * run.energy[0]
    assert np.abs(run.holonomic_residual).max() < 1e-16


@pytest.mark.slow
def test_the_preferred_way_lasts_longer():
    preferred = spun("gauss4", 1e-3, 12.0, SPIN, reverse=True)
    assert preferred.events["spin"].t[0] > 11.4
    assert vertical(preferred)[-1] < 0.0


@pytest.mark.slow
def test_the_default_method_turns_round_too():
    run = spun("projected", 1e-3, 25.0, SPIN)
    spin = vertical(run)
    assert spin[0] < 0 < spin[8000]
    assert spin[-1] < 0
    assert np.ptp(run.energy) < 2e-3 * run.energy[0]
