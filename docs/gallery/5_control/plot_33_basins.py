"""
Basins of attraction of ten thousand sleighs
============================================

A sleigh with its centre of mass ahead of the blade slides in a potential with three wells, and friction brings it to rest
in one of them. The well depends on the initial position, at rest with heading x; ``solve_ensemble`` runs all of them.
Near the boundaries of the basins the motion is sensitive to the initial state.
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

import geonh as gn
from geonh.groups import SE2

WELLS = np.array([[np.cos(a), np.sin(a)] for a in (np.pi / 2, np.pi * 7 / 6, np.pi * 11 / 6)])


def potential(g, p):
    """Of the centre of mass, a before the blade."""
    theta, x, y = g
    centre = jnp.stack([x + p["a"] * jnp.cos(theta), y + p["a"] * jnp.sin(theta)])
    apart = jnp.sum((centre - WELLS) ** 2, axis=1)
    return 0.1 * centre @ centre - jnp.sum(jnp.exp(-3.0 * apart))


sleigh = gn.System(
    SE2(),
    metric=[[0.2, 0.0, 0.2], [0.0, 1.0, 0.0], [0.2, 0.0, 1.0]],
    potential=potential,
    distribution=gn.Distribution([[0.0, 0.0, 1.0]]),
    forces=lambda t, x, xi, u: -0.12 * xi * jnp.array([0.3, 1.0, 0.0]),
    parameters={"a": 0.2},
    name="sleigh in three wells",
)
n = 100
axis = np.linspace(-2, 2, n)
x, y = np.meshgrid(axis, axis)
starts = np.stack([0 * x, x, y], axis=2).reshape(-1, 3)
runs = gn.solve_ensemble(sleigh, g0=starts, xi0=np.zeros(3), dt=0.06, n_steps=1700)
assert runs.success.all()
theta, x, y = runs.g[:, -1].T
centre = np.stack([x + 0.2 * np.cos(theta), y + 0.2 * np.sin(theta)], axis=1)
apart = np.linalg.norm(centre[:, None] - WELLS, axis=2)
well = apart.argmin(axis=1)
assert apart.min(axis=1).max() < 0.035  # each is at the bottom of a well, which the bowl moves by 0.033
assert np.bincount(well).min() > 2000

# %%
figure, ax = plt.subplots(figsize=(6, 5.6), layout="constrained")
colours = ListedColormap(["#56B4E9", "#E69F00", "#009E73"])
ax.imshow(well.reshape(n, n), extent=(-2, 2, -2, 2), origin="lower", cmap=colours)
ax.plot(*WELLS.T, "o", color="black", ms=8, mfc="white", label="the wells")
ax.legend()
ax.set(xlabel="x of the start (m)", ylabel="y of the start (m)")
