"""Steady motions found from wrong guesses, against closed forms."""

import jax.numpy as jnp
import numpy as np
import pytest
from rolling_disc import disc, gap, rolling, standing

import geonh as gn
from geonh.analysis import RootLocus, linearise, root_locus, steady_motion


def test_equilibrium_of_a_pendulum():
    system = gn.System(
        gn.groups.Torus(1, ("phi",)),
        metric=[2.0],
        potential=lambda x, p: -p["k"] * jnp.cos(x[0]),
        forces=lambda t, x, xi, u: u,
        parameters={"k": 30.0},
        name="pendulum",
    )
    result = steady_motion(system, [0.3], [0.2], controls=[12.0])
    np.testing.assert_allclose(result.g, [np.arcsin(0.4)], rtol=1e-12)
    np.testing.assert_allclose(result.xi, 0.0, rtol=0, atol=1e-12)
    assert result.iterations < 10
    with pytest.raises(RuntimeError, match=r"no steady motion of pendulum found near the guess: phi_dot still changes"):
        steady_motion(system, [0.3], [0.0], controls=[40.0])
    with pytest.raises(RuntimeError, match="more coordinates may have to be free"):
        steady_motion(system, [0.3], [0.0], controls=[12.0], free=["phi_dot"])
    with pytest.raises(ValueError, match="are not among"):
        steady_motion(system, [0.3], [0.0], controls=[12.0], free=["theta"])


def test_sleigh_goes_straight():
    sleigh = gn.systems.chaplygin_sleigh()
    result = steady_motion(sleigh, None, [0.2, 1.0, 0.1], free=["omega", "vy"])
    np.testing.assert_allclose(result.xi, [0.0, 1.0, 0.0], rtol=0, atol=1e-14)
    assert linearise(sleigh, result.g, result.xi).family == (1,)


def test_regular_precession_of_the_top():
    """Precession rates are roots of A cos θ Ω² − Cω₃Ω + mgl = 0."""
    A, C, mgl, nutation = 1.0, 0.5, 1.0, 0.4
    top = gn.systems.heavy_top(J=(A, A, C), mgl=mgl)
    c, s = np.cos(nutation), np.sin(nutation)
    R = np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])
    result = steady_motion(top, R, 0.3 * R[2] + [0.0, 0.0, 5.0], free=["omega1", "omega2", "omega3"])
    up = R[2]
    rate = result.xi[1] / up[1]
    np.testing.assert_allclose(result.xi[0], 0.0, rtol=0, atol=1e-10)
    np.testing.assert_allclose(A * c * rate**2 - C * result.xi[2] * rate + mgl, 0.0, rtol=0, atol=1e-9)
    np.testing.assert_allclose(result.xi - result.sigma, rate * up, rtol=0, atol=1e-9)
    line = linearise(top, result.g, result.xi)
    assert line.family == (2,)
    nodding = np.abs(line.eigenvalues.imag).max() ** 2  # Whittaker, Analytical dynamics, §73, with p = Cω₃
    wanted = (mgl**2 - 2 * A * c * mgl * rate**2 + A**2 * rate**4) / (A * rate) ** 2
    np.testing.assert_allclose(nodding, wanted, rtol=1e-8)
    np.testing.assert_allclose(line.eigenvalues.real, 0.0, rtol=0, atol=1e-9)


def test_ball_on_a_turning_table():
    """An affine constraint: about any of its circles' centres the ball turns at 2Ω/7, I = 2mr²/5."""
    system = gn.systems.rolling_ball(table_rate=1.5)
    start = gn.systems.catalogue["rolling-ball"].start(system)
    result = steady_motion(system, start.g0, start.xi0)
    np.testing.assert_allclose(result.xi[:2], 0.0, rtol=0, atol=1e-14)
    line = linearise(system, result.g, result.xi)
    assert line.states == ("x", "y")
    np.testing.assert_allclose(line.eigenvalues, [3j / 7, -3j / 7], rtol=0, atol=1e-14)


