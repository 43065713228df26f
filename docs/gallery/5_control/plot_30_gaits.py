"""
Gaits of the snakeboard
=======================

Rotor ψ and axles φ follow a closed loop of shapes. With frequencies 1:1 the board moves forwards, with 2:1 it turns, with
3:2 it moves sideways (Ostrowski, Burdick 1998). The displacement is that of the loop in the nonholonomic connection,
with the momentum gained on the way: constant per period for 1:1, zero for the others. The board is drawn after each
period.
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import geonh as gn
from geonh.analysis import nonholonomic_connection
from geonh.groups import SE2, Product, Torus


def forms(x, p):
    c, s = p["r"] * jnp.cos(x[0]), jnp.sin(x[0])
    return [[c, s, -jnp.cos(x[0]), 0.0, 0.0], [-c, -s, -jnp.cos(x[0]), 0.0, 0.0]]


def sections(r, p):
    """The one velocity (ω, u, v) that the wheels allow at a fixed shape (ψ, φ)."""
    return [[-jnp.sin(r[1]), p["r"] * jnp.cos(r[1]), 0.0]]


J, J0, m = 1.5, 0.5, 1.0
metric = np.diag([J, m, m, J0, 0.5])
metric[0, 3] = metric[3, 0] = J0  # the rotor's angle is relative to the board
snakeboard = gn.System(
    Product((SE2(), Torus(2, ("psi", "phi")))),
    metric=metric,
    distribution=gn.Distribution(forms),
    parameters={"r": 0.5},
    base=("phi",),
    name="snakeboard",
)
board = nonholonomic_connection(snakeboard, sections=sections)


def gait(a, b):
    return lambda t: jnp.stack([0.7 * jnp.sin(a * t), 0.4 * jnp.sin(b * t)])


figure, parts = plt.subplot_mosaic(
    [["drive", "drive"], ["turn", "park"]], figsize=(9, 6.5), layout="constrained", height_ratios=(1, 1.6)
)
for what, a, b in (("drive", 1, 1), ("turn", 2, 1), ("park", 3, 2)):
    ax = parts[what]
    loop = gait(a, b)
    rounds = [board.displacement(loop, 2 * np.pi * n).momentum[0] for n in (1, 2)]
    path = np.array([board.displacement(loop, t, n_steps=200).g[0] for t in np.linspace(1e-9, 6 * np.pi, 121)])
    ax.plot(path[:, 1], path[:, 2], color="#0072B2", lw=1)
    for theta, x, y in path[::40]:
        c, s = 0.15 * np.cos(theta), 0.15 * np.sin(theta)
        ax.plot([x - c, x + c], [y - s, y + s], color="#D55E00", lw=4, solid_capstyle="butt")
    ax.plot(*path[0, 1:], "o", color="black", ms=4)
    ax.set(title=f"{what}, {a} : {b}", xlabel="x (m)", ylabel="y (m)", aspect="equal")
    ax.margins(0.15)
    if what == "drive":
        np.testing.assert_allclose(rounds[1], 2 * rounds[0], rtol=1e-9)
        assert abs(rounds[0]) > 0.3
    else:
        np.testing.assert_allclose(rounds, 0, atol=1e-12)
    if what == "turn":
        np.testing.assert_allclose(path[40::40, 0], path[40, 0] * np.arange(1, 4), rtol=1e-6)
    if what == "park":
        np.testing.assert_allclose(path[40::40], path[40] * np.arange(1, 4)[:, None], atol=1e-6)

# %%
# The two-wheeled robot has no momentum: its displacement by a loop of the wheel angles is a geometric phase, independent of
# the speed, and for a small loop of area a it is −a·B to leading order, B the curvature of the connection.

robot = nonholonomic_connection(gn.systems.two_wheeled_robot())
B = robot.curvature([0.0, 0.0])[0, 1]
radii = np.geomspace(0.02, 1.0, 9)
areas = np.pi * radii**2


def circle(radius):
    return lambda t: radius * jnp.stack([jnp.cos(t), jnp.sin(t)])


moved = np.array([robot.displacement(circle(radius), 2 * np.pi).g[0] for radius in radii])
assert abs(moved[0, 2] / areas[0] + B[2]) < 1e-5
assert np.abs(moved[:, 0]).max() < 1e-14  # it does not turn
off = np.abs(moved[:, 2] + areas * B[2])
np.testing.assert_allclose(np.polyfit(np.log(radii), np.log(off), 1)[0], 4, atol=0.05)
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.loglog(areas, -moved[:, 2], "o", color="#0072B2", label="sideways, measured")
ax.loglog(areas, areas * B[2], color="#D55E00", label="area × curvature")
ax.loglog(areas, off, "s", color="#009E73", mfc="none", label="difference")
ax.set(xlabel="area of the loop of wheel angles (rad²)", ylabel="displacement (m)")
ax.legend()
