"""
Rattleback
==========

Kane and Levinson's rattleback: an ellipsoid whose principal axes of inertia are rotated by less than a degree against its
geometric axes. Spun at 5 rad/s against its preferred direction it begins to pitch, stops at 2.8 s and reverses; then it
begins to roll, and reverses again at 17.3 s. Without friction the energy is constant and oscillates between spin and
rocking. ω₃ is first zero at 2.352731 s, as published.
"""

import matplotlib.pyplot as plt
import numpy as np

import geonh as gn

stone = gn.systems.rattleback()
begin = gn.systems.catalogue["rattleback"].start(stone)
events = [
    gn.Event(lambda t, g, xi, lam: g[2, :3] @ xi[:3], name="turns round"),
    gn.Event(lambda t, g, xi, lam: xi[2], name="omega3"),
]
run = gn.solve(stone, "gauss4", g0=begin.g0, xi0=begin.xi0, dt=1e-3, n_steps=22_000, events=events)
spin = np.einsum("ki,ki->k", run.g[:, 2, :3], run.xi[:, :3])
turns = run.events["turns round"].t
first, second = turns[turns < 10].mean(), turns[turns > 10].mean()
assert abs(run.events["omega3"].t[0] - 2.352731) < 1e-6
assert 2.7 < first < 2.9
assert 17.3 < second < 17.45
assert spin[0] < 0 < spin[8000]
assert spin[-1] < 0
assert np.ptp(run.energy) < 1e-5 * run.energy[0]

up = run.g[:, 2, :3]
tilts = {"pitch, about the short axis": np.arcsin(up[:, 0]), "roll, about the long axis": np.arcsin(up[:, 1])}

# %%
figure, axes = plt.subplots(3, 1, figsize=(9, 6.5), sharex=True, layout="constrained")
axes[0].axhline(0, color="0.6", lw=0.8)
axes[0].plot(run.t, spin, color="#0072B2")
axes[0].set_ylabel("spin about\nthe vertical (rad/s)")
for ax, (name, tilt), colour in zip(axes[1:], tilts.items(), ("#D55E00", "#009E73"), strict=True):
    ax.plot(run.t, np.rad2deg(tilt), color=colour, lw=0.4)
    ax.set_ylabel(f"{name}\n(degrees)")
for ax in axes:
    for t in (first, second):
        ax.axvline(t, color="0.4", ls=":")
axes[0].annotate("turns round", (first, 0), (first + 0.6, -4.4), color="0.3")
axes[0].annotate("and again", (second, 0), (second + 0.3, 2.6), color="0.3")
axes[-1].set_xlabel("time (s)")

# %%
# Run it here
# -----------
#
# .. live:: rattleback
