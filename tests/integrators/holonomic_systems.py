"""Systems with holonomic constraints, and ones that depend on the time, on which methods are tried."""

import functools

import jax.numpy as jnp
import numpy as np
from random_systems import spd

import geonh as gn
from geonh.groups import SE3, SO3, Product, Translations


@functools.cache
def double_pendulum():
    """Two rods in Cartesian coordinates: R⁴, two constraints."""

    def phi(x):
        a, b = x[:2], x[2:] - x[:2]
        return jnp.stack([a @ a - 1.0, b @ b - 0.49]) / 2

    system = gn.System(
        Translations(4),
        metric=[1.0, 1.0, 0.6, 0.6],
        potential=lambda x: 9.81 * (x[1] + 0.6 * x[3]),
        holonomic=phi,
        name="double pendulum",
    )
    return system, *system.project([0.8, -0.6, 1.4, -0.9], [0.3, 0.4, 1.0, -1.0])


@functools.cache
def spherical_pendulum():
    """A point on the unit sphere of R³."""
    system = gn.System(
        Translations(3),
        metric=[1.0, 1.0, 1.0],
        potential=lambda x: 9.81 * x[2],
        holonomic=lambda x: jnp.stack([x @ x - 1.0]) / 2,
        name="spherical pendulum",
    )
    return system, *system.project([0.6, 0.2, -0.7], [0.5, 1.5, 0.3])


@functools.cache
def held_body(m=1, affine=False):
    """A body on SE(3), one of its points on the unit sphere, and m random forms that depend on the place."""
    rng = np.random.default_rng(3)
    M, mu, B, b = spd(rng, 6), rng.normal(size=(m, 6)), 0.3 * rng.normal(size=(m, 6, 12)), rng.normal(size=m)

    def phi(x):
        y = x[:3, :3] @ jnp.array([0.3, -0.5, 0.4]) + x[:3, 3]
        return jnp.stack([y @ y - 1.0]) / 2

    def forms(x):
        return mu + jnp.tensordot(B, jnp.cos(x[:3].ravel()), 1)

    distribution = None
    if m:
        distribution = gn.AffineDistribution(forms, lambda x: b * x[0, 0]) if affine else gn.Distribution(forms)
    system = gn.System(
        SE3(),
        metric=M,
        potential=lambda x: jnp.sum(jnp.sin(x[:3])),
        holonomic=phi,
        distribution=distribution,
        name="held body",
    )
    return system, *system.project(np.eye(4), rng.normal(size=6))


@functools.cache
def moving_pivot():
    """A pendulum on a pivot that is shaken, with mass and gravity that change."""
    timed = gn.time_dependent
    system = gn.System(
        Translations(2),
        metric=timed(lambda t, x: (1 + 0.3 * jnp.sin(t)) * jnp.ones(2)),
        potential=timed(lambda t, x: (9.0 + jnp.cos(3 * t)) * x[1]),
        holonomic=timed(lambda t, x: jnp.stack([(x[0] - 0.2 * jnp.sin(2 * t)) ** 2 + x[1] ** 2 - 1]) / 2),
        name="moving pivot",
    )
    return system, *system.project([0.8, -0.6], [0.3, 0.4])


@functools.cache
def unsteady_table():
    """A ball on a table that turns at the rate 1 + 0.8 sin 2t: affine constraints that depend on the time."""
    r = 0.5

    def forms(x):
        R = x[1]
        return jnp.concatenate([jnp.eye(2), r * jnp.stack([-R[1], R[0]])], axis=1)

    def rhs(t, x):
        return (1 + 0.8 * jnp.sin(2 * t)) * jnp.stack([-x[0][1], x[0][0]])

    system = gn.System(
        Product((Translations(2), SO3())),
        metric=[1.0, 1.0, 0.1, 0.12, 0.14],
        distribution=gn.AffineDistribution(forms, gn.time_dependent(rhs)),
        name="unsteady table",
    )
    g0 = (np.array([0.3, 0.1]), np.eye(3))
    return system, g0, system.project(g0, [0.3, 0.2, 1.0, -0.5, 0.3])
