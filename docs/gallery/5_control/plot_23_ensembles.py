"""
Ensembles: two hundred initial states of the Suslov problem
===========================================================

The Suslov body passes from one steady rotation, Ω₁ = 1, to the opposite one: all initial states on a circle of the same
energy end there, except the unstable rotation itself (the dot). ``integrate`` under ``vmap`` runs them together; its
derivative with respect to the initial state vanishes in directions of constant energy.
"""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import geonh as gn

body = gn.systems.suslov()
angles = np.linspace(0, 2 * np.pi, 200, endpoint=False)
starts = np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1)


def velocities(xi0):
    """At each node, shape=[301, 3]."""
    nodes = gn.integrate(body, gn.SymmetricProjection(), xi0=xi0, dt=0.05, n_steps=300)
    return jax.vmap(lambda p: body.velocity((), p))((nodes.p_plus + nodes.p_minus) / 2)


with gn.float64():
    found = np.asarray(jax.jit(jax.vmap(velocities))(jnp.asarray(starts)))
    slope = np.asarray(jax.jacfwd(lambda xi0: velocities(xi0)[-1])(jnp.asarray(starts[40])))
ends = found[:, -1]
assert np.abs(ends[1:, 0] + 1).max() < 2e-3
assert abs(ends[0, 0] - 1) < 1e-12
along = slope @ [-np.sin(angles[40]), np.cos(angles[40]), 0.0]
assert np.abs(along).max() < 1e-3

# %%
figure, axes = plt.subplots(figsize=(7, 4.4), layout="constrained")
for t, dashes in ((0, "-"), (1, "--"), (2, "-."), (4, ":"), (15, "-")):
    axes.plot(angles[1:], found[1:, round(t / 0.05), 0], dashes, label=f"t = {t} s")
axes.plot(0, ends[0, 0], "o", color="black")
axes.set(xlabel="direction of the start in the plane of Ω₁ and Ω₂ (rad)", ylabel="Ω₁ (rad/s)")
axes.legend(loc="upper center")
