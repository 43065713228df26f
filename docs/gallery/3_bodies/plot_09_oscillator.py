"""
Nonholonomic oscillator: energies, constraint, Poincaré maps
============================================================

Chang, Perlmutter, §3.7, figures 6 and 7: from rest at (1, 1, 1), feedback with gains 500, 300, 300 and the explicit
first-order DLA, both with steps of 10⁻³ s. As in the paper, the momentum of DLA at a node is that of the step before,
(qₖ − qₖ₋₁)/h. The energy error of DLA is large; its y-energy and constraint oscillate by O(h) without drift. Feedback
preserves all three more accurately.
"""

import matplotlib.pyplot as plt
import numpy as np

import geonh as gn
from geonh.diagnostics import poincare_section
from geonh.integrators import DLA, Feedback

system = gn.systems.nonholonomic_oscillator()
begin = {"g0": [1.0, 1.0, 1.0], "xi0": [0.0, 0.0, 0.0], "dt": 1e-3, "n_steps": 400_000, "save_every": 10}
runs = {
    "feedback": gn.solve(system, Feedback({"energy": 500.0, "H_y": 300.0, "constraint": 300.0}, "euler"), **begin),
    "DLA": gn.solve(system, DLA("left", "left"), **begin),
}


def first_integrals(run):
    """Changes of energy (J) and y-energy (J), and the constraint (m/s), over 200 s."""
    (x, y, z), (px, py, pz) = run.g[1 : len(run) // 2].T, run.p_plus[1 : len(run) // 2].T
    energy = (px**2 + py**2 + pz**2 + x**2 + y**2 + z**2) / 2
    return {
        "energy error (J)": energy - energy[0],
        "y-energy error (J)": (py**2 + y**2 - py[0] ** 2 - y[0] ** 2) / 2,
        "constraint (m/s)": px + y * pz,
    }


kept = {name: first_integrals(run) for name, run in runs.items()}
spread = {name: {key: np.ptp(values) for key, values in found.items()} for name, found in kept.items()}
print({name: {key: f"{size:.1e}" for key, size in found.items()} for name, found in spread.items()})
assert max(spread["feedback"].values()) < 5e-3
assert spread["DLA"]["energy error (J)"] > 10 * spread["feedback"]["energy error (J)"]
for key in ("y-energy error (J)", "constraint (m/s)"):
    assert spread["DLA"][key] < 5e-3
    first, last = (np.ptp(part) for part in np.array_split(kept["DLA"][key], 2))
    assert last < 1.5 * first  # no drift

figure, axes = plt.subplots(3, 2, figsize=(10, 7), layout="constrained", sharex=True)
for column, (name, found) in zip(axes.T, kept.items(), strict=True):
    column[0].set_title(name)
    for ax, (key, values) in zip(column, found.items(), strict=True):
        ax.plot(runs[name].t[1 : 1 + len(values)], values, lw=0.6)
        ax.set_ylabel(key)
    column[2].set_xlabel("time (s)")

# %%
# Poincaré maps at y = 0, ẏ > 0 over 400 s, in x and z. The exact points (crosses, by Gauss collocation of order 6) lie on an
# ellipsoid, H − H_y. Those of feedback stay on it, since H and H_y are preserved, and drift along it; those of DLA leave
# it, but are closer to the exact ones.

runs["exact"] = gn.solve(system, "gauss6", **(begin | {"dt": 0.02, "n_steps": 20_000, "save_every": 1}))
sections = {name: poincare_section(run, lambda g, xi: g[1]) for name, run in runs.items()}
points = {name: np.stack([s.values("x"), s.values("z"), s.xi[:, 2]]) for name, s in sections.items()}
off = {name: np.ptp(np.sum(found**2, axis=0)) for name, found in points.items()}
apart = {name: np.abs(found - points["exact"]).max() for name, found in points.items()}
print("off the ellipsoid:", {name: f"{size:.0e}" for name, size in off.items()})
print("apart from the motion:", {name: f"{size:.0e}" for name, size in apart.items()})
assert all(len(section) == 63 for section in sections.values())
assert off["DLA"] > 10 * off["feedback"]
assert apart["DLA"] < apart["feedback"] < 0.1

figure, axes = plt.subplots(2, 3, figsize=(12, 7), layout="constrained", sharex="col", sharey="col")
for row, name in zip(axes, ("feedback", "DLA"), strict=True):
    early = runs[name].t <= 40
    row[0].plot(runs[name].t[early], runs[name].g[early, 1])
    row[0].set(title=f"{name}, the first 40 s", xlabel="time (s)", ylabel="y (m)")
    for shown, form in (("exact", "+k"), (name, ".")):
        x, z, vz = points[shown]
        row[1].plot(x, z, form, label=shown)
        row[2].plot(z, vz, form, label=shown)
    row[1].set(title=name, xlabel="x (m)", ylabel="z (m)", aspect="equal")
    row[2].set(title=name, xlabel="z (m)", ylabel="ż (m/s)")
    row[2].legend(loc="center")

# %%
# Run it here
# -----------
#
# .. live:: nonholonomic-oscillator
