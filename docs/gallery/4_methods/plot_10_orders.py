"""
Order of convergence: Euler A and B, RATTLE, GNI, high order
============================================================

Ferraro, Jiménez, Martín de Diego 2015: GNI with the rectangle rules (Euler A and B) has order 1, every symmetric rule
order 2. Measured on the nonholonomic oscillator, with methods of order 4 and 6, and against the cost.
"""

import matplotlib.pyplot as plt
import numpy as np

import geonh as gn

system = gn.systems.nonholonomic_oscillator()
begin = {"g0": [1.0, 1.0, 1.0], "xi0": [0.0, 0.0, 0.0]}
found = {
    name: gn.diagnostics.convergence(
        system, gn.methods[name].make(), steps=(4, 8, 16) if name == "gauss6" else (20, 40, 80, 160), **begin
    )
    for name in ("euler-a", "euler-b", "rattle", "gni", "projected", "gauss4", "gauss6")
}
for name, result in found.items():
    assert abs(result.order - result.declared) < 0.15, (name, result.order)

# %%
figure, axes = plt.subplots(figsize=(6.4, 5), layout="constrained")
looks = zip("osD^vPX", (9, 5, 11, 8, 5, 6, 6), strict=True)
for (name, result), (marker, size) in zip(found.items(), looks, strict=True):  # hollow, since some lie on others
    axes.loglog(result.dt, result.error, marker=marker, ms=size, mfc="none", label=f"{name}: {result.order:.2f}")
axes.set(xlabel="dt (s)", ylabel="error at t = 1 s")
axes.grid(alpha=0.3)
axes.legend(title="measured order")
assert np.all([np.isfinite(result.error).all() for result in found.values()])
