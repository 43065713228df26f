"""The modified field: exact for linear systems, of the method's order, even in h for symmetric methods."""

import numpy as np
import pytest
from scipy.linalg import logm

import geonh as gn
from geonh.diagnostics import modified_field
from geonh.groups import Translations

A = np.block([[np.zeros((2, 2)), np.eye(2)], [-np.diag([1.0, 4.0]), np.zeros((2, 2))]])
"""Matrix of two oscillators in (q, q̇)."""
SLEIGH = {"xi0": [0.8, -0.5, 0.0]}


def stability_matrices(z):
    """Maps of methods on ẏ = Ay, with z = hA."""
    one = np.eye(len(z))
    return {
        "midpoint": np.linalg.solve(one - z / 2, one + z / 2),
        "gauss4": np.linalg.solve(one - z / 2 + z @ z / 12, one + z / 2 + z @ z / 12),
        "rkmk4": one + z + z @ z / 2 + z @ z @ z / 6 + z @ z @ z @ z / 24,
    }


@pytest.mark.quick("midpoint")
@pytest.mark.parametrize("method", ["midpoint", "gauss4", "rkmk4"])
def test_the_field_of_a_linear_map_is_its_logarithm(method):
    system = gn.System(Translations(2), metric=np.eye(2), potential=lambda x: 0.5 * (x[0] ** 2 + 4 * x[1] ** 2))
    y, h = np.array([1.0, 0.3, 0.2, 0.5]), 0.07
    exact = logm(stability_matrices(h * A)[method]).real @ y / h
    found = modified_field(system, method, g0=y[:2], xi0=y[2:], dt=h)
    np.testing.assert_allclose(np.append(found.velocity, found.acceleration), exact, rtol=0, atol=3e-14)
    np.testing.assert_allclose(np.append(found.exact_velocity, found.exact_acceleration), A @ y, rtol=0, atol=1e-15)
    assert found.error < 1e-13 < found.defect


@pytest.mark.parametrize(
    ("method", "order"), [("midpoint", 2), ("gauss4", 4), ("rkmk4", 4), ("projected", 2), ("gni", 2)]
)
@pytest.mark.quick("gni-2")
def test_the_defect_has_the_order_of_the_method(method, order):
    """On SO(3) × R, whose velocities neither the group nor the metric let be constant."""
    entry = gn.systems.catalogue["veselova"]
    system = entry.system()
    start, steps = entry.start(system), 0.04 * 0.7 ** np.arange(5)
    defects = [modified_field(system, method, g0=start.g0, xi0=start.xi0, dt=h).defect for h in steps]
    assert abs(np.polyfit(np.log(steps), np.log(defects), 1)[0] - order) < 0.1


@pytest.mark.parametrize("method", ["gauss4", "projected", "lobatto4"])
@pytest.mark.quick("projected")
def test_the_field_of_a_symmetric_method_is_even_in_the_step(method):
    sleigh = gn.systems.chaplygin_sleigh()
    ahead, back = (modified_field(sleigh, method, dt=h, **SLEIGH) for h in (0.1, -0.1))
    np.testing.assert_allclose(ahead.velocity, back.velocity, rtol=0, atol=1e-13)
    np.testing.assert_allclose(ahead.acceleration, back.acceleration, rtol=0, atol=1e-13)


@pytest.mark.slow
def test_the_field_of_the_adjoint_is_that_with_the_step_reversed():
    sleigh, method = gn.systems.chaplygin_sleigh(), gn.RKMK(4)
    one = modified_field(sleigh, method.adjoint(), dt=0.1, **SLEIGH)
    other = modified_field(sleigh, method, dt=-0.1, **SLEIGH)
    np.testing.assert_allclose(one.acceleration, other.acceleration, rtol=0, atol=1e-13)
    assert abs(one.rates["energy"] - other.rates["energy"]) < 1e-13
    assert abs(one.rates["energy"] + modified_field(sleigh, method, dt=0.1, **SLEIGH).rates["energy"]) > 1e-12


def test_the_constraint_is_tangent_to_the_field():
    """Of a method that keeps it at the nodes: μξ̇ = 0 for the sleigh, whose form is constant."""
    sleigh = gn.systems.chaplygin_sleigh()
    for method in ("gauss4", "projected", "gni"):
        assert abs(modified_field(sleigh, method, dt=0.1, **SLEIGH).acceleration[2]) < 1e-14


def test_increments_have_a_field_of_their_own():
    """DLA holds the next increment: its velocity is that of the step that follows."""
    sleigh = gn.systems.chaplygin_sleigh()
    found = [modified_field(sleigh, "dla", dt=h, **SLEIGH) for h in (0.1, 0.05)]
    assert max(field.error for field in found) < 1e-11
    assert 1.5 < found[0].defect / found[1].defect < 4.5


def test_of_constraints_nonlinear_in_the_velocity():
    """Explicit methods have no adjoint for these: all iterates lead forwards."""
    system = gn.System(
        Translations(2),
        metric=np.eye(2),
        potential=lambda x: x[0] * x[1],
        distribution=gn.VelocityConstraints(lambda x, xi: [xi @ xi - 1.0]),
    )
    given = {"g0": [0.3, -0.2], "xi0": [0.6, 0.8]}
    defects = [modified_field(system, "rkmk4", dt=h, **given).defect for h in (0.04, 0.03, 0.02, 0.015)]
    assert abs(np.polyfit(np.log([0.04, 0.03, 0.02, 0.015]), np.log(defects), 1)[0] - 4) < 0.1, defects
    acceleration = modified_field(system, "rkmk4", dt=0.04, **given).acceleration
    assert abs(acceleration @ given["xi0"]) < 1e-11  # tangent to c = 0


@pytest.mark.slow
def test_a_step_that_turns_too_far_is_refused():
    ball = gn.System(gn.groups.SO3(), metric=np.diag([1.0, 2.0, 3.0]))
    with pytest.raises(ValueError, match="too long for a modified field"):
        modified_field(ball, "gauss4", xi0=[0.0, 0.0, 1.0], dt=1.7)
    assert modified_field(ball, "gauss4", xi0=[0.1, 0.0, 1.0], dt=1.0).iterates == 2


def test_steps_of_variable_length_are_refused():
    with pytest.raises(ValueError, match="steps of variable length"):
        modified_field(gn.systems.chaplygin_sleigh(), gn.integrators.Adaptive(gn.RKMK(5), 1e-6), dt=0.1, **SLEIGH)
