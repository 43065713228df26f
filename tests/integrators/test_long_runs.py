"""Long runs, on demand: a million steps for each family, and the two contact oscillators.

``pytest -m slow tests/integrators/test_long_runs.py -s`` prints the table of energy bounds and drifts.
"""

import numpy as np
import pytest

import geonh as gn
from geonh.diagnostics import drift
from geonh.integrators import Feedback
from geonh.systems import catalogue

pytestmark = pytest.mark.slow

FAMILIES = ("projected", "gni", "euler-ab", "rattle", "shake", "dla", "pontryagin", "lobatto4", "gauss4", "suzuki4")
EXPLICIT = ("rkmk4", "commutator-free4", "feedback", "rk4", "rk4-projected", "rk4-energy", "baumgarte")


def run(system_name, name, dt, n_steps, save_every):
    entry = catalogue[system_name]
    system = entry.system()
    begin = entry.start(system)
    method = Feedback({"constraint": 20.0, "energy": 2.0}, "rk4") if name == "feedback" else gn.methods[name].make()
    options = {"g0": begin.g0, "xi0": begin.xi0, "dt": dt, "n_steps": n_steps, "save_every": save_every}
    return gn.solve(system, method, **options)


@pytest.mark.parametrize("name", [*FAMILIES, *EXPLICIT, "discrete-gradient"])
def test_a_million_steps_on_the_reversible_contact_oscillator(name):
    trajectory = run("contact-oscillator", name, 0.05, 1_000_000, 500)
    found = drift(trajectory.t, trajectory.energy)
    print(f"\n{name:20s} energy {trajectory.energy[0]:.3f}: {found}")
    assert trajectory.success
    if name == "discrete-gradient":
        assert found.bound < 1e-9  # a rounding error in each of 10⁶ steps
    elif name in FAMILIES:
        # Within its bound the energy wanders slowly (DLA over 8·10⁶ steps as over 10⁶), so a fitted slope is no test of
        # drift; the growth of the bound is: tenfold for a drift, threefold for a random walk. (1 node in 500 is seen.)
        tenth = len(trajectory) // 10
        assert found.bound < 0.02
        assert found.bound < 1.5 * drift(trajectory.t[:tenth], trajectory.energy[:tenth]).bound
    if gn.methods[name].make().guarantees.constraint == "nodes":
        assert np.abs(trajectory.constraint_residual).max() < 1e-13


@pytest.mark.parametrize("name", ["projected", "gni", "dla", "gauss4", "discrete-gradient"])
def test_without_a_reversing_symmetry(name):
    """The energy error of symmetric methods drifts at a rate that falls at least with h²; discrete gradients have none.

    That of the symmetric projection drifts most: at h = 0.1 its energy is 200 times as large in the end.
    """
    bounds = []
    for dt in (0.05, 0.025):
        trajectory = run("contact-oscillator-nonreversible", name, dt, round(2e4 / dt), 20)
        bounds.append(drift(trajectory.t, trajectory.energy).bound)
    print(f"\n{name:20s} largest energy error over 2·10⁴ s: {bounds[0]:.2e} at h = 0.05, {bounds[1]:.2e} at h = 0.025")
    if name == "discrete-gradient":
        assert np.max(bounds) < 1e-9
    else:
        assert bounds[0] > 2.5 * bounds[1]
