"""The rolling sphere against 15-digit end states, and against regression values of GNI (``reference.json``)."""

import json
from pathlib import Path

import numpy as np
import pytest

import geonh as gn
from geonh.systems import catalogue
from geonh.systems.chaplygin_sphere import chaplygin_sphere
from geonh.systems.rolling_ball import contact_path

VALUES = json.loads((Path(__file__).parent / "reference.json").read_text())
CASES = ["homogeneous_turning", "inhomogeneous_turning"]


def build(case):
    system = chaplygin_sphere(J=VALUES[case]["J"], table_rate=VALUES[case]["Omega"])
    return system, catalogue["chaplygin-sphere"].start(system)


@pytest.mark.parametrize("case", CASES)
def test_continuous_equations(case):
    system, start = build(case)
    g, xi = gn.mechanics.reference_trajectory(system, [0.0, 10.0], start.xi0, start.g0)
    expected = VALUES[case]
    np.testing.assert_allclose(g[0][-1], expected["x"], atol=1e-9)
    np.testing.assert_allclose(xi[-1], [*expected["v"], *expected["W"]], atol=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_gni_regression(case):
    system, start = build(case)
    run = gn.solve(
        system, gn.GNI("trapezoid", "cayley", start="average"), g0=start.g0, xi0=start.xi0, dt=0.05, n_steps=200
    )
    expected = VALUES[case]
    np.testing.assert_allclose(run.g[0][-1], expected["gni_cayley_h0.05_N200_x"], atol=1e-9)
    if "gni_cayley_h0.05_N200_W_average" in expected:
        np.testing.assert_allclose(run.xi[-1, 2:], expected["gni_cayley_h0.05_N200_W_average"], atol=1e-9)
    np.testing.assert_allclose(run.integrals["K"][0], expected["K"], atol=1e-14)
    np.testing.assert_allclose(run.integrals["moving energy"][0], expected["moving_energy"], atol=1e-13)
    np.testing.assert_allclose(run.energy[0], expected["E0"], atol=1e-13)


@pytest.mark.parametrize("method", [gn.GNI(), gn.SymmetricProjection()], ids=["gni", "projected"])
@pytest.mark.parametrize("case", CASES)
def test_it_converges_to_the_exact_values_at_second_order(case, method):
    system, start = build(case)
    steps = np.array([200, 400, 800, 1600])
    result = []
    for n in steps:
        run = gn.solve(system, method, g0=start.g0, xi0=start.xi0, dt=10 / n, n_steps=int(n), save_every=int(n))
        result.append(np.abs(run.g[0][-1] - VALUES[case]["x"]).max())
    assert 1.9 <= -np.polyfit(np.log(steps), np.log(result), 1)[0] <= 2.1


@pytest.mark.slow
def test_rolling_ball_path_and_recursion():
    """The contact point's circle, and GNI's recursion z_{k+1} = z_{k−1} + 2hiν(z_k − z_c) to rounding."""
    entry = catalogue["rolling-ball"]
    system = entry.system(m=1.3, I=0.3, r=0.7, table_rate=0.9)
    start = entry.start(system)
    g, _ = gn.mechanics.reference_trajectory(system, np.linspace(0, 5, 11), start.xi0, start.g0)
    np.testing.assert_allclose(g[0], contact_path(system, start, np.linspace(0, 5, 11))[0], atol=1e-10)
    h, n = 0.05, 300
    run = gn.solve(system, gn.GNI(start="average"), g0=start.g0, xi0=start.xi0, dt=h, n_steps=n)
    nu = 0.3 * 0.9 / (0.3 + 1.3 * 0.7**2)
    z = run.g[0][:, 0] + 1j * run.g[0][:, 1]
    centre = z[0] - complex(*start.xi0[:2]) / (1j * nu)
    np.testing.assert_allclose(z[2:], z[:-2] + 2j * h * nu * (z[1:-1] - centre), atol=1e-12)


@pytest.mark.parametrize(
    ("method", "bound"), [(gn.GNI(), 1e-12), (gn.SymmetricProjection(), 3e-4)], ids=["gni", "projected"]
)
def test_reduced_ball_is_the_unreduced_homogeneous_sphere(method, bound):
    """Spatial (reduced) and body (unreduced) angular velocity give the same contact path: GNI to rounding.

    The projection compares forms at both ends of a step by their components, so its multipliers differ by O(h²).
    """
    ball = catalogue["rolling-ball"].system(I=0.4, table_rate=1.0)
    sphere = chaplygin_sphere(J=(0.4, 0.4, 0.4), table_rate=1.0)
    start = catalogue["chaplygin-sphere"].start(sphere)
    spatial = np.concatenate([start.xi0[:2], start.g0[1] @ start.xi0[2:]])
    left = gn.solve(sphere, method, g0=start.g0, xi0=start.xi0, dt=0.02, n_steps=300)
    right = gn.solve(ball, method, g0=start.g0, xi0=spatial, dt=0.02, n_steps=300)
    np.testing.assert_allclose(left.g[0], right.g[0], rtol=0, atol=bound)
    np.testing.assert_allclose(left.g[1], right.g[1], rtol=0, atol=bound)
    np.testing.assert_allclose(left.energy_minus, right.energy_minus, rtol=0, atol=10 * bound)
