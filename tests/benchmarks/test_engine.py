"""The engine, measured: first calls, steps against C, ensembles against vectorised C, threads; one table.

``pytest -m benchmark -s tests/benchmarks/test_engine.py``, or as a script, with the names of sections to print only
those, ``--every`` for the first call of every method on every small system, and ``--page`` to renew the table in
``docs/benchmarks.md``. Ratios are of minima over turns in one run. The C programs (``c/``) do the same arithmetic, by
hand, and time themselves: what is linked with ``-ffast-math`` switches denormal numbers off where it is loaded, so they
stay processes of their own. That C and the library agree is asserted; times are printed, with a star where the goal is
missed.
"""

import functools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

import geonh as gn
from geonh.engine.native import machine
from geonh.systems import catalogue

HERE = Path(__file__).parent
SOURCES = HERE / "c"
PAGE, HEADING = HERE.parents[1] / "docs" / "benchmarks.md", "## The engine against C"
ROUNDS, SHORT, LONG = 15, 100, 100_000
MEMBERS, MEMBER_STEPS, SELDOM = 1000, 1000, 50
AGREED = 300
"""Steps after which C and the library are compared; longer runs amplify rounding."""

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


class Row(NamedTuple):
    """A line of the table; ``value`` is None where nothing was measured, and ``measured`` says why."""

    what: str
    measured: str
    value: float | None = None
    goal: float | None = None
    at_least: bool = False

    @property
    def aim(self) -> str:
        """The goal, with a star where it is missed."""
        if self.goal is None:
            return ""
        met = self.value is not None and (self.value >= self.goal if self.at_least else self.value <= self.goal)
        return f"{'≥' if self.at_least else '≤'} {self.goal:g}{'' if met else ' *'}"

    def __str__(self) -> str:
        return f"{self.what:58s} {self.measured:>44s}  {self.aim}"


# --- systems, in Python and in C --------------------------------------------------------------------------
class Case(NamedTuple):
    """A system with its start, and what its C program reads: parameters, and the unknowns of Newton's method."""

    system: Any
    g0: Any
    xi0: np.ndarray
    dt: float
    parameters: np.ndarray
    unknowns: slice

    def start(self, g: np.ndarray, p_minus: np.ndarray, guess: np.ndarray) -> np.ndarray:
        return np.concatenate([g, p_minus, guess[self.unknowns]])


def snakeboard() -> Case:
    system = gn.systems.snakeboard(structure="abelian")
    g0 = (np.zeros(2), np.array([0.0, 0.0, 0.3]))
    xi0 = system.project(g0, [1.0, 0.0, 0.2, 0.7, 0.001])
    p = system.parameters
    masses = [p["m"], p["m"], p["J"] + 2 * p["J1"], p["J0"], 2 * p["J1"], p["r"]]
    return Case(system, g0, np.asarray(xi0), 1e-4, np.array(masses, float), slice(0, 0))


def snakeboard_se2() -> Case:
    system = gn.systems.snakeboard()
    g0 = (np.zeros(3), np.array([0.0, 0.3]))
    p = system.parameters
    masses = [p["J"] + 2 * p["J1"], p["m"], p["J0"], 2 * p["J1"], p["r"]]
    xi0 = system.project(g0, [0.2, 1.0, 0.0, 0.7, 0.001])
    return Case(system, g0, np.asarray(xi0), 0.01, np.array(masses, float), slice(0, 3))


def suslov() -> Case:
    system = gn.systems.suslov()
    p = system.parameters
    return Case(system, None, np.array([0.4, 1.0, 0.0]), 0.01, np.concatenate([p["J"].ravel(), p["a"]]), slice(0, 3))


def catalogued(name: str, dt: float, parameters: str, unknowns: slice) -> Case:
    entry = catalogue[name]
    system = entry.system()
    start = entry.start(system)
    numbers = np.concatenate([np.ravel(system.parameters[word]) for word in parameters.split()])
    return Case(system, start.g0, np.asarray(start.xi0), dt, numbers, unknowns)


CASES = {
    "snakeboard": snakeboard,
    "snakeboard_se2": snakeboard_se2,
    "suslov": suslov,
    "sleigh": lambda: catalogued("chaplygin-sleigh", 0.01, "m I a", slice(0, 3)),
    "sphere": lambda: catalogued("chaplygin-sphere", 0.01, "m r J table_rate", slice(2, 5)),
    "disk": lambda: catalogued("vertical-disk", 0.01, "m J I R", slice(0, 3)),
}
"""The C program of the same name. The snakeboard is on R²×T³, where its step is explicit, and on SE(2)×T²."""


