"""
The snakeboard, free and driven
===============================

Ferraro, Iglesias, Martín de Diego 2008, example 2, figures 3 and 4. Free, on the abelian structure R²×T³ whose metric is
bi-invariant, GNI keeps the energy at p⁻ to rounding. Driven from rest by opposite torques on rider and axles, in phase,
the board snakes along, ever faster; the parameters of the paper's figure are not given, and with ours the way is a wide
curve. (The warning is about GNI's momentum, which alternates; the page on
alternation tells.)
"""

import matplotlib.pyplot as plt
import numpy as np

import geonh as gn
from geonh.drawing import scene
from geonh.plotting.bodies import draw_scene

free = gn.systems.catalogue["snakeboard"].system(structure="abelian")
g0 = (np.zeros(2), np.array([0.0, 0.0, 0.3]))
xi0 = free.project(g0, [1.0, 0.0, 0.2, 0.7, 0.1])
run = gn.solve(free, gn.GNI(), g0=g0, xi0=xi0, dt=0.02, n_steps=500)
assert np.ptp(run.energy_minus) < 1e-12

entry = gn.systems.catalogue["controlled-snakeboard"]
system = entry.system()
start = entry.start(system)
driven = gn.solve(
    system, gn.GNI(start="average"), g0=start.g0, xi0=start.xi0, dt=0.02, n_steps=1000, controls=entry.controls
)
speed = np.abs(driven.xi[:, 1])
thirds = [part.max() for part in np.array_split(speed, 3)]
assert thirds[0] < thirds[1] < thirds[2]

figure, (above, below) = plt.subplots(2, 1, figsize=(9, 7), layout="constrained", height_ratios=(2, 1))
seen = scene(driven)
for i in np.linspace(0, len(driven) - 1, 7).round().astype(int):
    draw_scene(above, seen, i, flat=True, alpha=0.8)
above.plot(*seen.bodies[0].path[:, :2].T, color="#0072B2")
above.set(xlabel="x (m)", ylabel="y (m)", title="driven from rest", aspect="equal")
above.autoscale_view()
below.plot(driven.t, driven.xi[:, 1], color="#0072B2")
below.set(xlabel="time (s)", ylabel="speed along the board (m/s)")
