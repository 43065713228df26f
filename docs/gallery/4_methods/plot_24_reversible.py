"""
Energy error on reversible and non-reversible systems
=====================================================

Two oscillators with the contact constraint ẋ + yż = 0. The first is reversible: (q, p) ↦ (ρq, −ρp) reverses its motion
for four linear maps ρ, which GNI, being symmetric, shares: its energy error is bounded. The second has a magnetic field
that leaves no linear reversal. The energy is still an invariant, but the energy error of GNI is not bounded (Modin,
Verdier 2020: reversibility, not symplecticity, explains the behaviour of these methods).
"""

import matplotlib.pyplot as plt
import numpy as np

import geonh as gn

# %%
figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
spread = {}
for name, colour in (("contact-oscillator", "#0072B2"), ("contact-oscillator-nonreversible", "#D55E00")):
    entry = gn.systems.catalogue[name]
    system = entry.system()
    start = entry.start(system)
    run = gn.solve(system, gn.GNI(), g0=start.g0, xi0=start.xi0, dt=0.1, n_steps=200_000, save_every=5)
    means = np.array([part.mean() for part in np.array_split(run.energy_minus - run.energy_minus[0], 100)])
    spread[name] = np.ptp(means)
    axes.plot(np.linspace(0, run.t[-1], 100), means, color=colour, label=name)
print({name: f"{value:.1e}" for name, value in spread.items()})
assert spread["contact-oscillator"] < 1e-3
assert spread["contact-oscillator-nonreversible"] > 10 * spread["contact-oscillator"]
axes.set(xlabel="time (s)", ylabel="energy error at $p^-$,\nmeans over 200 s (J)")
axes.legend()

# %%
# Run it here
# -----------
#
# .. live:: contact-oscillator