@functools.cache
def case(name: str) -> Case:
    return CASES[name]()


@functools.cache
def folder() -> Path:
    made = tempfile.TemporaryDirectory()
    folder.keep = made  # removed at the end of the process
    return Path(made.name)


@functools.cache
def program(name: str, lanes: int = 1, reduced: bool = False) -> str:
    """Path of the compiled program."""
    path = folder() / f"{name}-{lanes}-{reduced}"
    vector = [f"-DLANES={lanes}", "-ffast-math", "-fopenmp-simd"] if lanes > 1 else []
    flags = ["-O3", "-march=native", *vector, *["-DREDUCED"] * reduced]
    libraries = (["-lmvec"] if lanes > 1 else []) + ["-lm"]
    subprocess.run(["gcc", *flags, "-o", str(path), str(SOURCES / f"{name}.c"), *libraries], check=True)
    return str(path)


def in_c(which: str, dt: float, parameters: np.ndarray, starts: np.ndarray, n: int, repeats: int = 1) -> tuple:
    """ns per member and step, the least and the mean of repeats, and the last rows, shape=[members, row]."""
    numbers = " ".join(map(repr, np.concatenate([[dt], parameters, starts.ravel()]).tolist()))
    arguments = [which, str(n), str(repeats), str(len(starts))]
    said = subprocess.run(arguments, input=numbers, capture_output=True, text=True, check=True).stdout.split("\n")
    return *map(float, said[0].split()), np.array([line.split() for line in said[1:] if line], float)


def run(of: Case, n: int, method: Any = None, save_every: int = 1) -> gn.Trajectory:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        method = method or gn.GNI()
        return gn.solve(of.system, method, g0=of.g0, xi0=of.xi0, dt=of.dt, n_steps=n, save_every=save_every)


def c_start(of: Case) -> np.ndarray:
    """As solve starts, shape=[1, numbers]."""
    first = run(of, 1)
    return of.start(first.g_vector[0], first.p_minus[0], of.dt * of.xi0)[None]


def last_row(trajectory: gn.Trajectory) -> np.ndarray:
    return np.concatenate([trajectory.g_vector[-1], trajectory.p_plus[-1], trajectory.p_minus[-1]])


@needs_gcc
@pytest.mark.benchmark
@pytest.mark.parametrize("name", CASES)
def test_agreement(name):
    of = case(name)
    wanted = last_row(run(of, AGREED))
    for which in (program(name), program(name, reduced=True), program(name, 4), program(name, 8)):
        rows = in_c(which, of.dt, of.parameters, np.repeat(c_start(of), 3, axis=0), AGREED)[-1]
        assert rows[0, 0] == AGREED
        np.testing.assert_allclose(rows[:, 1:], np.tile(wanted, (3, 1)), rtol=0, atol=1e-10, err_msg=which)


# --- timing ------------------------------------------------------------------------------------------------
def seconds(function: Any, *arguments: Any) -> float:
    begin = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - begin


def in_turns(rounds: int = ROUNDS, **functions: Any) -> dict[str, float]:
    """The least value that each function returned."""
    values = [{name: function() for name, function in functions.items()} for _ in range(rounds)]
    return {name: min(value[name] for value in values) for name in functions}


def step_times(of: Case, methods: dict[str, Any], n: int, **others: Any) -> dict[str, float]:
    """ns per step of methods, without the overhead of a call, and what other functions return, all in turns."""
    solves = {
        f"{m} {steps}": functools.partial(seconds, run, of, steps, method)
        for m, method in methods.items()
        for steps in (SHORT, n)
    }
    for solve in solves.values():
        solve()
    result = in_turns(**solves, **others)
    for m in methods:
        result[m] = (result[f"{m} {n}"] - result[f"{m} {SHORT}"]) / (n - SHORT) * 1e9
    return result


def least(of: Case, n: int, save_every: int) -> float:
    """Seconds of the quickest of some runs, as C's programs give those of theirs."""
    return min(seconds(run, of, n, None, save_every) for _ in range(8))


