"""
Tippe top: turning over by friction
===================================

A ball whose centre of mass lies below its centre, spun quickly, turns upside down: friction at the contact raises the centre of
mass at the cost of the spin. Jellett's integral, the moment of momentum about the line from the centre of mass to the point of
contact, is constant under any force at that point; it decides that the top rises if 1 − a/r < A/C < 1 + a/r, with the offset a of
the centre of mass and the moments of inertia A, A, C.
"""

import matplotlib.pyplot as plt
import numpy as np

import geonh as gn
from geonh import rolling

m, r, a = 0.02, 0.02, 0.003
A, lean, spin = 0.4 * m * r**2, 0.1, 250.0


def top(ratio):
    """Top with A/C = ratio, and its start: spun about the vertical, with its axis inclined."""
    body = rolling(
        rolling.ball(r).moved([0, 0, a]), [A, A, A / ratio], m, friction=0.3, name=f"top with A/C = {ratio:g}"
    )
    R = np.array([[np.cos(lean), 0, np.sin(lean)], [0, 1, 0], [-np.sin(lean), 0, np.cos(lean)]])
    omega = R.T @ [0.0, 0.0, spin]
    g0, _ = rolling.start(body, R, omega=omega)
    _, xi0 = body.systems[1].project(g0, np.concatenate([omega, np.zeros(3)]))
    return body, xi0, g0


runs, jellett = {}, {}
for ratio, n in ((1.0, 10_000), (0.8, 2500)):
    body, xi0, g0 = top(ratio)
    run = gn.solve(body, mode="slide", xi0=xi0, g0=g0, dt=2e-4, n_steps=n)
    arms = np.array([rolling.contact(body, g).arm for g in run.g[::50]])
    inertia = np.diag([A, A, A / ratio])
    runs[ratio], jellett[ratio] = run, np.einsum("ni,ij,nj->n", run.xi[::50, :3], inertia, arms)
    assert np.ptp(jellett[ratio]) < 1e-11 * abs(jellett[ratio][0])
    assert np.diff(run.energy).max() < 1e-13
assert runs[1.0].g[-1, 2, 2] < -0.98  # upside down
assert runs[0.8].g[:, 2, 2].min() > 0.99  # A/C < 1 − a/r: it stays up

# %%
figure, axes = plt.subplots(2, 2, figsize=(10, 5), layout="constrained", sharex=True)
for (ratio, run), colour in zip(runs.items(), ("#0072B2", "#D55E00"), strict=True):
    spin_about_vertical = np.einsum("nj,nj->n", run.g[:, 2, :3], run.xi[:, :3])
    label = f"A/C = {ratio:g}"
    axes[0, 0].plot(run.t, np.degrees(np.arccos(np.clip(run.g[:, 2, 2], -1, 1))), color=colour, label=label)
    axes[0, 1].plot(run.t, run.energy * 1e3, color=colour, label=label)
    axes[1, 0].plot(run.t, spin_about_vertical, color=colour)
    axes[1, 1].semilogy(run.t[::50], np.maximum(np.abs(jellett[ratio] / jellett[ratio][0] - 1), 1e-17), color=colour)
axes[0, 0].set(ylabel="inclination of the axis (degrees)")
axes[0, 0].legend()
axes[0, 1].set(ylabel="energy (mJ)")
axes[1, 0].set(ylabel="spin about the vertical (rad/s)", xlabel="time (s)")
axes[1, 1].set(ylabel="change of Jellett's integral", xlabel="time (s)", ylim=(1e-17, 1e-9))
