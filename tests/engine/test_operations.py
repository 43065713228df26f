import subprocess
import sys

import pytest

PROGRAM = """
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import geonh as gn

with gn.float64():
    suslov = gn.systems.suslov(np.diag([1.0, 2.0, 3.0]), [0.0, 0.0, 1.0])
    run = lambda xi: gn.integrate(suslov, xi0=xi, dt=0.01, n_steps=10).xi[-1]
    many = jax.vmap(lambda xi: (run(xi), jax.grad(lambda xi: run(xi).sum())(xi)))
    starts = np.array([0.3, 0.4, 0.0]) * np.arange(1, 9)[:, None]
    mesh = Mesh(np.array(jax.devices()), ("member",))
    shares = PartitionSpec("member")
    shared = jax.device_put(starts, NamedSharding(mesh, shares))
    axes = dict(mesh=mesh, in_specs=shares, out_specs=shares, check_vma=False)
    by = {
        "sharded": jax.jit(many)(shared),
        "manually sharded": jax.jit(jax.shard_map(many, **axes))(shared),
        "on another device": jax.jit(many)(jax.device_put(starts, jax.devices()[2])),
    }
    for one in zip(jax.jit(many)(starts), *by.values()):
        print(*(np.array_equal(one[0], other) for other in one[1:]))
"""


@pytest.mark.slow
def test_programs_of_several_devices_have_the_bits_of_one():
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    found = subprocess.run([sys.executable, "-c", PROGRAM], env=flags, capture_output=True, text=True, timeout=600)
    assert found.stdout.split() == ["True"] * 6, found.stderr[-2000:]
