"""Every public name with junk in each argument in turn: it works, or geonh says which argument is wrong, and why."""

import contextlib
import datetime
import inspect
import operator
import os
import re
import traceback
import warnings
from pathlib import Path

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.sparse
from public_calls import BODY, CALLS, ELSEWHERE, RESULTS, ROOMS, RUN, THINGS, Made

import geonh as gn
import geonh.viewer

pytestmark = pytest.mark.user_precision

JUNK = {
    "None": None,
    "True": True,
    "0": 0,
    "-1": -1,
    "2.5": 2.5,
    "10**400": 10**400,
    "1e308": 1e308,
    "nan": np.nan,
    "inf": np.inf,
    "1j": 1j,
    "text": "junk",
    "empty text": "",
    "nul": "\0",
    "bytes": b"a",
    "[]": [],
    "[1.0]": [1.0],
    "ragged": [[1.0], [1.0, 2.0]],
    "[None]": [None],
    "['a']": ["a"],
    "{}": {},
    "{'a': 1}": {"a": 1},
    "{1: 2}": {1: 2},
    "set": {1.0},
    "range": range(3),
    "zeros(0)": np.zeros(0),
    "zeros((2, 2, 2))": np.zeros((2, 2, 2)),
    "nans": np.full(3, np.nan),
    "float32": np.ones(3, np.float32),
    "jax float32": jnp.ones(3, jnp.float32),
    "complex": np.ones(3, complex),
    "texts": np.array(["a", "b", "c"]),
    "objects": np.array([object()]),
    "masked": np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0]),
    "dates": np.array([1, 2, 3], "datetime64[s]"),
    "uint64": np.uint64(2**63),
    "duration": datetime.timedelta(seconds=1),
    "duration of NumPy": np.timedelta64(1, "s"),
    "view of two axes": memoryview(np.eye(3)),
    "sparse": scipy.sparse.eye(3),
    "decreasing": [1.0, 0.5],
    "function of nothing": lambda: 1,
    "function to None": lambda *a: None,
    "function to text": lambda *a: "a",
    "function that raises": lambda *a: 1 / 0,
    "len": len,
    "class": int,
    "object": object(),
    "exception": ValueError("x"),
    "module": gn,
    "os": os,
    "method": gn.GNI(),
    "class of methods": gn.GNI,
    "system": BODY,
    "trajectory": RUN,
    "group": gn.groups.SO3(),
    "generator": iter([1]),
    "slice": slice(1),
    "...": ...,
}


def named(name):
    """The public name, or the method of one of ``THINGS``."""
    first, _, rest = name.partition(".")
    return operator.attrgetter(rest)(THINGS[first]) if first in THINGS else operator.attrgetter(name)(gn)


def right_call(name):
    """Arguments by position and by name that are right."""
    given = {key: value.make() if isinstance(value, Made) else value for key, value in CALLS[name].items()}
    return [given.pop("*")] if "*" in given else [], given


def precision_of(name):
    """``integrate`` is traced by its caller."""
    return gn.float64() if name == "integrate" else contextlib.nullcontext()


SAID = {
    "matrix": "metric",
    "psi": "on",
    "function": "support|event",
    "at": "it|constraint",
    "g": "g0",
    "names": "base",
    "base": "names",
    "a": "semi-axes",
    "gains": "gain",
    "word": "method",
    "horizontal": "name",
    "constraints": "holonomic",
    "space": "MatrixGroup|basis",
    "motion": "xi",
    "p": "system",
    "sources": "a store",
    "path": "a store",
    "observables": "observable",
}
"""What else messages call an argument."""


def names_an_argument(name, text):
    words = [word for key in CALLS[name] for word in (key, SAID.get(key, key))]
    return "*" in CALLS[name] or name.startswith("systems.") or re.search(rf"\b({'|'.join(words)})\b", text)