UNSPOILED = {"suslov": 1e-4, "sleigh": 1e-4}
"""Steps with which the momentum of a run does not come to alternate; one that is spoiled is measured at all nodes."""


def against_c() -> Iterator[Row]:
    """Steps of GNI, every node kept, against C -O3 -march=native."""
    if shutil.which("gcc") is None:
        yield Row("step against C", "skipped: gcc is not installed")
        return
    for name in CASES:
        of, which = case(name), program(name)
        of = of._replace(dt=UNSPOILED.get(name, of.dt))
        start = c_start(of)
        c = functools.partial(in_c, which, of.dt, of.parameters, start, LONG, 8)
        runs = {f"{n} {every}": functools.partial(least, of, n, every) for n in (1000, LONG) for every in (1, 1000)}
        times = in_turns(c=lambda: c()[0], **runs)  # noqa: B023
        each, alone = ((times[f"{LONG} {every}"] - times[f"1000 {every}"]) / (LONG - 1000) * 1e9 for every in (1, 1000))
        ratio = each / times["c"]
        yield Row(f"step against C, GNI: {name}", f"{each:.0f} ns, C {times['c']:.0f} ns: {ratio:.2f}", ratio, 1.0)
        yield Row(f"  one node in 1000 kept: {name}", f"{alone:.0f} ns: {alone / times['c']:.2f}")
    for name in ("snakeboard_se2", "sleigh", "disk"):
        of = case(name)
        arguments = (program(name, reduced=True), of.dt, of.parameters, c_start(of), LONG, 40)
        yield Row(f"  for comparison, reduced to one unknown by hand: {name}", f"C {in_c(*arguments)[0]:.0f} ns")


# --- methods whose equations are larger --------------------------------------------------------------------
SOLVES = {"projected": 1, "discrete-gradient": 1, "gauss4": 2, "lobatto4": 3}
"""Parts of a step that are each as long as GNI's whole."""


def newton_heavy() -> Iterator[Row]:
    """Methods of larger equations, per solve, against GNI, whose cost is that of the dearer of its two rules."""
    for name in ("suslov", "sphere"):
        of = case(name)._replace(dt=3e-4) if name == "suslov" else case(name)  # 3 s: later GNI and Lobatto alternate
        made = {"gni": gn.GNI(), "midpoint": gn.GNI("midpoint"), **{m: gn.methods[m].make() for m in SOLVES}}
        for m in SOLVES:
            try:
                made[m].refuse(of.system)
            except ValueError:
                del made[m]
        times = step_times(of, made, 10_000)
        whole = max(times["gni"], times["midpoint"])
        for m, parts in SOLVES.items():
            if m not in made:
                continue
            ratio = times[m] / whole / parts
            yield Row(f"{m} per solve against GNI: {name}", f"{times[m]:.0f} ns a step: {ratio:.2f}", ratio, 2.0)
    yield Row("  sphere, Gauss-4 (XLA engine, idle machine: 1120 ns)", f"{times['gauss4']:.0f} ns")


# --- first calls -------------------------------------------------------------------------------------------
def first_call(name: str, method: str, cache: str, *steps: int, timeout: float = 300.0) -> dict | str:
    """Seconds of the parts of a first call in a fresh process, or why there are none."""
    command = [sys.executable, str(HERE / "first_call.py"), name, method, *map(str, steps)]
    environment = {**os.environ, "XDG_CACHE_HOME": cache}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment)
    except subprocess.TimeoutExpired:
        return f"more than {timeout:.0f} s"
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1][:40]
    return json.loads(done.stdout.splitlines()[-1])


LARGE = ("yoshida4", "suzuki4", "kahan-li6", "discrete-gradient4", "lobatto6")
"""Methods composed of others, and Lobatto's of order 6."""
METHODS = ("gni", "projected", "rattle", "dla", "lobatto4", "gauss4", "rkmk4", "discrete-gradient", *LARGE[1::3])
SYSTEMS = ("suslov", "snakeboard", "chaplygin-sphere")
LIMIT = 5
"""Largest dimension of a small system."""


