"""Compositions: orders, symmetry, the memory and the impulse of the parts, and what is refused."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_systems import next_node, random_system, slope, start

import geonh as gn
from geonh.integrators import DLA, SHAKE, Feedback, Lobatto, Newton, RungeKutta
from geonh.integrators.base import Clock, Guarantees, ImplicitIntegrator
from geonh.integrators.composition import COEFFICIENTS


@pytest.mark.parametrize("name", COEFFICIENTS)
def test_coefficients_satisfy_their_conditions(name):
    c = np.array(COEFFICIENTS[name])
    assert np.isclose(c.sum(), 1, rtol=0, atol=1e-15)
    assert abs(np.sum(c**3)) < 1e-14
    assert np.array_equal(c, c[::-1])
    assert gn.compose(gn.Gauss(1), name).order == int(name[-1])


def test_composing():
    assert gn.compose(gn.Gauss(1), [0.5, 0.5]).order == 2
    assert gn.compose(gn.Gauss(1), COEFFICIENTS["suzuki4"]).order == 4
    assert gn.compose(gn.SymmetricProjection(), "kahan-li6").order == 6
    assert gn.compose(gn.SymmetricProjection("left"), "suzuki4").order == 1
    assert gn.compose(Lobatto(2), "suzuki4").order == 4
    assert gn.compose(gn.GNI(), "suzuki4").order == 2  # its multiplier alternates
    assert (gn.Gauss(2) @ gn.Gauss(2)).order == 4
    assert (gn.Gauss(2) @ Lobatto(3)).order == 4
    with pytest.raises(ValueError, match="sum to one"):
        gn.compose(gn.Gauss(1), [0.5, 0.6])
    with pytest.raises(ValueError, match="one of"):
        gn.compose(gn.Gauss(1), "yoshida5")
    for method in (DLA(), SHAKE()):
        with pytest.raises(ValueError, match="cannot be composed"):
            gn.compose(method, "yoshida4")
        with pytest.raises(ValueError, match="cannot be composed"):
            method @ gn.Gauss(1)


@pytest.mark.slow
def test_methods_of_different_warm_starts_compose():
    """Each keeps its own: Gauss over half a step, then Munthe-Kaas."""
    system, method = random_system("SO3"), gn.Gauss(2) @ gn.RKMK(4)
    assert abs(slope(system, method, (16, 24, 32, 48), **start(system)) - 4) <= 0.15


@pytest.mark.parametrize("fractions", [(0.3, 0.7), (0.7, 0.1, 0.2)])
def test_impulse_of_unequal_substeps(fractions):
    """λ of the impulse at a node, whose part that alternates is small after the exact start."""
    sleigh, method = gn.systems.chaplygin_sleigh(), gn.compose(gn.GNI(), fractions)
    run = gn.solve(sleigh, method, xi0=[0.8, -0.5, 0.0], dt=1e-3, n_steps=200)
    exact = [gn.mechanics.multipliers(sleigh, 0.0, g, xi)[0] for g, xi in zip(run.g[::50], run.xi[::50], strict=True)]
    np.testing.assert_allclose(run.multipliers[::50, 0], exact, rtol=0, atol=1e-14)
    np.testing.assert_allclose(run.impulse_multipliers[::50, 0], exact, rtol=0, atol=2e-3)
    assert run.alternation.max() < 1e-5


# --- the memory of the parts ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "method",
    [
        RungeKutta(project="energy"),
        pytest.param(Feedback({"energy": 2.0}, "rk4"), marks=pytest.mark.slow),
    ],
    ids=["projected", "feedback"],
)
def test_what_a_part_holds_is_not_scaled_with_the_substep(method):
    """The energy to return to is the same for all substeps, whatever their lengths."""
    system = random_system("SO3")
    run = gn.solve(system, gn.compose(method, (0.3, 0.7)), dt=0.04, n_steps=50, **start(system))
    assert np.abs(run.energy - run.energy[0]).max() < 1e-4 * abs(run.energy[0])
    one = gn.solve(system, method, dt=0.02, n_steps=100, save_every=2, **start(system))
    np.testing.assert_allclose(run.g_vector, one.g_vector, rtol=0, atol=1e-4)


@pytest.mark.slow
def test_backwards_in_time_a_memory_is_kept_and_a_next_step_is_turned():
    system, clock = random_system("R3", constant_metric=True), Clock(0.0, 0.02)
    at = start(system)
    for method in (
        RungeKutta(project="energy"),
        Feedback(1.0, "rk4"),
        DLA("left", "left"),
        SHAKE(),
    ):
        before = method.first_node(system, clock, jnp.asarray(at["g0"]), jnp.asarray(at["xi0"]))
        state = next_node(system, method, clock, before)
        turned = state.reversed(method.reversed_memory(before, state))
        np.testing.assert_array_equal(turned.p_plus, state.p_minus)
        np.testing.assert_array_equal(turned.p_minus, state.p_plus)
        if method.guarantees.node == "velocity":
            assert jax.tree.all(jax.tree.map(jnp.array_equal, turned.memory, state.memory))
        else:
            np.testing.assert_array_equal(turned.memory.zeta, -before.memory.zeta)


@pytest.mark.slow
def test_a_composition_of_methods_with_memory_remembers_for_each():
    system = random_system("SO3")
    kept, fed = RungeKutta(project="energy"), Feedback({"energy": 5.0}, "rk4")
    run = gn.solve(system, fed @ kept, dt=0.02, n_steps=50, **start(system))
    assert np.abs(run.energy - run.energy[0]).max() < 1e-5 * abs(run.energy[0])
    assert len(run.state.memory) == 2


# --- what does not follow each other -------------------------------------------------------------------------
class Remembering(ImplicitIntegrator):
    """Trapezoid whose slope at the node is kept from the step before."""

    newton: Newton = Newton()

    class Slope(NamedTuple):
        rate: Any

    holds = Slope

    @property
    def guarantees(self) -> Guarantees:
        return Guarantees(order=2, reference="")

    def equations(self, system, clock, state):
        raise NotImplementedError

    def update(self, system, clock, state, z):
        raise NotImplementedError


def test_methods_with_another_kind_of_node_do_not_follow_each_other():
    """The impulse of GNI's node is not in a velocity, and was lost on the way: of order 0."""
    for a, b in ((gn.Gauss(2), gn.GNI()), (gn.integrators.EulerB(), gn.RKMK(4))):
        for one, other in ((a, b), (b, a)):
            with pytest.raises(ValueError, match="must have the same kind of node"):
                one @ other