def attack(name, argument, junk):
    """What is wrong with the answer of a public name to junk in one argument; "" where nothing is."""
    positional, given = right_call(name)
    if argument == "*":
        positional = [junk]
    else:
        given[argument] = junk
    try:
        with warnings.catch_warnings(), precision_of(name):
            warnings.simplefilter("ignore")
            named(name)(*positional, **given)
    except (ValueError, TypeError, OSError, RuntimeError) as error:
        if isinstance(error, OSError):
            return ""
        last = traceback.extract_tb(error.__traceback__)[-1]
        if "/geonh/" not in Path(last.filename).as_posix() or not (last.line or "").startswith(("raise", ")")):
            return f"not ours: {type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno} {last.line})"
        if isinstance(error, ValueError | TypeError) and not names_an_argument(name, str(error)):
            return f"does not name it: {type(error).__name__}: {error}"
    except Exception as error:
        last = [x for x in traceback.extract_tb(error.__traceback__) if "/geonh/" in x.filename][-1]
        return f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno} {last.line})"
    finally:
        plt.close("all")
    return ""


ARGUMENTS = [(name, argument) for name, call in CALLS.items() for argument in call]
LEFT_OUT = {
    ("diagnostics.convergence", "span"): ("1e308", "uint64"),  # a long time indeed
    ("open_store", "path"): ("text",),  # a path that names itself
    **{
        (name, "progress"): tuple(label for label, junk in JUNK.items() if callable(junk))  # what they raise is theirs
        for name in (
            "solve",
            "resume",
            "solve_ensemble",
            "sweep.run",
            "stream",
            "geometry.growth_vector",
            "plotting.animate",
        )
    },
}


def wrong_answers(name, argument, labels):
    labels = [label for label in labels if label not in LEFT_OUT.get((name, argument), ())]
    wrong = {label: attack(name, argument, JUNK[label]) for label in labels}
    return {label: said for label, said in wrong.items() if said}


def test_every_public_name_is_called():
    rooms = [gn, *(getattr(gn, name) for name in ROOMS), geonh.viewer]
    public = {name: getattr(room, name) for room in rooms for name in room.__all__}
    functions = {name for name, made in public.items() if callable(made) and not inspect.ismodule(made)}
    called = {call.rpartition(".")[2] for call in CALLS}
    assert functions - called - set(RESULTS.split()) - set(ELSEWHERE.split()) == set()


@pytest.mark.slow
def test_an_object_in_any_argument_is_refused_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wrong = {(name, argument): attack(name, argument, JUNK["object"]) for name, argument in ARGUMENTS}
    assert not {place: said for place, said in wrong.items() if said}


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_the_calls_are_right(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    positional, given = right_call(name)
    with precision_of(name):
        named(name)(*positional, **given)
    plt.close("all")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "argument"), ARGUMENTS)
