"""Bad input is refused before the first step, in a sentence that names the argument: attacks by hand and at random."""

import datetime

import hypothesis.extra.numpy as hnp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import geonh as gn
from geonh.groups import SO3, Translations
from geonh.integrators import DLA, SHAKE, Feedback, Gauss, Newton, Pontryagin, RungeKutta
from geonh.integrators.discretisation import UserDiscreteLagrangian

SPEAKS_OF_JAX = ("Traced", "tracer ", "dot_general", "MLIR", "jit-", "ConcretizationTypeError", "eval_shape", "0x7")
R3 = Translations(3)
DRIVEN = gn.System(R3, metric=np.eye(3), forces=lambda t, x, v, u: u * v)
FREE = gn.System(R3, metric=np.eye(3))
GRID = np.arange(5.0)
BODY = gn.System(SO3(), metric=np.eye(3))


def made(**ingredients):
    return gn.System(R3, **{"metric": np.eye(3), **ingredients})


def run(system=FREE, **options):
    return gn.solve(system, **{"xi0": [0.1, 0.2, 0.3], "dt": 0.1, "n_steps": 3, **options})


def integrated(system=FREE, **options):
    method = options.pop("method", gn.GNI())
    return gn.integrate(system, method, **{"xi0": [0.1, 0.2, 0.3], "dt": 0.1, "n_steps": 3, **options})


def refused(call, error, words):
    with pytest.raises(error, match=words) as caught:
        call()
    text = str(caught.value)
    assert not any(word in text for word in SPEAKS_OF_JAX), text


# --- numbers -------------------------------------------------------------------------------------------------

NUMBERS = {
    "complex": ({"xi0": [1j, 0, 0]}, TypeError, "xi0 must be real numbers, got complex numbers"),
    "complex g0": ({"g0": np.zeros(3, complex)}, TypeError, "g0 must be real numbers, got complex"),
    "complex objects": ({"xi0": np.array([1, 2, 1j], object)}, TypeError, "xi0 must be real numbers, got complex"),
    "masked": ({"xi0": np.ma.array([1.0, 2, 3], mask=[0, 1, 0])}, TypeError, "xi0 is a masked array"),
    "one masked": ({"xi0": [np.ma.masked, 1.0, 2.0]}, TypeError, "xi0 is a masked array"),
    "date": ({"t0": np.datetime64("2020-01-01")}, TypeError, "t0 must be real numbers, got dates"),
    "duration": ({"dt": np.timedelta64(1, "s")}, TypeError, "dt must be real numbers, got durations"),
    "durations": ({"xi0": [datetime.timedelta(1)] * 3}, TypeError, "xi0 must be real numbers, got durations"),
    "text": ({"dt": "0.1"}, TypeError, "dt must be real numbers, got text"),
    "texts": ({"xi0": np.array(["1", 2.0, 3.0], object)}, TypeError, "xi0 must be real numbers, got text"),
    "truth values": ({"xi0": [True, False, True]}, TypeError, "xi0 must be real numbers, got truth values"),
    "none": ({"xi0": None}, TypeError, "xi0 must be numeric, got None"),
    "records": ({"xi0": np.zeros(3, [("a", float)])}, TypeError, "xi0 must be numeric"),
    "float32": ({"xi0": np.zeros(3, np.float32)}, TypeError, "xi0 is float32"),
    "one float32": ({"xi0": [np.float32(0.1), 0.0, 0.0]}, TypeError, "xi0 is float32"),
    "large integers": ({"xi0": [2**53 + 1, 0, 0]}, TypeError, r"xi0 has integers beyond 2\^53"),
    "uneven": ({"xi0": [[1], [1, 2]]}, ValueError, "xi0 is a nested list of unequal lengths"),
    "nan": ({"dt": np.nan}, ValueError, "dt must be finite, got nan"),
    "short xi0": ({"xi0": [1.0, 2.0]}, ValueError, r"xi0 must have shape \(3,\), got \(2,\)"),
    "short g0": ({"g0": [1.0, 2.0]}, ValueError, r"g0 must have shape \(3,\), got \(2,\)"),
    "no steps": ({"n_steps": 0}, ValueError, "n_steps must be a positive integer, got 0"),
    "steps back": ({"n_steps": -2}, ValueError, "n_steps must be a positive integer, got -2"),
    "huge count": ({"n_steps": 10**400}, ValueError, r"n_steps must be a positive integer below 2\^53, got 1000"),
    "true count": ({"n_steps": True}, ValueError, "n_steps must be a positive integer, got True"),
    "zero dt": ({"dt": 0.0}, ValueError, "dt must not be zero"),
    "subnormal dt": ({"dt": 5e-324}, ValueError, "dt must not be zero"),
    "still clock": ({"t0": 1e308}, ValueError, "the time does not advance: .* t0 = 1e[+]308, dt = 0.1"),
    "clock that stops": ({"dt": 1e300, "t0": -1e308, "n_steps": 10**9}, ValueError, "time overflows"),
}


