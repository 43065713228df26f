"""
A snakeboard whose wheels slip
==============================

Opposite torques on rider and axles drive a snakeboard ever faster, as long as its wheels do not slip. The forces across the wheels that
this needs grow with the speed: wheels that hold up to a force F only slip in the turns from some speed on, which the board then
hardly exceeds. The torques are the same.
"""

import matplotlib.pyplot as plt
import numpy as np

import geonh as gn
from geonh.rolling import slipping

entry = gn.systems.catalogue["controlled-snakeboard"]
board = entry.system()
begin = {
    "g0": (np.zeros(3), np.array([0.0, 0.25])),
    "xi0": np.zeros(5),
    "dt": 0.02,
    "n_steps": 1000,
    "controls": entry.controls,
}
ideal = gn.solve(board, **begin)
modes = slipping(board, {"rear": (0, 1.0), "front": (1, 1.0)})  # its two forms; newtons

# %%
# Dots mark where a wheel lets go.
figure, axes = plt.subplot_mosaic([["path", "path"], ["speed", "force"]], figsize=(10, 6), layout="constrained")
for force, colour in ((None, "0.5"), (1.0, "#0072B2"), (0.5, "#D55E00")):
    if force is None:
        run, label = ideal, "never slips"
    else:
        run = gn.solve(modes.with_parameters(**{"front force": force, "rear force": force}), mode="grip", **begin)
        label = f"holds up to {force} N"
        print(f"{label}: the first wheel lets go after {run.switches.t[0]:.3f} s")
    _, x, y = run.g[0].T
    axes["path"].plot(x, y, color=colour, label=label)
    axes["speed"].plot(run.t, np.hypot(run.xi[:, 1], run.xi[:, 2]), color=colour)
    across = run.multipliers[:, 0]  # of the rear wheels, where they hold
    if force is not None:
        sign = np.array([("rear −" in mode) * 1.0 - ("rear +" in mode) for mode in run.mode])
        across = np.where(sign == 0, across, sign * force)  # and against the slip where they do not
    axes["force"].plot(run.t, across, color=colour)
    if force is not None:
        lets_go = np.flatnonzero((run.mode[:-1] == "grip") & (run.mode[1:] != "grip"))
        axes["path"].plot(x[lets_go], y[lets_go], "o", color=colour, ms=4)
axes["path"].set(xlabel="x (m)", ylabel="y (m), enlarged")
axes["path"].legend(loc="upper left")
axes["speed"].set(xlabel="time (s)", ylabel="speed of the centre (m/s)")
axes["force"].set(xlabel="time (s)", ylabel="force across the rear wheels (N)")
