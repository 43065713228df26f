"""Cost of a step of each method against GNI's, for each implicit solve it makes.

GNI's step is one implicit solve; one of s stages or substeps explains s times its cost. The last column is what is left
after that, with GNI's own cost that of the dearer of its trapezoid and midpoint rules. Costs are measured in turns, so
that a machine that changes its pace changes all of them.

On demand: ``pytest -m benchmark -s tests/benchmarks/test_cost.py``. The overhead of a call is subtracted.
That the methods agree is asserted; times are printed, not asserted.
"""

import time

import numpy as np
import pytest

import geonh as gn
from geonh.systems import catalogue

pytestmark = pytest.mark.benchmark
ROUNDS, LONG = 30, 10_000

PARTS = {
    "lobatto2": 2,
    "gauss4": 2,
    "gauss6": 3,
    "lobatto4": 3,
    "lobatto6": 4,
    "yoshida4": 3,
    "suzuki4": 5,
    "kahan-li6": 9,
    "discrete-gradient4": 5,
    "average-vector-field": 5,
    "itoh-abe": 3,
    "euler-ab": 2,
    "rkmk4": 4,
    "commutator-free4": 4,
    "rkmk6": 7,
    "rk4": 4,
    "rk4-projected": 4,
    "rk4-energy": 4,
    "dormand-prince": 6,
}
"""Parts of a step that are each as long as GNI's whole: stages, substeps, nodes of a quadrature, and of Itoh–Abe's
differences the coordinates of the smallest group here; 1 where nothing is said."""

STARTS = {
    "suslov": ([0.4, 1.0, 0.0], None, 3e-4),  # 3 s; from 5 s on GNI, RATTLE and Lobatto alternate (docs/methods.md)
    "snakeboard": ([0.2, 1.0, 0.0, 0.7, 0.001], (np.zeros(3), np.array([0.0, 0.3])), 0.01),
    "chaplygin-sphere": (None, None, 0.01),
    "veselova": (None, None, 0.01),
}
"""ξ₀, g₀ and time step; the catalogue's start where nothing is said."""


def seconds(run, n_steps):
    """Duration of one call."""
    begin = time.perf_counter()
    run(n_steps)
    return time.perf_counter() - begin


@pytest.mark.parametrize("system_name", STARTS)
def test_family(system_name):
    xi0, g0, dt = STARTS[system_name]
    entry = catalogue[system_name]
    system = entry.system()
    begin = entry.start(system)
    g0 = begin.g0 if g0 is None else g0
    xi0 = begin.xi0 if xi0 is None else np.asarray(system.project(g0, np.array(xi0)))
    makers = {name: method.make for name, method in gn.methods.items() if name not in ("feedback", "baumgarte")}
    runs, ends, firsts = {}, {}, {}
    for name, make in {"gni, midpoint": lambda: gn.GNI("midpoint"), **makers}.items():

        def run(n_steps, make=make):
            return gn.solve(system, make(), g0=g0, xi0=xi0, dt=dt, n_steps=n_steps)

        first = time.perf_counter()
        try:
            ends[name] = run(100).g_vector[-1]
        except ValueError:
            continue  # its hypotheses are not met here
        runs[name], firsts[name] = run, time.perf_counter() - first
    rounds = [{name: (seconds(run, LONG), seconds(run, 100)) for name, run in runs.items()} for _ in range(ROUNDS)]
    fastest = {name: np.min([times[name] for times in rounds], axis=0) for name in runs}
    costs = {name: (long - short) / (LONG - 100) * 1e9 for name, (long, short) in fastest.items()}
    print(f"\n{system_name}: ns/step; ratio to GNI; for each stage or substep; seconds of the first call")
    whole = max(costs["gni"], costs["gni, midpoint"])
    for name, cost in costs.items():
        part = cost / whole / PARTS.get(name, 1)
        print(f"  {name:22s}{cost:9.0f} {cost / costs['gni']:7.1f} {part:7.1f} {firsts[name]:7.1f}")
    for name, end in ends.items():
        order = gn.methods[name].make().order if name in gn.methods else 2
        np.testing.assert_allclose(end, ends["gauss6"], atol=10 * dt**order, err_msg=name)