@pytest.mark.parametrize("call", [run, integrated])
@pytest.mark.parametrize(("options", "error", "words"), NUMBERS.values(), ids=NUMBERS)
def test_numbers(call, options, error, words):
    refused(lambda: call(**options), error, words)


CONTROLS = {
    "short": (np.ones((2, 3)), ValueError, r"controls must have n_steps [+] 1 = 4 rows.*got 2 \(shape \[2, 3\]\)"),
    "number": (3.0, ValueError, "controls must be a function of t, or its values at the nodes"),
    "float32": (np.ones((4, 3), np.float32), TypeError, "controls is float32"),
    "complex": (np.ones((4, 3), complex), TypeError, "controls must be real numbers, got complex"),
    "no argument": (lambda: 1.0, TypeError, r"controls takes \(t\); yours takes \(\)"),
    "two arguments": (lambda t, p: 1.0, TypeError, r"controls takes \(t\); yours takes \(t, p\)"),
    "numpy": (lambda t: np.sin(t), TypeError, "controls calls NumPy.*jnp.sin for np.sin"),
    "if": (lambda t: 1.0 if t > 1 else 2.0, TypeError, "controls asks for the number .*jnp.where"),
    "none": (lambda t: None, TypeError, "controls returned None"),
    "complex value": (lambda t: 1j, TypeError, "controls returned complex numbers"),
    "single": (lambda t: jnp.ones(3, jnp.float32), TypeError, "controls returned float32"),
    "uneven": (lambda t: [t, [t]], ValueError, "controls returned a list of entries of different shapes"),
    "index": (lambda t: (t * jnp.ones(2))[5], ValueError, "controls asks for index 5 on axis 0 .* shape .2,"),
    "too wide": (
        lambda t: jnp.ones(2),
        ValueError,
        r"forces could not be evaluated, given .*u = an array of shape \(2,.*controls= gives u, of shape \[2\]",
    ),
    "too deep": (
        np.ones((4, 3, 3)),
        ValueError,
        r"forces must give .*, got shape \(3, 3\); controls= gives u, of shape \[3, 3\]",
    ),
    "missing": (None, TypeError, "forces uses u, but there are no controls: controls= is needed"),
}


@pytest.mark.parametrize("call", [run, integrated])
@pytest.mark.parametrize(("controls", "error", "words"), CONTROLS.values(), ids=CONTROLS)
def test_controls(call, controls, error, words):
    refused(lambda: call(DRIVEN, controls=controls), error, words)


def test_controls_without_forces_and_traced_ones():
    refused(lambda: run(controls=lambda t: t), ValueError, "system has no forces that would use them")
    short = jax.jit(lambda u: integrated(DRIVEN, controls=u).g)
    refused(lambda: short(jnp.ones((2, 3))), ValueError, "controls must have n_steps")
    assert short(jnp.ones((4, 3))).shape == (4, 3)


def test_integrate_of_traced_starts():
    assert jax.jit(lambda v: integrated(xi0=[v, v, 0.0]).g)(1.0).shape == (4, 3)
    for bad, error, words in (
        (jnp.ones(2), ValueError, r"xi0 must have shape \(3,\)"),
        (jnp.ones(3, complex), TypeError, "xi0 must be real numbers"),
        (jnp.ones(3, jnp.float32), TypeError, "xi0 is float32"),
    ):
        refused(lambda bad=bad: jax.jit(lambda v: integrated(xi0=v).g)(bad), error, words)
    refused(lambda: jax.jit(lambda n: integrated(n_steps=n).g)(3), ValueError, "under jit it must be static")
    rotated = jax.jit(lambda v: integrated(BODY, xi0=v, g0=1.001 * np.eye(3)).g)
    refused(lambda: rotated(jnp.ones(3)), ValueError, r"g0 does not lie on SO\(3\): it is 0.001 away")
    refused(lambda: integrated(BODY, g0=np.ones((3, 3))), ValueError, "near no point of it")
    rolling = made(distribution=gn.Distribution([[0.0, 0.0, 1.0]]))
    refused(lambda: integrated(rolling), ValueError, r"does not satisfy the constraints .*residual \[0.3\]")


