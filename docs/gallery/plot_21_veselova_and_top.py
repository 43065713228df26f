"""
Held by the room: Veselova's body and the heavy top
===================================================

Two rigid bodies with an advected vertical γ = Rᵀe₃. Veselova's may not spin about the vertical: the two horizontal
components of its angular momentum are kept to rounding. Lagrange's top keeps two momenta and its tip nods between two
heights that a cubic gives.
"""

import matplotlib.pyplot as plt
import numpy as np

import geonh as gn

figure = plt.figure(figsize=(10, 4.4), layout="constrained")
for i, name in enumerate(("veselova", "heavy-top")):
    entry = gn.systems.catalogue[name]
    system = entry.system()
    start = entry.start(system)
    run = gn.solve(system, g0=start.g0, xi0=start.xi0, dt=entry.dt, n_steps=entry.n_steps)
    for integral in run.integrals.values():
        assert np.abs(integral - integral[0]).max() < 1e-12
    if entry.exact:
        g, _ = entry.exact(system, start, run.t[:100])
        print("error of the attitude in two seconds:", np.abs(run.g[:100] - g).max())
        assert np.abs(run.g[:100] - g).max() < 0.02
    axes = figure.add_subplot(1, 2, i + 1, projection="3d")
    tip = run.g[:, :, 2]
    axes.plot(*tip.T, lw=0.8)
    axes.set(title=f"{name}: tip of the third body axis", aspect="equal")
