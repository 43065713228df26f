"""The volume-preserving splitting without forces, and what it refuses; with them: ``analysis/test_new_time.py``."""

import numpy as np
import pytest
from random_systems import random_system, start

import geonh as gn
from geonh.diagnostics import symplecticity_defect
from geonh.groups import SO3, Translations
from geonh.integrators import Variational, VolumePreserving


@pytest.mark.slow
def test_without_forces_it_is_the_variational_integrator():
    system = random_system("SO3", constrained=False)
    runs = [
        gn.solve(system, method, dt=0.05, n_steps=20, **start(system)) for method in (VolumePreserving(), Variational())
    ]
    np.testing.assert_array_equal(runs[0].g, runs[1].g)
    np.testing.assert_array_equal(runs[0].p, runs[1].p)
    assert symplecticity_defect(system, VolumePreserving(), dt=0.05, **start(system)) < 1e-13


def test_what_it_refuses():
    with pytest.raises(ValueError, match="without constraints; suslov has some"):
        gn.solve(gn.systems.suslov(), VolumePreserving(), xi0=np.zeros(3), dt=0.1, n_steps=1)
    sliding = gn.System(Translations(2), metric=[1.0, 1.0], holonomic=lambda x: x[:1])
    with pytest.raises(ValueError, match="without constraints"):
        gn.solve(sliding, VolumePreserving(), xi0=np.zeros(2), dt=0.1, n_steps=1)
    damped = gn.System(SO3(), metric=[1.0, 2.0, 3.0], forces=lambda t, x, xi, u: -xi, name="damped")
    with pytest.raises(ValueError, match="no volume-preserving flow of those of damped"):
        gn.solve(damped, VolumePreserving(), xi0=np.zeros(3), dt=0.1, n_steps=1)
