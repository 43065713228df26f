"""The snakeboard: two conventions, two group structures, controls, and the loss of rank at a half turn of the axles."""

import numpy as np
import pytest

import geonh as gn
from geonh.integrators import Result
from geonh.systems.snakeboard import controlled_snakeboard, sinusoidal_torques, snakeboard, snakeboard_absolute


def test_stops_where_the_constraints_become_dependent():
    system = snakeboard()
    g0 = (np.zeros(3), np.array([0.0, 1.4]))
    xi0 = system.project(g0, np.array([0.1, 0.5, 0.0, 0.3, 1.0]))
    with pytest.raises(
        gn.IntegrationError, match=r"step 1\d+, t = 0\.1\d*: the constraints became dependent"
    ) as caught:
        gn.solve(system, g0=g0, xi0=xi0, dt=0.01, n_steps=100)
    kept = caught.value.trajectory
    assert kept.status is Result.RANK
    assert kept.g[1][-1, 1] < np.pi / 2 < kept.g[1][-1, 1] + 0.011
    assert np.abs(kept.constraint_residual).max() < 1e-14


def test_conventions_describe_one_board():
    """At equal axle angles relative to the board the two conventions allow the same velocities."""
    relative, absolute = snakeboard(), snakeboard_absolute()
    pose = np.array([0.7, 0.1, -0.2])
    xi = np.array([0.2, 1.0, 0.4, 0.3, 0.1])
    in_relative = relative.project((pose, np.array([0.0, 0.4])), xi)
    in_absolute = absolute.project((pose, np.array([0.0, 0.4 + 0.7])), xi)
    np.testing.assert_allclose(in_relative, in_absolute, atol=1e-15)


@pytest.mark.slow
def test_group_structures_agree_to_second_order():
    se2, abelian = snakeboard(), snakeboard(structure="abelian")
    theta, phi = 0.3, 0.4
    g0 = (np.array([theta, 0.0, 0.0]), np.array([0.0, phi]))
    xi0 = se2.project(g0, np.array([0.2, 1.0, 0.0, 0.7, 0.3]))
    c, s = np.cos(theta), np.sin(theta)
    world = np.array([c * xi0[1] - s * xi0[2], s * xi0[1] + c * xi0[2], xi0[0], xi0[3], xi0[4]])
    gaps = []
    for n in (100, 200, 400):
        a = gn.solve(se2, gn.GNI(), g0=g0, xi0=xi0, dt=1 / n, n_steps=n)
        b = gn.solve(abelian, gn.GNI(), g0=(np.zeros(2), np.array([theta, 0.0, phi])), xi0=world, dt=1 / n, n_steps=n)
        assert np.ptp(b.energy_minus) < 1e-13
        gaps.append(np.abs(a.g[0][-1, 1:] - b.g[0][-1]).max())
    np.testing.assert_allclose(np.log2(np.array(gaps[:-1]) / gaps[1:]), 2.0, atol=0.1)


@pytest.mark.slow
def test_driven_board_moves_forward_from_rest():
    system = controlled_snakeboard()
    start = {"g0": (np.zeros(3), np.zeros(2)), "xi0": np.zeros(5), "dt": 0.01, "n_steps": 2000}
    run = gn.solve(system, "projected", controls=sinusoidal_torques, **start)
    speed = np.abs(run.xi[:, 1])
    thirds = np.array_split(speed, 3)
    assert thirds[0].mean() < thirds[1].mean() < thirds[2].mean()
    nodes = np.stack([np.asarray(sinusoidal_torques(t)) for t in run.t])
    sampled = gn.solve(system, controls=nodes, **start)
    np.testing.assert_allclose(sampled.g_vector, run.g_vector, atol=1e-12)


def test_bad_parameters_are_named():
    with pytest.raises(ValueError, match="r must be positive"):
        snakeboard(r=-1.0)
    with pytest.raises(ValueError, match="structure must be"):
        snakeboard(structure="SO(3)")
