"""Euler A and B, and what they make together."""

import numpy as np
import pytest
from random_systems import OPTIONS, random_system, slope, start

import geonh as gn
from geonh.diagnostics import adjoint_defect


def test_euler_a_and_b_are_adjoint_and_their_composition_is_not_rattle():
    system = random_system("SO3", constant_metric=True)
    at = start(system)
    assert adjoint_defect(system, gn.integrators.EulerA(), gn.integrators.EulerB(), dt=0.03, **at) < 1e-13
    assert adjoint_defect(system, gn.integrators.EulerA(), gn.integrators.EulerA(), dt=0.03, **at) > 1e-5
    assert adjoint_defect(system, gn.integrators.EulerAB(), gn.integrators.EulerAB(), dt=0.03, **at) < 1e-13
    assert repr(gn.integrators.EulerA().adjoint()) == repr(gn.integrators.EulerB())
    ab, rattle = (gn.solve(system, m, **at, **OPTIONS) for m in (gn.integrators.EulerAB(), gn.integrators.RATTLE()))
    assert np.abs(ab.g - rattle.g).max() > 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "order"), [(gn.integrators.EulerA(), 1), (gn.integrators.EulerB(), 1), (gn.integrators.EulerAB(), 2)]
)
def test_orders_on_an_affine_system(method, order):
    system = random_system("SO3", affine=True)
    steps = np.array([40, 80, 160]) * (1 if order == 2 else 8)
    assert method.order == order
    assert abs(slope(system, method, steps, **start(system, speed=1.0)) - order) <= 0.1