def first_calls(every: bool = False) -> Iterator[Row]:
    """First calls after import on small systems, each in a process of its own: fresh, then from the disk cache."""
    systems = [name for name, entry in catalogue.items() if entry.system().group.dim <= LIMIT] if every else SYSTEMS
    methods = [name for name in gn.methods if name not in ("baumgarte", "feedback")] if every else METHODS
    result: dict[tuple[str, str], dict] = {}
    for name in systems:
        for method in methods:
            with tempfile.TemporaryDirectory() as cache:
                fresh = first_call(name, method, cache, timeout=120.0)
                again = fresh if isinstance(fresh, str) else first_call(name, method, cache, timeout=120.0)
            if isinstance(fresh, str) or isinstance(again, str):
                if not every or "more than" in str(fresh):
                    yield Row(f"first call: {method} on {name}", str(fresh))
                continue
            result[name, method] = {**fresh, "again": again["first"]}
    for goal, chosen in ((0.5, lambda m: m not in LARGE), (1.5, lambda m: m in LARGE)):
        for name in systems:
            mine = {method: out for (s, method), out in result.items() if s == name and chosen(method)}
            if not mine:
                continue
            worst = max(mine, key=lambda method: mine[method]["first"])
            out = mine[worst]
            kind = "composed, Lobatto-6" if goal > 1 else "single"
            measured = f"{worst}: {out['first']:.2f} s (again {out['again']:.2f} s)"
            yield Row(f"first call, worst of {len(mine)} {kind} methods: {name}", measured, out["first"], goal)
            slow = max(out["observables"] for out in mine.values())
            yield Row(f"  energy and residual after it: {name}", f"{slow:.2f} s")


def whipple() -> Iterator[Row]:
    """First calls and steps of the bicycle, each method in a process of its own."""
    for method, goal in {"rkmk4": 2.5, "gni": 2.5, "projected": 2.5, "gauss4": 4.0}.items():
        n = 1500 if method == "gni" else 5000  # GNI alternates, and comes to an end after some 15 s
        with tempfile.TemporaryDirectory() as cache:
            out = first_call("bicycle", method, cache, n)
            again = out if isinstance(out, str) else first_call("bicycle", method, cache)
        if isinstance(out, str):
            yield Row(f"Whipple bicycle, first call: {method}", out, None, goal)
            continue
        second = again if isinstance(again, str) else f"again {again['first']:.2f} s"
        measured = f"{out['first']:.2f} s ({second})"
        yield Row(f"Whipple bicycle, first call: {method}", measured, out["first"], goal)
        yield Row(f"  energy and residual after it: {method}", f"{out['observables']:.2f} s")
        limit = 3300 if method == "rkmk4" else None
        yield Row(f"  step: {method}", f"{out['step']:.0f} ns", out["step"], limit)


# --- ensembles and threads ---------------------------------------------------------------------------------
class Ensemble:
    """Members of a case that start apart, in the engine's lanes and in C."""

    def __init__(self, of: Case, n_members: int):
        from geonh.engine import native
        from geonh.integrators.base import Clock

        self.of, system = of, of.system
        rng = np.random.default_rng(5)
        leaves, structure = jax.tree.flatten((system, gn.GNI(), Clock(np.zeros(()), np.asarray(of.dt))))
        numbers = [i for i, leaf in enumerate(leaves) if isinstance(leaf, np.ndarray | jax.Array)]
        arrays = [np.asarray(leaves[i]) for i in numbers]

        def join(arrays: Any) -> Any:
            whole = dict(enumerate(leaves)) | dict(zip(numbers, arrays, strict=True))
            return jax.tree.unflatten(structure, list(whole.values()))

        def step(arrays: Any, state: Any) -> Any:
            system, method, clock = join(arrays)
            new = method.next_node(system, clock, state)
            return new._replace(status=state.status), new.status

        def row(arrays: Any, state: Any) -> Any:
            system = join(arrays)[0]
            k = jax.numpy.asarray(state.k, float)[None]
            return jax.numpy.concatenate([k, system.group.to_vector(state.g), state.p_plus, state.p_minus])

        g = system.point(of.g0)

        def first(xi: Any) -> Any:
            system, method, clock = join(arrays)
            return method.first_node(system, clock, g, system.projected_velocity(system.action.at(g), xi))

        with gn.float64():
            xi = of.xi0 * (1 + 0.1 * rng.uniform(-1, 1, size=(n_members, of.xi0.size)))
            self.states = jax.tree.map(np.asarray, jax.jit(jax.vmap(first))(xi))
            example = jax.tree.map(lambda a: a[0], self.states)
            positions = np.asarray(jax.vmap(system.group.to_vector)(self.states.g))
        self.arrays = arrays
        self.lanes = native.Lanes(step, row, arrays, example, varies=False)
        parts = zip(positions, self.states.p_minus, self.states.warm.guess[:, -1], strict=True)
        self.starts = np.stack([of.start(*part) for part in parts])
        self.buffers: dict[int, np.ndarray] = {}

    def run(self, n_nodes: int, threads: int = 1, save_every: int = 1) -> Any:
        if n_nodes not in self.buffers:
            self.buffers[n_nodes] = self.lanes.buffer(len(self.starts), n_nodes)
        return self.lanes.run(self.arrays, self.states, n_nodes, save_every, self.buffers[n_nodes], threads=threads)

    def time(self, threads: int = 1, save_every: int = 1) -> float:
        """ns per member and step, of the quickest of some runs, as C's programs give those of theirs."""
        nodes = MEMBER_STEPS // min(save_every, 10)
        n = nodes * save_every
        return min(seconds(self.run, nodes, threads, save_every) for _ in range(5)) / n / len(self.starts) * 1e9


