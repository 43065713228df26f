"""Many members of Chaplygin's sphere: geonh against what users write otherwise, all at one accuracy, in one run.

``pytest -m benchmark -s tests/benchmarks/test_rivals.py``. The rivals integrate the equation of ``rivals.py``, written
by hand; geonh takes the catalogue's system. The steps (tolerances) of each are the largest of a ladder with which the
end of every one of 64 members is within ``ACCURACY`` of a reference. Times are the least of three turns, without
compiling.
"""

import ctypes
import functools
import multiprocessing
import os
import shutil
import subprocess
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rivals import field, scipy_member

import geonh as gn

HERE = Path(__file__).parent
END, ACCURACY, MEMBERS = 10.0, 1e-6, 100_000
PROBED = 64
LADDER = [20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640]
"""Numbers of steps."""
FEW = {"scipy": 200, "diffrax": 4096}
"""Members that slow rivals are given; throughput is theirs."""


def members(n):
    """Starts of geonh, and of the others: all of one sphere that begins elsewhere, of different masses."""
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


def with_geonh(method):
    def run(n, steps):
        system, starts, _, _ = members(n)
        runs = gn.solve_ensemble(system, method, **starts, dt=END / steps, n_steps=steps)
        return runs.g_vector[:, -1]

    return run


def with_c(n, steps):
    _, _, y, p = members(n)
    program().run_sphere(n, steps, ctypes.c_double(END / steps), p.ctypes, y.ctypes)
    return y[:, :11]


@functools.cache
def program():
    made = Path(os.environ.get("TMPDIR", "/tmp")) / f"geonh-rivals-{os.getpid()}.so"
    flags = ["-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, HERE / "c" / "rivals.c", "-o", made, "-lm"], check=True)
    library = ctypes.CDLL(made)
    library.run_sphere.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_double, ctypes.c_void_p, ctypes.c_void_p]
    return library


@functools.cache
def compiled_by_numba():
    numba = pytest.importorskip("numba")
    rate = numba.njit(fastmath=True)(_numba_field)

    def run(y, p, steps, h):
        for j in numba.prange(len(y)):
            z, q = y[j].copy(), p[j]
            k, t, s = np.empty(14), np.empty(14), np.empty(14)
            for _ in range(steps):
                rate(z, q, k)
                s[:] = k
                t[:] = z + h / 2 * k
                rate(t, q, k)
                s += 2 * k
                t[:] = z + h / 2 * k
                rate(t, q, k)
                s += 2 * k
                t[:] = z + h * k
                rate(t, q, k)
                z += h / 6 * (s + k)
            y[j] = z

    return numba.njit(parallel=True, fastmath=True)(run)


def _numba_field(y, p, f):
    D, r = p[0] * p[4] * p[4], p[4]
    I1, I2, I3 = 1 / (p[1] + D), 1 / (p[2] + D), 1 / (p[3] + D)
    c1, c2, c3, M1, M2, M3 = y[8], y[9], y[10], y[11], y[12], y[13]
    a = I1 * c1 * c1 + I2 * c2 * c2 + I3 * c3 * c3
    b = I1 * c1 * M1 + I2 * c2 * M2 + I3 * c3 * M3
    s = D * b / (1 - D * a)
    W1, W2, W3 = I1 * (M1 + s * c1), I2 * (M2 + s * c2), I3 * (M3 + s * c3)
    for i in range(3):
        R1, R2, R3 = y[2 + 3 * i], y[3 + 3 * i], y[4 + 3 * i]
        f[2 + 3 * i], f[3 + 3 * i], f[4 + 3 * i] = R2 * W3 - R3 * W2, R3 * W1 - R1 * W3, R1 * W2 - R2 * W1
    f[0] = r * (y[5] * W1 + y[6] * W2 + y[7] * W3)
    f[1] = -r * (y[2] * W1 + y[3] * W2 + y[4] * W3)
    f[11], f[12], f[13] = M2 * W3 - M3 * W2, M3 * W1 - M1 * W3, M1 * W2 - M2 * W1


def with_numba(n, steps):
    _, _, y, p = members(n)
    compiled_by_numba()(y, p, steps, END / steps)
    return y[:, :11]


def with_diffrax(n, steps):
    _, _, y, p = members(n)
    with gn.float64():
        return np.asarray(_diffrax(steps)(jnp.asarray(y), jnp.asarray(p)))[:, :11]


@functools.cache
def _diffrax(steps):
    diffrax = pytest.importorskip("diffrax")
    term = diffrax.ODETerm(lambda t, y, p: field(y, p, jnp.stack))

    def one(y, p):
        made = diffrax.diffeqsolve(term, diffrax.Dopri5(), 0.0, END, END / steps, y, p, max_steps=steps + 8)
        return made.ys[-1]

    return jax.jit(jax.vmap(one))


def with_scipy(pool):
    def run(n, tolerance):
        _, _, y, p = members(n)
        tasks = [(y[j], p[j], END, tolerance) for j in range(n)]
        return np.array(list(pool.map(scipy_member, tasks, chunksize=max(n // 8, 1))))[:, :11]

    return run


def tuned(run, reference, ladder):
    """The first of a ladder with which every probed member is as near to the reference as it shall be."""
    for setting in ladder:
        error = np.abs(run(PROBED, setting) - reference).max()
        if error <= ACCURACY:
            return setting, error
    raise AssertionError(f"{error:.1e} at the end of the ladder")


@pytest.mark.benchmark
@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_rivals():
    reference = with_c(PROBED, 20_000)
    np.testing.assert_allclose(with_geonh("rkmk6")(PROBED, 2000), reference, rtol=0, atol=1e-10)  # one system
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
        rivals = {
            "geonh, rkmk4": (with_geonh("rkmk4"), LADDER, MEMBERS),
            "geonh, commutator-free4": (with_geonh("commutator-free4"), LADDER, MEMBERS),
            "geonh, gauss4": (with_geonh("gauss4"), LADDER, MEMBERS),
            "C, RK4, 8 lanes, OpenMP": (with_c, LADDER, MEMBERS),
            "numba, RK4, parallel": (with_numba, LADDER, MEMBERS),
            "diffrax, Dopri5, vmap": (with_diffrax, LADDER, FEW["diffrax"]),
            "scipy, DOP853, process pool": (with_scipy(pool), [1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10], FEW["scipy"]),
        }
        settings = {name: tuned(run, reference, ladder) for name, (run, ladder, _) in rivals.items()}
        best = dict.fromkeys(rivals, np.inf)
        for name, (run, _, n) in rivals.items():
            run(n, settings[name][0])  # compile
        for _ in range(3):
            for name, (run, _, n) in rivals.items():
                begun = time.perf_counter()
                run(n, settings[name][0])
                best[name] = min(best[name], (time.perf_counter() - begun) / n)
    print(f"\nmembers of Chaplygin's sphere to t = {END:g} s, error ≤ {ACCURACY:g}, {os.cpu_count()} CPUs")
    for name, each in best.items():
        setting, error = settings[name]
        ratio = each / best["geonh, rkmk4"]
        print(
            f"{name:32s} {1 / each:12,.0f} members/s   {ratio:8.2f} × the time   steps {setting:g}, error {error:.1e}"
        )


if __name__ == "__main__":
    test_rivals()
