"""
Knife edge on an incline: feedback integrator
=============================================

Chang, Perlmutter, §3.2, figures 3 to 5: a knife edge on an incline, Euler steps of 10⁻³ s with all gains 1000, 200 s.

The exact solution printed in the paper, x = 1 − cos t, y = (t − sin t)/2, φ = t, violates the constraint
ẋ sin φ = ẏ cos φ and its energy. The solution from φ̇ = ½ is x = ½(1 − cos t), y = ½(t − sin t), φ = t/2, with H = 1/8;
both are tested below.
"""

import matplotlib.pyplot as plt
import numpy as np

import geonh as gn
from geonh.integrators import Feedback

entry = gn.systems.catalogue["knife-edge"]
edge = entry.system()
start = entry.start(edge)
t = np.linspace(0, 20, 2001)
printed = np.abs(np.sin(t) * np.sin(t) - (1 - np.cos(t)) / 2 * np.cos(t)).max()
corrected = np.abs(np.sin(t) / 2 * np.sin(t / 2) - (1 - np.cos(t)) / 2 * np.cos(t / 2)).max()
assert printed > 1  # m/s across the edge
assert corrected < 1e-14

method = Feedback({"constraint": 1000.0, "spin": 1000.0, "energy": 1000.0}, "euler")
run = gn.solve(edge, method, g0=start.g0, xi0=start.xi0, dt=1e-3, n_steps=200_000, save_every=50)
exact = np.stack([(1 - np.cos(run.t)) / 2, (run.t - np.sin(run.t)) / 2], axis=1)
np.testing.assert_allclose(entry.exact(edge, start, run.t)[0][0], exact, atol=1e-12)
error = np.abs(run.g[0] - exact)
turned = np.abs(run.g[1][:, 0] - run.t / 2)
spin = run.integrals["spin"] - run.integrals["spin"][0]
assert error.max() < 2e-3
assert turned.max() < 1e-3
assert np.abs(spin).max() < 1e-6
assert np.abs(run.constraint_residual).max() < 2e-3
assert np.ptp(run.energy) < 2e-3
projected = gn.solve(edge, gn.SymmetricProjection(), g0=start.g0, xi0=start.xi0, dt=0.05, n_steps=4000)
assert np.ptp(projected.energy) < 1e-11  # the symmetric projection keeps it to rounding, with fifty times the step

# %%
figure, axes = plt.subplots(4, 1, figsize=(9, 8), layout="constrained", height_ratios=(0.2, 0.2, 1, 1))
for ax, first in zip(axes[:2], (0, 70), strict=True):  # the first and the last metres of a hundred
    ax.plot(run.g[0][:, 1], run.g[0][:, 0], label="feedback")
    ax.plot(exact[:, 1], exact[:, 0], "--", label="exact")
    ax.set(xlabel="y (m)", ylabel="x (m)", aspect="equal", xlim=(first, first + 30), ylim=(1.15, -0.15))
axes[0].legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
axes[2].plot(run.t, error[:, 0], label="|Δx| (m)")
axes[2].plot(run.t, error[:, 1], label="|Δy| (m)")
axes[2].plot(run.t, turned, label="|Δφ| (rad)")
axes[2].set(ylabel="errors")
axes[3].plot(run.t, run.energy - run.energy[0], label="energy (J)")
axes[3].plot(run.t, run.constraint_residual[:, 0], label="constraint (m/s)", lw=0.8)
axes[3].plot(run.t, spin, label="momentum of φ (kg m²/s)")
axes[3].set(xlabel="time (s)", ylabel="errors of what is kept")
for ax in axes[2:]:
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)

# %%
# Run it here
# -----------
#
# .. live:: knife-edge
