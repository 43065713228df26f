"""
Work and precision
==================

Error at the end of four seconds of the contact oscillator against the time that the run took on this machine, compilation
left out: methods of order 2, 4 and 6. For few digits a cheap step wins, for many a high order.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

import geonh as gn

entry = gn.systems.catalogue["contact-oscillator"]
system = entry.system()
start = entry.start(system)
begin = {"g0": start.g0, "xi0": start.xi0}
reference = gn.mechanics.reference_trajectory(system, [0.0, 4.0], start.xi0, start.g0)[1][-1]
figure, axes = plt.subplots(figsize=(6.6, 4.6), layout="constrained")
for name, marker in zip(("projected", "gni", "gauss4", "rkmk4", "gauss6"), "osD^v", strict=True):
    method = gn.methods[name].make()
    gn.solve(system, method, dt=0.1, n_steps=2, save_every=2, **begin)  # compiles
    works, errors = [], []
    for n in (40, 160, 640, 2560):
        began = time.perf_counter()
        run = gn.solve(system, method, dt=4 / n, n_steps=n, save_every=n, **begin)
        works.append(time.perf_counter() - began)
        errors.append(np.abs(run.xi[-1] - reference).max())
    assert errors[2] < errors[0]
    axes.loglog(works, errors, marker=marker, label=f"{name}, order {method.order}")
axes.set(xlabel="time of the run (s)", ylabel="error of ξ at t = 4 s")
axes.grid(alpha=0.3)
axes.legend()
