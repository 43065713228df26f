"""Holonomic constraints: a spherical pendulum on R³, on SO(3), and with a moving pivot.

On R³ with the constraint |x| = 1, on SO(3) without constraints, and on R³ with a time-dependent constraint.
"""

import jax.numpy as jnp
import numpy as np

import geonh as gn
from geonh.groups import SO3, Translations

point = gn.System(
    Translations(3),
    metric=[1.0, 1.0, 1.0],
    potential=lambda x: 9.81 * x[2],
    holonomic=lambda x: jnp.stack([x @ x - 1.0]),
    name="point on a sphere",
)
body = gn.System(SO3(), metric=[1.0, 1.0, 0.5], potential=lambda R: 9.81 * R[2, 2], name="body without spin")

R0 = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
omega = np.array([1.5, -0.7, 0.0])
on_sphere = gn.solve(point, "gauss4", g0=R0[:, 2], xi0=R0 @ np.cross(omega, [0, 0, 1]), dt=0.01, n_steps=300)
turning = gn.solve(body, "gauss4", g0=R0, xi0=omega, dt=0.01, n_steps=300)
print("point against body:   ", np.abs(on_sphere.g - turning.g[:, :, 2]).max())
print("the constraint:       ", np.abs(on_sphere.holonomic_residual).max())


def rod(t, x, p):
    pivot = p["a"] * jnp.stack([jnp.cos(p["w"] * t), jnp.sin(p["w"] * t), jnp.zeros_like(t)])
    return jnp.stack([(x - pivot) @ (x - pivot) - 1.0])


carried = gn.System(
    Translations(3),
    metric=[1.0, 1.0, 1.0],
    potential=lambda x: 9.81 * x[2],
    holonomic=gn.time_dependent(rod),
    parameters={"a": 0.3, "w": 2.0},
    name="pivot on a circle",
)
g0, xi0 = carried.project([0.3, 0.0, -1.0], [0.0, 0.0, 0.0])
run = gn.solve(carried, g0=g0, xi0=xi0, dt=0.01, n_steps=1000)
print("on a moving pivot:    ", np.abs(run.holonomic_residual).max())
print("  energy, J, from:", run.energy.min(), "to", run.energy.max())
