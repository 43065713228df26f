"""Adjoints: order, time reversal, their node, and methods that have none."""

import jax.numpy as jnp
import numpy as np
import pytest
from random_systems import OPTIONS, next_node, random_system, start

import geonh as gn
from geonh.diagnostics import adjoint_defect, convergence
from geonh.integrators import SHAKE, CommutatorFree, Newton, RungeKutta
from geonh.integrators.adjoint import Adjoint
from geonh.integrators.base import Clock


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [gn.RKMK(4), gn.RKMK(6), CommutatorFree(), RungeKutta(project="constraint")],
    ids=lambda method: type(method).__name__ + str(method.order),
)
def test_the_adjoint_of_a_method_that_is_not_symmetric(method):
    """It is of the same order, and undoes the step with −h; with it the method makes a symmetric one."""
    system = random_system("SO3")
    at = start(system)
    assert adjoint_defect(system, method, method, dt=0.1, **at) > 1e-10
    assert adjoint_defect(system, method, method.adjoint(), dt=0.1, **at) < 1e-12
    assert method.adjoint().adjoint() is method
    assert (method.adjoint() @ method).guarantees.symmetric
    steps = (3, 5, 8, 12) if method.order == 6 else (20, 40, 80, 160)
    table = convergence(system, method.adjoint(), span=0.5, steps=steps, **at)
    assert abs(table.order - method.order) < 0.1


@pytest.mark.slow
@pytest.mark.xfail(reason="the adjoint puts the momentum on the constraint whatever the method does")
def test_the_adjoint_of_a_method_off_the_constraint():
    """A Runge–Kutta method that is not projected leaves the constraint, and so must its adjoint."""
    system, method = random_system("SO3"), RungeKutta()
    assert adjoint_defect(system, method, method.adjoint(), dt=0.2, **start(system)) < 1e-12


def test_the_node_of_an_adjoint_has_the_rows_and_the_status_of_its_own_point():
    """Forms that turn along the way: the rows are those of the new point, not of a guess or of the old one."""
    forms = lambda x: jnp.stack([jnp.stack([jnp.cos(x[1]), jnp.sin(x[1])])])  # noqa: E731
    system = gn.System(gn.groups.Translations(2), metric=np.eye(2), distribution=gn.Distribution(forms))
    method, clock = gn.RKMK(4).adjoint(), Clock(0.0, 0.1)
    state = method.first_node(system, clock, jnp.array([0.5, 0.0]), jnp.array([0.0, 1.0]))
    new = next_node(system, method, clock, state)
    np.testing.assert_allclose(new.rows, forms(new.g), rtol=1e-14)
    assert np.abs(new.rows - state.rows).max() > 1e-2
    assert int(new.status) == 0
    lost = next_node(system, method, clock, state._replace(p_minus=state.p_minus * np.nan))
    assert int(lost.status) != 0


def test_methods_without_an_adjoint():
    kept = RungeKutta(project="energy")
    with pytest.raises(ValueError, match="no inverse"):
        gn.solve(random_system("SO3"), kept.adjoint(), **start(random_system("SO3")), **OPTIONS)
    with pytest.raises(ValueError, match="has no general adjoint"):
        Adjoint(method=SHAKE(), newton=Newton())
    assert (kept @ kept).order == 4


@pytest.mark.slow
def test_the_midpoint_rule_with_cayley_is_not_its_own_adjoint():
    """τ(ζ) is not τ(ζ/2)²: symmetric up to O(h⁴), and its adjoint, of the other rule, is exact."""
    system, method = random_system("SO3"), gn.SymmetricProjection("midpoint")
    assert not method.guarantees.symmetric
    assert method.adjoint() != method
    assert method.adjoint().adjoint() == method
    assert not gn.compose(method, "suzuki4").guarantees.symmetric
    at = start(system)
    assert adjoint_defect(system, method, method, dt=0.2, **at) > 1e-8
    assert adjoint_defect(system, method, method.adjoint(), dt=0.2, **at) < 1e-12