def lanes_missing() -> str:
    """Why there is no ensemble kernel, or nothing."""
    try:
        from geonh.engine import native
    except ImportError as error:
        return f"skipped: {error}"
    return "" if hasattr(native, "Lanes") else "skipped: the engine has no lanes"


@needs_gcc
@pytest.mark.benchmark
@pytest.mark.parametrize("name", CASES)
def test_ensemble_agreement(name):
    if lanes_missing():
        pytest.skip(lanes_missing())
    ensemble, of = Ensemble(case(name), 19), case(name)
    members = ensemble.run(AGREED)
    assert not members.status.any()
    rows = in_c(program(name, 8), of.dt, of.parameters, ensemble.starts, AGREED)[-1]
    ends = [ensemble.lanes.rows(ensemble.buffers[AGREED], j)[-1] for j in range(19)]
    np.testing.assert_allclose(ends, rows, rtol=0, atol=1e-10)


def ensembles() -> Iterator[Row]:
    """1000 members on lanes, one thread, every node kept, against C vectorised by hand, the better of 4 and 8 lanes.

    What two threads gain is also measured where nodes are seldom kept: two CPUs that write 20 bytes a nanosecond wait
    for the memory, in C as here.
    """
    if lanes_missing() or shutil.which("gcc") is None:
        yield Row(f"ensemble of {MEMBERS} against vectorised C", lanes_missing() or "skipped: gcc is not installed")
        return
    for name in CASES:
        of, ensemble = case(name), Ensemble(case(name), MEMBERS)
        ensemble.run(MEMBER_STEPS)

        def c(lanes: int, name: str = name, of: Case = of, starts: np.ndarray = ensemble.starts) -> float:
            return in_c(program(name, lanes), of.dt, of.parameters, starts, MEMBER_STEPS, 20)[0]

        def at_once(programs: int, name: str = name, of: Case = of, starts: np.ndarray = ensemble.starts) -> float:
            """The mean of repeats, most of which the programs do at the same time."""
            arguments = (program(name, 8), of.dt, of.parameters, starts, MEMBER_STEPS, 100)
            with ThreadPoolExecutor(programs) as pool:
                return max(result[1] for result in pool.map(lambda _: in_c(*arguments), range(programs)))

        times = in_turns(
            four=functools.partial(c, 4),
            eight=functools.partial(c, 8),
            alone=functools.partial(at_once, 1),
            both=functools.partial(at_once, 2),
            one=ensemble.time,
            two=functools.partial(ensemble.time, 2),
            seldom=functools.partial(ensemble.time, 1, SELDOM),
            seldom_two=functools.partial(ensemble.time, 2, SELDOM),
        )
        best = min(times["four"], times["eight"])
        ratio = times["one"] / best
        measured = f"{times['one']:.1f} ns, C {times['four']:.1f} and {times['eight']:.1f} ns: {ratio:.2f}"
        yield Row(f"ensemble of {MEMBERS}, a member's step: {name}", measured, ratio, 1.5)
        gain = times["one"] / times["two"]
        yield Row(f"  on two threads: {name}", f"{times['two']:.1f} ns: {gain:.2f} ×")
        yield Row(f"  two such programs of C at once: {name}", f"{2 * times['alone'] / times['both']:.2f} ×")
        gain = times["seldom"] / times["seldom_two"]
        measured = f"{times['seldom']:.1f} and {times['seldom_two']:.1f} ns: {gain:.2f} ×"
        yield Row(f"  one node in {SELDOM} kept, on one thread and on two: {name}", measured, gain, 1.8, True)


