"""
Billiard break with English
===========================

A cue ball with side spin (English) breaks a rack of three. Each ball slides after an impact, with Coulomb's friction on the cloth, and
rolls from where its slip vanishes: ``slipping`` makes the modes, those balls that slide in each. Impacts of two balls are
transitions beside them, with friction where the balls touch, which the English turns into a throw. The balls of the rack are a tenth
of a millimetre apart, so that impacts come one after another.

The balls are homogeneous, so that their orientations do not matter: the coordinates of each are its place and the integrals of the
angular velocity in space.
"""

import itertools

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import geonh as gn
from geonh.groups import Translations
from geonh.rolling import slipping

m, r, cloth, touch, e, g = 0.17, 0.0286, 0.2, 0.06, 0.93, 9.81
names = ("cue", "one", "two", "three")
moment = 0.4 * m * r**2

# %%
# Velocities of each ball are (vx, vy, ωx, ωy, ωz), and (vx − rωy, vy + rωx) is its slip on the cloth, which bears up to μmg.
slips = np.kron(np.eye(len(names)), [[1.0, 0, 0, -r, 0], [0, 1.0, r, 0, 0]])
balls = gn.System(
    Translations(5 * len(names)),
    metric=np.tile([m, m, moment, moment, moment], len(names)),
    distribution=gn.Distribution(forms=slips),
    name="four balls",
)
on_cloth = slipping(balls, {name: ((2 * k, 2 * k + 1), cloth * m * g) for k, name in enumerate(names)})


# %%
# An impact: e along the line of the centres, and the impulse across that ends the slip there, m|w|/7, or as much as friction gives.
# (Its vertical part, which makes balls hop, is left out.)
def meet(i, j):
    """Event and reset of the impact of two balls."""

    def parts(x, xi):
        x, xi = x.reshape(-1, 5), xi.reshape(-1, 5)
        return x[j, :2] - x[i, :2], xi[i], xi[j]

    def gap(t, x, xi, lam):
        between, *_ = parts(x, xi)
        return jnp.sqrt(between @ between) - 2 * r

    def after(t, x, xi):
        between, one, other = parts(x, xi)
        n = between / jnp.sqrt(between @ between)
        across = jnp.stack([-n[1], n[0]])
        push = 0.5 * (1 + e) * m * (one - other)[:2] @ n
        w = (one - other)[:2] @ across + r * (one[4] + other[4])
        rub = jnp.clip(w * m / 7, -touch * push, touch * push)
        impulse, spin = (push * n + rub * across) / m, r * rub / moment
        change = jnp.zeros_like(xi).reshape(-1, 5)
        change = change.at[i, :2].add(-impulse).at[j, :2].add(impulse).at[i, 4].add(-spin).at[j, 4].add(-spin)
        return xi + change.ravel()

    return gn.Event(gap, direction=-1, name=f"{names[i]} meets {names[j]}"), after


mode_of = dict(zip(itertools.product((False, True), repeat=len(names)), on_cloth.names, strict=True))


def sliding(t, x, xi):
    """Name of the mode of a velocity: those balls slide whose slip is not zero."""
    speeds = np.linalg.norm((slips @ np.asarray(xi)).reshape(-1, 2), axis=1)
    return mode_of[tuple(bool(speed > 1e-7) for speed in speeds)]


pairs = [meet(i, j) for i, j in itertools.combinations(range(len(names)), 2)]
impacts = [gn.Transition(mode, closes, sliding, after) for mode in on_cloth.names for closes, after in pairs]
table = gn.Modes(
    dict(zip(on_cloth.names, on_cloth.systems, strict=True)), [*on_cloth.transitions, *impacts], name="billiards"
)

# %%
# The cue ball comes with 3 m/s, sliding, without English, and with English to either side.
apart = 2 * r + 1e-4
rack = [[0.0, 0.0], [apart * np.sqrt(0.75), apart / 2], [apart * np.sqrt(0.75), -apart / 2]]
g0 = np.zeros((len(names), 5))
g0[:, :2] = [[-0.5, 0.004], *rack]
figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained", sharex=True, sharey=True)
for axis, english in zip(axes, (-80.0, 0.0, 80.0), strict=True):
    xi0 = np.zeros((len(names), 5))
    xi0[0] = [3.0, 0.0, 0.0, 0.0, english]
    run = gn.solve(table, "rkmk4", mode="cue slips", g0=g0.ravel(), xi0=xi0.ravel(), dt=2e-3, n_steps=500)
    jumps = np.abs(run.switches.xi_after - run.switches.xi_before).max(axis=1) > 1e-3
    print(
        f"English {english:.0f} rad/s: {jumps.sum()} impacts, energy {run.energy[-1] / run.energy[0]:.2f} of the first"
    )
    for k, name in enumerate(names):
        x, y = run.g[:, 5 * k : 5 * k + 2].T
        axis.plot(x, y, label=name, color=f"C{k}")
        axis.add_patch(plt.Circle((x[-1], y[-1]), r, color=f"C{k}", alpha=0.5))
    axis.set(xlabel="x (m)", aspect="equal", title=f"English {english:.0f} rad/s")
axes[0].set(ylabel="y (m)")
axes[0].legend(loc="lower left")
