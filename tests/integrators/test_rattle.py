"""SHAKE, RATTLE and GNI with the trapezoid rule are one method in three forms."""

import numpy as np
import pytest
from random_systems import OPTIONS, random_system, same_run, start

import geonh as gn
from geonh.integrators import RATTLE, SHAKE


@pytest.mark.parametrize("begin", ["average", "multiplier"])
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("group", ["R3", "SO3"])
@pytest.mark.quick("R3-False-average")
def test_rattle_is_gni_with_the_trapezoid_rule(group, affine, begin):
    system = random_system(group, affine=affine, constant_metric=True)
    gni = gn.solve(system, gn.GNI(start=begin), **start(system), **OPTIONS)
    rattle = gn.solve(system, RATTLE(start=begin), **start(system), **OPTIONS)
    same_run(gni, rattle)
    for name in ("multipliers", "impulse_multipliers"):
        np.testing.assert_allclose(getattr(gni, name), getattr(rattle, name), rtol=0, atol=1e-10)


@pytest.mark.parametrize("affine", [False, True])
def test_shake_is_rattle(affine):
    system = random_system("R3", affine=affine, constant_metric=True)
    shake, rattle = (gn.solve(system, m, **start(system), **OPTIONS) for m in (SHAKE(), RATTLE()))
    same_run(shake, rattle)


def test_the_two_step_form_of_shake():
    """q_{k+1} = 2q_k − q_{k−1} + h²M⁻¹(−∇V + μᵀλ) with μ(q_{k+1} − q_{k−1})/2h = b: λ is the impulse's."""
    system, h = random_system("R3", affine=True, constant_metric=True), OPTIONS["dt"]
    run = gn.solve(system, SHAKE(), **start(system), **OPTIONS)
    q, M = run.g, np.asarray(system.mass_matrix(run.g[0]))
    for k in range(1, 20):
        mu, b = np.asarray(system.annihilator(q[k])), np.asarray(system.right_hand_side(q[k]))
        np.testing.assert_allclose(mu @ (q[k + 1] - q[k - 1]) / (2 * h), b, rtol=0, atol=1e-12)
        acting = M @ (q[k + 1] - 2 * q[k] + q[k - 1]) / h**2 - mu.T @ run.impulse_multipliers[k]
        slope = np.asarray(system.action.coanchor(system.potential_energy, q[k]))
        np.testing.assert_allclose(acting, -slope, rtol=0, atol=1e-9)


def test_rattle_says_what_it_is_not_for():
    for method in (RATTLE(), SHAKE()):
        with pytest.raises(ValueError, match="constant metric"):
            gn.solve(random_system("R3"), method, **start(random_system("R3")), **OPTIONS)
    with pytest.raises(ValueError, match="vector spaces"):
        gn.solve(random_system("SO3", constant_metric=True), SHAKE(), **start(random_system("SO3")), **OPTIONS)
