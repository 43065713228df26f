"""Work and precision of every method on four systems, one of which no linear map reverses: a table, and a figure.

``pytest -m benchmark -s tests/benchmarks/test_work_precision.py``, or as a script with the name of a picture to draw.
Work is the number of steps times the processor's time for one, of a long run; the error is that of ξ at the end, beside
the change of the energy, relative, and the residual of the constraint. In the table are the figures of 1000 steps, and
the work for an error of 1e-6 between the runs, along a straight line in logarithms.
"""

import itertools
import sys
import time
import warnings

import numpy as np
import pytest

import geonh as gn

SPAN, LONG = 10.0, 20_000
COUNTS = (100, 300, 1000, 3000, 10_000)
SYSTEMS = ("contact-oscillator-nonreversible", "chaplygin-sleigh", "knife-edge", "veselova")
ACCURACY, FLOOR = 1e-6, 1e-17


def measured(name, method):
    """Rows of work, error, energy, constraint, nan where a run failed; None where the method does not apply."""
    entry = gn.systems.catalogue[name]
    system = entry.system()
    start = entry.start(system)
    begin = {"g0": start.g0, "xi0": start.xi0, "controls": entry.controls}
    rows = []
    for n in COUNTS:
        try:
            run = gn.solve(system, method, dt=SPAN / n, n_steps=n, throw=False, **begin)
        except ValueError:
            return None
        if not run.success:
            rows.append([np.nan] * 4)
            continue
        spent = []
        for _ in range(3):
            begun = time.process_time()
            long = gn.solve(system, method, dt=SPAN / n, n_steps=LONG, save_every=LONG, throw=False, **begin)
            spent.append((time.process_time() - begun) / LONG if long.success else np.nan)
        error = np.abs(run.xi[-1] - exact(name)).max()
        energy = np.abs(run.energy - run.energy[0]).max() / abs(run.energy[0])
        rows.append([n * min(spent), error, energy, np.abs(run.constraint_residual).max()])
    return np.array(rows)


_EXACT: dict[str, np.ndarray] = {}


def exact(name):
    if name not in _EXACT:
        entry = gn.systems.catalogue[name]
        system, n = entry.system(), 4000
        start = entry.start(system)
        run = gn.solve(system, "gauss6", g0=start.g0, xi0=start.xi0, dt=SPAN / n, n_steps=n, save_every=n)
        _EXACT[name] = run.xi[-1]
    return _EXACT[name]


def work_for(rows, accuracy=ACCURACY):
    """Seconds for that error, or nan where no two runs are on both sides of it."""
    for (w0, e0, *_), (w1, e1, *_) in itertools.pairwise(rows):
        if e0 >= accuracy >= e1:
            part = np.log(e0 / accuracy) / np.log(e0 / e1)
            return np.exp(np.log(w0) + part * np.log(w1 / w0))
    return rows[0, 0] if rows[0, 1] < accuracy else np.nan


def table():
    result = {}
    warnings.simplefilter("ignore")
    for name in SYSTEMS:
        words = "   µs a step     error    energy  constraint  ms to 1e-6"
        print(f"\n{name:22s} {words}")
        for method in gn.methods:
            rows = measured(name, gn.methods[method].make())
            if rows is None:
                print(f"{method:22s} does not apply", flush=True)
                continue
            result[name, method] = rows
            work, error, energy, constraint = rows[2]
            print(
                f"{method:22s} {1e3 * work:10.2f} {error:9.1e} {energy:9.1e} {constraint:11.1e} "
                f"{1e3 * work_for(rows):11.2f}",
                flush=True,
            )
    return result


def draw(result, path):
    """Each method a line; its colour is its order, and dashed lines are explicit methods."""
    import matplotlib.pyplot as plt

    colours = {1: "#999999", 2: "#0072B2", 4: "#009E73", 5: "#CC79A7", 6: "#E69F00"}
    figure, axes = plt.subplots(len(SYSTEMS), 3, figsize=(12, 14), layout="constrained", sharex=True)
    for (name, method), rows in result.items():
        promised = gn.methods[method].make().guarantees
        style = {"color": colours[promised.order], "ls": "-" if promised.implicit else "--", "lw": 1, "marker": "."}
        for k, ax in enumerate(axes[SYSTEMS.index(name)]):
            ax.loglog(rows[:, 0], np.maximum(rows[:, k + 1], FLOOR), **style)
            ax.grid(alpha=0.2)
    for row, name in zip(axes, SYSTEMS, strict=True):
        row[0].set_ylabel(name)
    for ax, title in zip(axes[0], ("error of ξ at the end", "change of the energy", "constraint"), strict=True):
        ax.set_title(title)
    for ax in axes[-1]:
        ax.set_xlabel("work (s)")
    lines = [plt.Line2D([], [], color=colour, label=f"order {order}") for order, colour in colours.items()]
    lines.append(plt.Line2D([], [], color="black", ls="--", label="explicit"))
    figure.legend(handles=lines, loc="outside lower center", ncols=len(lines))
    figure.savefig(path, dpi=80)


@pytest.mark.benchmark
def test_work_and_precision():
    result = table()
    for (name, method), rows in result.items():
        promised = gn.methods[method].make().guarantees
        if promised.constraint == "nodes":
            assert np.nanmax(rows[:, 3]) < 1e-10, (name, method)


if __name__ == "__main__":
    draw(table(), sys.argv[1])
