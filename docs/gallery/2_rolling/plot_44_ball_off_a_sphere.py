"""
A ball that rolls off a sphere: rolling, sliding, flight
========================================================

From near the top of a sphere a ball begins to roll. It slides from where the tangential force for rolling exceeds μ times the normal
force, which falls as the ball gathers speed, and leaves the sphere where the normal force is gone. However rough the sphere, it
slides first; without any limit it would roll to cos θ = 10/17, some 54°, before it leaves.
"""

import matplotlib.pyplot as plt
import numpy as np

import geonh as gn
from geonh import rolling

big, small = 1.0, 0.2
top = np.array([np.sin(0.05), 0.0, np.cos(0.05)])  # where it touches at first: 0.05 rad from the top
inertia = 0.4 * small**2 * np.ones(3)
balls = rolling(rolling.ball(small), inertia, 1.0, on=rolling.sphere(big, "outside"), friction=0.1, name="ball")

# %%
# Dots mark where the balls begin to slide, and where they leave.
figure, (path, forces) = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
for mu, colour in ((0.1, "#0072B2"), (0.4, "#009E73"), (1.5, "#D55E00")):
    ball = balls.with_parameters(friction=mu)
    g0, xi0 = rolling.start(ball, place=big * top)
    run = gn.solve(ball, mode="roll", g0=g0, xi0=xi0, dt=0.005, t_end=1.75)
    place = run.g[:, :3, 3]
    angle = np.degrees(np.arctan2(place[:, 0], place[:, 2]))
    path.plot(place[:, 0], place[:, 2], color=colour, label=f"μ = {mu}")
    force = np.array(
        [
            rolling.contact_force(ball, g, lam).force if mode != "free" else np.full(3, np.nan)
            for g, lam, mode in zip(run.g[::8], run.multipliers[::8], run.mode[::8], strict=True)
        ]
    )
    normal = np.einsum("ij,ij->i", force, place[::8]) / np.linalg.norm(place[::8], axis=1)
    forces.plot(angle[::8], normal, color=colour)
    for t, target in zip(run.switches.t, run.switches.target, strict=True):
        k = np.searchsorted(run.t, t)
        path.plot(*place[k, [0, 2]], "o", color=colour)
        print(f"μ = {mu}: {run.switches.names[target]} from {angle[k]:.3f}°")
turn = np.linspace(-0.2, 2.2, 100)
path.plot(big * np.sin(turn), big * np.cos(turn), "k", lw=1)
path.set(xlabel="x (m)", ylabel="z (m)", aspect="equal", title="centre of the ball")
path.legend()
forces.axvline(np.degrees(np.arccos(10 / 17)), color="k", lw=1, ls="--")
forces.set(xlabel="angle from the top (°)", ylabel="normal force (N)", xlim=(0, 70))
