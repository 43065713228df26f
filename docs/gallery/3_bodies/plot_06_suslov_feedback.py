"""
Suslov problem: feedback integrator
===================================

Chang, Perlmutter, §3.1, figures 1 and 2: Euler steps of 10⁻³ s with all gains 100, from Π = (0, 1, 1) over 10 s,
compared with the exact solution Π = (−tanh t, sech t, sech t): errors of momentum, orthogonality, constraint and energy;
and the same steps without feedback, which preserve the constraint exactly here.
"""

import matplotlib.pyplot as plt
import numpy as np

import geonh as gn
from geonh.integrators import Feedback

entry = gn.systems.catalogue["suslov"]
body = entry.system()
start = entry.start(body)
J = np.asarray(body.parameters["J"])
runs = {gain: gn.solve(body, Feedback(gain, "euler"), xi0=start.xi0, dt=1e-3, n_steps=10_000) for gain in (100.0, 0.0)}
run = runs[100.0]
t = run.t
exact = np.stack([-np.tanh(t), 1 / np.cosh(t), 1 / np.cosh(t)], axis=1)
np.testing.assert_allclose(entry.exact(body, start, t)[1] @ J, exact, atol=1e-12)
error = run.p - exact


def off_orthogonal(run):
    return np.linalg.norm(np.einsum("kji,kjl->kil", run.g, run.g) - np.eye(3), axis=(1, 2))


assert np.abs(error).max() < 1e-3
assert off_orthogonal(run).max() < 1e-4
assert np.abs(run.constraint_residual).max() < 1e-5
assert np.ptp(run.energy) < 1e-4
assert np.ptp(runs[0.0].energy) > 5 * np.ptp(run.energy)
assert np.all(runs[0.0].constraint_residual == 0)

# %%
figure, axes = plt.subplots(2, 2, figsize=(10, 6), layout="constrained")
for column, label, dashes in zip(error.T, ("ΔΠ₁", "ΔΠ₂", "ΔΠ₃"), ("-", "-", "--"), strict=True):
    axes[0, 0].plot(t, column, dashes, label=label)
axes[0, 0].legend()
axes[0, 0].set(ylabel="momentum error (kg m²/s)")
for gain, made in runs.items():
    name = "feedback" if gain else "no feedback"
    axes[0, 1].semilogy(t[1:], off_orthogonal(made)[1:], label=name)
    axes[1, 0].semilogy(t[1:], np.maximum(np.abs(made.constraint_residual[1:, 0]), 1e-18), label=name)
    axes[1, 1].plot(t, made.energy - made.energy[0], label=name)
axes[0, 1].set(ylabel="‖RᵀR − 1‖")
axes[1, 0].set(ylabel="|a·Ω| (rad/s)", xlabel="time (s)")
axes[1, 1].set(ylabel="energy error (J)", xlabel="time (s)")
for ax in (axes[0, 1], axes[1, 0]):
    ax.legend()

# %%
# Run it here
# -----------
#
# .. live:: suslov
