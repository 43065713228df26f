"""Many members of three systems: geonh against what users write otherwise, all at one accuracy, in one run.

``pytest -m benchmark -s tests/benchmarks/test_rivals.py``, or as a script with names of systems. The rivals integrate
the equations of ``rivals.py``, written by hand; geonh takes the catalogue's systems. The steps (tolerances) of each are
the largest of a ladder with which the end of every one of 64 members is within ``ACCURACY`` of a reference. Times are
seconds of the processors, the least of three turns, without compiling.
"""

import ctypes
import functools
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rivals

import geonh as gn
from geonh.systems.whipple_bicycle import start

HERE = Path(__file__).parent
ACCURACY, MEMBERS, PROBED, TURNS = 1e-6, 100_000, 64, 3
LADDER = [10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280]
"""Numbers of steps."""
TOLERANCES = [1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10]
FEW = {"SciPy, DOP853, process pool": 64, "diffrax, Dopri5, vmap": 4096}
"""Members that slow rivals are given; throughput is theirs."""


@dataclass(frozen=True)
class Problem:
    """A system, its equation by hand, and starts of n members for both: (system, arguments, y, p)."""

    field: Callable
    size: int
    parameters: int
    end: float
    members: Callable[[int], tuple]
    seen: Callable[[np.ndarray], np.ndarray]
    """Entries of geonh's group elements that are those of y[:, :k]."""
    methods: tuple[str, ...]
    count: int = MEMBERS

    @property
    def name(self) -> str:
        return self.field.__name__


def spheres(n: int) -> tuple:
    """Of different masses."""
    rng = np.random.default_rng(2)
    system = gn.systems.chaplygin_sphere(table_rate=0.0)
    J, r = np.asarray(system.parameters["J"], float), float(system.parameters["r"])
    m, W = rng.uniform(0.5, 2.0, n), rng.normal(0.0, 0.5, (n, 3))
    y, p = np.zeros((n, 14)), np.column_stack([m, np.tile(J, (n, 1)), np.full(n, r)])
    y[:, [2, 6, 10]] = 1.0
    D = (m * r * r)[:, None]
    y[:, 11:] = (J + D) * W
    y[:, 13] -= D[:, 0] * W[:, 2]
    v = np.stack([r * W[:, 1], -r * W[:, 0]], axis=1)
    return system, {"xi0": np.concatenate([v, W], axis=1), "parameters": {"m": m}}, y, p


def boards(n: int) -> tuple:
    """Of different masses and speeds."""
    rng = np.random.default_rng(3)
    system = gn.systems.snakeboard()
    r, J = (float(system.parameters[k]) for k in ("r", "J"))
    J += 2 * float(system.parameters["J1"])
    m, phi, w = rng.uniform(0.5, 2.0, n), rng.uniform(0.2, 0.6, n), rng.uniform(0.5, 1.5, n)
    spin, steer = rng.uniform(-1, 1, n), rng.uniform(-0.1, 0.1, n)
    zero = np.zeros(n)
    y, p = np.stack([zero, zero, zero, zero, phi, w, spin, steer], axis=1), np.column_stack([m, zero + J, zero + r])
    xi0 = np.stack([-w * np.sin(phi), r * w * np.cos(phi), zero, spin, steer], axis=1)
    g0 = np.zeros((n, 3)), np.stack([zero, phi], axis=1)
    return system, {"g0": g0, "xi0": xi0, "parameters": {"m": m}}, y, p


def bicycles(n: int) -> tuple:
    """Riders of different masses, who begin to lean at different rates."""
    rng = np.random.default_rng(4)
    system = gn.systems.whipple_bicycle()
    rates, mass = rng.uniform(-0.2, 0.2, n), rng.uniform(60.0, 100.0, n)
    g0, still = start(system, 4.6, 0.0)
    leaning = start(system, 4.6, 1.0)[1] - still
    xi0 = still + rates[:, None] * leaning
    y = np.concatenate([np.tile([*g0[0][:3, 3], *g0[0][:3, :3].ravel(), *g0[1]], (n, 1)), xi0], axis=1)
    return system, {"g0": g0, "xi0": xi0, "parameters": {"mB": mass}}, y, mass[:, None]


