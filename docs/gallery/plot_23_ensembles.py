"""
Two hundred starts at once, and where they end
==============================================

Suslov's body turns from one steady rotation, Ω₁ = 1, to the opposite one: of a circle of starts of the same energy all
end there, but the one that begins on the unstable rotation itself. ``integrate`` under ``vmap`` runs them together, and
its derivative says how the end depends on the start: not at all, in the directions that keep the energy.
"""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import geonh as gn

body = gn.systems.suslov()
angles = np.linspace(0, 2 * np.pi, 200, endpoint=False)
starts = np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1)


def end(xi0):
    nodes = gn.integrate(body, gn.SymmetricProjection(), xi0=xi0, dt=0.05, n_steps=300)
    return body.velocity((), (nodes.p_plus[-1] + nodes.p_minus[-1]) / 2)


with gn.float64():
    ends = np.asarray(jax.jit(jax.vmap(end))(jnp.asarray(starts)))
    slope = np.asarray(jax.jacfwd(end)(jnp.asarray(starts[40])))
assert np.abs(ends[1:, 0] + 1).max() < 2e-3
assert abs(ends[0, 0] - 1) < 1e-12
along = slope @ [-np.sin(angles[40]), np.cos(angles[40]), 0.0]
assert np.abs(along).max() < 1e-3

figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
axes.plot(angles, ends[:, 0], label="Ω₁ after 15 s")
axes.plot(angles, ends[:, 1], label="Ω₂ after 15 s")
axes.set(xlabel="direction of the start (rad)", ylabel="rad/s")
axes.legend()
