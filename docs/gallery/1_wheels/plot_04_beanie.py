"""
Elroy's beanie
==============

Martín de Diego 2008 (slides): two planar bodies joined at their centres, without constraint; the Lagrange–Poincaré
equations on SE(2)×S¹. The spatial momentum is preserved to rounding, the shape oscillates, the energy error is O(h²)
without drift.
"""

import matplotlib.pyplot as plt
import numpy as np

import geonh as gn

entry = gn.systems.catalogue["elroys-beanie"]
system = entry.system()
start = entry.start(system)
method = gn.SymmetricProjection()  # the variational integrator, where there is no constraint
runs = [gn.solve(system, method, g0=start.g0, xi0=start.xi0, dt=h, n_steps=round(20 / h)) for h in (0.02, 0.01)]
for run in runs:
    momentum = run.integrals["spatial momentum"]
    assert np.abs(momentum - momentum[0]).max() < 1e-12
ratio = np.ptp(runs[0].energy) / np.ptp(runs[1].energy)
assert 3.8 < ratio < 4.2  # O(h²)

# %%
figure, axes = plt.subplots(1, 3, figsize=(12, 3.4), layout="constrained")
run = runs[0]
axes[0].plot(run.g[0][:, 1], run.g[0][:, 2])
axes[0].set(xlabel="x (m)", ylabel="y (m)", title="the pin moves straight", aspect="equal")
axes[1].plot(run.t, run.g[1][:, 0])
axes[1].set(xlabel="time (s)", ylabel="ψ (rad)", title="the shape swings")
for made, name in zip(runs, ("h = 0.02", "h = 0.01"), strict=True):
    axes[2].plot(made.t, made.energy - made.energy[0], label=f"{name} s")
axes[2].set(xlabel="time (s)", ylabel="energy error (J)")
axes[2].legend(loc="lower right")

# %%
# Run it here
# -----------
#
# .. live:: elroys-beanie
