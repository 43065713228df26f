"""Arguments that are nearly right: exchanged, of one entry, with a unit, of no body, not used."""

import array
import inspect
import types

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import geonh as gn
from geonh.analysis import linearise, root_locus, steady_motion
from geonh.control import optimal_control
from geonh.groups import SE2, SO2, SO3, Product, Translations
from geonh.rolling import knife_edge, planar, planar_body, support, torus, trailer, wheel
from geonh.runs.locating import EventWarning

R2 = Translations(2)
FREE = gn.System(R2, metric=[1.0, 1.0])
DRIVEN = gn.System(R2, metric=[1.0, 1.0], forces=lambda t, x, xi, u: u)
AT = {"xi0": [0.3, 0.2], "dt": 0.1, "n_steps": 3}
STEERED = {"end": [1.0, 0.0], "n_controls": 2, "span": 1.0, "n_steps": 4, "start": [0.0, 0.0]}


class Metres(np.ndarray):
    """An array of a library of units."""

    def to_value(self):
        return np.asarray(self)


def test_functions_in_another_order_are_refused():
    for call in (
        lambda: gn.System(R2, metric=[1.0, 1.0], forces=lambda t, xi, x, u: -x),
        lambda: gn.System(R2, lagrangian=lambda xi, x: xi @ xi),
        lambda: gn.Event(lambda g, t, xi, lam: g[0]),
        lambda: gn.solve_ensemble(FREE, **{**AT, "xi0": [[0.3, 0.2]]}, observables={"a": lambda xi, g, t, lam: xi[0]}),
        lambda: optimal_control(DRIVEN, **STEERED, cost=lambda t, u, g: u @ u),
        lambda: steady_motion(FREE, [0.0, 0.0], [0.0, 0.0], conditions=lambda xi, g, p: xi[:1]),
        lambda: gn.diagnostics.poincare_section(gn.solve(FREE, **AT), lambda xi, g: g[0]),
    ):
        with pytest.raises(TypeError, match="in this order"):
            call()
    with pytest.raises(TypeError, match=r"conditions takes \(g, xi, parameters\); yours takes \(g, xi\)"):
        steady_motion(FREE, [0.0, 0.0], [0.0, 0.0], conditions=lambda g, xi: xi[:1])


@pytest.mark.parametrize(
    ("xi0", "words"),
    [
        ([True, 0.2], "truth values"),
        (np.array([np.timedelta64(1, "s"), 0.2], object), "durations"),
        (np.array([np.str_("1"), 0.2], object), "text"),
        (bytearray(b"ab"), "text"),
        (array.array("f", [0.1, 0.2]), "xi0 is float32"),
        (types.SimpleNamespace(__array__=1), "numeric"),
        (np.array([0.3, 0.2]).view(Metres), "xi0 has a unit"),
        ([np.array(0.3).view(Metres), 0.2], "xi0 has a unit"),
    ],
)
def test_numbers_that_numpy_would_make_of_others(xi0, words):
    with pytest.raises(TypeError, match=words):
        gn.solve(FREE, **{**AT, "xi0": xi0})


@pytest.mark.parametrize("name", ["\ud800", "a\0b"])
def test_names_that_no_file_can_hold_are_refused_at_once(name):
    with pytest.raises(ValueError, match="text that can be printed"):
        gn.System(R2, metric=[1.0, 1.0], name=name)
    with pytest.raises(ValueError, match="text that can be printed"):
        gn.Event(lambda t, g, xi, lam: g[0], name=name)


@pytest.mark.parametrize("m", [1e-300, 1e-200, 1e200])
def test_masses_at_the_edge_of_float64_lose_no_run(m):
    """Whether momenta alternate is asked when all steps are done."""
    system = gn.System(R2, metric=[m, 1.0], distribution=gn.Distribution([[1.0, -1.0]]))
    assert len(gn.solve(system, "gni", **{**AT, "xi0": [0.2, 0.2]})) == 4


def test_members_and_their_spread():
    runs = gn.solve_ensemble(FREE, **{**AT, "xi0": [[0.3, 0.2], [0.1, 0.0]]})
    assert len(list(runs)) == 2
    for member in (2, -3, 1.0, True, slice(0, 1), None):
        with pytest.raises(IndexError, match="member must be one of 2, from 0 on"):
            runs[member]
    with pytest.raises(TypeError, match=r"spread must be a distribution .* got 0\.1"):
        gn.ensembles.Near([0.0, 0.0], 0.1)
    with pytest.raises(ValueError, match="g must be finite, got nan"):
        gn.ensembles.Near([0.0, np.nan], norm(0, 0.1))
    drawn = gn.solve_ensemble(FREE, **AT, g0=gn.ensembles.Near([0.0, 0.0], norm(0, 0.1)), members=2)
    assert len(drawn) == 2


def test_functions_of_members_are_watched_as_those_of_one_run_are():
    many = {**AT, "xi0": [[0.3, 0.2], [0.1, 0.0]]}
    table = {"a": lambda t, g, xi, lam: jnp.arange(3.0)[(10 * t).astype(int)]}
    runs = gn.solve_ensemble(FREE, **{**many, "n_steps": 6}, save_every=2, observables=table)
    np.testing.assert_array_equal(runs.kept["a"][0], [0.0, 2.0, np.nan, np.nan])
    with pytest.warns(EventWarning, match="'event' is not a number at nodes of some members"):
        gn.solve_ensemble(FREE, **many, events=gn.Event(lambda t, g, xi, lam: jnp.log(0.15 - t)))


