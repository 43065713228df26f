"""
Whipple bicycle: self-stability
===============================

The benchmark of Meijaard, Papadopoulos, Ruina, Schwab (2007). Eigenvalues of upright running over the speed: the weave
mode becomes stable at 4.292 m/s, the capsize mode unstable at 6.024 m/s; in between the bicycle is self-stable.
"""

import matplotlib.pyplot as plt
import numpy as np

import geonh as gn
from geonh.analysis import root_locus
from geonh.systems.whipple_bicycle import start, upright, velocity

bicycle = gn.systems.whipple_bicycle()
g0 = upright(bicycle)
unit = velocity(bicycle, g0, 1.0)
locus = root_locus(bicycle, np.linspace(0.2, 9.8, 121), lambda speed: (g0, speed * unit))
crossings = [crossing.value for crossing in locus.crossings()]
for published in (4.29238253634111, 6.02426201538837):
    assert min(abs(value - published) for value in crossings) < 1e-9
figure, ax = plt.subplots(figsize=(8, 4.6), layout="constrained")
ax.axvspan(*sorted(crossings)[-2:], color="0.92", lw=0, label="it rides by itself")
ax.axhline(0, color="0.6", lw=0.8)
for branch in locus.eigenvalues.T:
    ax.plot(locus.values, branch.real, color="#0072B2")
    ax.plot(locus.values, np.where(branch.imag > 1e-9, branch.imag, np.nan), color="#D55E00", ls="--")
ax.plot([], [], color="#0072B2", label="real part")
ax.plot([], [], color="#D55E00", ls="--", label="imaginary part")
ax.set(xlabel="speed (m/s)", ylabel="eigenvalues (1/s)", ylim=(-12, 12), xlim=(0.2, 9.8))
ax.legend(loc="lower left")

# %%
# The nonlinear equations from a roll rate of 0.1 rad/s: at 5 m/s the bicycle is upright again after three seconds, at 3.5 m/s
# the weave oscillation grows to 25 degrees.

figure, parts = plt.subplot_mosaic([["lean", "steer"], ["path", "path"]], figsize=(9, 6), layout="constrained")
for speed, colour in ((3.5, "#D55E00"), (5.0, "#0072B2")):
    g0, xi0 = start(bicycle, speed, 0.1)
    run = gn.solve(bicycle, "rkmk4", g0=g0, xi0=xi0, dt=0.01, n_steps=600)
    frame, angles = run.g
    lean = np.rad2deg(np.arctan2(frame[:, 2, 1], frame[:, 2, 2]))
    assert np.ptp(run.energy) < 1e-7 * abs(run.energy[0])
    assert np.abs(lean[300:]).max() < 0.3 if speed == 5.0 else np.abs(lean).max() > 20
    parts["lean"].plot(run.t, lean, color=colour, label=f"{speed:g} m/s")
    parts["steer"].plot(run.t, np.rad2deg(angles[:, 0]), color=colour)
    parts["path"].plot(frame[:, 0, 3], -frame[:, 1, 3], color=colour)
parts["lean"].set(xlabel="time (s)", ylabel="lean (degrees)")
parts["steer"].set(xlabel="time (s)", ylabel="steer (degrees)")
parts["path"].set(xlabel="x (m)", ylabel="y (m)", title="the rear wheel from above", aspect="equal")
parts["lean"].legend()

# %%
# Run it here
# -----------
#
# .. live:: whipple-bicycle
