"""The stepping loop and the map: counts, strides, failures, ownership."""

import functools
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from native_support import evaluate, needs_compiler, random

from geonh.engine import native
from geonh.engine.interrupts import busy, interruptible
from geonh.engine.native import machine

pytestmark = needs_compiler

PARAMS = {"A": random(0, 3, 3), "limit": np.float64(1e9), "dt": np.float64(0.01)}
START = {"x": random(1, 3), "k": np.int64(0), "flag": np.bool_(True), "matrix": random(2, 12, 12)}


def step(params, state):
    x = state["x"] + params["dt"] * jnp.cross(params["A"] @ state["x"], state["x"])
    x = lax.while_loop(lambda y: jnp.sum(y * y) > 4, lambda y: 0.9 * y, x)
    k = state["k"] + 1
    matrix = state["matrix"] + jnp.outer(jnp.tile(x, 4), jnp.tile(x, 4))
    new = {"x": x, "k": k, "flag": ~state["flag"], "matrix": matrix}
    return new, jnp.where(k * 1.0 > params["limit"], 7, 0).astype(jnp.int32)


def row(params, state):
    return jnp.concatenate([state["k"][None].astype(float), state["x"], state["matrix"][0, :1]])


@pytest.fixture(scope="module")
def loop():
    with jax.enable_x64(True):
        return native.Loop(step, row, PARAMS, START)


@pytest.fixture(scope="module")
def expected():
    """Rows and states of 40 steps."""
    with jax.enable_x64(True):
        states, rows = [START], []
        for _ in range(40):
            states.append(jax.tree.map(np.asarray, jax.jit(step)(PARAMS, states[-1])[0]))
            rows.append(row(PARAMS, states[-1]))
        return np.array(rows), states


def assert_state(got, expected):
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-13)
        assert got[name].dtype == np.asarray(value).dtype


@pytest.mark.parametrize("stride", [1, 3, 8])
def test_rows_and_state(loop, expected, stride):
    rows, states = expected
    n = 40 // stride
    buffer = np.zeros((n + 1, loop.width))
    state, status, n_saved = loop.run(PARAMS, START, n, stride, buffer)
    assert (status, n_saved) == (0, n)
    np.testing.assert_allclose(buffer[:n], rows[stride - 1 :: stride], rtol=1e-13)
    assert not buffer[n].any()
    assert_state(state, states[n * stride])
    assert START["k"] == 0


def test_same_bits_in_any_pieces(loop):
    whole = np.zeros((1000, loop.width))
    loop.run(PARAMS, START, 1000, 1, whole)
    pieces, state, done = np.zeros_like(whole), START, 0
    for n in (1, 2, 300, 697):
        state, _, _ = loop.run(PARAMS, state, n, 1, pieces[done : done + n])
        done += n
    np.testing.assert_array_equal(pieces, whole)
    strided = np.zeros((100, loop.width))
    loop.run(PARAMS, START, 100, 10, strided)
    np.testing.assert_array_equal(strided, whole[9::10])


def test_failure_keeps_the_last_good_state(loop, expected):
    rows, states = expected
    buffer = np.zeros((40, loop.width))
    state, status, n_saved = loop.run({**PARAMS, "limit": np.float64(17)}, START, 13, 3, buffer)
    assert (status, n_saved) == (7, 5)
    np.testing.assert_allclose(buffer[:5], rows[2:17:3], rtol=1e-13)
    assert_state(state, states[17])
    state, status, n_saved = loop.run({**PARAMS, "limit": np.float64(0)}, START, 5, 1, buffer)
    assert (status, n_saved) == (7, 0)
    assert_state(state, START)