# --- ingredients ---------------------------------------------------------------------------------------------

FUNCTIONS = {
    "(t, x)": (lambda t, x: x[0], TypeError, r"potential takes \(x\) or \(x, parameters\), not the time"),
    "no argument": (lambda: 0.0, TypeError, r"potential takes \(x\) or .* yours takes \(\)"),
    "numpy": (lambda x: np.sin(x[0]), TypeError, "potential calls NumPy.*jnp.sin for np.sin"),
    "float": (lambda x: float(x[0]), TypeError, "potential asks for the number"),
    "range": (lambda x: sum(range(x[0].astype(int))), TypeError, "potential asks for the integer .*fori_loop"),
    "index of a list": (lambda x: [1.0, 2.0][x[0].astype(int)], TypeError, "potential asks for the integer"),
    "none": (lambda x: None, TypeError, "potential returned None"),
    "text": (lambda x: "a", TypeError, "potential returned text"),
    "dict": (lambda x: {"a": x[0]}, TypeError, "potential returned a dict"),
    "truth": (lambda x: x[0] > 0, TypeError, "potential returned truth values"),
    "complex": (lambda x: 1j * x[0], TypeError, "potential returned complex numbers"),
    "list": (lambda x: [x[0]], ValueError, r"potential must give shape \[\] on R³ .*, got \[1\]"),
    "parameter": (lambda x, p: p["k"] * x[0], ValueError, "potential could not be evaluated, .*KeyError: 'k'"),
    "float32": (lambda x: jnp.sum(x * np.float32(0.1) * jnp.ones(3, jnp.float32)), TypeError, "computes with float32"),
    "x[7]": (lambda x: x[7], ValueError, r"potential asks for index 7 on axis 0 of an array of shape \(3,\)"),
    "x[-4]": (lambda x: x[-4], ValueError, "potential asks for index -4 on axis 0"),
    "take": (lambda x: jnp.take(x, 5), ValueError, "potential asks for index 5 on axis 0"),
    "array of indices": (lambda x: jnp.sum(x[jnp.array([0, 5])]), ValueError, "asks for index 5"),
    "written": (lambda x: x.at[5].set(3.0)[0], ValueError, "asks for index 5"),
    "jit": (jax.jit(lambda x: x[5]), ValueError, "asks for index 5"),
    "cond": (lambda x: jax.lax.cond(x[0] > 0, lambda x: x[9], lambda x: x[0], x), ValueError, "asks for index 9"),
    "loop": (lambda x: jax.lax.fori_loop(0, 5, lambda i, s: s + x[i], 0.0), ValueError, "asks for index 3"),
    "backwards": (
        lambda x: jax.lax.scan(lambda s, i: (s + x[i], 0.0), 0.0, np.arange(5), reverse=True)[0],
        ValueError,
        "asks for index 4",
    ),
}