def vectorised_c() -> Iterator[Row]:
    """What C makes of ensembles, for itself: where there are no lanes yet this is the mark to meet."""
    if shutil.which("gcc") is None:
        yield Row("vectorised C", "skipped: gcc is not installed")
        return
    for name in CASES:
        of = case(name)
        starts = np.repeat(c_start(of), MEMBERS, axis=0)
        times = [in_c(program(name, lanes), of.dt, of.parameters, starts, MEMBER_STEPS, 20)[0] for lanes in (4, 8)]
        yield Row(f"C on 4 and on 8 lanes, a member's step: {name}", "{:.1f} ns, {:.1f} ns".format(*times))


def threads() -> Iterator[Row]:
    """Two runs one after the other, and in two threads; with one node in a hundred kept no memory is waited for."""
    of, n = case("sphere"), 5 * LONG
    begun = functools.partial(run, of, n, save_every=100)
    begun()

    def together() -> float:
        both = [threading.Thread(target=begun) for _ in range(2)]
        begin = time.perf_counter()
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()
        return time.perf_counter() - begin

    times = in_turns(alone=lambda: 2 * seconds(begun), together=together)
    gain = times["alone"] / times["together"]
    yield Row(f"two threads, two runs of solve, {n} steps", f"{gain:.2f} ×", gain, 1.8, True)


def import_time() -> Iterator[Row]:
    """In a fresh interpreter, its own start not counted, from bytecode as after an installation."""
    code = "import time; begin = time.perf_counter(); import geonh; geonh.solve; print(time.perf_counter() - begin)"
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder() / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    run = functools.partial(subprocess.run, capture_output=True, text=True, check=True, env=environment)
    best = min(float(run([sys.executable, "-c", code]).stdout) for _ in range(6))
    yield Row("import geonh, with solve", f"{best:.2f} s", best, 0.6)


SECTIONS = {
    "import": import_time,
    "c": against_c,
    "newton": newton_heavy,
    "lanes": ensembles,
    "vectorised": vectorised_c,
    "threads": threads,
    "first": first_calls,
    "whipple": whipple,
}


def table(names: list[str], every: bool = False) -> list[Row]:
    """Print the rows of sections. Steps are those of long runs, whose code is compiled well; first calls have their own
    processes."""
    machine.COMPILE_SECONDS = 0.0
    print(f"{'what':58s} {'measured':>44s}  goal (* missed)")
    rows = []
    for name in names:
        for row in first_calls(every) if name == "first" else SECTIONS[name]():
            print(row, flush=True)
            rows.append(row)
    return rows


def renew_page(rows: list[Row]) -> None:
    """Write the rows, the day, the machine and the versions under the page's last heading."""
    head = PAGE.read_text(encoding="utf-8").partition(HEADING)[0]
    made = ", ".join(f"{name} {version(name)}" for name in ("jax", "llvmlite"))
    made = f"{date.today()}, {os.cpu_count()} cores of {cpu()}; geonh {gn.__version__}, {made}."
    warned = f"{made} A star marks a missed goal."
    lines = ["| what | measured | goal |", "|---|---|---|"]
    lines += [f"| {row.what.strip()} | {row.measured.strip()} | {row.aim} |" for row in rows]
    PAGE.write_text("\n".join([head + HEADING, "", warned, "", *lines, ""]), encoding="utf-8")


def cpu() -> str:
    facts = Path("/proc/cpuinfo")
    result = re.search(r"model name\s*: (.*)", facts.read_text()) if facts.exists() else None
    return result[1] if result else platform.machine()


@pytest.mark.benchmark
def test_table():
    print()
    table(list(SECTIONS))


if __name__ == "__main__":
    words = sys.argv[1:]
    asked = [word for word in words if word in SECTIONS]
    if set(words) - {*asked, "--every", "--page"}:
        raise SystemExit(f"sections are {', '.join(SECTIONS)}; --every for all first calls, --page to renew the page")
    rows = table(asked or list(SECTIONS), "--every" in words)
    if "--page" in words:
        renew_page(rows)
