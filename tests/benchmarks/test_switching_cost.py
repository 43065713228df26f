"""Runs and ensembles with transitions against those without.

``pytest -m benchmark -s tests/benchmarks/test_switching_cost.py``. Balls that are thrown without spin slide, then roll:
1000 of them against as many that roll from the start, and one of 10⁵ steps against its two parts by the systems of
their modes. Seconds of wall-clock time, the least of some in turns; a star where the goal is missed.
"""

import time

import numpy as np
import pytest

import geonh as gn
from geonh import rolling

pytestmark = pytest.mark.benchmark
METHODS = ["gauss4", "rkmk4"]
GOALS = {"members": 3.0, "run": 1.3}
ROUNDS = 9


def least(*runs):
    """Least durations of runs in turns, after one each."""
    durations = [[] for _ in runs]
    for _ in range(1 + ROUNDS):
        for run, each in zip(runs, durations, strict=True):
            begun = time.perf_counter()
            run()
            each.append(time.perf_counter() - begun)
    return [min(each[1:]) for each in durations]


def tell(what, method, switching, plain):
    ratio = switching / plain
    star = " *" if ratio > GOALS[what] else ""
    print(f"\n{what} {method}: {switching:.3f} s against {plain:.3f} s, {ratio:.2f} (goal {GOALS[what]}){star}")
    assert ratio < 2 * GOALS[what]


@pytest.fixture(scope="module")
def ball():
    return rolling.rolling(rolling.ball(1.0), [0.4] * 3, 1.0, friction=0.3, name="thrown ball")


@pytest.mark.parametrize("method", METHODS)
def test_members(method, ball):
    """Each rolls from a time of its own on, within a fifth of a second."""
    starts = [rolling.start(ball, slip=[v, 0.0, 0.0]) for v in np.linspace(1.0, 2.0, 1000)]
    slides = np.array([xi for _, xi in starts])
    rolls = np.array([rolling.start(ball, omega=[0.0, v, 0.0])[1] for v in np.linspace(1.0, 2.0, 1000)])
    settings = {"g0": starts[0][0], "dt": 0.01, "n_steps": 200}
    switching, plain = least(
        lambda: gn.solve_ensemble(ball, method, mode="slide", xi0=slides, **settings),
        lambda: gn.solve_ensemble(ball, method, mode="roll", xi0=rolls, **settings),
    )
    tell("members", method, switching, plain)


@pytest.mark.parametrize("method", METHODS)
def test_run(method, ball):
    n = 100_000
    g0, xi0 = rolling.start(ball, slip=[2.0, 0.0, 0.0])
    dt = 4 / (7 * 0.3 * 9.81) / (0.3 * n)
    settings = {"dt": dt, "save_every": 100}
    whole = gn.solve(ball, method, mode="slide", g0=g0, xi0=xi0, n_steps=n, **settings)
    k, end = int(whole.switches.k[0]), {"g0": whole.state.g, "xi0": whole.xi[-1]}

    def parts():
        gn.solve(ball["slide"], method, g0=g0, xi0=xi0, n_steps=k, **settings)
        gn.solve(ball["roll"], method, **end, n_steps=n - k, **settings)

    switching, plain = least(lambda: gn.solve(ball, method, mode="slide", g0=g0, xi0=xi0, n_steps=n, **settings), parts)
    tell("run", method, switching, plain)
