"""
The nonholonomic oscillator: energies, constraint, Poincaré maps
================================================================

Chang, Perlmutter, §3.7, figures 6 and 7: from rest at (1, 1, 1), feedback with gains 500, 300, 300 against the explicit
first-order DLA, both with steps of 10⁻³ s. DLA is poor at the energy and keeps the y-energy and the constraint well; the
maps at y = 0, ẏ > 0 look alike. The points lie on an ellipsoid, H − H_y, which DLA's leave by more.
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
sections = {name: poincare_section(run, lambda g, xi: g[1]) for name, run in runs.items()}
early = {name: run.t <= 200 for name, run in runs.items()}
energy = {name: np.ptp(run.energy[early[name]]) for name, run in runs.items()}
assert energy["feedback"] < 5e-3
assert energy["DLA"] > 10 * energy["feedback"]
off = {}
for name, section in sections.items():
    assert len(section) == 63
    points = np.stack([section.values("x"), section.values("z"), section.xi[:, 2]])
    off[name] = np.ptp(np.sum(points**2, axis=0))
assert off["DLA"] > 10 * off["feedback"]

figure, axes = plt.subplots(2, 4, figsize=(14, 6.4), layout="constrained")
for row, (name, run) in zip(axes, runs.items(), strict=True):
    t, H_y = run.t[early[name]], run.integrals["H_y"][early[name]]
    row[0].plot(t, run.energy[early[name]] - run.energy[0], lw=0.6)
    row[0].set(ylabel=f"{name}\nenergy error (J)", xlabel="time (s)")
    row[1].plot(t, H_y - H_y[0], lw=0.6)
    row[1].set(ylabel="y-energy error (J)", xlabel="time (s)")
    section = sections[name]
    row[2].plot(section.values("x"), section.values("z"), ".")
    row[2].set(xlabel="x (m)", ylabel="z (m)", aspect="equal")
    row[3].plot(section.values("z"), section.xi[:, 2], ".")
    row[3].set(xlabel="z (m)", ylabel="ż (m/s)")
