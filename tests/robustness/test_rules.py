"""Discrete Lagrangians and constraints of a user, which are inspected as all functions of a user are."""

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.groups import Translations
from geonh.integrators import DLA, Variational

FREE = gn.System(Translations(3), metric=np.eye(3), potential=lambda x: x @ x)
AT = {"g0": [0.1, 0.2, 0.3], "xi0": [0.3, 0.2, 0.1], "dt": 0.01, "n_steps": 5}


def right(x, W, h):
    return h * (0.5 * (W / h) @ (W / h) - x @ x)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (lambda x, W, h: right(x, W, h) + h * x[7], r"discrete Lagrangian .*index"),
        (lambda x, W, h: right(x, W, h) + 0.1 * W[7] ** 2 / h, r"discrete Lagrangian .*index"),
        (
            lambda x, W, h: right(x.astype(jnp.float32).astype(float), W, h),
            r"discrete Lagrangian computes with float32",
        ),
        (lambda x, W, h: 2 * right(x, W, h), "not one of system"),
        (lambda x, W, h: h * 0.5 * (W / h) @ (W / h) - x @ x, "not one of system"),  # a forgotten h
        (lambda x, W, h: h * (0.5 * W @ W - x @ x), "not one of system"),  # W taken for a velocity
        (lambda x, W, h: x, "must give a number"),
    ],
    ids=["index", "index of W", "float32", "another system", "forgotten h", "velocity", "vector"],
)
@pytest.mark.parametrize("method", [gn.SymmetricProjection, Variational, DLA])
@pytest.mark.quick("DLA-another system", "DLA-velocity", "DLA-forgotten h")
def test_a_discrete_lagrangian_that_is_none_of_the_system(method, rule, words):
    system = FREE
    if method is DLA:
        system = gn.System(
            Translations(3),
            metric=np.eye(3),
            potential=lambda x: x @ x,
            distribution=gn.Distribution(lambda x: [[-x[1], 0.0, 1.0]]),
        )
    at = AT | {"xi0": system.project(AT["g0"], AT["xi0"])}
    with pytest.raises((ValueError, TypeError), match=words):
        gn.solve(system, method(rule), **at)


def test_one_that_is_runs():
    same = gn.solve(FREE, Variational(right), **AT)
    np.testing.assert_allclose(same.g, gn.solve(FREE, Variational("left"), **AT).g, rtol=0, atol=1e-14)


def test_a_discrete_constraint_is_inspected():
    system = gn.System(Translations(3), metric=np.eye(3), distribution=gn.Distribution([[0.0, 0.0, 1.0]]))
    with pytest.raises(ValueError, match=r"discrete constraint .*index"):
        gn.solve(system, DLA("midpoint", lambda x, W, h: jnp.stack([W[7]])), xi0=[0.3, 0.2, 0.0], dt=0.01, n_steps=5)


@pytest.mark.parametrize("scale", [1e-10, 1.0, 1e10])
def test_the_scale_of_the_forms_does_not_loosen_the_start(scale):
    system = gn.System(Translations(3), metric=np.eye(3), distribution=gn.Distribution([[0.0, 0.0, scale]]))
    with pytest.raises(ValueError, match="does not satisfy the constraints"):
        gn.solve(system, xi0=[0.3, 0.2, 1e-6], dt=0.01, n_steps=5)
    assert gn.solve(system, xi0=[0.3, 0.2, 1e-12], dt=0.01, n_steps=5).success


@pytest.mark.parametrize("potential", [lambda x: jnp.log(x[0]), lambda x: jnp.inf + 0.0 * x[0]], ids=["log", "inf"])
def test_a_potential_that_is_no_number_is_refused(potential):
    system = gn.System(Translations(3), metric=np.eye(3), potential=potential)
    with pytest.raises(ValueError, match="potential of system is not finite at g0"):
        gn.solve(system, g0=[-1.0, 0.0, 0.0], xi0=[0.3, 0.2, 0.1], dt=0.01, n_steps=5)


def test_a_metric_that_is_traced_is_judged_on_the_way():
    import jax

    def status(a):
        system = gn.System(Translations(3), metric=jnp.diag(jnp.stack([1.0, 1.0, a])))
        return gn.integrate(system, gn.SymmetricProjection(), xi0=AT["xi0"], dt=0.01, n_steps=3).status

    assert np.all(np.asarray(jax.jit(status)(2.0)) == 0)
    assert np.asarray(jax.jit(status)(-1.0))[-1] == gn.integrators.Result.METRIC


@pytest.mark.parametrize("tol", [np.nan, 1j, True, 0.0, 2.0, "x", None])
def test_the_tolerance_of_ranks_is_a_number_between_0_and_1(tol):
    system = gn.systems.nonholonomic_particle()
    for function in (gn.geometry.growth_vector, gn.geometry.is_integrable):
        with pytest.raises((ValueError, TypeError), match="tol"):
            function(system, tol=tol)


def test_growth_at_a_point_where_the_constraints_are_dependent():
    system = gn.System(Translations(3), metric=np.eye(3), distribution=gn.Distribution(lambda x: [[-x[1], x[0], 0.0]]))
    for function in (gn.geometry.growth_vector, gn.geometry.is_integrable):
        with pytest.raises(ValueError, match="constraints of system at g0 are dependent"):
            function(system)


@pytest.mark.parametrize("values", [1j * np.ones(40), np.ma.masked_array(np.ones(40), [1] + [0] * 39), ["1"] * 40])
def test_drift_takes_real_numbers(values):
    with pytest.raises((TypeError, ValueError), match="values"):
        gn.diagnostics.drift(np.arange(40.0), values)


SURFACES = {
    "numpy": (lambda g, xi: np.sin(g[0]), "surface calls NumPy.*jnp.sin for np.sin"),
    "arity": (lambda g: g[0], r"surface takes \(g, xi\); yours takes \(g\)"),
    "no function": (5, r"surface must be a function, got 5"),
    "vector": (lambda g, xi: g, r"must be one number, got an array of shape \(3,\)"),
    "index": (lambda g, xi: g[7], "surface asks for index 7"),
    "nothing": (lambda g, xi: None, "surface returned None"),
    "not finite": (lambda g, xi: jnp.log(g[0] - 100.0), r"surface\(g, ξ\) is not finite at t = 0 s"),
    "index by data": (lambda g, xi: g[(g[0] + 9).astype(int)], r"surface\(g, ξ\) is not finite at t = 0 s"),
}


@pytest.mark.parametrize(("surface", "words"), SURFACES.values(), ids=SURFACES)
def test_surfaces_are_inspected(surface, words):
    run = gn.solve(FREE, **AT)
    with pytest.raises((ValueError, TypeError), match=words):
        gn.diagnostics.poincare_section(run, surface)


def test_diagnostics_take_sound_starts():
    system = gn.systems.suslov()
    defect = gn.diagnostics.reversibility_defect
    with pytest.raises(ValueError, match="does not satisfy the constraints"):
        defect(system, gn.Gauss(1), xi0=[1.0, 1.0, 1.0], dt=0.1)
    with pytest.raises(ValueError, match="n_steps"):
        defect(system, gn.Gauss(1), xi0=[0.0, 1.0, 0.0], dt=0.1, n_steps=-1)
    with pytest.raises(ValueError, match="dt must not be zero"):
        defect(system, gn.Gauss(1), xi0=[0.0, 1.0, 0.0], dt=0.0)
