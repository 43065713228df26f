"""
User-defined group and integrator
=================================

The group of affine maps x ↦ ax + b of the line, a > 0, given by two matrices. With the unit metric its geodesics are those
of the hyperbolic half-plane, half circles centred on the axis; ``check_group`` tests the maps of the group.
"""

import matplotlib.pyplot as plt
import numpy as np

import geonh as gn
from geonh.diagnostics import convergence
from geonh.groups import MatrixGroup
from geonh.integrators import Guarantees, Integrator, Outcome
from geonh.mechanics import accelerations
from geonh.testing import check_group

affine = MatrixGroup(np.array([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]]), name="Aff(1)")
check_group(affine, n_samples=4, half_turn=False)
half_plane = gn.System(affine, metric=[1.0, 1.0], base="point", name="half-plane")


# %%
# Heun's method for g and ξ, with a projection onto the constraints at the end of the step. It declares its guarantees and
# implements a step; integration, files, figures and convergence tests work as for any other method.


class Heun(Integrator):
    """g' = g exp(h(ξ + ξ*)/2), ξ' = ξ + h(a + a*)/2 with the Euler step g* = g exp(hξ), ξ* = ξ + ha; then on μξ = b."""

    @property
    def guarantees(self):
        return Guarantees(order=2, reference="Heun 1900", implicit=False)

    def step(self, system, clock, state):
        group, h, k = system.group, clock.dt, state.k
        xi = system.velocity(system.action.at(state.g), state.p_minus)
        a = accelerations(system, clock.time(k), state.g, xi, clock.control(k))[0]
        there, faster = group.compose(state.g, group.exp(h * xi)), xi + h * a
        a_there = accelerations(system, clock.time(k + 1), there, faster, clock.control(k + 1))[0]
        g = group.compose(state.g, group.exp(h / 2 * (xi + faster)))
        x = system.action.at(g)
        p = system.momentum(x, system.projected_velocity(x, xi + h / 2 * (a + a_there)))
        return Outcome(g, p, p)


figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
methods = {"symmetric projection": gn.SymmetricProjection(), "Heun": Heun()}
for angle in np.linspace(0.2, 2.9, 8):
    xi0 = [np.cos(angle), np.sin(angle)]
    run = gn.solve(half_plane, xi0=xi0, dt=0.01, n_steps=300)
    a, b = run.g[:, 0, 0], run.g[:, 0, 1]
    centre = (b[-1] ** 2 + a[-1] ** 2 - 1) / (2 * b[-1])  # equally far from (0, 1) and from the end
    radii = np.hypot(b - centre, a)
    assert np.ptp(radii) < 1e-4 * radii[0]
    left.plot(b, a, color="#0072B2")
left.set(xlabel="b", ylabel="a", aspect="equal", ylim=0, title="geodesics from (0, 1)")
suslov = gn.systems.suslov()
found = [convergence(suslov, m, xi0=[0.0, 1.0, 0.0], steps=(40, 80, 160, 320)) for m in methods.values()]
for (name, _), result, colour, marker in zip(methods.items(), found, ("#0072B2", "#D55E00"), "os", strict=True):
    assert abs(result.order - 2) < 0.1
    right.loglog(result.dt, result.error, marker=marker, color=colour, label=f"{name}, order {result.order:.2f}")
right.set(xlabel="step (s)", ylabel="error at the end", title="Suslov's body")
right.set_xticks([0.003, 0.006, 0.012, 0.025], ["0.003", "0.006", "0.012", "0.025"])
right.minorticks_off()
right.grid(alpha=0.3)
right.legend()
