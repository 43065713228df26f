"""The reduced d'Alembert–Pontryagin integrator as a DLA method."""

import pytest
from random_systems import OPTIONS, random_system, same_run, slope, start

import geonh as gn
from geonh.integrators import DLA, Pontryagin


@pytest.mark.slow
def test_at_the_left_of_the_step_it_is_dla_with_the_left_rectangle():
    system = random_system("SO3")
    left = gn.solve(system, Pontryagin(0.0), **start(system), **OPTIONS)
    same_run(left, gn.solve(system, DLA("left", "left"), **start(system), **OPTIONS))


@pytest.mark.slow
def test_away_from_the_middle_it_is_of_order_one():
    system = random_system("SO3", affine=True)
    assert abs(slope(system, Pontryagin(0.3), (320, 640, 1280), **start(system, speed=1.0)) - 1) <= 0.1


def test_it_declares_its_order_and_refuses_points_outside_the_step():
    assert [Pontryagin(a).order for a in (0.0, 0.3, 0.5, 1.0)] == [1, 1, 2, 1]
    assert Pontryagin(0.5, "exp").guarantees.symmetric
    assert not Pontryagin(0.5, "cayley").guarantees.symmetric
    with pytest.raises(ValueError, match="fraction in"):
        Pontryagin(1.2)