def test_memory_of_a_node_does_not_pass_through_other_methods():
    with pytest.raises(ValueError, match="Remembering holds Slope in its node"):
        Remembering().adjoint()
    with pytest.raises(ValueError, match="Remembering holds Slope in its node"):
        gn.Gauss(1) @ Remembering()
    with pytest.raises(ValueError, match="Remembering holds Slope in its node"):
        gn.compose(Remembering(), (0.3, 0.7)).adjoint()


@pytest.mark.parametrize("wrong", ["gni", None, gn.GNI])
def test_only_methods_are_composed(wrong):
    with pytest.raises(TypeError, match="must be an integrator"):
        gn.compose(wrong, "suzuki4")
    with pytest.raises(TypeError, match="must be an integrator"):
        gn.GNI() @ wrong


@pytest.mark.parametrize("members", [(1, 2), [gn.GNI()], None])
def test_members_are_methods(members):
    with pytest.raises(TypeError, match="members must be"):
        gn.integrators.Composition(members, (0, 0), (0.5, 0.5), 2)


def test_fractions_that_contain_themselves_are_refused_by_name():
    itself = []
    itself.append(itself)
    with pytest.raises((TypeError, ValueError), match=r"^fractions"):
        gn.integrators.Composition((gn.Gauss(1),), (0, 0), (0.5, itself), 2)
