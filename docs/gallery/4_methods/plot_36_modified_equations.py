"""
Modified equations: the drift of a run, predicted
=================================================

The steps of a method integrate a field f̃ that differs from that of the equations by its error, f̃ = f + h^p f_p + … On the
left: f̃ − f on the Chaplygin sleigh, which has the order of each method, and the estimated error of f̃ itself (dotted), which
is rounding until the steps are long: the series of f̃ does not converge, so a longer step leaves fewer digits of it. On the
right: the change of the energy in a run of a Runge–Kutta method, and ∫dE·f̃ dt, known before the run.
"""

import matplotlib.pyplot as plt
import numpy as np

import geonh as gn
from geonh.diagnostics import modified_field, predicted_drift

sleigh, xi0 = gn.systems.chaplygin_sleigh(), [0.8, -0.5, 0.0]

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
steps = np.geomspace(0.02, 0.6, 12)
for method, colour in (("projected", "#0072B2"), ("gauss4", "#D55E00"), ("rkmk4", "#009E73")):
    fields = [modified_field(sleigh, method, xi0=xi0, dt=h) for h in steps]
    defects = np.array([field.defect for field in fields])
    order = np.polyfit(np.log(steps[:6]), np.log(defects[:6]), 1)[0]
    left.loglog(steps, defects, "o-", ms=4, color=colour, label=f"{method}: slope {order:.2f}")
    left.loglog(steps, [field.error for field in fields], ":", color=colour)
left.plot([], [], "k:", label="estimated error of f̃")
left.set(xlabel="dt (s)", ylabel="largest entry of f̃ − f", ylim=(1e-16, 1e3))
left.set_xticks([0.02, 0.05, 0.1, 0.2, 0.5], ["0.02", "0.05", "0.1", "0.2", "0.5"])
left.xaxis.minorticks_off()
left.legend(loc="upper left")

dt, n_steps = 0.2, 200
predicted = predicted_drift(sleigh, "rkmk4", xi0=xi0, dt=dt, n_steps=n_steps)
run = gn.solve(sleigh, "rkmk4", xi0=xi0, dt=dt, n_steps=n_steps)
right.plot(run.t, 1e9 * (run.energy - run.energy[0]), color="#009E73", lw=4, alpha=0.4, label="measured")
right.plot(predicted.t, 1e9 * predicted.changes["energy"], "k--", lw=1, label="predicted")
right.set(xlabel="time (s)", ylabel="change of the energy (nJ)", title=f"rkmk4, dt = {dt:g} s")
right.legend()
difference = predicted.changes["energy"][-1] / (run.energy[-1] - run.energy[0]) - 1
print(f"predicted over measured: 1 {difference:+.1e}")
assert abs(difference) < 0.02
