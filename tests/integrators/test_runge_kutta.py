"""Munthe-Kaas, commutator-free and Gauss methods in quasi-velocities."""

import numpy as np
import pytest
from random_systems import controls, forced, random_system, slope, start

import geonh as gn
from geonh.diagnostics import adjoint_defect, drift
from geonh.integrators import CommutatorFree
from geonh.systems import catalogue


@pytest.mark.parametrize(("stages", "bound"), [(1, 2e-3), (2, 5e-7)])
def test_gauss_keeps_the_energy_of_a_reversible_system_near(stages, bound):
    """Over 2000 s and some hundred turns of the contact plane, in coordinates that are chosen anew on the way.

    The motion is irregular, and starts 1e-14 apart give trends of either sign, of up to 0.17 of what the energy
    fluctuates; with RKMK(4) the trend is 0.98 of it.
    """
    entry = catalogue["contact-oscillator"]
    system = entry.system()
    begin = entry.start(system)
    run = gn.solve(system, gn.Gauss(stages), g0=begin.g0, xi0=begin.xi0, dt=0.05, n_steps=40_000, save_every=20)
    assert np.ptp(run.energy) < bound
    assert abs(drift(run.t, run.energy).slope) * run.t[-1] < 0.4 * np.ptp(run.energy)


@pytest.mark.parametrize(
    "stages", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)]
)
def test_gauss_is_its_own_adjoint_on_a_group(stages):
    """In the chart centred in the middle of the step; affine constraints."""
    system = random_system("SO3", affine=True)
    assert adjoint_defect(system, gn.Gauss(stages), gn.Gauss(stages), dt=0.05, **start(system)) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("method", [gn.RKMK(6), gn.Gauss(2), CommutatorFree()], ids=lambda m: type(m).__name__)
def test_orders_with_two_affine_constraints(method):
    system = random_system("SE2xT1", affine=True, m=2)
    steps = (6, 8, 12, 16) if method.order == 6 else (16, 24, 32, 48)
    assert abs(slope(system, method, steps, **start(system)) - method.order) <= 0.2


def test_stages_want_controls_between_the_nodes():
    system = forced()
    run = gn.solve(system, gn.RKMK(4), xi0=np.zeros(3), dt=0.1, n_steps=5, controls=controls)
    assert np.abs(run.constraint_residual).max() < 1e-14
    with pytest.raises(TypeError, match="as a function of t, not an array"):
        gn.solve(system, gn.RKMK(4), xi0=np.zeros(3), dt=0.1, n_steps=5, controls=np.zeros((6, 3)))


def test_other_orders_are_refused():
    with pytest.raises(ValueError, match="order must be one of"):
        gn.RKMK(3)
    with pytest.raises(ValueError, match="stages must be one of"):
        gn.Gauss(4)
