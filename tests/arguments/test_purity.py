"""Functions that give another result each time are refused where they would be constants in silence."""
# ruff: noqa: NPY002

import functools
import itertools
import random
import sys
import time
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.groups import Translations

PLANE, COUNT = Translations(2), itertools.count()
RUN = {"xi0": np.array([1.0, 0.5]), "dt": 0.1, "n_steps": 2}
TABLE = np.linspace(0.0, 1.0, 100)


class Noisy:
    def __call__(self, x):
        return np.random.rand() * x[0]


@jax.custom_jvp
def squared(x):
    return x[0] ** 2


squared.defjvp(lambda x, x_dot: (squared(*x), 2 * x[0][0] * x_dot[0][0]))

CHANGING = {
    "a random number": lambda x: np.random.rand() * x[0],
    "random numbers": lambda x: jnp.sum(np.random.rand(2) * x),
    "a random power": lambda x: x[0] ** random.randrange(2, 10**9),
    "the time": lambda x: time.perf_counter_ns() * x[0],
    "an iterator": lambda x: next(COUNT) * x[0],
    "an entry": lambda x: x[next(COUNT) % 2],
    "an operation": lambda x: (jnp.sin, jnp.cos)[next(COUNT) % 2](x[0]),
    "within a loop": lambda x: jax.lax.fori_loop(0, 3, lambda i, y: y + np.random.rand(), x[0]),
    "an object": Noisy(),
    "a partial function": functools.partial(lambda x, rng: rng.normal() * x[0], rng=np.random.default_rng(0)),
}
SAME = {
    "arrays": lambda x: jnp.sum(TABLE) * x[0],
    "nan": lambda x: jnp.where(x[0] > -1e300, x[0], np.nan),
    "a key": lambda x: jnp.sum(jax.random.normal(jax.random.key(3), (2,)) * x),
    "a loop": lambda x: jax.lax.fori_loop(0, 3, lambda i, y: y + i, x[0]),
    "branches": lambda x: jax.lax.cond(x[0] > 0, jnp.sin, jnp.cos, x[0]),
    "a derivative of its own": squared,
    "a derivative": lambda x: jax.grad(lambda y: y @ y)(x)[0],
}
PLACES = {
    "potential": lambda f: gn.System(PLANE, metric=np.eye(2), potential=f),
    "metric": lambda f: gn.System(PLANE, metric=lambda x: jnp.eye(2) * (2 + f(x))),
    "forces": lambda f: gn.solve(gn.System(PLANE, metric=np.eye(2), forces=lambda t, x, xi, u: -f(x) * xi), **RUN),
    "controls": lambda f: gn.solve(
        gn.System(PLANE, metric=np.eye(2), forces=lambda t, x, xi, u: u * xi),
        **RUN,
        controls=lambda t: f(jnp.stack([t, t])),
    ),
    r"observables\['o'\]": lambda f: gn.solve_ensemble(
        gn.System(PLANE, metric=np.eye(2)), **RUN | {"xi0": np.eye(2)}, observables={"o": lambda t, g, xi, lam: f(g)}
    ),
    "event 'e'": lambda f: gn.solve(
        gn.System(PLANE, metric=np.eye(2)), **RUN, events=gn.Event(lambda t, g, xi, lam: f(g) + 1, name="e")
    ),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", CHANGING)
def test_what_changes_is_refused_by_its_name(name, place):
    with pytest.raises(ValueError, match=rf"^{place} gives another result each time .* as parameters="):
        PLACES[place](CHANGING[name])


def test_what_was_refused_stays_so():
    for _ in range(3):
        with pytest.raises(ValueError, match="another result"):
            PLACES["potential"](CHANGING["a random number"])


@pytest.mark.filterwarnings("ignore::geonh.engine.compiled.EngineWarning")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", SAME)
@pytest.mark.quick("a key-metric", "branches-metric", "branches-controls", "branches-forces")
def test_what_does_not_is_taken(name, place):
    PLACES[place](SAME[name])


def test_noise_that_was_drawn_is_given_at_the_nodes():
    system = gn.System(PLANE, metric=np.eye(2), forces=lambda t, x, xi, u: u)
    noise = np.random.default_rng(1).normal(size=(3, 2))
    runs = [gn.solve(system, "gni", **RUN, controls=u) for u in (noise, 2 * noise)]
    assert np.abs(runs[1].xi[-1] - runs[0].xi[-1]).min() > 1e-3


def test_a_module_without_a_file_is_the_users():
    made = types.ModuleType("made_by_hand")
    made.k = 1.0
    exec("def potential(x):\n    return k * x[0]", vars(made))
    sys.modules["made_by_hand"] = made
    try:
        system = gn.System(PLANE, metric=np.eye(2), potential=made.potential)
        first = gn.solve(system, "rk4", **RUN).xi[-1]
        made.k = 2.0
        second = gn.solve(system, "rk4", **RUN).xi[-1]
    finally:
        del sys.modules["made_by_hand"]
    np.testing.assert_allclose([first[0], second[0]], [0.8, 0.6], rtol=1e-14)
