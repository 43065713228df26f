"""Cost of a step of each method against GNI's, for each implicit solve it makes.

On demand: ``pytest -m benchmark -s tests/benchmarks/test_family.py``. That the methods agree is asserted; times are
printed, not asserted.
"""

import time

import numpy as np
import pytest

import geonh as gn
from geonh.systems import catalogue

pytestmark = pytest.mark.benchmark
N, REPEATS = 40_000, 3

SOLVES = {
    "gauss4": 2,
    "gauss6": 3,
    "lobatto4": 3,
    "lobatto6": 4,
    "yoshida4": 3,
    "suzuki4": 5,
    "kahan-li6": 9,
    "discrete-gradient4": 5,
    "euler-ab": 2,
}
"""Implicit solves of a step, of the size of GNI's: stages, or substeps; 1 where nothing is said."""


def nanoseconds(run):
    begin = time.perf_counter()
    run()
    first = time.perf_counter() - begin
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times) / N * 1e9, first


@pytest.mark.parametrize("system_name", ["suslov", "snakeboard", "chaplygin-sphere"])
def test_family(system_name):
    entry = catalogue[system_name]
    system = entry.system()
    begin = entry.start(system)
    dt = 0.2 * entry.dt
    ends, costs = {}, {}
    for name, method in gn.methods.items():
        if name in ("feedback", "baumgarte"):
            continue

        def run(n_steps=N, make=method.make):
            return gn.solve(system, make(), g0=begin.g0, xi0=begin.xi0, dt=dt, n_steps=n_steps, throw=False)

        try:
            ends[name] = run(100).g_vector[-1]
        except ValueError:
            continue  # its hypotheses are not met here
        costs[name] = nanoseconds(run)
    print(f"\n{system_name}: ns/step, ratio to GNI, ratio per implicit solve; seconds of the first call")
    for name, (cost, first) in costs.items():
        ratio = cost / costs["gni"][0]
        print(f"  {name:22s}{cost:9.0f} {ratio:7.1f} {ratio / SOLVES.get(name, 1):7.1f} {first:7.1f}")
    for name, end in ends.items():
        tolerance = 0.5 * dt if gn.methods[name].make().order == 1 else dt
        np.testing.assert_allclose(end, ends["gauss6"], atol=tolerance, err_msg=name)
