"""Derivatives and ensembles by ``integrate`` under jit, jacfwd and vmap.

Computation is in double precision inside ``with gn.float64()``; your JAX configuration is not changed.
"""

import jax
import jax.numpy as jnp

import geonh as gn


def metric(x, p):
    return [[1 + p["a"] ** 2, 0.0, p["a"]], [0.0, 1.0, 0.0], [p["a"], 0.0, 1.0]]


def final_position(a, omega):
    sleigh = gn.System(
        gn.groups.SE2(),
        metric=metric,
        distribution=gn.Distribution([[0.0, 0.0, 1.0]]),
        parameters={"a": a},
        base="point",
    )
    xi0 = jnp.stack([omega, -0.5, 0.0 * omega])
    return gn.integrate(sleigh, gn.GNI(), xi0=xi0, dt=0.02, n_steps=100).g[-1, 1:]


with gn.float64():
    a, omega = jnp.asarray(0.2), jnp.asarray(0.8)
    exact = jax.jit(jax.jacfwd(final_position))(a, omega)
    run = jax.jit(final_position)
    print("d(x, y)/da by forward mode:   ", exact)
    print("by central differences:       ", (run(a + 1e-5, omega) - run(a - 1e-5, omega)) / 2e-5)
    ensemble = jax.jit(jax.vmap(final_position, (None, 0)))(a, jnp.linspace(0.2, 1.2, 6))
    print("end points of six members:\n", ensemble)
