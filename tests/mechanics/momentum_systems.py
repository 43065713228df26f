"""Systems of the tests of momentum maps and symmetries."""

import jax.numpy as jnp
import numpy as np

import geonh as gn
from geonh.groups import SO3, Translations


def inertia(rng, n):
    """Random inertia matrix of condition at most about 10."""
    factor = rng.uniform(-1, 1, (n, n))
    return factor @ factor.T + np.eye(n)


def ball(J, rate=0.0, m=1.0, r=0.5):
    """Ball with inertia J that rolls on a table turning at ``rate``: v = r w×e₃ + Ω e₃×x."""

    def forms(x):
        _, R = x
        return jnp.concatenate([jnp.eye(2), jnp.stack([-r * R[1], r * R[0]])], axis=1)

    def carried(x):
        position, _ = x
        return rate * jnp.stack([-position[1], position[0]])

    metric = np.zeros((5, 5))
    metric[:2, :2], metric[2:, 2:] = m * np.eye(2), J
    distribution = gn.AffineDistribution(forms, carried) if rate else gn.Distribution(forms)
    return gn.System([Translations(2), SO3()], metric=metric, distribution=distribution, name="ball")


def turning(g):
    """Generator of the rotation of the table and the ball together about the vertical."""
    position, R = g
    return jnp.concatenate([jnp.stack([-position[1], position[0]]), R[2]])[None]
