"""
Chaplygin sleigh: GNI and DLA with two discretisations
======================================================

Ferraro, Iglesias, Martín de Diego 2008, example 3, figure 6 and the following remark. In the coordinates (θ, x, y), GNI
and DLA with a symmetric discretisation of the constraint have similar errors; with the constraint at one end of the step
DLA is one to two orders of magnitude less accurate. The initial state reproduces the second point of the paper. Its step
is not given, and does not matter: without forces the errors at the nodes are the same for every h. Here h = 0.2 s, 70
steps.
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import least_squares

import geonh as gn
from geonh.groups import Translations
from geonh.integrators import DLA

m, inertia, a = 1.0, 1.0, 0.2


def metric(q):
    s, c = jnp.sin(q[0]), jnp.cos(q[0])
    return jnp.array([[inertia + m * a * a, -m * a * s, m * a * c], [-m * a * s, m, 0.0], [m * a * c, 0.0, m]])


def forms(q):
    return [[0.0, jnp.sin(q[0]), -jnp.cos(q[0])]]


sleigh = gn.System(Translations(3), metric=metric, distribution=gn.Distribution(forms), name="sleigh in coordinates")
h, n = 0.2, 70
second = np.array([0.0589, -0.2395, -0.0070])  # (θ, x, y) of the paper's q₁


def missed(rates):
    return gn.mechanics.reference_trajectory(sleigh, [0.0, h], [*rates, 0.0])[0][-1] - second


found = least_squares(missed, second[:2] / h)
assert np.abs(found.fun).max() < 5e-5  # three numbers by two rates, to the four digits that are printed
xi0 = [*found.x, 0.0]
t = h * np.arange(n + 1)
exact = gn.mechanics.reference_trajectory(sleigh, t, xi0)[0]
smooth = gn.mechanics.reference_trajectory(sleigh, np.linspace(0, t[-1], 400), xi0)[0]
methods = {
    "GNI": (gn.GNI("midpoint", start="average"), "--"),
    "DLA, symmetric constraint": (DLA(), "-"),
    "DLA, one-sided constraint": (DLA("midpoint", "left"), ":"),
}
errors = {
    name: np.linalg.norm(gn.solve(sleigh, method, xi0=xi0, dt=h, n_steps=n).g - exact, axis=1)
    for name, (method, _) in methods.items()
}
largest = {name: error.max() for name, error in errors.items()}
assert 1 / 5 < largest["GNI"] / largest["DLA, symmetric constraint"] < 5
assert 10 < largest["DLA, one-sided constraint"] / largest["DLA, symmetric constraint"] < 100

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.plot(smooth[:, 1], smooth[:, 2], color="#0072B2")
left.plot(exact[:, 1], exact[:, 2], ".", color="#0072B2", ms=4)
left.set(xlabel="x (m)", ylabel="y (m)", title="the heart-shaped loop", aspect="equal")
for (name, error), colour in zip(errors.items(), ("#0072B2", "#009E73", "#D55E00"), strict=True):
    right.semilogy(t[1:], error[1:], methods[name][1], color=colour, label=name)
right.set(xlabel="time (s)", ylabel="error of (θ, x, y)")
right.legend()

# %%
# Run it here
# -----------
#
# .. live:: chaplygin-sleigh
