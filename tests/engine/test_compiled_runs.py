"""Compiled runs without Python: the same bits, the same failures, and Python where a run is long."""

import os
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.engine import foreign
from geonh.engine.evaluation import Parts
from geonh.engine.native import handlers, machine
from geonh.engine.runs import Steps
from geonh.systems import catalogue

BY_PYTHON = "python"
"""Part of the name of XLA's target for a call of Python."""


def compiled(name, method, **options):
    """Velocities and energies of a compiled run, and those of ``solve``."""
    entry = catalogue[name]
    system = entry.system()
    start = entry.start(system)
    given = {"g0": start.g0, "dt": entry.dt, "controls": entry.controls, **options}

    def nodes(xi0):
        run = gn.integrate(system, method, xi0=xi0, **given)
        return run.xi, run.energy, run.multipliers

    return jax.jit(nodes), jnp.asarray(start.xi0), gn.solve(system, method, xi0=start.xi0, **given)


@pytest.mark.parametrize(
    ("name", "method", "options"),
    [
        ("chaplygin-sleigh", "gauss4", {"n_steps": 60}),
        ("suslov", "rkmk4", {"n_steps": 63, "save_every": 7, "t0": 0.5}),
        ("controlled-snakeboard", "gni", {"n_steps": 60}),
        ("heavy-top", "rattle", {"n_steps": 1}),
    ],
)
def test_a_compiled_run_calls_no_python_and_has_the_bits_of_solve(name, method, options):
    function, xi0, run = compiled(name, method, **options)
    text = function.lower(xi0).as_text()
    assert "@geonh_" in text
    assert BY_PYTHON not in text
    for _ in range(2):
        for found, expected in zip(function(xi0), (run.xi, run.energy, run.multipliers), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_a_long_run_can_be_interrupted():
    function, xi0, _ = compiled("chaplygin-sleigh", "rkmk4", n_steps=foreign.SHORT // 100)
    assert BY_PYTHON in function.lower(xi0).as_text()


def test_other_counts_of_steps_take_the_same_program():
    before = len(foreign._registered)
    for n_steps, save_every in ((9, 1), (10, 1), (12, 3)):
        function, xi0, run = compiled("veselova", "rkmk4", n_steps=n_steps, save_every=save_every)
        np.testing.assert_array_equal(function(xi0)[0], run.xi)
    assert len(foreign._registered) <= before + 4  # the run, and what it returns


@pytest.mark.parametrize("fails", [0, 1, 2, 5, 63, 64, 65, 130, 131])
@pytest.mark.parametrize(("n_nodes", "stride"), [(200, 1), (40, 5), (1, 131)])
def test_after_a_failure_the_last_good_node_is_repeated(fails, n_nodes, stride):
    """The step of this number fails; 0 is the start."""

    def first(tree, x, near):
        return jnp.append(x, jnp.where(fails == 0, 7.0, 0.0))

    def step(tree, node, warm, near):
        return node * tree[0] + 1.0, warm + 1.0, jnp.where(warm[0] == fails - 1, 9, 0)

    arrays, parts = Parts.of((np.asarray(0.5),))
    run = Steps(first, step, parts, n_nodes, stride, 3, 1, False)
    found = jax.jit(lambda a, x: run([a], x))(arrays[0], jnp.array([1.0, -3.0]))
    good = 0 if not fails else n_nodes * stride if fails > n_nodes * stride else fails - 1
    states, saved = [np.array([1.0, -3.0])], good // stride
    for _ in range(good):
        states.append(states[-1] * 0.5 + 1.0)
    expected = [np.append(state, 7.0 * (not fails)) for state in states[::stride][: saved + 1]]
    expected += [np.append(states[-1], 9.0 if fails else 7.0)] * (n_nodes - saved)
    np.testing.assert_array_equal(found, expected)


def test_runs_of_several_threads_are_apart():
    function, xi0, run = compiled("chaplygin-sleigh", "rkmk4", n_steps=40)
    starts = [xi0 * (1 + 0.1 * i) for i in range(4)]
    expected, found = [np.asarray(function(start)[0]) for start in starts], {}

    def work(i):
        with gn.float64():
            found[i] = [np.asarray(function(starts[i])[0]) for _ in range(100)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(4):
        assert all(np.array_equal(one, expected[i]) for one in found[i])
    np.testing.assert_array_equal(expected[0], run.xi)


def test_the_code_is_optimised_when_that_is_worth_it_and_has_the_same_bits(monkeypatch):
    monkeypatch.setenv("GEONH_CACHE", "off")
    function, xi0, run = compiled("spherical-robot", "rkmk4", n_steps=30)
    function(xi0)
    targets = list(foreign._registered.values())[-3:]
    assert any(target._code.version < target._code.optimised for target in targets)
    for target in targets:
        target._used(10**12)
    for _ in range(2):
        np.testing.assert_array_equal(function(xi0)[0], run.xi)
    for target in targets:
        best = foreign._places(target._code)
        assert target._places.called == (best.handle if target._is_small else best.called)
        assert not target._places.told


def test_threads_may_have_small_stacks():
    """Smaller than what quick code needs, and than that of the thread that compiled; optimised code, too."""
    environment = {**os.environ, "GEONH_CACHE": "off"}
    done = subprocess.run([sys.executable, "-c", SMALL_STACKS], capture_output=True, text=True, env=environment)
    assert done.stdout.split() == ["True"] * 3, done.stderr[-2000:]


SMALL_STACKS = """
import threading
import jax, jax.numpy as jnp, numpy as np
import geonh as gn
from geonh.engine import foreign
from geonh.systems import catalogue
jax.config.update("jax_enable_x64", True)
entry = catalogue["spherical-robot"]
system = entry.system()
start = entry.start(system)
def last(xi0):
    return gn.integrate(system, "projected", xi0=xi0, g0=start.g0, dt=0.01, n_steps=20).xi[-1]
function, found = jax.jit(jax.value_and_grad(lambda xi0: jnp.sum(last(xi0)))), []
at = jnp.asarray(start.xi0)
expected = function(at)
def compute():
    found.append(function(at))
for optimised in (False, True):
    if optimised:
        for target in foreign._registered.values():
            target._used(10**12)
    threading.stack_size(2**17)
    thread = threading.Thread(target=compute)
    thread.start()
    thread.join()
for value, gradient in found:
    print(value == expected[0] and np.array_equal(gradient, expected[1]))
print(not any(target._places.told for target in foreign._registered.values()))
"""


def test_an_interrupt_within_the_compiler_is_not_lost(monkeypatch):
    monkeypatch.setenv("GEONH_CACHE", "off")
    function, xi0, _ = compiled("roller-racer", "rkmk4", n_steps=31)
    function(xi0)

    def interrupted(code, seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(machine.Code, "used", interrupted)
    function(xi0)
    with pytest.raises(KeyboardInterrupt):
        threading.Event().wait(10.0)


def test_where_there_are_many_the_next_is_called_through_python(monkeypatch):
    monkeypatch.setattr(foreign, "MOST", len(foreign._registered))
    function, xi0, run = compiled("vertical-disk", "rkmk4", n_steps=33)
    assert BY_PYTHON in function.lower(xi0).as_text()
    np.testing.assert_array_equal(function(xi0)[0], run.xi)


def test_another_version_of_the_interface_is_called_through_python(monkeypatch):
    monkeypatch.setattr(handlers, "VERSION", (7, 0))
    function, xi0, run = compiled("knife-edge", "rkmk4", n_steps=33)
    assert BY_PYTHON in function.lower(xi0).as_text()
    np.testing.assert_array_equal(function(xi0)[0], run.xi)


@pytest.mark.parametrize(
    ("name", "method", "parameter"),
    [
        ("chaplygin-sleigh", "gauss4", "m"),
        ("suslov", "rkmk4", "J"),
        ("snakeboard", "gni", "m"),
        pytest.param("chaplygin-sphere", "rkmk4", "m", marks=pytest.mark.slow),
    ],
)
def test_a_gradient_calls_python_only_where_it_has_to_and_has_the_same_bits(name, method, parameter):
    entry = catalogue[name]
    start = entry.start(entry.system())

    def loss(xi0, scale):
        system = entry.system()
        system = system.with_parameters(**{parameter: scale * np.asarray(system.parameters[parameter])})
        run = gn.integrate(system, method, xi0=xi0, g0=start.g0, dt=entry.dt, n_steps=40)
        return jnp.sum(jnp.sin(run.xi[::7])) + run.energy[-1]

    at = jnp.asarray(start.xi0), jnp.asarray(1.1)
    gradient = jax.jit(jax.grad(loss, (0, 1)))
    text = gradient.lower(*at).as_text()
    before, after = text.split("stablehlo.case", 1)  # the branch that calls it is only for nan
    assert BY_PYTHON not in before
    assert BY_PYTHON in after
    for found, expected in zip(gradient(*at), jax.grad(loss, (0, 1))(*at), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-15)
    step = 1e-6
    difference = (loss(at[0], at[1] + step) - loss(at[0], at[1] - step)) / (2 * step)
    assert abs(gradient(*at)[1] - difference) < 1e-6 * (1 + abs(difference))


@pytest.mark.parametrize(
    ("n_nodes", "stride"), [(0, 1), (1, 1), (30, 1), (250, 1), (251, 1), (300, 1), (100, 3), (1, 249)]
)
def test_what_enters_after_a_failure_enters_at_the_last_good_node(n_nodes, stride):
    """The step of number 250 fails; the run is linear in a and x."""

    def first(tree, x, near):
        return jnp.append(2.0 * x, 0.0)

    def step(tree, node, warm, near):
        return node * 0.99 + tree[0], warm + 1.0, jnp.where(warm[0] == 249, 9, 0)

    arrays, parts = Parts.of((np.asarray(0.5),))
    run = Steps(first, step, parts, n_nodes, stride, 3, 1, False)
    weights = jnp.asarray(np.random.default_rng(0).normal(size=(n_nodes + 1, 2)))

    def total(a, x):
        return jnp.sum(weights * run([a], x)[:, :2])

    at = jnp.asarray(arrays[0]), jnp.array([1.0, -3.0])
    gradient = jax.jit(jax.grad(total, (0, 1)))
    assert BY_PYTHON not in gradient.lower(*at).as_text().split("stablehlo.case", 1)[0]
    slopes = gradient(*at)
    n = np.minimum(stride * np.arange(n_nodes + 1), 249)
    powers = 0.99**n
    np.testing.assert_allclose(slopes[1], 2 * powers @ np.asarray(weights), rtol=1e-12)
    np.testing.assert_allclose(slopes[0], np.sum(np.asarray(weights) * ((1 - powers) / 0.01)[:, None]), rtol=1e-11)


def test_a_gradient_that_is_nan_is_that_of_python():
    """√x at 0 has no derivative: both ways tell so."""

    def first(tree, x, near):
        return jnp.append(jnp.sqrt(x), 0.0)

    def step(tree, node, warm, near):
        return node + tree[0], warm, jnp.asarray(0)

    arrays, parts = Parts.of((np.asarray(0.5),))
    run = Steps(first, step, parts, 3, 1, 3, 1, False)
    a, x = jax.jit(jax.grad(lambda a, x: jnp.sum(0.0 * run([a], x)), (0, 1)))(arrays[0], jnp.array([0.0, 1.0]))
    assert a == 0.0
    np.testing.assert_array_equal(x, [np.nan, 0.0])
