"""
Parameter estimation from a noisy trajectory
============================================

Forty positions of a sleigh in eight seconds, with an error of a centimetre, determine its mass offset and its moment of
inertia. ``estimate`` differentiates through all steps and returns the parameters with their covariance, which the scatter
of sixty repeated experiments confirms.
"""

import matplotlib.pyplot as plt
import numpy as np

import geonh as gn
from geonh.control import estimate
from geonh.groups import SE2

TRUE = {"a": 0.3, "I": 1.2}


def inertia(x, p):
    return [[p["I"] + p["a"] ** 2, 0.0, p["a"]], [0.0, 1.0, 0.0], [p["a"], 0.0, 1.0]]


def place(g, xi):
    return g[1:]


def skate(a, I):  # noqa: E741
    return gn.System(
        SE2(),
        metric=inertia,
        distribution=gn.Distribution([[0.0, 0.0, 1.0]]),
        parameters={"a": a, "I": I},
        base="point",
    )


at = np.arange(10, 401, 10)
xi0 = [0.8, 0.5, 0.0]
path = gn.solve(skate(**TRUE), xi0=xi0, dt=0.02, n_steps=400)
random = np.random.default_rng(1)
fits = []
for _ in range(60):
    data = path.g[at, 1:] + 0.01 * random.normal(size=(len(at), 2))
    fits.append(estimate(skate(0.2, 1.0), ["a", "I"], data, at, place, xi0=xi0, dt=0.02))
found = np.array([[fit.values[name] for name in TRUE] for fit in fits])
covariance = np.mean([fit.covariance for fit in fits], axis=0)
errors = np.sqrt(np.diag(covariance))
print(fits[0])
assert np.all(np.abs(found.mean(axis=0) - list(TRUE.values())) < 4 * errors / np.sqrt(60))
np.testing.assert_allclose(found.std(axis=0, ddof=1), errors, rtol=0.3)
inside = np.einsum("ki,ij,kj->k", found - list(TRUE.values()), np.linalg.inv(covariance), found - list(TRUE.values()))
share = np.mean(inside < -2 * np.log(0.05))
assert share > 0.85

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
left.plot(*path.g[:, 1:].T, color="#0072B2", label="the motion")
left.plot(*data.T, ".", color="#D55E00", ms=4, label="what was seen of it")
left.set(xlabel="x (m)", ylabel="y (m)", aspect="equal")
angle = np.linspace(0, 2 * np.pi, 100)
circle = np.sqrt(-2 * np.log(0.05)) * np.stack([np.cos(angle), np.sin(angle)])
shift = [TRUE["a"], 0.0]
right.plot(*((found - shift) * [1000, 1]).T, ".", color="#0072B2", label="60 experiments")
ellipse = np.linalg.cholesky(covariance) @ circle + np.array([[0.0], [TRUE["I"]]])
right.plot(1000 * ellipse[0], ellipse[1], color="#D55E00", label="95 %, of the covariance")
right.plot(0.0, TRUE["I"], "+", color="black", ms=12, label="true")
right.set(xlabel="a − 0.3 m (mm)", ylabel="I (kg m²)")
for ax in (left, right):
    ax.legend()
