"""
Parasitic mode of GNI
=====================

GNI reflects the momentum at each node; the part across the constraint alternates in sign from node to node. Along a
motion with divergence div X this part grows like exp(−∫ div X): where the motion contracts the phase space, at the rate
of contraction. The Suslov problem converges to a steady rotation at the rate 1/s. The jump at a node is at first the
impulse of the constraint force, hλ, which decays; the parasitic part grows at the rate 1/s until it reaches the size of
the momentum, whatever the step. The symmetric projection and the default of ``solve`` have no such mode.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

import geonh as gn

entry = gn.systems.catalogue["suslov"]
body = entry.system()
start = entry.start(body)

# %%
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for h, colour in ((0.05, "#0072B2"), (0.025, "#56B4E9")):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gn.trajectory.AlternationWarning)
        run = gn.solve(body, gn.GNI(start="average"), xi0=start.xi0, dt=h, n_steps=round(45 / h))
    part = np.abs((run.p_minus - run.p) @ [0.0, 0.0, 1.0])
    settled = (run.t > 18) & (run.t < 28)
    rate = np.polyfit(run.t[settled], np.log(part[settled]), 1)[0]
    assert abs(rate - 1) < 0.02  # minus the divergence of the settled motion
    assert run.spoiled_from is not None
    axes[0].semilogy(run.t[1:], part[1:], color=colour, label=f"h = {h:g} s, growth {rate:.3f}/s")
    axes[1].plot(run.t, run.energy, color=colour, label=f"GNI, h = {h:g} s")
    soon = (run.t > 0) & (run.t < 12)
    force = h / 2 * np.abs(run.multipliers[soon, 0])
    assert np.abs(part[soon] / force - 1).max() < 0.02  # at first it is that of the force
    axes[0].semilogy(run.t[soon], force, color="black", ls=":", label=None if h < 0.05 else "(h/2)λ of the force")
cure = gn.solve(body, gn.SymmetricProjection(), xi0=start.xi0, dt=0.05, n_steps=900)
exact = entry.exact(body, start, cure.t)[1]
assert np.abs(cure.xi - exact).max() < 2e-3
assert cure.spoiled_from is None
axes[1].plot(cure.t, cure.energy, color="#D55E00", ls="--", label="symmetric projection")
axes[0].set(xlabel="time (s)", ylabel="half the jump across the constraint (kg m²/s)", ylim=(1e-11, 10))
axes[1].set(xlabel="time (s)", ylabel="energy at p̃ (J)")
for ax in axes:
    ax.legend()