def _bicycle(g: np.ndarray) -> np.ndarray:
    """(X, R) of the matrix of SE(3), and the angles."""
    matrix = g[:, :16].reshape(-1, 4, 4)
    return np.concatenate([matrix[:, :3, 3], matrix[:, :3, :3].reshape(-1, 9), g[:, 16:]], axis=1)


PROBLEMS = {
    "sphere": Problem(
        *(rivals.sphere, 14, 5, 10.0, spheres),
        *(lambda g: g, ("rkmk4", "commutator-free4", "rkmk6", "gauss4")),
    ),
    "snakeboard": Problem(
        *(rivals.snakeboard, 8, 3, 10.0, boards),
        *(lambda g: g[:, [1, 2, 0, 3, 4]], ("rkmk4", "commutator-free4", "rkmk6", "gauss4")),
    ),
    "bicycle": Problem(*(rivals.bicycle, 24, 1, 2.0, bicycles), *(_bicycle, ("rkmk4", "rkmk6")), 10_000),
}


def with_geonh(problem: Problem, method: str) -> Callable:
    def run(n: int, steps: int) -> np.ndarray:
        system, starts, _, _ = problem.members(n)
        runs = gn.solve_ensemble(system, method, **starts, dt=problem.end / steps, n_steps=steps)
        return problem.seen(runs.g_vector[:, -1])

    return run


def with_c(problem: Problem) -> Callable:
    def run(n: int, steps: int) -> np.ndarray:
        _, _, y, p = problem.members(n)
        program()[f"run_{problem.name}"](n, steps, ctypes.c_double(problem.end / steps), p.ctypes, y.ctypes)
        return y

    return run


@functools.cache
def program() -> Any:
    made = Path(os.environ.get("TMPDIR", "/tmp")) / f"geonh-rivals-{os.getpid()}"
    texts, runs = [], []
    for one in PROBLEMS.values():
        lines, rates = rivals.written(one.field, one.size, one.parameters, "[l]")
        body = [f"const double {line};" for line in lines] + [f"f[{i}][l] = {x};" for i, x in enumerate(rates)]
        loop = "\n".join(["#pragma omp simd", "for (int l = 0; l < L; l++) {", *body, "}"])
        texts.append(f"FIELD({one.name}, {one.size}, {one.parameters}) {{\n{loop}\n}}\n")
        runs.append(f"RUN({one.name}, {one.size}, {one.parameters})")
    made.with_suffix(".h").write_text("".join(texts))
    flags = ["-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC", f"-DRUNS={' '.join(runs)}"]
    command = [
        "gcc",
        *flags,
        f'-DFIELDS="{made.with_suffix(".h")}"',
        HERE / "c" / "rivals.c",
        "-o",
        f"{made}.so",
        "-lm",
    ]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(f"{made}.so")
    result = {f"run_{name}": getattr(library, f"run_{name}") for name in PROBLEMS}
    for function in result.values():
        function.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_double, ctypes.c_void_p, ctypes.c_void_p]
        function.restype = None
    return result


def with_numba(problem: Problem) -> Callable:
    def run(n: int, steps: int) -> np.ndarray:
        _, _, y, p = problem.members(n)
        _numba(problem.name)(y, p, steps, problem.end / steps)
        return y

    return run


@functools.cache
def _numba(name: str) -> Callable:
    numba, problem = pytest.importorskip("numba"), PROBLEMS[name]
    lines, rates = rivals.written(problem.field, problem.size, problem.parameters)
    body = [*lines, *(f"f[{i}] = {x}" for i, x in enumerate(rates))]
    scope: dict[str, Any] = {"sin": np.sin, "cos": np.cos, "sqrt": np.sqrt}
    exec("def rate(y, p, f):\n" + "".join(f"    {line}\n" for line in body), scope)
    rate = numba.njit(fastmath=True)(scope["rate"])
    at, weight = np.array([0.0, 0.5, 0.5, 1.0]), np.array([1.0, 2.0, 2.0, 1.0])

    def run(y, p, steps, h):
        for j in numba.prange(len(y)):
            z, q = y[j].copy(), p[j]
            k, t, s = np.zeros_like(z), np.empty_like(z), np.empty_like(z)
            for _ in range(steps):
                s[:] = 0.0
                for stage in range(4):
                    t[:] = z + h * at[stage] * k
                    rate(t, q, k)
                    s += weight[stage] * k
                z += h / 6 * s
            y[j] = z

    return numba.njit(parallel=True, fastmath=True)(run)


