"""
Trailers: driving and parking
=============================

A robot with three trailers is driven on a circle: each axle converges to a circle of its own, R²_{k+1} = R²_k − L².
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import geonh as gn
from geonh.control import optimal_control
from geonh.drawing import scene
from geonh.plotting.bodies import draw_scene
from geonh.rolling import knife_edge, planar, planar_body, trailer
from geonh.systems.wheeled_robots import draw_train

L, R, speed = 0.8, 2.0, 1.0


def driver(t, x, xi, u):
    """Torque and thrust that hold the turning and the speed of the first body."""
    return jnp.concatenate([jnp.stack([5 * (speed / R - xi[0]), 5 * (speed - xi[1])]), jnp.zeros(4)])


def train(lengths, forces):
    """As the catalogue's robot with trailers, with motors."""
    drawn = ()
    for i in reversed(range(len(lengths))):
        cart = planar_body(1.0, 0.2, [knife_edge()], drawn, centre=(0.15, 0.0))
        drawn = (trailer(cart, lengths[i], name=f"phi{i + 1}"),)
    body = planar_body(1.0, 0.2, [knife_edge()], drawn, centre=(0.15, 0.0))
    return planar(body, forces=forces, draw=draw_train, name="train")


robot = train([L, L, L], driver)
run = gn.solve(robot, "gauss4", xi0=np.zeros(6), dt=0.02, n_steps=2000)


def axles(run, lengths):
    """Places of the axles, shape=[N, 1 + k, 2]."""
    (theta, x, y), angles = run.g[0].T, run.g[1]
    places = [np.stack([x, y], axis=1)]
    for i, length in enumerate(lengths):
        theta = theta + angles[:, i]
        places.append(places[-1] - length * np.stack([np.cos(theta), np.sin(theta)], axis=1))
    return np.stack(places, axis=1)


places = axles(run, [L, L, L])
omega, u = run.xi[-1, :2]
centre = places[-1, 0] + u / omega * np.array([-np.sin(run.g[0][-1, 0]), np.cos(run.g[0][-1, 0])])
found = np.linalg.norm(places[-1] - centre, axis=1)
wanted = np.sqrt((u / omega) ** 2 - L**2 * np.arange(4))
np.testing.assert_allclose(found, wanted, rtol=1e-6)
figure, ax = plt.subplots(figsize=(6, 5.5), layout="constrained")
for path, colour in zip(places.transpose(1, 2, 0), ("#0072B2", "#D55E00", "#009E73", "#CC79A7"), strict=True):
    ax.plot(*path, color=colour, lw=0.8)
draw_scene(ax, scene(run, [700]), 0, flat=True)
ax.set(xlabel="x (m)", ylabel="y (m)", aspect="equal")

# %%
# Parking with a trailer: from rest to rest, one metre sideways, at minimal effort of thrust and torque.


def motors(t, x, xi, u):
    return jnp.stack([u[1], u[0], 0.0 * u[0], 0.0 * u[0]])


one = train([L], motors)
aside = {"end": (np.array([0.0, 0.0, 1.0]), np.zeros(1)), "n_controls": 2, "span": 6.0}
way = optimal_control(one, **aside, n_steps=40)
parked = way.trajectory()
assert np.abs(parked.g[0][-1] - [0.0, 0.0, 1.0]).max() < 1e-9
assert abs(parked.g[1][-1, 0]) < 1e-9
places = axles(parked, [L])
figure, axes = plt.subplots(2, 3, figsize=(10, 6), layout="constrained", sharex=True, sharey=True)
nodes = [0, 8, 16, 24, 32, 40]
seen = scene(parked, nodes)
for i, (ax, k) in enumerate(zip(axes.flat, nodes, strict=True)):
    for path, colour in zip(places.transpose(1, 2, 0), ("#0072B2", "#D55E00"), strict=True):
        ax.plot(*path, color=colour, lw=0.5)
        ax.plot(*path[:, : k + 1], color=colour, lw=1.6)
    draw_scene(ax, seen, i, flat=True)
    ax.set(aspect="equal", title=f"t = {way.t[k]:.1f} s", xlim=(-1.9, 0.6), ylim=(-0.7, 1.8))
for ax in axes[1]:
    ax.set_xlabel("x (m)")
for ax in axes[:, 0]:
    ax.set_ylabel("y (m)")

# %%
# Run it here
# -----------
#
# .. live:: robot-with-trailers
