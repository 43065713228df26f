"""Arguments of methods of groups and systems, and starts of ensembles, that are not what was expected."""

import collections
import decimal
import inspect

import jax
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import xarray as xr

import geonh as gn
from geonh import control, drawing, integrators, systems
from geonh.groups import SE2, SO3, Product, Torus, Translations

XI = np.array([0.3, 1.0, -0.2])
SAME = {
    "pandas": pd.Series(XI),
    "xarray": xr.DataArray(XI),
    "objects": XI.astype(object),
    "another byte order": XI.astype(">f8"),
    "long doubles": XI.astype(np.longdouble),
    "a view of memory": memoryview(XI),
    "a list": XI.tolist(),
    "a tuple": tuple(XI.tolist()),
    "a list of scalars": list(XI.astype(">f8")),
    "decimals": [decimal.Decimal(x) for x in XI.tolist()],
    "a deque": collections.deque(XI.tolist()),
}


@pytest.mark.parametrize("same", SAME.values(), ids=SAME)
def test_the_same_numbers_in_any_form_give_the_same_bits(same):
    sleigh, product = systems.chaplygin_sleigh(), Product((SE2(), Translations(3)))
    for method, others in (
        (SE2().exp, {}),
        (SE2().dcay_inv_star, {"p": XI}),
        (SE2().from_xytheta, {}),
        (SE2().from_vector, {}),
        (sleigh.constraint_residual, {"x": XI}),
        (sleigh.velocity, {"x": XI}),
        (sleigh.distribution.residual, {"x": XI, "parameters": sleigh.parameters}),
    ):
        name, *_ = (label for label in inspect.signature(method).parameters if label not in others)
        np.testing.assert_array_equal(method(**{name: same}, **others), method(**{name: XI}, **others))
    np.testing.assert_array_equal(sleigh.energy(same, same), sleigh.energy(XI, XI))
    jax.tree.map(
        np.testing.assert_array_equal, product.inverse((same, [1, 2, 3])), product.inverse((XI, XI * 0 + [1, 2, 3]))
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: SO3().cay(np.array([1.0, None, "x"], dtype=object)), "xi of SO3.cay must be numeric"),
        (lambda: SE2().inverse(np.array([True, False, True])), "g of SE2.inverse must be real numbers"),
        (lambda: SE2().from_geomstats("abc"), "must be real numbers, got text"),
        (lambda: SE2().exp(xi=scipy.sparse.eye(3)), "xi of SE2.exp must be numeric"),
        (lambda: SE2().exp(xr.Dataset({"a": 1.0})), "xi of SE2.exp must be numeric"),
        (lambda: SE2().gap(np.ma.array([1.0, 2.0, 3.0])), "g of SE2.gap is a masked array"),
        (lambda: SO3().from_geomstats(2.0 * np.eye(3)), "point of SO3.from_geomstats must be a point of geomstats'"),
        (lambda: Torus(1).from_geomstats([0.0, 2.0]), "point of Torus.from_geomstats must be a point of geomstats'"),
        (lambda: gn.Distribution([[0.0, 0.0, 1.0]]).P(np.eye(2), ()), r"M must have shape \[3, 3\], got \[2, 2\]"),
        (
            lambda: gn.Distribution([[0.0, 0.0, 1.0]]).P(1.0, ()),
            r"M of Distribution.P must have shape \[n, n\], got \[\]",
        ),
        (lambda: SE2().from_geomstats(np.zeros(3)), r"must have shape \[..., 3, 3\], got \[3\]"),
        (lambda: Product((SO3(), Torus(1))).from_geomstats(1.0), r"must have shape \[..., 11\]"),
        (lambda: systems.chaplygin_sleigh().at("abc", 0.0), "g of System.at must be real numbers, got text"),
        (lambda: systems.chaplygin_sleigh().check(at=np.array(2.0)), "at must have shape"),
        (lambda: systems.chaplygin_sleigh().point(np.zeros(3), on_group="yes"), "on_group must be True or False"),
        (lambda: systems.spherical_robot(m=[2, 1]), "m must have shape"),
        (lambda: integrators.RATTLE(start=np.eye(3)), "start must be"),
        (lambda: drawing.axes("long"), "length must be real numbers"),
    ],
)
def test_what_is_no_argument_is_named(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call()


def test_numbers_of_other_kinds_are_numbers():
    assert systems.rolling_disc(r=decimal.Decimal("0.1")).parameters
    assert len(drawing.axes(decimal.Decimal("0.1"))) == 3


def test_a_span_whose_square_is_no_number_is_refused():
    with pytest.raises(ValueError, match="span must be positive"):
        control.optimal_control(systems.controlled_snakeboard(), end=None, n_controls=2, span=2e-310, n_steps=6)


@pytest.mark.parametrize(("method", "dt"), [("baumgarte", -0.05), ("feedback", -0.001), ("feedback", 0.0145)])
def test_members_that_their_method_cannot_start_do_not_run(method, dt):
    system, xi0 = systems.chaplygin_sleigh(), [0.8, -0.5, 0.0]
    with pytest.raises(ValueError, match="dt") as refused:
        gn.solve(system, method, xi0=xi0, dt=dt, n_steps=20)
    runs = gn.solve_ensemble(system, method, xi0=xi0, dt=np.array([dt, 0.001]), n_steps=20)
    assert runs.success.tolist() == [False, True]
    assert str(refused.value) in runs.message(0)


def test_times_of_a_compiled_run_have_the_bits_of_solve():
    system, xi0 = systems.chaplygin_sleigh(), np.array([0.8, -0.5, 0.0])
    with gn.float64():
        times = jax.jit(lambda t0, dt: gn.integrate(system, "midpoint", xi0=xi0, t0=t0, dt=dt, n_steps=60).t)
        for t0, dt in np.random.default_rng(0).uniform(0.005, 0.05, (10, 2)):
            run = gn.solve(system, "midpoint", xi0=xi0, t0=t0, dt=dt, n_steps=60, save_every=1)
            np.testing.assert_array_equal(times(t0, dt), run.t)
