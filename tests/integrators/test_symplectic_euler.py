"""Euler A and B, and what they make together."""

import numpy as np
import pytest
from random_systems import OPTIONS, random_system, slope, start

import geonh as gn
from geonh.diagnostics import adjoint_defect
from geonh.integrators import RATTLE, EulerA, EulerAB, EulerB


@pytest.mark.slow
def test_euler_a_and_b_are_adjoint_and_their_composition_is_not_rattle():
    system = random_system("SO3", constant_metric=True)
    at = start(system)
    assert adjoint_defect(system, EulerA(), EulerB(), dt=0.03, **at) < 1e-13
    assert adjoint_defect(system, EulerA(), EulerA(), dt=0.03, **at) > 1e-5
    assert adjoint_defect(system, EulerAB(), EulerAB(), dt=0.03, **at) < 1e-13
    assert repr(EulerA().adjoint()) == repr(EulerB())
    ab, rattle = (gn.solve(system, m, **at, **OPTIONS) for m in (EulerAB(), RATTLE()))
    assert np.abs(ab.g - rattle.g).max() > 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(("method", "order"), [(EulerA(), 1), (EulerB(), 1), (EulerAB(), 2)])
def test_orders_on_an_affine_system(method, order):
    system = random_system("SO3", affine=True)
    steps = np.array([40, 80, 160]) * (1 if order == 2 else 8)
    assert method.order == order
    assert abs(slope(system, method, steps, **start(system, speed=1.0)) - order) <= 0.1
