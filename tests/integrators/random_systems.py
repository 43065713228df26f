"""Random systems on which every method is tried: metric, potential and constraints all depend on the point."""

import functools

import jax.numpy as jnp
import numpy as np

import geonh as gn
from geonh.groups import SO3, Translations

GROUPS = {"R3": Translations(3), "SO3": SO3()}


def spd(rng, n):
    a = rng.normal(size=(n, n))
    return a @ a.T + n * np.eye(n)


@functools.cache
def random_system(group, *, affine=False, constant_metric=False, constrained=True, seed=3):
    """A system whose ingredients are random trigonometric functions of the entries of the group element."""
    group = GROUPS[group]
    rng = np.random.default_rng(seed)
    n, k = group.dim, len(group.point_names)
    M, A = spd(rng, n), 0.1 * rng.normal(size=(n, n, k))
    mu, B = rng.normal(size=(1, n)), 0.3 * rng.normal(size=(1, n, k))
    c, b, C = 2 * rng.normal(size=k), rng.normal(size=1), 0.3 * rng.normal(size=(1, k))

    def features(x):
        return jnp.cos(group.to_vector(x))

    def metric(x):
        S = jnp.tensordot(A, features(x), 1)
        return M + S + S.T

    def forms(x):
        return mu + jnp.tensordot(B, features(x), 1)

    distribution = gn.AffineDistribution(forms, lambda x: b + C @ features(x)) if affine else gn.Distribution(forms)
    return gn.System(
        group,
        metric=M if constant_metric else metric,
        potential=lambda x: c @ features(x),
        distribution=distribution if constrained else None,
        name="random",
    )


def start(system, seed=4, speed=2.0):
    """A random consistent start."""
    rng = np.random.default_rng(seed)
    with gn.float64():
        g0 = np.asarray(system.group.exp(jnp.asarray(rng.normal(size=system.group.dim))))
    return {"g0": g0, "xi0": system.project(g0, speed * rng.normal(size=system.group.dim))}


def system_for(name, affine=False):
    """The random system that fits the hypotheses of a method."""
    group = "SO3" if gn.methods[name].make().guarantees.groups == "any" else "R3"
    return random_system(
        group, affine=affine, constant_metric=name in ("rattle", "shake"), constrained=name != "variational"
    )
