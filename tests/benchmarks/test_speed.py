"""Steps of ``solve`` against the same steps hand-written in C, compiled with gcc and run in one go.

On demand: ``pytest -m benchmark -s tests/benchmarks``. The agreement of the two is asserted; times are printed, not
asserted.
"""

import ctypes
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import geonh as gn
from geonh.systems.snakeboard import snakeboard
from geonh.systems.suslov import suslov

pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed"),
]
N, REPEATS = 200_000, 5


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    library = tmp_path_factory.mktemp("c") / "reference.so"
    source = Path(__file__).parent / "reference.c"
    flags = ["-O3", "-march=native", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, "-o", str(library), str(source), "-lm"], check=True)
    return ctypes.CDLL(str(library))


def pointer(array):
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_double))


def best(function):
    function()
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return min(times) / N * 1e9


def report(name, in_c, in_geonh):
    print(f"\n{name}: C {in_c:.0f} ns/step, geonh {in_geonh:.0f} ns/step, ratio {in_geonh / in_c:.2f}")


def test_snakeboard(compiled):
    system = snakeboard(structure="abelian")
    g0 = (np.zeros(2), np.array([0.0, 0.0, 0.3]))
    xi0 = np.asarray(system.project(g0, np.array([1.0, 0.0, 0.2, 0.7, 0.001])))
    h, M = 1e-4, np.array([1.0, 1.0, 1.5, 0.5, 0.5])
    out = np.zeros((N, 16))

    def in_c():
        q, p = np.array([0.0, 0.0, 0.0, 0.0, 0.3]), M * xi0
        arguments = [ctypes.c_long(N), ctypes.c_double(h), pointer(M), ctypes.c_double(0.5)]
        compiled.snakeboard(*arguments, pointer(q), pointer(p), pointer(out))

    run = lambda: gn.solve(system, g0=g0, xi0=xi0, dt=h, n_steps=N)  # noqa: E731
    times = best(in_c), best(run)
    np.testing.assert_allclose(run().g_vector[1:], out[:, 1:6], atol=1e-9)
    report("snakeboard, explicit", *times)


def test_suslov(compiled):
    system = suslov()
    J = np.asarray(system.parameters["J"])
    xi0, h = np.array([0.4, 1.0, 0.0]), 0.01
    out = np.zeros((N, 16))

    def in_c():
        R, p, z = np.eye(3), J @ xi0, h * xi0
        state = [pointer(a) for a in (R, p, z)]
        matrices = [pointer(np.ascontiguousarray(a)) for a in (J, np.linalg.inv(J))]
        compiled.suslov(ctypes.c_long(N), ctypes.c_double(h), *matrices, *state, pointer(out))

    run = lambda: gn.solve(system, xi0=xi0, dt=h, n_steps=N)  # noqa: E731
    times = best(in_c), best(run)
    np.testing.assert_allclose(run().g_vector[1:2001], out[:2000, 1:10], atol=1e-11)
    report("Suslov, implicit (Cayley)", *times)


def test_first_call():
    code = """
import time
begin = time.perf_counter()
import geonh as gn
gn.solve(gn.systems.suslov(), xi0=[0.0, 1.0, 0.0], dt=0.05, n_steps=1000)
print(f"first call, import included: {time.perf_counter() - begin:.2f} s")
"""
    print("\n" + subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
