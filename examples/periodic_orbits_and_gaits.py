"""Displacement of a snakeboard by a gait, and a symmetric periodic orbit of a pendulum."""

import jax.numpy as jnp
import numpy as np

import geonh as gn
from geonh.analysis import nonholonomic_connection, periodic_orbit
from geonh.groups import SE2, Product, Torus

INERTIA, ROTOR = 1.5, 0.5


def forms(x):
    c, s = 0.5 * jnp.cos(x[0]), jnp.sin(x[0])
    return [[c, s, -jnp.cos(x[0]), 0.0, 0.0], [-c, -s, -jnp.cos(x[0]), 0.0, 0.0]]


metric = np.diag([INERTIA, 1.0, 1.0, ROTOR, 0.5])
metric[0, 3] = metric[3, 0] = ROTOR  # the rotor's angle is relative to the board
board = gn.System(
    Product((SE2(), Torus(2, ("psi", "phi")))),
    metric=metric,
    distribution=gn.Distribution(forms),
    base=("phi",),
    name="snakeboard",
)


def along(r, parameters):
    return [[jnp.sin(r[1]), -0.5 * jnp.cos(r[1]), 0.0]]


def gait(t):
    return jnp.stack([0.7 * jnp.sin(t), 0.5 * jnp.sin(t)])


connection = nonholonomic_connection(board, sections=along)
for n in (1, 2, 3):
    moved = connection.displacement(gait, 2 * np.pi * n, n_steps=200 * n)
    print(f"after {n} periods of the gait: (θ, x, y) = {np.round(moved.g[0], 6)}, momentum {moved.momentum[0]:+.6f}")

# Amplitude π/2, as a symmetric periodic orbit
pendulum = gn.System(Torus(1, ("phi",)), metric=[1.0], potential=lambda x: -jnp.cos(x[0]), name="pendulum")
orbit = periodic_orbit(
    pendulum, [1.5], [0.0], 7.0, fixed=lambda g, xi: xi, conditions=lambda g, xi, T, p: jnp.stack([g[0] - np.pi / 2])
)
print(orbit)
assert abs(orbit.period - 7.416298709205487) < 1e-9
