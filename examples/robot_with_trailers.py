"""A two-wheeled robot with three trailers on SE(2)×T³, by a Lagrangian: six velocities, four constraints.

Trailer i is a length L behind the axle before it, at the angle φ_i to it. No axle slips sideways. The Lagrangian is
written in the velocities of the axles; that it is quadratic in ξ is detected from its trace. The free motion contracts
the phase space, and excites the parasitic mode of GNI.
"""

import warnings

import jax.numpy as jnp
import numpy as np

import geonh as gn
from geonh.groups import SE2, Product, Torus

N, L, MASS, INERTIA, AXLE = 3, 0.8, 1.0, 0.2, 0.15  # of each body; its centre of mass lies AXLE before its axle


def axles(phi, xi):
    """(ω, forward, sideways) of each body, in its own axes, from the robot's and the joints' rates."""
    omega, forward, sideways = xi[0], xi[1], xi[2]
    velocities = [(omega, forward, sideways)]
    for angle, rate in zip(phi, xi[3:], strict=True):
        c, s = jnp.cos(angle), jnp.sin(angle)
        omega = omega + rate
        forward, sideways = c * forward + s * sideways, -s * forward + c * sideways - L * omega
        velocities.append((omega, forward, sideways))
    return velocities


def lagrangian(phi, xi):
    """Kinetic energy: each centre of mass moves with (forward, sideways + AXLE·ω)."""
    return sum(
        0.5 * MASS * (forward**2 + (sideways + AXLE * omega) ** 2) + 0.5 * INERTIA * omega**2
        for omega, forward, sideways in axles(phi, xi)
    )


def forms(phi):
    """No axle slips: rows of the linear map from ξ to the sideways velocities."""
    return jnp.stack([jnp.stack([axles(phi, e)[i][2] for e in jnp.eye(3 + N)]) for i in range(N + 1)])


robot = gn.System(
    Product((SE2(), Torus(N))),
    lagrangian=lagrangian,
    distribution=gn.Distribution(forms),
    base="shape",
    name="robot with three trailers",
)
g0 = (np.zeros(3), np.array([0.4, -0.3, 0.5]))
xi0 = robot.project(g0, [0.5, 1.0, 0.0, 0.0, 0.0, 0.0])

if __name__ == "__main__":
    print(robot.check())
    warnings.simplefilter("ignore", gn.trajectory.AlternationWarning)
    for method in ("projected", "gni", "rkmk4"):
        run = gn.solve(robot, method, g0=g0, xi0=xi0, dt=0.01, n_steps=500)
        energy = np.ptp(run.energy) / run.energy[0]
        print(f"{method:10s} energy error {energy:.1e} in 5 s, parasitic part {run.alternation.max():.1e}")
