"""
Rolling disc and Euler's disc
=============================

A thin disc that rolls upright is stable above the angular velocity √(g/3r). Both runs begin one degree off the vertical:
the fast one oscillates by four degrees, the slow one falls by fifty degrees, turns sharply, rises, and repeats. There is
no friction.
"""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import geonh as gn
from geonh import rolling
from geonh.rolling import contact, disc, start

coin = gn.systems.rolling_disc(r=1.0)
critical = np.sqrt(9.81 / 3)


def leaning(angle):
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])


figure, (above, below) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
worst = {}
for factor, colour in ((1.3, "#0072B2"), (0.7, "#D55E00")):
    g0, xi0 = start(coin, leaning(np.deg2rad(1)), [0.0, factor * critical, 0.0])
    run = gn.solve(coin, "gauss4", g0=g0, xi0=xi0, dt=0.005, n_steps=2400)
    lean = np.rad2deg(np.arcsin(run.g[:, 2, 1]))
    with gn.float64():
        places = np.asarray(jax.vmap(lambda g: contact(coin, g).place)(run.g))
    worst[factor] = np.abs(lean).max()
    label = f"turning at {factor} √(g/3r)"
    above.plot(run.t, lean, color=colour, label=label)
    below.plot(*places[:, :2].T, color=colour, label=label)
    assert np.ptp(run.energy) < 1e-6 * run.energy[0]
assert worst[1.3] < 5
assert worst[0.7] > 45
above.set(xlabel="time (s)", ylabel="lean (degrees)")
below.set(xlabel="x (m)", ylabel="y (m)", title="paths of the contact, from above", aspect="equal")
above.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)

# %%
# Euler's disc: at a small angle α to the table, a disc precesses at the rate Ω with Ω² sin α = 4g/r (Moffatt 2000). Dry
# friction with a moment k dissipates the power k|ω| = kΩ sin α, the energy is 3mgr α/2, hence
# √α = √α₀ − k√(4g/r)/(3mgr) t. The disc comes to rest after a finite time, while Ω diverges. About this mean the disc
# nutates, with a growing share of the remaining energy.

m, r, k = 0.44, 0.0375, 2e-3


def friction(t, x, xi, u, p):
    omega = xi[:3]
    return jnp.concatenate([-p["k"] * omega / jnp.sqrt(omega @ omega), jnp.zeros(3)])


plate = rolling(
    disc(r, (0, 0, 1)), np.array([1, 1, 2]) * m * r**2 / 4, m, forces=friction, parameters={"k": k}, name="plate"
)
alpha = 0.2
g0, xi0 = start(plate, leaning(alpha), [0.0, np.sqrt(4 * 9.81 / r * np.sin(alpha)), 0.0])
run = gn.solve(plate, "gauss4", g0=g0, xi0=xi0, dt=2e-4, n_steps=20_000, save_every=10, throw=False)
angle = np.arccos(np.clip(run.g[:, 2, 2], -1, 1))
slope = k * np.sqrt(4 * 9.81 / r) / (3 * m * 9.81 * r)
small = (angle < 0.15) & (run.t < 3)  # then a whirl takes few steps, and how the run ends is no longer the disc's
measured = -np.polyfit(run.t[small], np.sqrt(angle[small]), 1)[0]
assert abs(measured / slope - 1) < 0.03
assert angle[-1] < 0.01

rate = np.unwrap(np.arctan2(run.g[:, 1, 2], run.g[:, 0, 2]))
turns = np.abs(np.diff(rate[::50])) / np.diff(run.t[::50]) / (2 * np.pi)
middle = (run.t[::50][1:] + run.t[::50][:-1]) / 2
expected = np.sqrt(4 * 9.81 / r) / (np.sqrt(alpha) - slope * middle) / (2 * np.pi)
assert np.abs(turns / expected - 1)[middle < 2.5].max() < 0.1
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.plot(run.t, np.sqrt(angle), color="#0072B2", label="the run")
left.plot(run.t, np.sqrt(alpha) - slope * run.t, "--", color="#D55E00", label="√α₀ − k√(4g/r)/(3mgr) t")
left.set(xlabel="time (s)", ylabel="√α, α in rad", ylim=0)
shown = middle < 2.7
right.plot(middle[shown], turns[shown], color="#0072B2", label="the run, means over 0.1 s")
right.plot(middle[shown], expected[shown], "--", color="#D55E00", label="√(4g/rα)/2π")
right.set(xlabel="time (s)", ylabel="turns of the whirl per second", ylim=0)
for ax in (left, right):
    ax.legend()

# %%
# Run it here
# -----------
#
# .. live:: eulers-disc
