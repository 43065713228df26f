"""The table of methods: words, options and promises."""

import dataclasses
import typing

import jax.numpy as jnp
import numpy as np
import pytest
from random_systems import random_system

import geonh as gn
from geonh.groups import Translations
from geonh.integrators import Variational
from geonh.integrators.base import Guarantees
from geonh.integrators.node import NextStep
from geonh.integrators.registry import method_of


@pytest.mark.parametrize("name", gn.methods)
def test_a_method_of_the_table_is_made_and_says_what_it_promises(name):
    method, entry = gn.methods[name].make(), gn.methods[name]
    promised = method.guarantees
    allowed = typing.get_type_hints(Guarantees)
    for field in dataclasses.fields(Guarantees):
        value = getattr(promised, field.name)
        words = typing.get_args(allowed[field.name])
        assert value in words if words else isinstance(value, allowed[field.name])
    assert promised.reference
    assert entry.title
    assert method.order == promised.order
    assert repr(entry.make()) == repr(method)
    for option in entry.options:
        chosen = entry.make(**{option: "exp" if option == "retraction" else "left"})
        assert repr(chosen) != repr(method)
    if promised.symmetric:
        assert method.adjoint() is method
    if promised.node == "increment":
        assert method.holds is NextStep


def test_a_method_by_its_word():
    assert repr(method_of("gni", rule="left")) == repr(gn.GNI("left"))
    with pytest.raises(ValueError, match=r"no method 'gnii'; did you mean gni"):
        method_of("gnii")
    with pytest.raises(ValueError, match="methods are projected, gni"):
        method_of("§")
    run = gn.solve(random_system("SO3", constrained=False), "variational", xi0=np.zeros(3), dt=0.1, n_steps=1)
    assert run.method == Variational()


@pytest.mark.slow
def test_the_default_of_solve_is_in_the_table():
    system = random_system("SO3", constrained=False)
    run = gn.solve(system, xi0=np.zeros(3), dt=0.1, n_steps=1)
    assert run.method == gn.Gauss(2) == gn.methods["gauss4"].make()
    assert "the default" in gn.methods["gauss4"].title
    assert "Gauss(" in repr(run)
    assert "(the default)" in repr(run)


@pytest.mark.slow
def test_the_default_for_controls_at_the_nodes():
    """Gauss looks between the nodes, so that a method which need not is taken."""
    cart = gn.System(Translations(1), metric=[[1.0]], forces=lambda t, x, xi, u: u)
    given = {"dt": 0.1, "n_steps": 2}
    for controls, method in (
        (np.ones((3, 1)), gn.SymmetricProjection()),
        (lambda t: jnp.reshape(t, 1), gn.Gauss(2)),
    ):
        assert gn.solve(cart, xi0=[0.0], controls=controls, **given).method == method
        assert gn.solve_ensemble(cart, xi0=[[0.0], [1.0]], controls=controls, **given).method == method


def test_the_reason_for_a_method_is_told_where_none_was_named(tmp_path):
    system = random_system("SO3", constrained=False)
    given = {"xi0": np.zeros(3), "dt": 0.1, "n_steps": 2}
    run, named = gn.solve(system, **given), gn.solve(system, "gauss4", **given)
    assert (run.attributes["method_reason"], named.attributes["method_reason"]) == ("the default", "")
    run.save(tmp_path / "run.nc")
    loaded = gn.Trajectory.load(tmp_path / "run.nc")
    assert loaded.attributes["method_reason"] == "the default"
    assert "(the default)" in repr(gn.resume(loaded, 1, system=system, method="gauss4"))


@pytest.mark.parametrize("name", [name for name, method in gn.methods.items() if "retraction" in method.options])
def test_cayley_is_refused_where_there_is_none(name):
    units = [[i == k and j == m for j in range(3) for i in range(3)] for k in range(3) for m in range(3) if k != m]
    basis = np.reshape(units, (6, 3, 3)).astype(float)
    diagonal = np.stack([np.diag([1.0, -1.0, 0.0]), np.diag([0.0, 1.0, -1.0])])
    system = gn.System(gn.groups.MatrixGroup(np.concatenate([basis, diagonal])), metric=np.eye(8))
    gn.methods[name].make(retraction="exp").refuse(system)
    with pytest.raises(ValueError, match="has no Cayley map; use retraction='exp'"):
        gn.methods[name].make(retraction="cayley").refuse(system)