@pytest.mark.parametrize("last", [63, 64, 65, 127, 128, 200])  # good steps; the state is stored every 64
@pytest.mark.parametrize("stride", [1, 7])
def test_failure_after_many_steps(loop, last, stride):
    rows, n = np.zeros((300, loop.width)), 300 // stride
    state, status, n_saved = loop.run({**PARAMS, "limit": np.float64(last)}, START, n, stride, rows)
    assert (status, n_saved) == (7, last // stride)
    without = np.zeros_like(rows)
    expected, status, _ = loop.run(PARAMS, START, last, 1, without)
    assert status == 0
    np.testing.assert_array_equal(rows[:n_saved], without[stride - 1 : last : stride])
    for name, value in expected.items():
        np.testing.assert_array_equal(state[name], value)


def test_pieces_come_between_nodes_too(loop, monkeypatch):
    monkeypatch.setattr(loop, "_known", 4)
    monkeypatch.setattr(native.drivers, "CALL_SECONDS", 0.0)
    buffer = np.zeros((50, loop.width))
    saved = [(int(state["k"]), n) for state, _, n in loop.pieces(PARAMS, START, 50, 7, buffer)]
    assert saved[-1] == (350, 50)
    assert all(n == k // 7 for k, n in saved)
    assert max(np.diff([k for k, _ in saved])) <= 4


def test_the_pace_grows_by_what_was_done():
    """Many short runs are no reason for a long call."""
    pace = native.drivers.CallSize()
    for _ in range(20):
        pace.begin()
        pace.end(3)
    assert pace.amount <= 16 * 3
    pace.begin()
    pace.end(pace.amount)
    assert pace.amount > 16 * 3


def test_wrong_arguments(loop):
    buffer = np.zeros((5, loop.width))
    with pytest.raises(ValueError, match="do not fit"):
        loop.run(PARAMS, START, 6, 1, buffer)
    with pytest.raises(ValueError, match="contiguous"):
        loop.run(PARAMS, START, 2, 1, np.zeros((5, loop.width), np.float32))
    with pytest.raises(ValueError, match="shape"):
        loop.run(PARAMS, {**START, "x": np.zeros(4)}, 2, 1, buffer)
    with pytest.raises(ValueError, match="structure"):
        loop.run({}, START, 2, 1, buffer)
    with pytest.raises(TypeError, match="status"):
        native.Loop(lambda p, s: (s, 1.0), lambda p, s: s, (), np.zeros(2))
    with pytest.raises(TypeError, match="state"):
        native.Loop(lambda p, s: (s[:1], jnp.int32(0)), lambda p, s: s, (), np.zeros(2))


def test_numbers_compile_nothing(loop, monkeypatch):
    monkeypatch.setattr(machine, "Code", None)
    buffer = np.zeros((5, loop.width))
    other = {"A": random(5, 3, 3), "limit": np.float64(1e3), "dt": np.float64(0.2)}
    assert loop.run(other, {**START, "x": random(6, 3)}, 5, 1, buffer)[2] == 5
    again = native.Loop(step, row, other, START)  # the same program
    assert again._program.code is loop._program.code


def test_map():
    program = native.Map(lambda p, x: {"y": jnp.sin(x) @ p, "b": x[0] > 0, "n": 3}, np.eye(3), np.ones(3))
    for n in (0, 1, 1000):
        x = random(n, n, 3)
        result = program.run(np.eye(3), x)
        np.testing.assert_allclose(result["y"], np.sin(x), rtol=1e-15)
        np.testing.assert_array_equal(result["b"], x[:, 0] > 0)
        assert result["n"].shape == (n,)
    with pytest.raises(ValueError, match="shape"):
        program.run(np.eye(3), np.ones((5, 2)))


def test_threads_run_side_by_side(loop):
    buffers = [np.zeros((2000, loop.width)) for _ in range(4)]
    threads = [threading.Thread(target=loop.run, args=(PARAMS, START, 2000, 1, b)) for b in buffers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(b, buffers[0]) for b in buffers)
    assert buffers[0][-1, 0] == 2000


def _maps():
    path = Path("/proc/self/maps")
    return len(path.read_text().splitlines()) if path.exists() else 0


def _resident():
    path = Path("/proc/self/statm")
    return int(path.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if path.exists() else 0


def test_a_program_outlives_its_linker(monkeypatch):
    monkeypatch.setattr(machine, "KEPT_CODES", 1)
    made = [native.Map(lambda p, x, k=k: jnp.tan(x) * k, (), np.float64(0)) for k in (2.0, 3.0, 5.0)]
    machine._linker.cache_clear()
    gc.collect()
    result = [program.run((), np.ones(1))[0] for program in made]
    np.testing.assert_allclose(result, np.tan(1.0) * np.array([2.0, 3.0, 5.0]), rtol=1e-15)


def test_a_compile_that_fails_leaves_nothing_to_the_garbage_collector(monkeypatch):
    """It would free a context before the module in it, and end the process."""

    def fails(*_):
        raise AssertionError("compiled")

    monkeypatch.setattr(machine, "_optimise", fails)
    text, kept = "define i64 @f(i64 %n) {\n ret i64 %n\n}\n; compiled by nobody", []
    for _ in range(30):
        with pytest.raises(AssertionError) as raised:
            machine._object(text, quick=True)
        kept.append(raised)
    frames = [entry.frame.f_locals for raised in kept for entry in raised.traceback if "module" in entry.frame.f_locals]
    assert len(frames) == 30
    assert all(frame["module"].closed and frame["context"].closed for frame in frames)


def test_a_program_of_large_arrays_has_a_stack_of_its_own():
    x = np.linspace(0.0, 1.0, 1_200_000)  # on a thread's own stack, of 8 MB, two such would end the process
    assert evaluate(lambda x: jnp.cos(jnp.sin(x))[3], x) == pytest.approx(np.cos(np.sin(x[3])), rel=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2**15, 2**18])
def test_threads_may_have_small_stacks(size):
    """Half of them would be taken; and what a user chose stays."""
    done = subprocess.run([sys.executable, "-c", SMALL_STACKS, str(size)], capture_output=True, text=True)
    assert done.stdout.split() == [str(size), "True"], done.stderr[-2000:]


SMALL_STACKS = """
import sys, threading
import jax.numpy as jnp, numpy as np
from geonh.engine import native
size = int(sys.argv[1])
x, found = np.linspace(0.0, 1.0, size // 16), []
threading.stack_size(size)
def compute():
    found.append(native.Map(lambda p, x: jnp.cos(jnp.sin(x))[3], (), x).run((), x[None])[0])
thread = threading.Thread(target=compute)
thread.start()
thread.join()
print(threading.stack_size(), abs(found[0] - np.cos(np.sin(x[3]))) < 1e-15)
"""


@pytest.mark.slow
def test_optimised_code_of_a_large_program_runs_in_a_thread_of_any_stack():
    """A small one that was chosen when the thread began, and no longer is."""
    done = subprocess.run([sys.executable, "-c", CHOSEN_BEFORE], capture_output=True, text=True)
    assert done.stdout.split() == ["SUCCESS"] * 2, done.stderr[-2000:]


CHOSEN_BEFORE = """
import threading
import numpy as np
import geonh as gn
from geonh.bodies import Joint, Link
from geonh.engine.native import machine
machine.COMPILE_SECONDS = 0.0  # optimised at once
def link(i):
    joint = Joint("revolute", f"j{i}", axis=(0, 1, 0) if i % 2 else (1, 0, 0), place=(0, 0, -0.2 * (i > 0)))
    return Link(f"l{i}", 1.0, (0, 0, -0.1), (0.01, 0.01, 0.001), f"l{i - 1}" if i else "", joint)
chain = gn.bodies.tree([link(i) for i in range(20)], name="chain")
def solve():
    print(gn.solve(chain, "gauss4", g0=0.1 * np.ones(20), xi0=np.zeros(20), dt=0.002, n_steps=400).status, flush=True)
solve()
begin = threading.Event()
thread = threading.Thread(target=lambda: (begin.wait(), solve()))
threading.stack_size(2**16)
thread.start()
threading.stack_size(0)
begin.set()
thread.join()
"""


def test_what_a_call_with_a_stack_of_its_own_works_on_outlives_an_interrupt():
    done, array = [], np.zeros(3)
    alive = weakref.ref(array)

    def call(array):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)
        done.append(array)

    with pytest.raises(KeyboardInterrupt):
        interruptible(functools.partial(call, array), stack=2**20)
    del array
    gc.collect()
    assert alive() is not None
    while busy():
        time.sleep(0.01)
    assert alive() is done.pop()
    assert interruptible(lambda: 3, stack=100) == 3


@pytest.mark.slow
def test_a_program_is_small():
    """Nothing of the compiler stays with it."""
    gc.collect()
    before = _resident()
    made = [native.Map(lambda p, x, k=k: jnp.sin(x + k) * k, (), np.float64(0)) for k in np.arange(60) / 7]
    assert len({program._program.code for program in made}) == 60
    gc.collect()
    assert _resident() < before + 60 * 0.3e6


@pytest.mark.slow
def test_many_programs_leave_no_memory_behind():
    """2000 different programs in one process."""
    from geonh.engine.native.programs import mapping  # noqa: F401

    def run(c):
        program = native.Map(lambda p, x: jnp.sin(x) * c, (), np.float64(0))
        np.testing.assert_allclose(program.run((), np.ones(1)), np.sin(1.0) * c)

    for i in range(100):
        run(float(i))
    gc.collect()
    maps, held = _maps(), _resident()
    for i in range(2000):
        run(0.5 + i)
    gc.collect()
    assert len(machine._recent) <= machine.KEPT_PROGRAMS
    assert _maps() < maps + 5 * machine.KEPT_PROGRAMS
    assert _resident() < held + 40e6