@pytest.mark.slow
def test_disc_finds_its_circle():
    system = disc(0.3048, 0.05, 9.81)
    g = standing(system, 0.1)
    guess = rolling(system, g, np.array([0.1, 10.0, 0.0]) - 1.0 * g[2, :3])
    result = steady_motion(system, g, guess, conditions=gap)
    assert result.residual < 1e-10
    np.testing.assert_allclose(gap(result.g, result.xi, {"r": 0.05}), 0.0, rtol=0, atol=1e-12)
    np.testing.assert_allclose(system.constraint_residual(result.g, result.xi), 0.0, rtol=0, atol=1e-11)
    line = linearise(system, result.g, result.xi)
    assert line.states == ("eta_omega1", "omega1")
    np.testing.assert_allclose(line.sigma, result.sigma, rtol=0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("n", [15, 16])
def test_the_upright_disc_becomes_stable_by_a_collision_at_zero(n):
    coin = gn.rolling(gn.rolling.disc(1.0, axis=(0, 1, 0)), [0.25, 0.5, 0.25], 1.0, gravity=1.0, name="coin")
    locus = root_locus(coin, np.linspace(0.3, 1.0, n), lambda spin: gn.rolling.start(coin, omega=[0.0, spin, 0.0]))
    assert locus.growth[0] > 0.1
    assert abs(locus.growth[-1]) < 1e-9
    (result,) = locus.crossings()
    assert result.kind == "collision"
    np.testing.assert_allclose(result.value, np.sqrt(1 / 3), rtol=0, atol=1e-12)
    assert result.eigenvalue == 0


def test_signs_that_return_after_two_collisions_are_no_crossings():
    """±√((v − 1)(v − 3)): real, then imaginary between 1 and 3, then real."""

    def at(v):
        root = np.sqrt(complex((v - 1) * (v - 3)))
        return np.array([root, -root]) if v < 2 else np.array([-root, root])  # branches may be told apart so

    values = np.array([0.0, 0.5, 1.2, 2.1, 2.8, 3.5, 4.0])
    locus = RootLocus(values, np.array([at(v) for v in values]), ("a", "b"), "v", at)
    (first, second) = locus.crossings()
    assert first.kind == second.kind == "collision"
    np.testing.assert_allclose([first.value, second.value], [1.0, 3.0], rtol=0, atol=1e-12)


@pytest.mark.slow
def test_spin_of_the_sleeping_top_over_its_parameter():
    """It is stable where (Cω₃)² > 4A·mgl; two pairs meet on the axis there, at ±(C/2A − 1)ω₃ in the body's frame."""
    top = gn.systems.heavy_top(J=(1.0, 1.0, 0.5))
    locus = root_locus(top, [0.5, 1.0, 1.4, 1.7, 2.5], (np.eye(3), [0.0, 0.0, 5.0]), parameter="mgl")
    wanted = np.sqrt(np.maximum(locus.values - 1.25**2, 0.0))
    np.testing.assert_allclose(locus.growth, wanted, rtol=0, atol=1e-12)
    for values in ([0.5, 1.0, 1.4, 1.7, 2.5], [0.5, 1.25**2, 2.5], [2.5, 1.0]):
        (result,) = root_locus(top, values, (np.eye(3), [0.0, 0.0, 5.0]), parameter="mgl").crossings()
        assert result.kind == "collision"
        np.testing.assert_allclose(result.value, 1.25**2, rtol=0, atol=1e-12)
        np.testing.assert_allclose(result.eigenvalue, 3.75j, rtol=0, atol=1e-7)
    over_spin = root_locus(top, [3.0, 5.0], lambda spin: (np.eye(3), [0.0, 0.0, spin]))
    np.testing.assert_allclose(over_spin.growth, [np.sqrt(1 - 0.75**2), 0.0], rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match=r"at value = 2: this is no steady motion"):
        root_locus(top, [2.0], lambda spin: (np.eye(3), [1.0, 0.0, spin]))
