"""
Sleigh in a bath: noise and the second law
==========================================

A sleigh in a bath of one temperature, with friction on its velocity and rotation and the noise that goes with it, runs
ahead: useful work out of one bath. The blade is the reason (Jagla, Bloch, Rojo, *Nonholonomic constraints at finite
temperature*, 2026): held by friction it has noise, too, and the sleigh stays where it is on average, whether the blade
gives way or is as stiff as one likes. Right: errors at t = 1 along the same paths of noise, against the step.
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import geonh as gn
from geonh.ensembles import Mean
from geonh.groups import SE2

MASS, AHEAD, INERTIA, KT = 1.2, 0.3, 0.5, 0.7
ABOUT_BLADE = INERTIA + MASS * AHEAD**2
METRIC = [[ABOUT_BLADE, 0.0, MASS * AHEAD], [0.0, MASS, 0.0], [MASS * AHEAD, 0.0, MASS]]
BLADE = gn.Distribution([[0.0, 0.0, 1.0]])


def bath(t, x, xi, u, p):
    return -p["friction"] * xi + jnp.sqrt(2 * p["friction"] * p["kT"]) * u


def sleigh(sideways, **constraint):
    """In a bath, with friction of the blade against slipping sideways."""
    parameters = {"friction": np.array([0.4, 0.5, sideways]), "kT": KT}
    return gn.System(SE2(), metric=METRIC, forces=bath, parameters=parameters, **constraint)


naive = sleigh(0.0, distribution=BLADE)
systems = {
    "noise of the bath alone": (naive, 0.02),
    "thermal blade, its limit": (gn.mechanics.thermal_contacts(naive, "kT"), 0.02),
    "thermal blade that gives way": (sleigh(4.0), 0.005),
}
members, span = 1000, 9.0

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for label, (system, dt) in systems.items():
    noise = gn.Wiener(3, dt, seed=range(members))
    n = round(span / dt)
    runs = gn.solve_ensemble(
        system,
        "rkmk4",
        xi0=np.zeros(3),
        dt=dt,
        n_steps=n,
        save_every=n // 30,
        controls=noise,
        observables=(),
        statistics=[Mean("xi")],
    )
    mean, error = runs.statistics["xi:mean"][:, 1], runs.statistics["xi:std"][:, 1] / np.sqrt(members)
    line = left.plot(runs.t[0], mean, label=label)[0]
    left.fill_between(runs.t[0], mean - error, mean + error, color=line.get_color(), alpha=0.3)
    driven = system is naive
    assert mean[-1] > 10 * error[-1] if driven else abs(mean[-1]) < 3 * error[-1]
left.set(xlabel="t (s)", ylabel="mean velocity (m/s), with its standard error")
left.legend()

fields = 0.7 * np.random.default_rng(1).normal(size=(2, 3, 3))
noises = {
    "of a bath": (lambda t, x, xi, u: -0.4 * xi + 0.7 * u, 3, 1.0),
    "fluctuating coefficients": (lambda t, x, xi, u: -0.4 * xi + jnp.einsum("i,ijk,k->j", u, fields, xi), 2, 0.5),
}
steps = 2 ** np.arange(4, 10)
for label, (forces, size, order) in noises.items():
    system = gn.System(SE2(), metric=METRIC, distribution=BLADE, forces=forces)
    paths = gn.Wiener(size, 2.0**-12, seed=range(100))
    ends = {}
    for n in (*steps, 2**12):
        runs = gn.solve_ensemble(system, "rkmk4", xi0=[0.5, 0.8, 0.0], dt=1 / n, n_steps=n, controls=paths)
        ends[n] = runs.xi[:, -1]
    errors = [np.sqrt(np.mean(np.sum((ends[n] - ends[2**12]) ** 2, axis=1))) for n in steps]
    slope = -np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert abs(slope - order) < 0.1
    right.loglog(1 / steps, errors, "o-", label=f"{label}: order {slope:.2f}")
right.set_xscale("log", base=2)
right.set(xlabel="h (s)", ylabel="strong error of ξ")
right.legend()
