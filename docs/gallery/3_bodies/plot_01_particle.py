"""
Nonholonomic particle: energy of GNI and DLA
============================================

Ferraro, Iglesias, Martín de Diego 2008, example 1, figure 2: a free particle with ż = yẋ. GNI preserves the energy to
rounding (the metric of R³ is bi-invariant, Theorem 1); the discrete Lagrange–d'Alembert method does not. The paper does
not give step and initial state; these are chosen here.
"""

import matplotlib.pyplot as plt
import numpy as np

import geonh as gn
from geonh.integrators import DLA

particle = gn.systems.nonholonomic_particle()
begin = {"g0": [0.0, 1.0, 0.0], "xi0": [1.0, 0.3, 1.0], "dt": 0.05, "n_steps": 2000}
gni = gn.solve(particle, gn.GNI("left", start="average"), **begin)
dla = gn.solve(particle, DLA("left", "trapezoid"), **begin)
assert np.ptp(gni.energy_minus) < 1e-12
assert np.ptp(dla.energy_minus) > 1e-6

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
for name, run, colour, dashes in (("DLA", dla, "#D55E00", "-"), ("GNI", gni, "#0072B2", "--")):
    change = run.energy_minus - run.energy_minus[0]
    left.plot(run.t, change, color=colour, ls=dashes, label=name)
    right.semilogy(run.t, np.maximum(np.abs(change), 1e-17), color=colour, ls=dashes, lw=0.8)
left.set(xlabel="time (s)", ylabel="change of the energy at $p^-$ (J)")
right.set(xlabel="time (s)", ylabel="its size (J)")
left.legend()

# %%
# Run it here
# -----------
#
# .. live:: nonholonomic-particle