@pytest.mark.parametrize(("function", "error", "words"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_functions(function, error, words):
    refused(lambda: made(potential=function), error, words)


@pytest.mark.slow
def test_indices_that_are_right_are_let_pass():
    def potential(x):
        looped = jax.lax.fori_loop(0, 3, lambda i, s: s + x[i] ** 2, 0.0)
        return looped + x[-3] + jnp.sum(x[:9]) + x.at[2].set(1.0)[1] + jnp.take(x, 1) + jnp.interp(x[0], GRID, GRID)

    assert run(made(potential=potential)).success


TABLE = np.linspace(0.0, 1.0, 11) ** 2


def looked_up(x):
    """A table over [0, 1], by an index that depends on data."""
    i, part = jnp.floor(10 * x[0]).astype(int), (10 * x[0]) % 1.0
    return jnp.asarray(TABLE)[i] * (1 - part) + jnp.asarray(TABLE)[i + 1] * part


LOOKED_UP = {
    "forces": {"forces": lambda t, x, v, u: jnp.stack([looked_up(x), x[1], x[2]])},
    "metric": {"metric": lambda x: jnp.diag(jnp.stack([1 + looked_up(x), 1.0 + 0 * x[1], 1.0 + 0 * x[2]]))},
    "forms": {"distribution": gn.Distribution(lambda x: [[0.0, -0.1 * looked_up(x), 1.0]])},
    "potential": {"potential": lambda x: -looked_up(x)},
    "lagrangian": {"metric": None, "lagrangian": lambda x, v: 0.5 * v @ v + looked_up(x)},
}


@pytest.mark.parametrize("ingredients", LOOKED_UP.values(), ids=LOOKED_UP)
@pytest.mark.parametrize("call", [run, pytest.param(integrated, marks=pytest.mark.slow)])
@pytest.mark.quick("run-potential")
def test_an_index_that_leaves_its_array_on_the_way_stops_the_run(call, ingredients):
    """JAX reads the last entry for ever. Inside its range a table is read as it is."""
    system = made(**ingredients)
    start = {"g0": [0.35, 0.0, 0.0], "xi0": [0.5, 0.0, 0.0], "dt": 0.1}
    made_run = call(system, n_steps=60, **start, **({"throw": False} if call is run else {}))
    assert np.asarray(made_run.status).ravel()[-1] != 0
    x = np.asarray(made_run.g)
    assert 0.85 < x[-1, 0] < 1.05
    assert np.all(np.isfinite(x))


def test_a_loop_too_long_to_walk_is_watched():
    looped = lambda x: jax.lax.fori_loop(0, 80, lambda i, s: s + jnp.ones(70)[i] * x[0], 0.0)  # noqa: E731
    refused(lambda: run(made(potential=looped)), ValueError, "potential of system is not finite at g0")


@pytest.mark.parametrize("call", [run, integrated])
@pytest.mark.parametrize("controls", [np.ones((4, 3)), lambda t: jnp.ones(3)], ids=["array", "function"])
def test_controls_that_forces_do_not_use(call, controls):
    system = made(forces=lambda t, x, v, u: -v)
    refused(lambda: call(system, controls=controls), ValueError, "controls are given, but the forces of system do not")


FORCES = {
    "scalar": (
        lambda t, x, v, u: 1.0,
        ValueError,
        r"forces must give a covector of shape \(3,\) on R³, got shape \(\)",
    ),
    "(1,)": (lambda t, x, v, u: jnp.ones(1), ValueError, r"got shape \(1,\)"),
    "(n - 1,)": (lambda t, x, v, u: jnp.ones(2), ValueError, r"got shape \(2,\)"),
    "float32": (lambda t, x, v, u: v.astype(jnp.float32), TypeError, "forces returned float32"),
    "inner float32": (lambda t, x, v, u: v.astype(jnp.float32) + 0 * v, TypeError, "forces computes with float32"),
    "index": (lambda t, x, v, u: v * x[9], ValueError, "forces asks for index 9"),
    "none": (lambda t, x, v, u: None, TypeError, "^forces returned None"),
    "numpy": (lambda t, x, v, u: np.sin(v), TypeError, "forces calls NumPy"),
    "text": (lambda t, x, v, u: "a", TypeError, "forces returned text"),
    "u itself": (lambda t, x, v, u: u, TypeError, "forces uses u, but there are no controls"),
    "u": (lambda t, x, v, u: [u, u, u], TypeError, "forces uses u, but there are no controls"),
    "u.x": (lambda t, x, v, u: v * u.x, TypeError, "forces uses u, but there are no controls"),
}


@pytest.mark.parametrize("call", [run, integrated])
@pytest.mark.parametrize(("function", "error", "words"), FORCES.values(), ids=FORCES)
def test_forces(call, function, error, words):
    refused(lambda: call(made(forces=function)), error, words)


def rows(*given):
    return {"distribution": gn.Distribution(lambda x: given[0](x))}


INGREDIENTS = {
    "forces a number": ({"forces": 5}, TypeError, r"forces must be a function of \(t, x, xi, u\), got 5"),
    "forces of (t, x, v)": ({"forces": lambda t, x, v: v}, TypeError, r"forces takes \(t, x, xi, u\) or"),
    "depth": (rows(lambda x: [x[0], 1.0, 0]), ValueError, r"forms must give shape \[k, 3\].*one row each"),
    "more forms": ({"distribution": gn.Distribution(np.ones((4, 3)))}, ValueError, "at most 3 are independent"),
    "all frame": ({"distribution": gn.Distribution(frame=np.eye(3))}, ValueError, "leave out"),
    "ragged": ({"metric": lambda x: [[1.0, 0], [0, 1], [0, 0, 1]]}, ValueError, "metric returned a list of entries"),
    "name": ({"name": 5}, TypeError, "name must be text"),
    "base": ({"base": 3}, TypeError, "base must be 'group'"),
    "parameters": ({"parameters": [1, 2]}, TypeError, "parameters must be a mapping"),
    "date": (
        {"parameters": {"a": np.datetime64("2020")}},
        TypeError,
        r"parameters\['a'\] must be real numbers, got dates",
    ),
    "integral": ({"first_integrals": {"e": 3}}, TypeError, "must map names to FirstIntegral"),
    "array as integral": (
        {"first_integrals": {"e": gn.mechanics.FirstIntegral(np.ones(2))}},
        TypeError,
        r"the function of first integral 'e' takes \(g, xi, p, parameters\), got array",
    ),
    "integral's momentum": (
        {"first_integrals": {"e": gn.mechanics.FirstIntegral(lambda g, v, p, q: v[0], momentum="both")}},
        ValueError,
        "momentum of first integral 'e' must be one of",
    ),
    "integral's index": (
        {"first_integrals": {"e": gn.mechanics.FirstIntegral(lambda g, v, p, q: v[7])}},
        ValueError,
        "first integral 'e' asks for index 7",
    ),
}


@pytest.mark.parametrize(("ingredients", "error", "words"), INGREDIENTS.values(), ids=INGREDIENTS)
def test_ingredients(ingredients, error, words):
    refused(lambda: made(**ingredients), error, words)


# --- options -------------------------------------------------------------------------------------------------

OPTIONS = {
    "integral's momentum": (
        lambda: gn.mechanics.FirstIntegral(lambda g, v, p, q: v[0], momentum=np.ones(2)),
        TypeError,
        "momentum of a first integral must be text, got array",
    ),
    "iterations nan": (lambda: Newton(max_iterations=np.nan), ValueError, "max_iterations must be a positive integer"),
    "iterations huge": (lambda: Newton(max_iterations=10**400), ValueError, "max_iterations must be a positive"),
    "tol text": (lambda: Newton(tol="a"), TypeError, "tol must be real numbers, got text"),
    "newton": (lambda: gn.GNI(newton=5), TypeError, "newton must be a Newton"),
    "newton of shake": (lambda: SHAKE(newton=5), TypeError, "newton must be a Newton"),
    "coefficients": (lambda: gn.compose(Gauss(1), [np.nan] * 3), ValueError, "coefficients has entries that are not"),
    "order": (lambda: gn.compose(Gauss(1), "yoshida4", order=-3), ValueError, "order must be a positive integer"),
    "start": (lambda: gn.GNI(start=np.ones(2)), ValueError, "start must be 'multiplier' or 'average'"),
    "a long vector as metric": (lambda: made(metric=np.ones(10**6)), ValueError, "metric is for at most 4096"),
    "no metric": (lambda: made(metric=()), ValueError, r"metric must be a square matrix or its diagonal, got shape"),
    "newton 0": (lambda: gn.GNI(newton=0), TypeError, "newton must be a Newton.*got 0"),
    "newton an array": (lambda: Gauss(newton=np.ones(3)), TypeError, "newton must be a Newton"),
    "names of factors": (
        lambda: gn.groups.Product([SO3(), SO3()], names=["a", np.ones(2)]),
        TypeError,
        "names must be text, or None, for each factor",
    ),
    "names": (lambda: Translations(2, names=5), TypeError, "names must be a list of texts, got 5"),
    "lists in base": (lambda: made(base=[["x"]]), TypeError, "base must be a list of names"),
    "direction": (
        lambda: gn.diagnostics.poincare_section(run(), lambda g, xi: g[0], direction=np.ones(2)),
        TypeError,
        "direction must be an integer",
    ),
    "changes": (lambda: gn.resume(run(), 2, allow_changes=np.ones(2)), TypeError, "allow_changes must be True, False"),
    "no method": (lambda: gn.compose("gni", "yoshida4"), TypeError, "a method must be an integrator such as"),
    "stages": (lambda: Gauss(10**400), ValueError, "stages must be one of"),
    "true stages": (lambda: Gauss(True), ValueError, "stages must be one of"),
    "coefficients as rows": (
        lambda: gn.compose(Gauss(1), [[0.5], [0.5]]),
        ValueError,
        r"coefficients must be a list of fractions, .* got shape \[2, 1\]",
    ),
    "order 99": (
        lambda: gn.compose(Gauss(1), "yoshida4", order=99),
        ValueError,
        "do not give order 99 to Gauss, of order 2: the sum of their powers 5 is",
    ),
    "order 3": (lambda: gn.compose(Gauss(1), [0.5, 0.5], order=3), ValueError, "the sum of their powers 3 is 0.25"),
    "rule": (lambda: gn.GNI(["left"]), ValueError, r"rule must be one of .*, got \['left'\]"),
    "class of rules": (lambda: gn.GNI(gn.GNI), ValueError, "rule must be one of"),
    "symmetric rule": (lambda: UserDiscreteLagrangian(len, "yes"), TypeError, "symmetric must be True or False"),
    "retraction": (lambda: gn.GNI(retraction=["exp"]), ValueError, "retraction must be 'auto', 'exp', 'cayley'"),
    "retractions": (lambda: gn.GNI(retraction=np.eye(2)), ValueError, "retraction must be 'auto', 'exp', 'cayley'"),
    "orthonormal": (lambda: Feedback(orthonormal="no"), TypeError, "orthonormal must be True or False, got 'no'"),
    "alpha true": (lambda: Pontryagin(True), TypeError, "alpha must be real numbers, got truth values"),
    "alpha": (lambda: Pontryagin(1.5), ValueError, "alpha must lie in the step, .* got 1.5"),
    "scale": (lambda: FREE.check(scale=-1), ValueError, "scale must be > 0, got -1"),
    "controls of check": (lambda: DRIVEN.check(controls=5), ValueError, "controls must be a function of t, or its val"),
    "base twice": (lambda: made(base=["x", "x"]), ValueError, r"base: \['x'\] are repeated in \['x', 'x'\]"),
    "no base": (lambda: made(base=[]), ValueError, r"needs at least one.*its coordinates are \['x', 'y', 'z'\]"),
    "base of bytes": (lambda: made(base=b"x"), TypeError, "base must be 'group', 'point', 'shape'"),
    "progress of growth": (
        lambda: gn.geometry.growth_vector(gn.systems.nonholonomic_particle(), progress="junk"),
        TypeError,
        "progress must be a function, got 'junk'",
    ),
    "controls of nothing": (lambda: FREE.check(controls=np.ones(3)), ValueError, "system has no forces that would use"),
    "all between": (
        lambda: integrated(n_steps=80, save_every=81),
        ValueError,
        "save_every must be at most n_steps = 80, got 81",
    ),
    "times": (lambda: run().interpolate([[0.1]]), ValueError, r"times must have shape \[N\], got \[1, 1\]"),
    "single g0": (
        lambda: FREE.project(np.zeros(3, np.float32), [1.0, 2, 3]),
        TypeError,
        "g0 .*is float32",
    ),
    "single at": (lambda: FREE.check(at=np.zeros(3, np.float32)), TypeError, "at .*is float32"),
    "constraint": (lambda: DLA(constraint=None), TypeError, "constraint must be numeric"),
    "gains": (lambda: Feedback({"energy": "a"}), TypeError, "gains of 'energy' must be real numbers"),
    "solver": (lambda: Feedback(1.0, 3), TypeError, "solver must be one of"),
    "baumgarte": (lambda: RungeKutta("rk4", "none", "a"), TypeError, "baumgarte must be real numbers"),
    "dimension": (lambda: Translations(1.5), ValueError, "dim must be a positive integer"),
    "no system": (lambda: run(None), TypeError, "system must be a geonh System, got None"),
    "throw": (lambda: run(throw="no"), TypeError, "throw must be True or False"),
    "progress": (lambda: run(progress="yes"), TypeError, "progress must be True, False or a function"),
    "progress of one": (
        lambda: run(progress=lambda done: None),
        TypeError,
        r"\(steps_done, n_steps\); yours takes \(done\)",
    ),
    "save_every": (lambda: run(save_every=10**400), ValueError, "save_every must be a positive integer"),
}


@pytest.mark.parametrize(("call", "error", "words"), OPTIONS.values(), ids=OPTIONS)
def test_options(call, error, words):
    refused(call, error, words)


@pytest.mark.parametrize("value", [10**400, 1j, "1", True, [1, "a"], None], ids=str)
def test_parameters_of_the_catalogue_are_numbers(value):
    for entry in gn.systems.catalogue.values():
        for name in entry.parameters:
            refused(lambda make=entry.system, name=name: make(**{name: value}), (TypeError, ValueError), name)


@pytest.mark.user_precision
def test_an_argument_in_single_precision_is_named():
    single = np.zeros(3, np.float32)
    refused(lambda: FREE.project(single, [1.0, 2, 3]), TypeError, "g0 of System.project is float32")
    refused(lambda: FREE.project(None, xi0=single), TypeError, "xi0 of System.project is float32")
    refused(lambda: gn.geometry.is_integrable(gn.systems.nonholonomic_particle(), single), TypeError, "g0 .*float32")


def test_no_times_at_all():
    g, xi = run().interpolate([])
    assert g.shape == xi.shape == (0, 3)


@pytest.mark.parametrize("size", [1e200, 1e-200, 1e160, 1e-160])
def test_forms_whose_squares_are_no_numbers(size):
    for forms in ([[size, 0.0, size]], lambda x: [[size, size * x[0], 0.0]]):
        system = made(distribution=gn.Distribution(forms))
        refused(lambda system=system: run(system, xi0=[0.0, 0.2, 0.0]), ValueError, "rows of size .* divide each")


# --- at random -----------------------------------------------------------------------------------------------

JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.text(max_size=3),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.dates(),
    st.lists(st.floats() | st.integers() | st.none() | st.booleans(), max_size=4),
    st.lists(st.lists(st.floats(), max_size=2), max_size=3),
    st.dictionaries(st.text(max_size=1), st.floats(), max_size=2),
    hnp.arrays(hnp.scalar_dtypes(), hnp.array_shapes(min_dims=0, max_dims=2, max_side=4)),
)


def attack(call, name, junk):
    """It runs, on what was meant, or says what was wrong with the argument."""
    text = ""
    try:
        call(DRIVEN if name == "controls" else FREE, **{name: junk})
    except (TypeError, ValueError) as error:
        text = f"{error}"
    except gn.IntegrationError as error:  # of numbers that are too large
        text = f"{error}".replace("not finite", name)
    assert not text or any(word in text for word in (name, "time ", "forces")), text
    assert not any(word in text for word in SPEAKS_OF_JAX[:-1]), text


@pytest.mark.quick("g0", "n_steps", "t0", "dt", "controls")
@pytest.mark.parametrize("name", ["xi0", "g0", "dt", "t0", "n_steps", "controls"])
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(JUNK.filter(lambda junk: not (isinstance(junk, int) and 100 < junk < 2**53)))
def test_random_junk(name, junk):
    attack(run, name, junk)


@pytest.mark.slow
@pytest.mark.parametrize("call", [run, integrated])
@pytest.mark.parametrize("name", ["xi0", "g0", "dt", "t0", "n_steps", "controls"])
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(JUNK.filter(lambda junk: not (isinstance(junk, int) and 100 < junk < 2**53)))
def test_random_junk_at_length(call, name, junk):
    attack(call, name, junk)


def test_an_index_that_is_computed_of_constants():
    """Whatever JAX's precision is where the system is made."""
    with jax.enable_x64(False):
        system = gn.System(
            R3, metric=np.eye(3), potential=lambda x: x @ x + x[jnp.argmax(jnp.array([0, 3, 1]))] + x[jnp.argmin(x) * 0]
        )
    assert gn.solve(system, xi0=[1.0, 0.0, 0.0], dt=0.01, n_steps=2).success


def test_parameters_in_the_place_of_the_controls():
    refused(
        lambda: gn.System(R3, metric=np.eye(3), forces=lambda t, x, xi, p: -p["c"] * xi, parameters={"c": 1.0}),
        TypeError,
        "controls come before parameters",
    )


@pytest.mark.slow
def test_forces_that_are_no_numbers_are_told_from_steps_that_are_too_long():
    system = gn.System(R3, metric=np.eye(3), forces=lambda t, x, v, u: jnp.sqrt(-1.0 - v * v))
    for method in ("projected", "gauss4", "rkmk4"):
        run = gn.solve(system, method, xi0=[1.0, 0.0, 0.0], dt=0.01, n_steps=2, throw=False)
        assert "step 1, t = 0.01: before it the forces had no finite value" in run.message


@pytest.mark.slow
def test_a_slope_that_is_no_number_is_told_from_steps_that_are_too_long():
    forms = gn.Distribution(lambda q: [[-q[1], 0.0, 1.0]])
    system = gn.System(R3, metric=np.ones(3), potential=lambda q: jnp.sqrt(q @ q), distribution=forms)
    for method in ("projected", "gni", "lobatto4", "rkmk4"):
        run = gn.solve(system, method, xi0=[1.0, 0.0, 0.0], dt=1e-4, n_steps=2, throw=False)
        assert "before it the derivative of the potential by the place had no finite value" in run.message
    curved = gn.System(R3, metric=lambda q: (1 + jnp.sqrt(q[1] ** 2)) * jnp.eye(3), potential=lambda q: q[0])
    run = gn.solve(curved, "rkmk4", xi0=[1.0, 0.0, 0.0], dt=0.1, n_steps=2, throw=False)
    assert "before it the derivative of the metric by the place had no finite value" in run.message
    fast = gn.System(R3, metric=np.ones(3), potential=lambda q: q[0], forces=lambda t, x, v, u: 1e10 * v)
    run = gn.solve(fast, "rkmk4", xi0=[1.0, 0.0, 0.0], dt=1.0, n_steps=200, throw=False)
    assert run.message.endswith("before it the velocities had grown to 2e+270")
    late = gn.System(R3, metric=np.ones(3), potential=lambda q: jnp.sqrt(2.5e-4 - q[0]))
    run = gn.solve(late, xi0=[1.0, 0.0, 0.0], dt=1e-4, n_steps=9, throw=False)
    assert "look at what forces, forms, metric and potential give there" in run.message


def test_where_entries_are_not_finite():
    xi = np.zeros((9, 3))
    xi[7, 1] = np.nan
    system = gn.System(R3, metric=np.eye(3))
    refused(lambda: gn.solve_ensemble(system, xi0=xi, dt=0.1, n_steps=2), ValueError, r"the first at \[7, 1\]")


def test_a_velocity_whose_energy_is_no_number_is_named():
    refused(lambda: run(gn.System(R3, metric=np.eye(3)), xi0=[0.0, 0.0, 2e154]), ValueError, "not finite at g0 and xi0")


def test_places_say_which_part_and_what_makes_one_of_them():
    system = gn.System(gn.groups.Product([gn.groups.Translations(2), gn.groups.SO3()]), metric=np.eye(5))
    run = lambda system, **start: lambda: gn.solve(system, **{"xi0": np.full(5, 0.1), "dt": 0.01, "n_steps": 2} | start)  # noqa: E731
    refused(run(system, g0=(np.zeros(2), np.zeros(3))), ValueError, r"g0\[1\] must have shape \(3, 3\), got \(3,\)")
    refused(run(system, g0=([0.0, np.nan], np.eye(3))), ValueError, r"g0\[0\] has entries that are not finite")
    refused(run(system, g0=([0.0, [1.0]], np.eye(3))), ValueError, r"g0\[0\] is a nested list")
    refused(run(system, xi0=(np.ones(2), np.ones(3))), ValueError, "np.concatenate makes one array")
    of = {"xi0": np.full(3, 0.1)}
    body, plane = gn.System(gn.groups.SO3(), metric=np.eye(3)), gn.System(gn.groups.SE2(), metric=np.eye(3))
    refused(run(body, g0=[1.0, 0, 0, 0], **of), ValueError, "geonh.groups.quaternion_to_matrix")
    refused(run(plane, g0=np.eye(3), **of), ValueError, "group.from_matrix")
    refused(run(gn.System(R3, metric=np.eye(3)), g0=np.eye(3), **of), ValueError, r"got \(3, 3\)$")
