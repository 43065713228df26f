"""
Gradients: optimising the steering of a roller racer
====================================================

The torque on the hinge is a sum of three sines and three cosines with free coefficients; the distance in ten seconds, less
a cost of effort, is a function of them through five hundred steps. ``jax.grad`` of ``integrate`` is reverse mode in
machine code, and BFGS maximises with it.
"""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import geonh as gn
from geonh.drawing import scene
from geonh.plotting.bodies import draw_scene

racer = gn.systems.roller_racer()
BASIS = 2 * np.pi / 5 * np.array([1.0, 2.0, 3.0])


def torque(t, x, xi, u, p):
    """On the hinge, with a spring and a damper there."""
    drive = p["c"][:3] @ jnp.sin(BASIS * t) + p["c"][3:] @ jnp.cos(BASIS * t)
    return jnp.stack([0.0 * t, 0.0 * t, 0.0 * t, drive - 2.0 * x[0] - 0.3 * xi[3]])


def steered(c):
    return gn.System(
        racer.group,
        metric=racer.metric,
        distribution=racer.distribution,
        forces=torque,
        parameters={**racer.parameters, "c": c},
        base=racer.action,
        draw=racer.draw,
        name="steered racer",
    )


START = {"xi0": np.zeros(4), "dt": 0.02, "n_steps": 500}


@jax.jit
@jax.value_and_grad
def loss(c):
    """Price of the effort less the distance (m)."""
    nodes = gn.integrate(steered(c), gn.SymmetricProjection(), **START)
    x, y = nodes.g[0][-1, 1:]
    return 0.1 * c @ c - jnp.sqrt(x**2 + y**2 + 1e-6)


with gn.float64():
    first = np.array([0.5, 0.0, 0.0, 0.0, 0.0, 0.0])
    slope = np.asarray(loss(jnp.asarray(first))[1])
    for k in range(6):  # against differences
        e = 1e-5 * np.eye(6)[k]
        difference = (loss(jnp.asarray(first + e))[0] - loss(jnp.asarray(first - e))[0]) / 2e-5
        np.testing.assert_allclose(slope[k], difference, rtol=1e-6, atol=1e-7)
    values = []

    def counted(c):
        value, slope = loss(jnp.asarray(c))
        values.append(float(value))
        return float(value), np.asarray(slope)

    best = minimize(counted, first, jac=True, method="BFGS", options={"maxiter": 60})
assert best.success
assert np.abs(best.jac).max() < 1e-4
runs = {"first guess": gn.solve(steered(first), **START), "climbed": gn.solve(steered(best.x), **START)}
distance = {name: np.linalg.norm(run.g[0][-1, 1:]) for name, run in runs.items()}
assert distance["first guess"] < 0.02
assert distance["climbed"] > 40

# %%
figure, parts = plt.subplot_mosaic([["gain", "hinge"], ["path", "path"]], figsize=(9, 6), layout="constrained")
parts["gain"].plot(np.maximum.accumulate(-np.array(values)), color="#0072B2")
parts["gain"].set(xlabel="evaluations", ylabel="distance less price,\nthe best so far (m)")
for (name, run), colour in zip(runs.items(), ("#D55E00", "#0072B2"), strict=True):
    parts["hinge"].plot(run.t, run.g[1][:, 0], color=colour, label=name)
    parts["path"].plot(*run.g[0][:, 1:].T, color=colour)
seen = scene(runs["climbed"], range(0, 501, 50))
for i in range(11):
    draw_scene(parts["path"], seen, i, flat=True)
parts["hinge"].set(xlabel="time (s)", ylabel="angle of the hinge (rad)")
parts["hinge"].legend()
parts["path"].set(xlabel="x (m)", ylabel="y (m)", aspect="equal", title="every second, from above")
