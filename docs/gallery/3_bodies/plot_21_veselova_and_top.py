"""
Veselova system and heavy top
=============================

Two rigid bodies with an advected vertical γ = Rᵀe₃. The Veselova body has no angular velocity about the vertical: the
two horizontal components of its angular momentum are preserved to rounding. The Lagrange top has two conserved momenta;
its axis nutates between two inclinations, roots of a cubic, drawn as circles.
"""

import matplotlib.pyplot as plt
import numpy as np

import geonh as gn

angle = np.linspace(0, 2 * np.pi, 100)


def circle(height):
    radius = np.sqrt(1 - height**2)
    return radius * np.cos(angle), radius * np.sin(angle), np.full_like(angle, height)


runs = {}
for name in ("veselova", "heavy-top"):
    entry = gn.systems.catalogue[name]
    system = entry.system()
    start = entry.start(system)
    step, n = entry.dt / 4, 4 * entry.n_steps
    run = gn.solve(system, gn.SymmetricProjection(), g0=start.g0, xi0=start.xi0, dt=step, n_steps=n)
    for integral in run.integrals.values():
        assert np.abs(integral - integral[0]).max() < 1e-12
    if entry.exact:
        g, _ = entry.exact(system, start, run.t[:401])
        print(f"error of the attitude of {name} in two seconds: {np.abs(run.g[:401] - g).max():.1e}")
        assert np.abs(run.g[:401] - g).max() < 2e-3
    runs[name] = run

# The tip's height u turns where A²u̇² = (2A(E − L₃²/2C − mglu))(1 − u²) − (L_z − L₃u)² is zero.
top = runs["heavy-top"]
(A, _, C), mgl = top.system.parameters["J"], float(top.system.parameters["mgl"])
Lz, L3 = (top.integrals[name][0] for name in ("vertical momentum", "axial momentum"))
u = np.polynomial.Polynomial([0, 1])
cubic = 2 * A * (top.energy[0] - L3**2 / (2 * C) - mgl * u) * (1 - u**2) - (Lz - L3 * u) ** 2
low, high = np.sort(cubic.roots().real)[:2]
height = top.g[:, 2, 2]
np.testing.assert_allclose([height.min(), height.max()], [low, high], atol=2e-4)

# %%
figure = plt.figure(figsize=(10, 4.6), layout="constrained")
for i, (name, run) in enumerate(runs.items()):
    axes = figure.add_subplot(1, 2, i + 1, projection="3d")
    theta, phi = np.meshgrid(np.linspace(0, np.pi, 13), np.linspace(0, 2 * np.pi, 25))
    sphere = np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)
    axes.plot_wireframe(*sphere, color="0.85", lw=0.5)
    axes.plot(*run.g[:, :, 2].T, lw=1.0)
    for h in (low, high) if name == "heavy-top" else ():
        axes.plot(*circle(h), "--", lw=1.0)
    axes.set(title=f"{name}: tip of the third body axis", xlim=(-1, 1), ylim=(-1, 1), zlim=(-1, 1))
    axes.set_box_aspect((1, 1, 1), zoom=1.5)
    axes.set_axis_off()

# %%
# Run it here
# -----------
#
# .. live:: veselova
