"""Chaplygin sphere on a rotating table: an affine constraint and its first integrals.

The three components of K, the spatial angular momentum about the contact point, are preserved to rounding by the
symmetric projection; the moving energy to the order of the method.
"""

import tempfile
from pathlib import Path

import geonh as gn

entry = gn.systems.catalogue["chaplygin-sphere"]
sphere = gn.systems.chaplygin_sphere(J=(0.5, 0.6, 0.8), table_rate=0.3)
start = entry.start(sphere)

for dt in (0.04, 0.02, 0.01):
    run = gn.solve(sphere, gn.SymmetricProjection(), g0=start.g0, xi0=start.xi0, dt=dt, n_steps=round(20 / dt))
    change = {name: abs(value - value[0]).max() for name, value in run.integrals.items()}
    print(f"dt = {dt}: " + ", ".join(f"change of {name} {size:.1e}" for name, size in change.items()))

with tempfile.TemporaryDirectory() as folder:
    figure = run.plot()
    figure.savefig(Path(folder) / "sphere.png")
    print("loaded:", gn.Trajectory.load(run.save(Path(folder) / "sphere.nc")))