@pytest.mark.slow
def test_controls_that_are_sought():
    for bounds in (([-1.0], [1.0]), ([-1.0, -1.0, -1.0], 1.0), ([[-1.0], [-1.0]], 1.0)):
        with pytest.raises(ValueError, match=r"bounds must be numbers, or of shape \[2\]"):
            optimal_control(DRIVEN, **STEERED, bounds=bounds)
    with pytest.raises(ValueError, match="has a repeated name"):
        optimal_control(DRIVEN, **STEERED, free=["vx", "vx"])
    assert optimal_control(DRIVEN, **STEERED, free=["vx", "vy"]).cost == 0.0
    with pytest.raises(ValueError, match="dt must not be zero"):
        gn.control.estimate(
            gn.System(R2, metric=[1.0, 1.0], potential=lambda x, p: p["k"] * x @ x, parameters={"k": 1.0}),
            *(["k"], np.ones((3, 2)), [0, 1, 2], lambda g, xi: g),
            xi0=[0.0, 0.0],
            dt=0.0,
        )


def test_bodies_that_are_none():
    edge = planar_body(1.0, 0.2, [knife_edge()])
    drawn = trailer(edge, 1.0)
    for call, words in (
        (lambda: trailer(edge, -1.0), "length must be positive, got -1"),
        (lambda: trailer(edge, 1.0, name=""), "must not be empty"),
        (lambda: planar_body(1.0, 0.2, [], [edge]), r"trailers must be made by trailer\(body, length\)"),
        (lambda: planar(drawn), "body must be the first of a chain"),
        (lambda: knife_edge(1.0, inertia=0.1), "name its angle, steered="),
        (lambda: wheel(0.1, 0.1, steering_inertia=0.1), "name its angle, steered="),
        (lambda: torus(1.0, -1.0), "tube must be positive"),
        (lambda: support(lambda n: -jnp.sqrt(n @ n)), "support must be convex"),
        (lambda: support(lambda n: jnp.sqrt(n @ n) - 3 * jnp.abs(n[0])), "support must be convex"),
        (lambda: gn.rolling.rolling(gn.rolling.ball(1.0), np.ones(3), 1.0, surface_velocity=lambda X: X[0]), "shape"),
        (lambda: gn.rolling.rolling(gn.rolling.ball(1.0), np.ones(3), 1.0, on=lambda X: X), "one number"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    assert planar(planar_body(1.0, 0.2, [knife_edge()], [drawn])).group.dim == 4


def test_poses_that_are_none():
    pair = gn.System(Product((R2, R2)), metric=np.ones(4))
    with pytest.raises(ValueError, match=r"a tuple of arrays of shapes \[2\] × \[2\], got .*1.*4"):
        pair.point([1, 2, 3, 4])
    for matrix, words in ((2 * np.eye(3), "rotation"), (np.diag([-1.0, 1.0, 1.0]), "rotation"), (np.eye(2), "shape")):
        with pytest.raises(ValueError, match=words):
            SE2().from_matrix(matrix)


def test_tolerances_and_masses_of_the_analysis():
    sleigh, motion = gn.systems.chaplygin_sleigh(), (None, [0.0, 1.0, 0.0])
    for tol in (-1.0, 0.0, 1e10, np.nan):
        for call in (linearise, steady_motion):
            with pytest.raises(ValueError, match="tol must"):
                call(sleigh, *motion, tol=tol)
        with pytest.raises(ValueError, match="tol must"):
            gn.mechanics.symmetries(sleigh, tol=tol)
    with pytest.raises(ValueError, match="is not positive definite"):
        root_locus(sleigh, [1.0, -1.0], motion, parameter="m")
    with pytest.raises(ValueError, match=r"these coefficients do not give order 4 to Gauss"):
        gn.compose(gn.Gauss(1), [1e308, -1e308, 1.0], order=4)


@pytest.mark.parametrize("function", [lambda g: g[0], lambda g, p: p[0], lambda g, p, xi, parameters: p[0]])
def test_a_first_integral_of_other_arguments_is_refused_in_words(function):
    with pytest.raises(TypeError, match=r"first integral 'J' takes \(g, xi, p, parameters\)"):
        gn.System(R2, metric=[1.0, 1.0], first_integrals={"J": gn.mechanics.FirstIntegral(function)})


LAWS = {
    "exp log dexp dexp_inv inverse Ad ad to_vector project": 1,
    "compose left_tangent Ad_star ad_star bracket": 2,
}


@pytest.mark.parametrize("group", [SE2(), SO3(), Translations(3), Product([SE2(), SO2()])], ids=str)
def test_a_group_takes_no_other_shapes(group):
    """Four numbers are no velocity of SE(2), and none is broadcast to all."""
    for names, count in LAWS.items():
        for name in names.split():
            method = getattr(group, name)
            whole = [
                (group.identity() if key in "gh" else np.ones(group.dim))
                for key in inspect.signature(method).parameters
            ]
            method(*whole)
            for i in range(count):
                for wrong in (0.5, np.ones(1), np.ones(9), np.ones((4, 7))):
                    with pytest.raises((ValueError, TypeError), match=f"{name} must"):
                        method(*whole[:i], wrong, *whole[i + 1 :])
