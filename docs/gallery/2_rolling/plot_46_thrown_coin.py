"""
Thrown coin: bouncing, ringing, settling
========================================

A coin lands on its rim, bounces, rolls and falls over, and rings ever faster while it settles. Nothing but the coefficients of
the contact is given: friction 0.3, restitution 0.4, and a rolling resistance of 0.2 mm, which takes the energy in the end. While
the coin rings its centre is nearly at rest, and the point of contact runs around the rim at a rate that swings about that of Euler's
disc, Ω² = m g a/(A sin α), with the radius a, the moment of inertia A about a diameter and the inclination α: without bound as α
vanishes. There the run is stopped, by an event at half a degree.
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import geonh as gn
from geonh import rolling

a, thickness, m, g = 0.0125, 0.002, 0.006, 9.81
A = m * a**2 / 4 + m * thickness**2 / 12
coin = rolling(
    rolling.disc(a, axis=(0, 0, 1), thickness=thickness),
    [A, A, m * a**2 / 2],
    m,
    friction=0.3,
    restitution=0.4,
    rolling_resistance=2e-4,
    name="coin",
)
lean = 1.2
g0 = np.eye(4)
g0[:3, :3] = [[np.cos(lean), 0, np.sin(lean)], [0, 1, 0], [-np.sin(lean), 0, np.cos(lean)]]
g0[2, 3] = 0.1
flat = gn.Event(lambda t, g, xi, lam: 1 - jnp.abs(g[2, 2]) - (1 - np.cos(np.radians(0.5))), stop=True, name="flat")
run = gn.solve(
    coin, "rkmk4", mode="free", g0=g0, xi0=[8.0, 20.0, 30.0, 0.1, 0.0, 0.2], dt=1e-3, t_end=3.0, events=[flat]
)

assert run.status is gn.integrators.Result.EVENT
assert np.diff(run.energy).max() < 1e-5 * run.energy[0]
hits = (run.switches.source == run.switches.names.index("free")).sum()
print(f"{hits} impacts; flat to half a degree after {run.t[-1]:.3f} s")

# %%
whole = np.isclose(np.mod(run.t / run.dt + 0.5, 1), 0.5, atol=1e-6)  # without the nodes at transitions
t, R = run.t[whole], run.g[whole, :3, :3]
inclination = np.arccos(np.abs(R[:, 2, 2]))
rate = np.abs(np.gradient(np.unwrap(np.arctan2(R[:, 1, 2], R[:, 0, 2])), t)) / (2 * np.pi)
late = (inclination < 0.6) & (t > t[-1] - 0.3)

figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
axes[0].plot(run.t, 1e3 * run.g[:, 2, 3], lw=1)
axes[0].set(xlabel="time (s)", ylabel="height of the centre (mm)")
axes[1].plot(t, np.degrees(inclination), lw=1)
axes[1].set(xlabel="time (s)", ylabel="inclination (degrees)")
axes[2].semilogy(t[late], rate[late], label="this run")
axes[2].semilogy(
    t[late], np.sqrt(m * g * a / (A * np.sin(inclination[late]))) / (2 * np.pi), "--", label="Euler's disc"
)
axes[2].set(xlabel="time (s)", ylabel="turns of the contact (1/s)")
axes[2].legend(loc="lower right")
