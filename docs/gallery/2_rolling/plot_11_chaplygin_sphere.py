"""
Chaplygin sphere on a fixed and on a rotating table
===================================================

Ferraro, Jiménez, Martín de Diego 2015, §7.2: a balanced ball with three different moments of inertia. The parameters of
the paper's figures are not known; these are chosen here. The angular momentum about the contact (three numbers) is
preserved to rounding on both tables. The energy is preserved (to O(h²)) on the fixed one only; on the rotating one the
moving energy is. (The energy shown is that of the mean momentum p̃, the moving energy that of p⁻.)
"""

import matplotlib.pyplot as plt
import numpy as np

import geonh as gn
from geonh.systems.chaplygin_sphere import rolling_start

# %%
figure, axes = plt.subplots(2, 3, figsize=(12, 6.6), layout="constrained")
for row, rate in zip(axes, (0.0, 0.3), strict=True):
    system = gn.systems.chaplygin_sphere(J=(0.5, 0.6, 0.8), table_rate=rate)
    start = rolling_start(system, [0.2, -0.1], np.eye(3), np.array([1.0, -0.5, 0.7]))
    run = gn.solve(system, gn.GNI(), g0=start.g0, xi0=start.xi0, dt=0.02, n_steps=4000)
    K = run.integrals["K"]
    moving = run.integrals["moving energy"]
    assert np.abs(K - K[0]).max() < 1e-11
    assert np.ptp(moving) < 1e-2 * abs(moving[0])
    assert np.ptp(run.energy) < 1e-2 if rate == 0 else np.ptp(run.energy) > 1.0
    row[0].plot(*run.g[0].T, lw=0.8)
    row[0].set(xlabel="x (m)", ylabel="y (m)", title=f"contact point, table rate {rate:g} rad/s", aspect="equal")
    row[0].set_adjustable("datalim")
    row[1].semilogy(run.t, np.maximum(np.abs(K - K[0]), 1e-17), label=["K₁", "K₂", "K₃"], lw=0.8)
    row[1].set(ylabel="error of K (kg m²/s)", xlabel="time (s)")
    row[2].plot(run.t, run.energy - run.energy[0], label="energy at p̃")
    row[2].plot(run.t, moving - moving[0], "--", label="moving energy at $p^-$")
    row[2].set(ylabel="change (J)", xlabel="time (s)")
    for ax in row[1:]:
        ax.legend(loc="lower left", bbox_to_anchor=(0.1, 1), ncols=3, frameon=False)

# %%
# Run it here
# -----------
#
# .. live:: chaplygin-sphere
