"""
User-defined system: a tricycle
===============================

A system that is not in the catalogue: the space SE(2)×S¹, a metric, two wheels that do not slip sideways, a steering
torque, a drawing. The front wheel steers, and the tricycle follows a slalom.
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import geonh as gn
from geonh.drawing import Body, box, cylinder, ground, planar, scene
from geonh.groups import SE2, Product, Torus
from geonh.plotting.bodies import draw_scene, set_limits

WHEEL = cylinder(0.12, 0.04, "y")


def forms(x, p):
    s, c = jnp.sin(x[0]), jnp.cos(x[0])
    return [[0.0, 0.0, 1.0, 0.0], [p["length"] * c, -s, c, 0.0]]


def forces(t, x, xi, u):
    """Torque on the steering, drag along the way."""
    return jnp.stack([0.0 * t, -0.05 * xi[1], 0.0 * t, u[0] - 2.0 * x[0] - 0.5 * xi[3]])


def draw(t, g, p):
    (theta, x, y), (phi,) = g
    here = planar(theta, x, y)
    wheels = [WHEEL.moved(0, side * 0.3, 0.12) for side in (1, -1)]
    frame = [box(0.9, 0.2, 0.1).moved(0.35, 0, 0.2), box(0.06, 0.6, 0.06).moved(0, 0, 0.12)]
    return [
        Body("tricycle", [*frame, *wheels], at=here, trace=[0, 0, 0]),
        Body("fork", [WHEEL.moved(z=0.12), box(0.05, 0.5, 0.05).moved(z=0.5)], at=here @ planar(phi, p["length"])),
        Body("ground", ground()),
    ]


tricycle = gn.System(
    Product((SE2(), Torus(1, ("phi",)))),
    metric=lambda x: jnp.array([0.6, 2.0, 2.0, 0.2]),
    distribution=gn.Distribution(forms),
    forces=forces,
    parameters={"length": 0.8},
    base=("phi",),
    draw=draw,
    name="tricycle",
)
run = gn.solve(
    tricycle, xi0=[0.0, 1.5, 0.0, 0.0], dt=0.02, n_steps=500, controls=lambda t: jnp.stack([1.5 * jnp.cos(1.5 * t)])
)
assert np.abs(run.constraint_residual).max() < 1e-13
assert run.energy[-1] < run.energy[0]  # drag

# %%
figure, axes = plt.subplots(figsize=(10, 3), layout="constrained")
seen = scene(run)
for i in range(0, len(run), 100):
    draw_scene(axes, seen, i, flat=True)
axes.plot(*seen.bodies[0].path[:, :2].T, lw=0.8)
set_limits(axes, seen, flat=True)
axes.set(xlabel="x (m)", ylabel="y (m)")

# %%
# Run it here
# -----------
# The model as a page in which the integrator itself runs: the torque on the steering is a slider.
tricycle.play(xi0=[0.0, 1.5, 0.0, 0.0], dt=0.02, controls=[0.0])
