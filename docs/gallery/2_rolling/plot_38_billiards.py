"""
Billiard ball with English: sliding, then rolling
=================================================

A ball that is struck off its centre slides, and friction turns it into rolling. Coriolis (1835): the direction of the slip
velocity u of a homogeneous ball does not change, so the ball runs on a parabola while it slides, for the time 2|u|/7μg, and
straight on with the velocity v − 2u/7 from there. The library finds this end as that of a mode, without any of these formulas.
"""

import matplotlib.pyplot as plt
import numpy as np

import geonh as gn
from geonh import rolling

m, r, mu, g = 0.17, 0.02858, 0.2, 9.81
ball = rolling(rolling.ball(r), 0.4 * m * r**2 * np.ones(3), m, friction=mu, name="billiard ball")

# %%
# All balls begin with 2 m/s along x. The spin about the axis of motion (a massé shot, with the cue held steeply) bends the path;
# spin about the other horizontal axis is follow or draw.
shots = {"rolling": (0.0, 2.0 / r), "sliding": (0.0, 0.0), "draw": (0.0, -7.0 / r), "massé": (-4.0 / r, -3.0 / r)}
colours = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
runs = {}
for k, (name, (roll, pitch)) in enumerate(shots.items()):
    g0, _ = rolling.start(ball)
    g0[1, 3] = 0.4 * k  # side by side
    xi0 = np.array([roll, pitch, 0.0, 2.0, 0.0, 0.0])  # (ω, v), in space at the beginning
    u = np.array([xi0[3] - r * pitch, r * roll])  # velocity of the point of contact
    run = gn.solve(ball, "gauss6", mode="roll" if not u.any() else "slide", g0=g0, xi0=xi0, dt=1e-3, n_steps=2000)
    runs[name] = run
    if u.any():
        end, push = 2 * np.linalg.norm(u) / (7 * mu * g), -mu * g * u / np.linalg.norm(u)
        assert abs(run.switches.t[0] - end) < 1e-7
        sliding = run.t < end
        t = run.t[sliding, None]
        parabola = [2.0, 0.0] * t + push * t**2 / 2
        assert np.abs(run.g[sliding, :2, 3] - g0[:2, 3] - parabola).max() < 1e-7
        velocity = np.einsum("ij,j->i", run.g[-1, :3, :3], run.xi[-1, 3:])[:2]
        assert np.abs(velocity - ([2.0, 0.0] - 2 / 7 * u)).max() < 1e-7

# %%
# Dots mark where the balls begin to roll. The draw shot comes back.
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", width_ratios=(3, 2))
for (name, run), colour in zip(runs.items(), colours, strict=True):
    x, y = run.g[:, :2, 3].T
    left.plot(x, y, color=colour, label=name)
    right.plot(run.t, run.energy, color=colour)
    for at in np.flatnonzero(run.mode[1:] != run.mode[:-1]):
        left.plot(x[at], y[at], "o", color=colour)
        right.plot(run.t[at], run.energy[at], "o", color=colour)
left.set(xlabel="x (m)", ylabel="y (m)", aspect="equal", xlim=(-0.6, 4.0))
left.legend(loc="upper right")
right.set(xlabel="time (s)", ylabel="energy (J)")