def test_junk_in_any_argument_is_refused_by_its_name(name, argument, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert not wrong_answers(name, argument, JUNK)


FORCED = gn.System(gn.groups.Translations(2), metric=[1.0, 1.0], forces=lambda t, x, xi, u: -xi)
AT = {"g": [0.0, 0.0], "xi": [0.0, 0.0]}
SMALL = {"n_steps": 2, "dt": 0.1}
UNUSED = {
    "value": lambda system: gn.analysis.linearise(system, **AT, controls=[1.0]),
    "value of a search": lambda system: gn.analysis.steady_motion(system, **AT, controls=[1.0]),
    "value of a locus": lambda system: gn.analysis.root_locus(
        system, [1.0], lambda v: tuple(AT.values()), controls=[1.0]
    ),
    "divergence": lambda system: gn.analysis.divergence(system, **AT, controls=[1.0]),
    "exponents": lambda system: gn.analysis.lyapunov_exponents(system, **AT, **SMALL, controls=jnp.sin),
    "orbit": lambda system: gn.analysis.periodic_orbit(system, **AT, period=1.0, controls=jnp.sin),
    "reference": lambda system: gn.mechanics.reference_trajectory(system, [0, 1], AT["xi"], controls=jnp.sin),
    "convergence": lambda system: gn.diagnostics.convergence(system, gn.GNI(), xi0=AT["xi"], controls=jnp.sin),
}


@pytest.mark.parametrize("call", UNUSED.values(), ids=UNUSED)
@pytest.mark.parametrize("forces", [None, FORCED.forces], ids=["no forces", "forces without u"])
def test_controls_that_nothing_uses_are_refused(call, forces):
    system = gn.System(gn.groups.Translations(2), metric=[1.0, 1.0], forces=forces)
    with pytest.raises(ValueError, match=r"controls are given, but .* (no forces that would use them|do not use u)"):
        call(system)


def test_the_value_of_controls_that_nothing_uses_is_refused():
    with pytest.raises(ValueError, match="u is given, but system has no forces"):
        gn.mechanics.accelerations(BODY, 0.0, np.eye(3), np.ones(3), [1.0])


PUSHED = gn.System(
    gn.groups.Translations(2), metric=[1.0, 1.0], forces=lambda t, x, xi, u, p: p["k"] * u, parameters={"k": 1.0}
)
BEYOND = gn.System(gn.groups.Translations(2), metric=[1.0, 1.0], forces=lambda t, x, xi, u: u[7] * xi)
STEERED = {"end": [1.0, 0.0], "n_controls": 2, "span": 1.0, "n_steps": 4, "start": [0.0, 0.0]}
SEEN = {"names": ["k"], "data": np.ones((3, 2)), "at": [0, 1, 2], "xi0": [0.0, 0.0], "dt": 0.1}
COSTS = {
    "u": (lambda t, g, u: u @ u + u[2], "cost asks for index 2"),
    "g": (lambda t, g, u: u @ u + g[5], "cost asks for index 5"),
    "numbers": (lambda t, g, u: u, "cost must give one number"),
    "digits": (lambda t, g, u: jnp.sum(u.astype(jnp.float32) ** 2) + 0.0 * t, "cost .*float32"),
}


@pytest.mark.parametrize(("cost", "words"), COSTS.values(), ids=COSTS)
def test_costs_are_inspected(cost, words):
    with pytest.raises((ValueError, TypeError), match=words):
        gn.control.optimal_control(PUSHED, **STEERED, cost=cost)


def test_what_searches_evaluate_is_inspected():
    with pytest.raises(ValueError, match="forces asks for index 7"):
        gn.control.optimal_control(BEYOND, **STEERED)
    with pytest.raises(ValueError, match="observe asks for index 5"):
        gn.control.estimate(PUSHED, observe=lambda g, xi: g + g[5], **SEEN, controls=np.ones((3, 2)))
    with pytest.raises(ValueError, match="conditions asks for index 7"):
        gn.analysis.steady_motion(FORCED, **AT, conditions=lambda g, xi, p: g[7:8] + g[7])


@pytest.mark.slow
def test_a_cost_that_is_no_number_is_no_result():
    with pytest.raises(ValueError, match="cost, equations, or their derivatives are not finite at the guess"):
        gn.control.optimal_control(PUSHED, **STEERED, cost=lambda t, g, u: jnp.log(u[0] - 10))


def test_a_missing_argument_is_told_as_python_tells_it():
    with pytest.raises(TypeError, match=r"^linearise\(\) missing 2 required positional arguments: 'g' and 'xi'"):
        gn.analysis.linearise(FORCED)


@pytest.mark.parametrize("name", ["t", "tol"])
def test_numbers_that_are_none_are_refused_by_their_names(name):
    with pytest.raises(ValueError, match=f"{name} must be finite, got nan"):
        gn.analysis.linearise(FORCED, **AT, **{name: np.nan})


COUNTS = {
    "max_iterations": lambda n: gn.analysis.steady_motion(FORCED, **AT, max_iterations=n),
    "n_states": lambda n: gn.analysis.invariant_measure(BODY, n_states=n),
    "every": lambda n: gn.analysis.lyapunov_exponents(FORCED, **AT, **SMALL, every=n),
    "count": lambda n: gn.analysis.lyapunov_exponents(FORCED, **AT, **SMALL, count=n),
    "n_saved": lambda n: gn.analysis.lyapunov_exponents(FORCED, **AT, **SMALL, n_saved=n),
    "samples": lambda n: gn.mechanics.symmetries(BODY, samples=n),
    "n_samples": lambda n: BODY.check(n_samples=n),
    "seed": lambda n: gn.mechanics.symmetries(BODY, seed=n),
    "n_steps": lambda n: gn.analysis.periodic_orbit(FORCED, **AT, period=1.0, n_steps=n),
    "resolution": lambda n: gn.drawing.ball(1.0, resolution=n),
}


@pytest.mark.parametrize("n", [-1, 10**400, True, 2.0], ids=["-1", "10**400", "True", "2.0"])
@pytest.mark.parametrize("name", COUNTS)
def test_counts_are_refused_by_their_names(name, n):
    with pytest.raises((ValueError, TypeError), match=f"^{name} must be an? (positive )?integer"):
        COUNTS[name](n)
