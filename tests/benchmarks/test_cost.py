"""Cost of a step of each method against GNI's, for each implicit solve it makes.

Where GNI is explicit (trapezoid rule, constant metric) an implicit solve costs what GNI with the midpoint rule does: so
the last ratio is to the dearer of the two.

On demand: ``pytest -m benchmark -s tests/benchmarks/test_cost.py``. The overhead of a call is subtracted.
That the methods agree is asserted; times are printed, not asserted.
"""

import time

import numpy as np
import pytest

import geonh as gn
from geonh.systems import catalogue

pytestmark = pytest.mark.benchmark
REPEATS, LONG = 60, 10_000

SOLVES = {
    "lobatto2": 2,
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

STARTS = {
    "suslov": ([0.4, 1.0, 0.0], None, 0.01),
    "snakeboard": ([0.2, 1.0, 0.0, 0.7, 0.001], (np.zeros(3), np.array([0.0, 0.3])), 0.01),
    "chaplygin-sphere": (None, None, 0.01),
    "veselova": (None, None, 0.01),
}
"""ξ₀, g₀ and time step; the catalogue's start where nothing is said."""


def seconds(run, n_steps):
    """Shortest of many calls."""
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        run(n_steps)
        times.append(time.perf_counter() - begin)
    return min(times)


@pytest.mark.parametrize("system_name", STARTS)
def test_family(system_name):
    xi0, g0, dt = STARTS[system_name]
    entry = catalogue[system_name]
    system = entry.system()
    begin = entry.start(system)
    g0 = begin.g0 if g0 is None else g0
    xi0 = begin.xi0 if xi0 is None else np.asarray(system.project(g0, np.array(xi0)))
    ends, costs = {}, {}
    makers = {name: method.make for name, method in gn.methods.items() if name not in ("feedback", "baumgarte")}
    for name, make in {"gni, midpoint": lambda: gn.GNI("midpoint"), **makers}.items():

        def run(n_steps, make=make):
            return gn.solve(system, make(), g0=g0, xi0=xi0, dt=dt, n_steps=n_steps)

        first = time.perf_counter()
        try:
            ends[name] = run(100).g_vector[-1]
        except ValueError:
            continue  # its hypotheses are not met here
        first = time.perf_counter() - first
        costs[name] = (seconds(run, LONG) - seconds(run, 100)) / (LONG - 100) * 1e9, first
    print(f"\n{system_name}: ns/step; ratio to GNI; to an implicit GNI, per implicit solve; seconds of the first call")
    implicit = max(costs["gni"][0], costs["gni, midpoint"][0])
    for name, (cost, first) in costs.items():
        solve = cost / implicit / SOLVES.get(name, 1)
        print(f"  {name:22s}{cost:9.0f} {cost / costs['gni'][0]:7.1f} {solve:7.1f} {first:7.1f}")
    for name, end in ends.items():
        order = gn.methods[name].make().order if name in gn.methods else 2
        np.testing.assert_allclose(end, ends["gauss6"], atol=10 * dt**order, err_msg=name)
