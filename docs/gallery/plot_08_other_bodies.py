"""
Sleigh, disk, roller racer, Heisenberg by feedback
==================================================

Chang, Perlmutter, §3.3 to §3.6: the other systems of the paper, attracted to constraint and energy with Euler steps of
10⁻³ s, against reference solutions.
"""

import matplotlib.pyplot as plt
import numpy as np

import geonh as gn
from geonh.drawing import scene
from geonh.integrators import Feedback

names = ("chaplygin-sleigh", "vertical-disk", "roller-racer", "heisenberg")
figure, axes = plt.subplots(2, 4, figsize=(13, 6), layout="constrained")
for (above, below), name in zip(axes.T, names, strict=True):
    entry = gn.systems.catalogue[name]
    system = entry.system()
    start = entry.start(system)
    begin = {"g0": start.g0, "xi0": start.xi0, "dt": 1e-3, "n_steps": 10_000, "save_every": 10}
    run = gn.solve(system, Feedback({"constraint": 100.0, "energy": 100.0}, "euler"), **begin)
    exact = gn.mechanics.reference_trajectory(system, run.t, start.xi0, start.g0)[1]
    assert np.abs(run.constraint_residual).max() < 1e-4
    assert np.ptp(run.energy) < 1e-4
    assert np.abs(run.xi - exact).max() < 1e-2
    above.plot(*scene(run).traces[0].path[:, :2].T)
    above.set(xlabel="x (m)", ylabel="y (m)", title=name, aspect="equal")
    above.set_adjustable("datalim")
    below.plot(run.t, run.energy - run.energy[0])
    below.set(xlabel="time (s)", ylabel="energy error (J)")
