"""What is traced, and how often; methods of geonh's objects as functions."""

import collections
import copy
import gc
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.engine.tracing import uncollected

METRIC = np.diag([1.0, 2.0, 3.0])
START = {"g0": np.array([0.1, 0.0, 0.0]), "dt": 0.01, "n_steps": 3}


@pytest.mark.parametrize("method", ["gni", "rkmk4"])
def test_a_users_function_is_traced_from_the_system_to_its_energy_once_and_once_to_see_that_it_is_pure(method):
    traced = collections.deque()  # a list or dict would be seen to change

    def forms(x):
        traced.append("forms")
        return [[0.0, jnp.sin(x[0]), -jnp.cos(x[0])]]

    def potential(x):
        traced.append("potential")
        return 0.1 * x[1] ** 2

    line = gn.groups.Translations(3)
    system = gn.System(line, metric=METRIC, potential=potential, distribution=gn.Distribution(forms=forms))
    xi0 = system.project(START["g0"], np.array([1.0, 0.5, 0.0]))
    run = gn.solve(system, gn.methods[method].make(), xi0=xi0, **START)
    assert np.isfinite(run.energy).all()
    assert sorted(traced) == ["forms", "forms", "potential", "potential"]


@pytest.mark.slow
def test_what_a_function_changes_itself_costs_no_trace_within_a_program():
    traced = []

    def potential(x):
        traced.append(1)
        return 0.1 * x[1] ** 2

    system = gn.System(gn.groups.Translations(3), metric=METRIC, potential=potential)
    assert gn.solve(system, "gauss4", xi0=np.ones(3), **START).energy.size
    first = len(traced)
    assert first <= 7  # node 0, starts near it, the loop, observables, and what asks a system
    assert gn.solve(system, "gauss4", xi0=np.ones(3), **START).energy.size
    assert len(traced) <= 2 * first


@pytest.mark.slow
def test_a_method_of_another_system_is_a_function_as_any_and_its_parameters_are_differentiated():
    line, xi0 = gn.groups.Translations(3), np.array([1.0, 0.5, 0.0])

    def systems(k):
        own = gn.System(line, metric=METRIC, potential=lambda x, p: p["k"] * x @ x, parameters={"k": k})
        return own, gn.System(line, metric=METRIC, potential=own.potential_energy)

    runs = [gn.solve(system, xi0=xi0, **START) for system in systems(0.3)]
    np.testing.assert_array_equal(runs[0].g_vector, runs[1].g_vector)
    np.testing.assert_array_equal(runs[0].energy, runs[1].energy)

    def reached(k, which):
        return jnp.sum(gn.integrate(systems(k)[which], xi0=xi0, **START).g[-1] ** 2)

    own, borrowed = (jax.grad(reached)(0.3, which) for which in (0, 1))
    assert own < 0
    np.testing.assert_allclose(borrowed, own, rtol=1e-14)


@pytest.mark.parametrize("carried", [lambda f: pickle.loads(pickle.dumps(f)), copy.copy, copy.deepcopy])
def test_a_method_is_carried_to_other_processes(carried):
    rattleback = gn.systems.rattleback()
    potential, x = rattleback.potential_energy, rattleback.at(rattleback.group.identity())
    there = carried(potential)
    assert there.__name__ == "potential_energy"
    np.testing.assert_array_equal(there(x), potential(x))


def test_methods_that_are_traced_once_take_their_arguments_by_name():
    system = gn.System(gn.groups.Translations(3), metric=METRIC, distribution=gn.Distribution([[0.0, 1.0, 2.0]]))
    xi = np.array([0.1, 0.2, -0.1])
    np.testing.assert_array_equal(system.momentum(x=xi, xi=xi), system.momentum(xi, xi))
    np.testing.assert_array_equal(system.annihilator(x=xi), system.annihilator(xi))


def test_garbage_is_collected_again_after_the_last_program():
    assert gc.isenabled()
    first, second = uncollected(), uncollected()
    with first:
        with second:
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
