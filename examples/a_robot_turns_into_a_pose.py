"""Optimal control: a two-wheeled robot with a motor for each wheel and friction moves to a pose at minimal effort."""

import jax.numpy as jnp
import numpy as np

import geonh as gn
from geonh.control import optimal_control
from geonh.groups import SE2, Product, Torus

RADIUS, WIDTH = 0.1, 0.4


def motors(t, x, xi, u):
    return jnp.concatenate([jnp.zeros(3), u - 0.02 * xi[3:]])


robot = gn.System(
    Product((SE2(), Torus(2, ("left", "right")))),
    metric=[0.3, 4.0, 4.0, 0.02, 0.02],
    distribution=gn.Distribution(
        [
            [0.0, 0.0, 1.0, 0.0, 0.0],
            [0.0, 1.0, 0.0, -RADIUS / 2, -RADIUS / 2],
            [1.0, 0.0, 0.0, RADIUS / WIDTH, -RADIUS / WIDTH],
        ]
    ),
    base="point",
    forces=motors,
    name="robot",
)
pose = np.array([np.pi / 2, 1.0, 0.5])
found = optimal_control(
    robot, end=(pose, np.zeros(2)), free=["left_dot", "right_dot"], n_controls=2, span=3.0, n_steps=30
)
run = found.trajectory()
print(found)
print("ends at (θ, x, y) =", np.round(run.g[0][-1], 9), "with velocity", np.abs(run.xi[-1]).max().round(12))
print("largest torque", np.abs(found.u).max().round(4), "N m")
assert np.abs(run.g[0][-1] - pose).max() < 1e-9
