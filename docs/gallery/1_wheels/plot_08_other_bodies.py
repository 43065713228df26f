"""
Sleigh, disk, roller racer, Heisenberg system: feedback integrators
===================================================================

Chang, Perlmutter, §3.3 to §3.6: the other systems of the paper, without figures there, with Euler steps of 10⁻³ s and
attracting constraint and energy, compared with reference solutions. The velocities of the disk and of the Heisenberg
particle are constant, which Euler steps preserve.
"""

import matplotlib.pyplot as plt
import numpy as np

import geonh as gn
from geonh.drawing import scene
from geonh.integrators import Feedback

names = ("chaplygin-sleigh", "vertical-disk", "roller-racer", "heisenberg")

# %%
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
    errors = {
        "energy (J)": np.abs(run.energy - run.energy[0]),
        "constraint (m/s)": np.abs(run.constraint_residual).max(axis=1),
        "velocities": np.abs(run.xi - exact).max(axis=1),
    }
    for (label, error), dashes in zip(errors.items(), ("-", "--", ":"), strict=True):
        below.semilogy(run.t, np.maximum(error, 1e-17), dashes, label=label)
    below.set(xlabel="time (s)", ylim=(1e-18, 1e-1))
axes[1, 0].set_ylabel("errors, from 10⁻¹⁷ on")
axes[1, 0].legend(loc="lower right")

# %%
# Run it here
# -----------
#
# .. live:: roller-racer
