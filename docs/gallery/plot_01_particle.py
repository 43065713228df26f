"""
The particle: energy of GNI and of DLA
======================================

Ferraro, Iglesias, Martín de Diego 2008, example 1, figure 2: a free particle with ż = yẋ. GNI keeps the energy to
rounding (the metric of R³ is bi-invariant, Theorem 1); the discrete Lagrange–d'Alembert method lets it oscillate.
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

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
for axes in (left, right):
    axes.plot(dla.t, dla.energy_minus - dla.energy_minus[0], color="#D55E00", label="DLA")
    axes.plot(gni.t, gni.energy_minus - gni.energy_minus[0], color="#0072B2", ls="--", label="GNI")
    axes.set(xlabel="time (s)", ylabel="change of the energy at $p^-$ (J)")
right.set(xlim=(0, 10), title="the first ten seconds")
left.legend()
