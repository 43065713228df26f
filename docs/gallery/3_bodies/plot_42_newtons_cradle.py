"""
Newton's cradle: impacts in a row
=================================

Five balls on strings of one length hang side by side, a hair apart. Each gap is a guard: where it closes the two balls meet, with
Newton's restitution e for that pair alone. One ball let go sends one away, two send two; and with e < 1 all of them swing
together in the end.
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import geonh as gn
from geonh.groups import Translations

length, gap, balls = 0.15, 1e-6, 5
rows = np.eye(balls, k=1)[:-1] - np.eye(balls)[:-1]  # the velocities at which the gaps open
swings = gn.System(
    Translations(balls),
    metric=np.ones(balls),
    potential=lambda x: 9.81 * jnp.sum(length - jnp.sqrt(length**2 - x * x)),  # x, how far each is to the side
    parameters={"e": 1.0},
    name="cradle",
)


def pair(i):
    """Balls i and i + 1 meet."""

    def meet(t, x, xi, parameters):
        approach = jnp.minimum(xi[i + 1] - xi[i], 0.0)
        change = (1 + parameters["e"]) * approach / 2
        return xi.at[i].add(change).at[i + 1].add(-change)

    closes = gn.Event(lambda t, x, xi, lam: x[i + 1] - x[i] + gap, direction=-1, name=f"balls {i} and {i + 1}")
    return gn.Transition("swing", closes, "swing", meet)


cradle = gn.Modes({"swing": swings}, [pair(i) for i in range(balls - 1)], name="Newton's cradle")

# %%
# One ball, two, and two with a loss at each impact.
figure, axes = plt.subplots(3, 1, figsize=(9, 7), layout="constrained", sharex=True)
for axis, (raised, e) in zip(axes, ((1, 1.0), (2, 1.0), (2, 0.9)), strict=True):
    start = np.where(np.arange(balls) < raised, -0.05, 0.0)
    run = gn.solve(cradle.with_parameters(e=e), mode="swing", g0=start, xi0=np.zeros(balls), dt=0.002, n_steps=1500)
    print(
        f"{raised} raised, e = {e}: {len(run.switches.t)} impacts, energy {run.energy[-1] / run.energy[0]:.6f} of the first"
    )
    for i in range(balls):
        axis.plot(run.t, 100 * run.g[:, i] + 1.5 * i, color=f"C{i}")
    axis.set(ylabel="places (cm)", title=f"{raised} raised, e = {e}")
axes[-1].set(xlabel="time (s)")