def with_diffrax(problem: Problem) -> Callable:
    def run(n: int, steps: int) -> np.ndarray:
        _, _, y, p = problem.members(n)
        with gn.float64():
            step = jnp.asarray(problem.end / steps)
            return np.asarray(_diffrax(problem.name)(jnp.asarray(y), jnp.asarray(p), step))

    return run


@functools.cache
def _diffrax(name: str) -> Callable:
    diffrax, problem = pytest.importorskip("diffrax"), PROBLEMS[name]
    term = diffrax.ODETerm(lambda t, y, p: jnp.stack(problem.field(list(y), list(p), jnp)))

    def one(y, p, step):
        times = 0.0, problem.end, step
        return diffrax.diffeqsolve(term, diffrax.Dopri5(), *times, y, p, max_steps=2 * LADDER[-1]).ys[-1]

    return jax.jit(jax.vmap(one, (0, 0, None)))


def with_scipy(problem: Problem, pool: Any) -> Callable:
    def run(n: int, tolerance: float) -> np.ndarray:
        _, _, y, p = problem.members(n)
        tasks = [(problem.field, y[j], p[j], problem.end, tolerance) for j in range(n)]
        return np.array(list(pool.map(rivals.scipy_member, tasks, chunksize=max(n // 8, 1))))

    return run


def tuned(run: Callable, reference: np.ndarray, ladder: list) -> tuple[float, float]:
    """The first of a ladder with which every probed member is as near to the reference as it shall be."""
    for setting in ladder:
        result = run(PROBED, setting)
        k = min(result.shape[1], reference.shape[1])
        error = np.abs(result[:, :k] - reference[:, :k]).max()
        if error <= ACCURACY:
            return setting, error
    raise AssertionError(f"{error:.1e} at the end of the ladder")


def compare(problem: Problem) -> None:
    reference = with_c(problem)(PROBED, 20_000)
    result = with_geonh(problem, "rkmk6")(PROBED, 1000)  # one system
    np.testing.assert_allclose(result, reference[:, : result.shape[1]], rtol=0, atol=1e-8)
    reference = result  # what all have: places
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
        runs = {f"geonh, {method}": (with_geonh(problem, method), LADDER) for method in problem.methods} | {
            "C, RK4, 8 lanes, OpenMP": (with_c(problem), LADDER),
            "numba, RK4, parallel": (with_numba(problem), LADDER),
            "diffrax, Dopri5, vmap": (with_diffrax(problem), LADDER),
            "SciPy, DOP853, process pool": (with_scipy(problem, pool), TOLERANCES),
        }
        settings = {name: tuned(run, reference, ladder) for name, (run, ladder) in runs.items()}
        counts = {name: min(FEW.get(name, problem.count), problem.count) for name in runs}
        best = dict.fromkeys(runs, np.inf)
        for turn in range(1 + TURNS):
            for name, (run, _) in runs.items():
                clock = clocks["SciPy" in name]
                begun = clock()
                run(counts[name], settings[name][0])
                if turn:  # the first compiles
                    best[name] = min(best[name], (clock() - begun) / counts[name])
    first = f"geonh, {problem.methods[0]}"
    print(f"\n{problem.name} to t = {problem.end:g} s, error ≤ {ACCURACY:g}")
    for name, each in best.items():
        setting, error = settings[name]
        print(
            f"{name:32s} {1 / each:12,.0f} members per second of a CPU {each / best[first]:8.2f} × the time "
            f"  steps {setting:g}, error {error:.1e}",
            flush=True,
        )


clocks = time.process_time, lambda: time.perf_counter() * (os.cpu_count() or 1)
"""Of this process, and of a pool of processes that has the machine to itself."""


@pytest.mark.benchmark
@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@pytest.mark.parametrize("name", PROBLEMS)
def test_rivals(name):
    compare(PROBLEMS[name])


if __name__ == "__main__":
    for name in sys.argv[1:] or PROBLEMS:
        compare(PROBLEMS[name])
