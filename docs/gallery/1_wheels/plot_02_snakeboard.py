"""
Snakeboard, free and driven
===========================

Ferraro, Iglesias, Martín de Diego 2008, example 2, figures 3 and 4. Free, on the abelian structure R²×T³ with a
bi-invariant metric, GNI preserves the energy at p⁻ to rounding. Driven from rest by opposite torques on rider and axles,
in phase, the board accelerates from left to right. The paper does not give the parameters of the figure; these are chosen
here, with the wheels at an initial angle of a quarter of a radian, so that they oscillate symmetrically. (The warning is
about the parasitic mode of GNI.)
"""

import matplotlib.pyplot as plt
import numpy as np

import geonh as gn
from geonh.drawing import scene
from geonh.plotting.bodies import draw_scene, set_limits

free = gn.systems.catalogue["snakeboard"].system(structure="abelian")
g0 = (np.zeros(2), np.array([0.0, 0.0, 0.3]))
xi0 = free.project(g0, [1.0, 0.0, 0.2, 0.7, 0.1])
run = gn.solve(free, gn.GNI(), g0=g0, xi0=xi0, dt=0.02, n_steps=500)
assert np.ptp(run.energy_minus) < 1e-12

entry = gn.systems.catalogue["controlled-snakeboard"]
system = entry.system()
g0 = (np.zeros(3), np.array([0.0, 0.25]))
begin = {"g0": g0, "xi0": np.zeros(5), "controls": entry.controls}
driven = gn.solve(system, gn.GNI(start="average"), dt=0.02, n_steps=600, **begin)
exact = gn.mechanics.reference_trajectory(system, [0.0, driven.t[-1]], np.zeros(5), g0, controls=entry.controls)[0][0]
assert np.abs(driven.g[0][-1] - exact[-1]).max() < 0.02
assert np.all(np.diff([part.max() for part in np.array_split(driven.xi[:, 1], 4)]) > 0)  # ever faster
assert driven.g[0][-1, 1] > 20 * np.abs(driven.g[0][:, 2]).max()  # and to the right

# %%
figure, parts = plt.subplot_mosaic(
    [["driven", "driven"], ["free", "speed"], ["free", "energy"]],
    figsize=(10, 7),
    layout="constrained",
    height_ratios=(1.1, 1, 1),
)
for part, made, n in (("driven", driven, 5), ("free", run, 4)):
    seen = scene(made)
    for i in np.linspace(0, len(made) - 1, n).round().astype(int):
        draw_scene(parts[part], seen, i, flat=True, alpha=0.8)
    parts[part].plot(*seen.bodies[0].path[:, :2].T, color="#0072B2")
    set_limits(parts[part], seen, flat=True)
    parts[part].set(xlabel="x (m)", ylabel="y (m)", title="driven from rest" if made is driven else "free")
parts["speed"].plot(driven.t, driven.xi[:, 1], color="#0072B2")
parts["speed"].set(xlabel="time (s)", ylabel="speed along\nthe board (m/s)", title="driven")
change = run.energy_minus - run.energy_minus[0]
parts["energy"].semilogy(run.t, np.maximum(np.abs(change), 1e-17), color="#0072B2")
parts["energy"].set(xlabel="time (s)", ylabel="change of the\nenergy at $p^-$ (J)", title="free", ylim=(1e-17, 1e-12))

# %%
# Run it here
# -----------
#
# .. live:: snakeboard
