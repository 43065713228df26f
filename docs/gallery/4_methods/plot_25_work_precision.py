"""
Work–precision diagrams
=======================

Error at the end, change of the energy and constraint residual against the cost: number of steps times CPU time of one,
measured on this machine in runs of 20 000 steps. Four systems, ten seconds each, with 100 to 3000 steps; the first moves
in a magnetic field without a linear reversal. Cheap steps are best at low accuracy, high order at high accuracy. Some
methods preserve energy and constraint to rounding with the longest step; RK4, the baseline, violates the constraint,
except v = 0 of the sleigh, whose coefficients are constant.
"""

import time
import warnings

import matplotlib.pyplot as plt
import numpy as np

import geonh as gn

SPAN = 10.0
METHODS = {
    "projected": ("o", "#0072B2", (100, 300, 1000, 3000)),
    "discrete-gradient": ("s", "#D55E00", (100, 300, 1000, 3000)),
    "gauss4": ("D", "#009E73", (100, 300, 1000, 3000)),
    "rkmk4": ("^", "#CC79A7", (100, 300, 1000, 3000)),
    "gauss6": ("v", "#E69F00", (100, 300, 1000, 3000)),
    "rk4": ("x", "#000000", (100, 300, 1000, 3000)),
}
SYSTEMS = ("contact-oscillator-nonreversible", "chaplygin-sleigh", "knife-edge", "veselova")
FLOOR = 1e-17
LONG = 20_000

warnings.simplefilter("ignore", gn.trajectory.AlternationWarning)
measured = {}
for name in SYSTEMS:
    entry = gn.systems.catalogue[name]
    system = entry.system()
    start = entry.start(system)
    begin = {"g0": start.g0, "xi0": start.xi0}
    n = 4000
    exact = gn.solve(system, "gauss6", dt=SPAN / n, n_steps=n, save_every=n, **begin).xi[-1]
    for method_name, (_, _, counts) in METHODS.items():
        method = gn.methods[method_name].make()
        rows = []
        for n in counts:
            run = gn.solve(system, method, dt=SPAN / n, n_steps=n, **begin)
            spent = []
            for _ in range(3):
                began = time.process_time()
                gn.solve(system, method, dt=SPAN / n, n_steps=LONG, save_every=LONG, throw=False, **begin)
                spent.append(time.process_time() - began)
            error = np.abs(run.xi[-1] - exact).max()
            energy = np.abs(run.energy - run.energy[0]).max() / abs(run.energy[0])
            rows.append((n * min(spent) / LONG, error, energy, np.abs(run.constraint_residual).max()))
        measured[name, method_name] = np.array(rows)

# %%
figure, axes = plt.subplots(len(SYSTEMS), 3, figsize=(11, 12), layout="constrained", sharex=True, sharey="col")
titles = ("error of ξ at the end", "change of the energy, relative", "residual of the constraint")
for row, name in zip(axes, SYSTEMS, strict=True):
    for k, ax in enumerate(row):
        for method, (marker, colour, _) in METHODS.items():
            rows = measured[name, method]
            ax.loglog(rows[:, 0], np.maximum(rows[:, k + 1], FLOOR), marker=marker, color=colour, ms=5, label=method)
        ax.grid(alpha=0.25)
    row[0].set_ylabel(name)
for ax, title in zip(axes[0], titles, strict=True):
    ax.set_title(title, fontsize=10)
for ax in axes[-1]:
    ax.set_xlabel("work (s)")
figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
for name in SYSTEMS:
    projected, rk4, gradient, sixth = (measured[name, m] for m in ("projected", "rk4", "discrete-gradient", "gauss6"))
    assert abs(np.log(projected[0, 1] / projected[-1, 1]) / np.log(30) - 2) < 0.1  # order 2
    assert gradient[:, 2].max() < 1e-11  # the energy, whatever the step
    assert sixth[1, 1] < 1e-6 * projected[1, 1]
    assert projected[:, 3].max() < 1e-13
