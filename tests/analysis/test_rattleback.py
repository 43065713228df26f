"""Kane and Levinson's rattleback, an ellipsoid with its principal axes turned, spinning on its contact; on SE(3)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.analysis import linearise, root_locus
from geonh.engine import compiled

PARAMETERS = {
    "axes": np.array([0.2, 0.03, 0.02]),
    "h": 0.01,
    "m": 1.0,
    "g": 9.81,
    "J": np.array([[2e-4, -2e-5, 0.0], [-2e-5, 1.6e-3, 0.0], [0.0, 0.0, 1.7e-3]]),
}
"""Semi-axes, height of the ellipsoid's centre above that of mass (m), mass (kg), gravity, moments (kg m²)."""


def _support(n, p):
    """Greatest n·ρ over the body, ρ from the centre of mass."""
    scaled = p["axes"] * n
    return jnp.sqrt(scaled @ scaled) + p["h"] * n[2]


def _forms(x, p):
    R = x[:3, :3]
    a, b, c = jax.grad(_support)(-R[2], p)
    turning = jnp.array([[0.0, c, -b], [-c, 0.0, a], [b, -a, 0.0]])
    return R @ jnp.concatenate([turning, jnp.eye(3)], axis=1)


def _metric(x, p):
    none = jnp.zeros((3, 3))
    return jnp.block([[p["J"], none], [none, p["m"] * jnp.eye(3)]])


def _potential(x, p):
    return p["m"] * p["g"] * x[2, 3]


def rattleback(**changes):
    return gn.System(
        gn.groups.SE3(),
        metric=_metric,
        potential=_potential,
        distribution=gn.Distribution(_forms),
        parameters={**PARAMETERS, **changes},
        name="rattleback",
    )


def on_the_ground():
    g = np.eye(4)
    g[2, 3] = PARAMETERS["axes"][2] - PARAMETERS["h"]
    return g


@pytest.mark.parametrize("spin", [5.0, -5.0])
def test_one_pair_grows_for_either_spin(spin):
    """Numbers found with the contact as a held constraint; a strong growth one way, a weak one the other."""
    line = linearise(rattleback(), on_the_ground(), [0.0, 0.0, spin, 0.0, 0.0, 0.0])
    assert line.states == ("eta_omega1", "eta_omega2", "omega1", "omega2")
    rolling, pitching = sorted(line.eigenvalues[line.eigenvalues.imag > 0], key=lambda v: -v.imag)
    sign = np.sign(spin)
    np.testing.assert_allclose([rolling.real, pitching.real], [-2.1206923979 * sign, 0.2025212833 * sign], rtol=1e-9)
    np.testing.assert_allclose([rolling.imag, pitching.imag], [109.39, 34.14], rtol=0, atol=5e-3)
    assert line.growth > 0


def test_nothing_is_compiled_twice(caplog):
    """Other parameters, speeds and places, and how many, are arguments of the same program."""
    linearise(rattleback(), on_the_ground(), [0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    before = compiled.map_of.cache_info().misses
    linearise(rattleback(m=2.0), on_the_ground(), [0.0, 0.0, 3.0, 0.0, 0.0, 0.0])
    spinning = (on_the_ground(), [0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    with jax.log_compiles():
        root_locus(rattleback(), [5.0, 7.0, 9.81], spinning, parameter="g")
    assert compiled.map_of.cache_info().misses == before
    assert not [record for record in caplog.records if "ompiling" in record.getMessage()]
