"""The sweep of the tests of stores; run as a program it goes on with a store, and says when it begins."""

import functools
import sys

import jax.numpy as jnp
import numpy as np
import scipy.stats

import geonh as gn
from geonh.ensembles import Histogram, Mean, Quantiles, Sweep
from geonh.groups import Translations

SIZE = 30
"""Members of a shard."""


@functools.cache
def system(weight):
    return gn.System(
        Translations(2),
        metric=np.eye(2),
        potential=lambda x, p: weight * p["k"] * jnp.sum(x**2) / 2,
        distribution=gn.Distribution([[-0.5, 1.0]]),
        parameters={"k": 1.0},
    )


def through(t, g, xi, lam):
    return g[0]


def sweep(members=200, n_steps=40, weight=1.0, **more):
    arguments = {
        "g0": [0.3, 0.15],
        "xi0": scipy.stats.norm([0, 0], 0.5),
        "parameters": {"k": scipy.stats.uniform(1, 3)},
        "members": members,
        "seed": 4,
        "project": True,
        "dt": 0.05,
        "n_steps": n_steps,
        "save_every": n_steps // 4,
        "observables": ["g", "p_plus", "p_minus", "energy"],
        "statistics": [
            Mean("energy"),
            Mean("xi", over="time"),
            Quantiles("energy", (0.5,), sample=50),
            Histogram("energy", [0, 1, 2]),
        ],
        "events": gn.Event(through, name="through"),
    }
    return Sweep.of(system(weight), "rk4", **{**arguments, **more})


if __name__ == "__main__":
    path, members, n_steps = sys.argv[1], *map(int, sys.argv[2:4])
    made = sweep(members, n_steps)
    print("begun", flush=True)
    made.run(path, shard=SIZE, threads=1)
    print("finished", flush=True)
