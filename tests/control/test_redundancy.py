"""Conditions at the end that momenta imply which no control changes."""

import jax.numpy as jnp
import numpy as np
import pytest

import geonh as gn
from geonh.control import optimal_control
from geonh.groups import SO3, Product, Translations


def rows(x):
    R, _ = x
    return jnp.concatenate([0.5 * jnp.stack([R[1], -R[0]]), -jnp.eye(2)], axis=1)


BALL = gn.System(
    Product((SO3(), Translations(2))),
    metric=[0.1, 0.1, 0.1, 1.0, 1.0],
    distribution=gn.Distribution(rows),
    forces=lambda t, x, xi, u: jnp.concatenate([jnp.zeros(3), 9.81 * u]),
    name="ball on a plate",
)
TURNED = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
PAIR = gn.System(
    Translations(2), metric=[1.0, 2.0], forces=lambda t, x, xi, u: jnp.stack([u[0], -u[0]]), name="pair of masses"
)


@pytest.mark.slow
def test_a_total_momentum_that_no_force_changes():
    """Two masses that push each other apart: their centre rests, and the end lies on the line that it allows."""
    found = optimal_control(PAIR, end=[1.0, -0.5], n_controls=1, span=2.0, n_steps=8, tries=1)
    np.testing.assert_allclose(found.cost, 12 / 8, rtol=1e-12)
    np.testing.assert_allclose(found.g[-1], [1.0, -0.5], atol=1e-13)
    assert len(found.redundant) == 2
    assert max(found.redundant) < 1e-13
    assert "2 redundant" in str(found)
    with pytest.raises(RuntimeError, match="the point at the end is off by"):
        optimal_control(PAIR, end=[1.0, -0.4], n_controls=1, span=2.0, n_steps=8)


@pytest.mark.slow
def test_the_spin_of_a_ball_is_not_reached_by_the_errors_of_steps():
    """To rest, half a metre aside and turned by a right angle: with and without the spin at the end, of order 4."""
    costs, off, found = [], [], None
    for K in (20, 40, 80):
        found = optimal_control(BALL, end=(TURNED, [0.5, 0.0]), n_controls=2, span=4.0, n_steps=K, tries=1, guess=found)
        costs.append(found.cost)
        off.append(max(found.redundant))
        spin = found.g[0][-1] @ found.xi[-1, :3]
        np.testing.assert_allclose(spin[:2], 0.0, atol=1e-12)
        assert abs(spin[2]) < 2 * off[-1]
    assert abs(costs[2] - 0.0848819) < 1e-6
    assert abs(np.log2((costs[1] - costs[0]) / (costs[2] - costs[1])) - 4) < 0.6
    assert off[0] > 16 * off[1] > 256 * off[2]
    free = optimal_control(
        BALL,
        end=(TURNED, [0.5, 0.0]),
        n_controls=2,
        span=4.0,
        n_steps=40,
        xi_end="free",
        terminal=(lambda t, g, xi, u: xi[3:], 0.0, 0.0),
        guess=found,
    )
    assert abs(free.cost - costs[1]) < 1e-9


@pytest.mark.slow
def test_conditions_that_controls_change_are_kept():
    masses = gn.System(Translations(2), metric=[1.0, 2.0], forces=lambda t, x, xi, u: u, name="masses")
    found = optimal_control(masses, end=[1.0, -0.5], n_controls=2, span=2.0, n_steps=8, tries=1)
    assert found.redundant == ()
