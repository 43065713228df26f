"""User-defined system on R²×SO(3), a geomstats product: an unbalanced ball that rolls in a bowl.

The base point is x = (position, rotation); metric, potential and forms are functions of it, in jax.numpy, without
derivatives. ``check()`` validates a system.
"""

import jax.numpy as jnp
import numpy as np
from geomstats.geometry.euclidean import Euclidean
from geomstats.geometry.product_manifold import ProductManifold
from geomstats.geometry.special_orthogonal import SpecialOrthogonal

import geonh as gn

MASS, RADIUS = 1.0, 0.5
INERTIA = np.diag([0.10, 0.12, 0.15])
OFFSET = np.array([0.0, 0.0, 0.1])  # centre of mass in the body


def metric(x):
    """Kinetic energy ½m|v + R(ω×c)|² + ½ωᵀJω in ξ = (v, ω): the translation is coupled to the rotation."""
    _, R = x
    c = OFFSET
    lever = R @ -jnp.array([[0.0, -c[2], c[1]], [c[2], 0.0, -c[0]], [-c[1], c[0], 0.0]])
    block = MASS * lever[:2]
    top = jnp.concatenate([MASS * jnp.eye(2), block], axis=1)
    return jnp.concatenate([top, jnp.concatenate([block.T, INERTIA + MASS * lever.T @ lever], axis=1)])


def rolling(x):
    """v = r ω×e₃, with body components of ω."""
    _, R = x
    return jnp.concatenate([jnp.eye(2), RADIUS * jnp.stack([-R[1], R[0]])], axis=1)


def potential(x):
    position, R = x
    return MASS * 9.81 * (0.1 * position @ position + R[2] @ OFFSET)


space = ProductManifold([Euclidean(2), SpecialOrthogonal(3)])
ball = gn.System(
    space, metric=metric, potential=potential, distribution=gn.Distribution(rolling), name="unbalanced ball"
)
print(ball.check())

g0 = (np.array([0.5, 0.0]), np.eye(3))
xi0 = ball.project(g0, [0.0, 0.3, 0.0, 0.0, 1.0])
for dt in (0.01, 0.005):
    run = gn.solve(ball, g0=g0, xi0=xi0, dt=dt, n_steps=round(5 / dt))
    print(f"dt = {dt}: largest change of the energy {abs(run.energy - run.energy[0]).max():.1e} J")
print("points belong to the space:", bool(np.all(ball.space.belongs(run.to_geomstats(), atol=1e-10))))
