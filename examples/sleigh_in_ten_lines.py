"""The Chaplygin sleigh in ten lines: metric, constraint, integration, invariants."""

from geomstats.geometry.special_euclidean import SpecialEuclidean

import geonh as gn

m, inertia, a = 1.0, 1.0, 0.2
metric = [[inertia + m * a**2, 0.0, m * a], [0.0, m, 0.0], [m * a, 0.0, m]]
sleigh = gn.System(SpecialEuclidean(2), metric=metric, distribution=gn.Distribution(forms=[[0.0, 0.0, 1.0]]))
run = gn.solve(sleigh, gn.GNI(), xi0=[0.8, -0.5, 0.0], dt=0.01, n_steps=1000)

print(run)
print("end (theta, x, y):", run.g[-1])
print("largest change of the energy at p⁻:", abs(run.energy_minus - run.energy_minus[0]).max())
print("largest constraint residual:       ", abs(run.constraint_residual).max())
