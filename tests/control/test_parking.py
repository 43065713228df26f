"""The snakeboard parks sideways: by shooting from a gait, and by transcription, on finer and finer grids."""

import jax
import numpy as np
import pytest

import geonh as gn
from geonh.control import optimal_control, shooting_control

pytestmark = pytest.mark.slow

SPAN, SIDEWAYS = 6.0, 0.2
END = ([0.0, 0.0, SIDEWAYS], [0.0, 0.0])


def gait(sign, n_knots):
    """Rotor twice, axles three times: what drifts sideways."""
    turn = 2 * np.pi * np.linspace(0, 1, n_knots)
    return 0.4 * np.stack([sign * np.sin(2 * turn), np.sin(3 * turn)], axis=1)


def shot(sign, n_knots=25, n_steps=120):
    return shooting_control(
        gn.systems.controlled_snakeboard(),
        end=END,
        n_controls=2,
        span=SPAN,
        n_steps=n_steps,
        n_knots=n_knots,
        free=["psi_dot"],
        guess=gait(sign, n_knots),
    )


def test_parallel_parking():
    one, other = shot(1.0), shot(-1.0)
    run = one.trajectory()
    np.testing.assert_allclose(run.g[0][-1], END[0], atol=1e-9)
    assert abs(run.g[1][-1, 1]) < 1e-9
    assert np.abs(run.xi[-1]).max() < 1e-9
    assert abs(one.cost - other.cost) < 1e-6 * one.cost  # a mirror maps one to the other
    np.testing.assert_allclose(one.u[:, 0], -other.u[:, 0], atol=1e-3)

    nodes = np.arange(0, 121, 3)
    controls = np.stack([np.interp(run.t[nodes], one.knots, column) for column in one.u.T], axis=1)
    guess, costs = (jax.tree.map(lambda a: np.asarray(a)[nodes], run.g), controls), []
    for n_steps in (40, 80, 160, 320):
        guess = optimal_control(
            gn.systems.controlled_snakeboard(),
            end=END,
            n_controls=2,
            span=SPAN,
            n_steps=n_steps,
            free=["psi_dot"],
            guess=guess,
        )
        assert guess.residual < 1e-12
        assert guess.curvature > 0
        reached = guess.trajectory()
        np.testing.assert_allclose(reached.g[0][-1], END[0], atol=1e-9)
        costs.append(guess.cost)
    falls = -np.diff(costs)
    early, late = falls[:-1] / falls[1:]
    assert early < late  # to order 2, as the swings are resolved
    assert abs(late - 4) < 0.3
    fine = costs[3] - falls[2] / 3
    assert abs(one.cost - fine) < 5e-3 * fine
