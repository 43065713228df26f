"""
Rolling ball: orbits over 20 000 steps
======================================

Martín de Diego 2008 (slides): a ball on a turning table from (0.99, 1) to (1, 0.99), h = 0.01, 20 000 steps. The contact
point of the motion goes round a circle. GNI's does too, at its own frequency arcsin(hν)/h; a method that is not
geometric, explicit Euler, spirals.
"""

import matplotlib.pyplot as plt
import numpy as np

import geonh as gn

entry = gn.systems.catalogue["rolling-ball"]
ball = entry.system()
start = entry.start(ball)
h, n = 0.01, 20_000
run = gn.solve(ball, gn.GNI(), g0=start.g0, xi0=start.xi0, dt=h, n_steps=n)
z = run.g[0] @ np.array([1.0, 1j])
nu = 0.4 / 1.4  # IΩ/(I + mr²)
v0 = start.xi0[0] + 1j * start.xi0[1]
centre = z[0] + 1j * v0 / nu
assert np.ptp(np.abs(z - centre)) < 1e-3  # a circle, for all 20 000 steps
angle = np.unwrap(np.angle(z - centre))
measured = (angle[-1] - angle[0]) / (n * h)
np.testing.assert_allclose(measured, np.arcsin(h * nu) / h, rtol=1e-6)

euler = np.empty(n + 1, dtype=complex)
euler[0], v = z[0], v0
for k in range(n):
    euler[k + 1], v = euler[k] + h * v, v * (1 + 1j * nu * h)
spread = np.ptp(np.abs(euler - centre))
assert spread > 0.1

figure, axes = plt.subplots(1, 2, figsize=(9, 4.4), layout="constrained")
axes[0].plot(z.real, z.imag, lw=0.6)
axes[0].set(title="GNI, 200 s", xlabel="x (m)", ylabel="y (m)", aspect="equal")
axes[1].plot(euler.real, euler.imag, lw=0.6, color="#D55E00")
axes[1].set(title="explicit Euler, 200 s", xlabel="x (m)", ylabel="y (m)", aspect="equal")
