"""
A car that skids: the friction circle
=====================================

The rear wheel of a car is held sideways and driven. The ground takes both forces together up to their limit, a circle: under full
throttle in a bend nothing is left for the side, and the tail breaks away. Less throttle, and the car keeps its bend.
"""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import geonh as gn
from geonh.rolling import knife_edge, planar, planar_body, slipping, wheel

limit = 9.0  # newtons, of the rear wheel; the front one is a blade that always holds
body = planar_body(2.0, 0.4, [wheel(0.3, 0.05, name="rear"), knife_edge(1.2, angle=0.2)], centre=(0.5, 0.0))
car = planar(body, forces=lambda t, x, xi, u: jnp.concatenate([jnp.zeros(3), u]), name="car")
modes = slipping(car, {"rear": ((0, 1), limit)})  # forms: rear sideways, rear rolling, front sideways
start = modes.systems[0].project(None, [0.0, 3.0, 0.0, 10.0])

# %%
# A torque that is turned up over a second, and held. Dots mark where the wheel lets go, and where it grips again.
figure, (path, circle) = plt.subplots(1, 2, figsize=(10, 5), layout="constrained")
for torque, colour in ((0.8, "#0072B2"), (2.2, "#009E73"), (3.2, "#D55E00")):
    run = gn.solve(
        modes,
        mode="grip",
        xi0=start,
        dt=0.01,
        t_end=3.0,
        controls=jax.tree_util.Partial(lambda torque, t: jnp.stack([torque * jnp.minimum(t, 1.0)]), torque),
    )
    x, y = run.g_vector[:, 1], run.g_vector[:, 2]
    path.plot(x, y, color=colour, label=f"{torque} N m")
    for k in range(0, len(run), 50):
        nose = 1.2 * np.array([np.cos(run.g_vector[k, 0]), np.sin(run.g_vector[k, 0])])
        path.plot(x[k] + [0.0, nose[0]], y[k] + [0.0, nose[1]], color=colour, lw=3, alpha=0.4)
    grips = np.asarray(run.mode) == "grip"
    circle.plot(run.multipliers[grips, 1], run.multipliers[grips, 0], color=colour)
    for at in np.flatnonzero(run.mode[1:] != run.mode[:-1]):
        path.plot(x[at], y[at], "o", color=colour)
    if len(run.switches.t):
        lets_go = run.switches.t[0]
        print(f"{torque} N m: the wheel lets go after {lets_go:.3f} s")
angle = np.linspace(0, 2 * np.pi, 100)
circle.plot(limit * np.cos(angle), limit * np.sin(angle), "k--", lw=1)
circle.set(xlabel="driving force (N)", ylabel="side force (N)", aspect="equal", title="rear wheel, while it grips")
path.set(xlabel="x (m)", ylabel="y (m)", aspect="equal")
path.legend()
