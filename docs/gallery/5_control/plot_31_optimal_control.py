"""
Optimal control: parallel parking of a sleigh
=============================================

A sleigh with thrust and torque moves one metre sideways, the direction of its constraint. From the straight guess
Newton's method converges to a symmetric motion of cost 12.76, a saddle of the cost. Saddle escape along the direction of
negative curvature leads to a minimum of cost 9.19. It is a run of ``solve`` to rounding. With controls bounded by 1.6 N
and 1.6 N m it costs a little more.
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import geonh as gn
from geonh.control import optimal_control
from geonh.groups import SE2

sleigh = gn.System(
    SE2(),
    metric=[[1.04, 0.0, 0.2], [0.0, 1.0, 0.0], [0.2, 0.0, 1.0]],
    distribution=gn.Distribution([[0.0, 0.0, 1.0]]),
    base="point",
    forces=lambda t, x, xi, u: jnp.stack([u[1], u[0], 0.0 * u[0]]),
    name="sleigh",
)
parking = {"end": [0.0, 0.0, 1.0], "n_controls": 2, "span": 4.0, "n_steps": 40}
free = optimal_control(sleigh, **parking)
assert abs(free.cost - 9.185) < 1e-3
run = free.trajectory()
assert np.abs(run.g[-1] - [0.0, 0.0, 1.0]).max() < 1e-11
assert np.abs(run.constraint_residual).max() < 1e-13
weak = optimal_control(sleigh, **(parking | {"n_steps": 20}), bounds=(-1.6, 1.6), guess=free)
assert weak.cost > free.cost
assert np.abs(weak.u).max() < 1.6 + 1e-9

# %%
figure, parts = plt.subplot_mosaic([["way", "thrust"], ["way", "torque"]], figsize=(9, 5.5), layout="constrained")
for way, name, colour, dashes in ((free, "free", "#0072B2", "-"), (weak, "weak motors", "#D55E00", "--")):
    parts["way"].plot(*way.g[:, 1:].T, color=colour, ls=dashes)
    for part, u in zip(("thrust", "torque"), way.u.T, strict=True):
        parts[part].plot(way.t, u, color=colour, ls=dashes, label=f"{name}, cost {way.cost:.2f}")
for theta, x, y in free.g[::4]:
    c, s = 0.06 * np.cos(theta), 0.06 * np.sin(theta)
    parts["way"].annotate("", (x + c, y + s), (x - c, y - s), arrowprops={"arrowstyle": "->", "color": "0.4"})
parts["way"].set(
    xlabel="x (m)", ylabel="y (m)", aspect="equal", title="the way;\narrows: where the sleigh looks", xlim=(-0.45, 0.45)
)
parts["thrust"].set(xlabel="time (s)", ylabel="thrust (N)")
parts["torque"].set(xlabel="time (s)", ylabel="torque (N m)")
parts["torque"].legend(loc="lower center")
