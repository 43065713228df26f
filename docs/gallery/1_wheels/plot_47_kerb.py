"""
Bicycle over a kerb: wheels that lift, land and skid
====================================================

A bicycle with its rider, in the vertical plane, rolls against a kerb of 3 cm whose edge is round. Each wheel rolls as long as the
friction that this takes is within its cone, skids otherwise, leaves the ground where its normal force vanishes, and lands with an
impact. The system has four constraints, two heights and two rolling conditions, and ``rolling.slipping`` makes the nine modes of
them. At walking pace the wheels would climb one after the other; at 4.5 m/s both take off.
"""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import geonh as gn
from geonh.groups import Translations

radius, base, gravity = 0.34, 1.0, 9.81
step, edge, at = 0.03, 0.06, 2.0  # height of the kerb, roundness of its edge, its place


def ground(s):
    """Height of the axle of a wheel on the ground, whose profile is at the distance of the radius below."""
    return radius + step / 2 * (1 + jnp.tanh((s - at) / edge))


def axle(x, ahead):
    """Place of an axle, from that of the rear one and the pitch."""
    return x[0] + ahead * jnp.cos(x[2]), x[1] + ahead * jnp.sin(x[2])


def height(x, ahead):
    """Height of an axle above where it is on the ground, along the normal."""
    s, z = axle(x, ahead)
    return (z - ground(s)) / jnp.sqrt(1 + jax.grad(ground)(s) ** 2)


def rolls(x, wheel, ahead):
    """Velocity at the contact, along the ground."""
    slope = jax.grad(ground)(axle(x, ahead)[0])
    ds, dz = jax.jacfwd(lambda x: jnp.stack(axle(x, ahead)))(x)
    return (ds + slope * dz) / jnp.sqrt(1 + slope**2) + radius * jnp.eye(5)[3 + wheel]


def lagrangian(x, xi):
    def rider(x):
        s, z = axle(x, 0.45)
        return s - 0.6 * jnp.sin(x[2]), z + 0.6 * jnp.cos(x[2])

    value = 12.0 * xi[2] ** 2 / 2 + 0.15 * (xi[3] ** 2 + xi[4] ** 2) / 2
    for mass, place in ((80.0, rider), (2.0, lambda x: axle(x, 0.0)), (2.0, lambda x: axle(x, base))):
        (_, z), (ds, dz) = jax.jvp(place, (x,), (xi,))
        value += mass * ((ds**2 + dz**2) / 2 - gravity * z)
    return value


bicycle = gn.System(
    Translations(5),  # rear axle, pitch, angles of the wheels
    lagrangian=lagrangian,
    holonomic=lambda x: jnp.stack([height(x, 0.0), height(x, base)]),
    distribution=gn.Distribution(forms=lambda x: jnp.stack([rolls(x, 0, 0.0), rolls(x, 1, base)])),
    name="bicycle",
)
modes = gn.rolling.slipping(bicycle, {"rear": (0, 0.8, 0), "front": (1, 0.8, 1)}, restitution=0.2)

speed = 4.5
g0, xi0 = bicycle.project_position([0.0, radius, 0.0, 0.0, 0.0]), [speed, 0.0, 0.0, -speed / radius, -speed / radius]
run = gn.solve(modes, "rkmk4", mode="grip", g0=g0, xi0=xi0, dt=4e-4, t_end=1.2)

normal, friction = run.multipliers[:, :2], run.multipliers[:, 2:]
held = np.isfinite(normal) & np.isfinite(friction)
assert run.status is gn.integrators.Result.SUCCESS
assert np.diff(run.energy).max() < 1e-5 * run.energy[0]
assert np.all(normal[held] > -1e-6)
assert np.all(np.abs(friction[held]) < 0.8 * normal[held] + 1e-6)
print(f"{len(run.switches.t)} transitions, {100 * (1 - run.energy[-1] / run.energy[0]):.1f} % of the energy lost")

# %%
# The paths of both axles, in bold where the wheel is in the air, the gaps, and the normal forces. A wheel that lands bounces ever less
# until it stays.

profile = np.linspace(0.5, 5.0, 400)
figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
axes[0].plot(profile, np.array(ground(profile)), color="0.7", lw=1, label="axle on the ground")
for i, (name, ahead) in enumerate((("rear", 0.0), ("front", base))):
    s, z = np.array(jax.vmap(lambda x, ahead=ahead: jnp.stack(axle(x, ahead)))(jnp.array(run.g))).T
    gap = np.array(jax.vmap(lambda x, ahead=ahead: height(x, ahead))(jnp.array(run.g)))
    free = np.isnan(normal[:, i])
    (line,) = axes[0].plot(s, z, lw=1, label=f"{name} axle")
    axes[0].plot(s, np.where(free, z, np.nan), lw=3, color=line.get_color())
    axes[1].plot(s, 1e3 * np.where(free, gap, 0), lw=1)
    axes[2].plot(s, normal[:, i], lw=1, label=name)
axes[0].set(xlabel="place of the axle (m)", ylabel="height (m)", xlim=(0.5, 5.0))
axes[1].set(xlabel="place of the axle (m)", ylabel="gap (mm)", xlim=(0.5, 5.0))
axes[2].set(xlabel="place of the axle (m)", ylabel="normal force (N)", xlim=(0.5, 5.0), ylim=(0, 2500))
axes[0].legend(loc="upper left", fontsize=8)
axes[2].legend(loc="upper right", fontsize=8)
