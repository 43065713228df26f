"""Surfaces that resist rolling and spinning: closed forms with order 4, rest, a turning table, thrown bodies."""

import numpy as np
import pytest

import geonh as gn
from geonh import rolling

R, M, G = 0.5, 2.0, 9.81
INERTIA = [0.4 * M * R * R] * 3
ARMS = {"rolling_resistance": 0.01, "spinning_friction": 0.004}


def ball(**options):
    return rolling(rolling.ball(R), INERTIA, M, **{"friction": 0.3, **ARMS, **options}, name="ball")


@pytest.mark.slow
def test_a_ball_rolls_out_as_its_closed_form_with_order_4():
    """v' = −5ρg/7r, ω_n' = −5σg/2r²."""
    body = ball(rolling_resistance=0.08, spinning_friction=0.03)
    g0, xi0 = rolling.start(body, omega=[0.0, 6.0, 4.0])
    slows, unwinds = 5 * 0.08 * G / (7 * R), 5 * 0.03 * G / (2 * R**2)
    expected = [4.0 / unwinds, 6.0 * R / slows]
    counts, errors = (40, 56, 80, 112), []
    for n in counts:
        run = gn.solve(body, "gauss4", mode="roll", g0=g0, xi0=xi0, dt=4.0 / n, n_steps=n)
        assert [body.names[i] for i in run.switches.target] == ["roll without spin", "rest"]
        errors.append(np.abs(run.switches.t - expected).max() + abs(run.g[-1][0, 3] - (6 * R) ** 2 / 2 / slows))
    assert np.polyfit(np.log(counts), np.log(errors), 1)[0] == pytest.approx(-4.0, abs=0.15)
    assert np.abs(run.xi[-1]).max() < 1e-15
    fine = gn.solve(body, "gauss6", mode="roll", g0=g0, xi0=xi0, dt=0.02, n_steps=200)
    np.testing.assert_allclose(fine.switches.t, expected, atol=1e-9)


@pytest.mark.slow
def test_a_ball_rests_on_a_slope_up_to_its_angle_of_rolling_resistance():
    for angle, rests in ((0.019, True), (0.021, False)):
        body = ball(on=rolling.plane((np.sin(angle), 0.0, np.cos(angle))))
        g0, xi0 = rolling.start(body)
        run = gn.solve(body, mode="rest", g0=g0, xi0=xi0, dt=0.1, n_steps=20)
        way = np.linalg.norm(run.g[-1][:3, 3] - run.g[0][:3, 3])
        if rests:
            assert way == 0.0
            held = rolling.contact_force(body, run.g[-1], run.multipliers[-1], mode="rest")
            np.testing.assert_allclose(held.force, [0.0, 0.0, M * G], atol=1e-13)
            arm = held.place - run.g[-1][:3, 3]
            np.testing.assert_allclose(np.cross(arm, held.force) + held.moment, 0.0, atol=1e-14)
        else:
            slows = 5 / 7 * G * (np.sin(angle) - 0.01 / R * np.cos(angle))
            assert way == pytest.approx(slows * 2.0**2 / 2, rel=1e-4)
            assert run.mode[-1] == "roll without spin"


@pytest.mark.slow
def test_a_ball_on_a_turning_table_rests_on_it_and_turns_with_it():
    rate, place = 0.7, np.array([0.9, 0.2, 0.0])
    body = ball(
        surface_velocity=lambda X: rate * np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]) @ X,
        rolling_resistance=0.1,
    )
    g0, xi0 = rolling.start(body, omega=[0.0, 0.0, rate], place=place)
    run = gn.solve(body, mode="rest", g0=g0, xi0=xi0, dt=0.02, n_steps=200)
    c, s = np.cos(rate * 4.0), np.sin(rate * 4.0)
    np.testing.assert_allclose(run.g[-1][:2, 3], [c * 0.9 - s * 0.2, s * 0.9 + c * 0.2], atol=1e-9)
    assert list(run.mode[[0, -1]]) == ["rest", "rest"]
    held = rolling.contact_force(body, run.g[-1], run.multipliers[-1], mode="rest")
    assert np.linalg.norm(held.force[:2]) == pytest.approx(M * rate**2 * np.hypot(0.9, 0.2), rel=1e-9)


@pytest.mark.slow
def test_thrown_bodies_come_to_rest_and_gain_no_energy():
    rng = np.random.default_rng(3)
    ends = []
    for axes in ((0.3, 0.3, 0.3), (0.3, 0.32, 0.34), (0.2, 0.3, 0.3)):
        shape = np.array(axes)
        inertia = M / 5 * (np.sum(shape**2) - shape**2)
        body = rolling(
            rolling.ellipsoid(*axes), inertia, M, friction=(0.5, 0.4), restitution=0.4, **ARMS, name="thrown body"
        )
        g0, _ = rolling.start(body)
        g0 = np.array(g0)
        g0[2, 3] += 0.3
        run = gn.solve(body, mode="free", g0=g0, xi0=rng.normal(size=6), dt=0.01, n_steps=1500)
        assert np.diff(run.energy).max() < 1e-8 * run.energy[0]
        ends.append(run.mode[-1])
    assert "rest" in ends
    assert set(ends) <= {"rest", "roll", "roll without spin"}


@pytest.mark.slow
def test_one_resistance_alone():
    rolls = ball(spinning_friction=None)
    assert rolls.names == ("roll", "slide", "free", "spin", "skid and spin")
    spins = ball(rolling_resistance=None)
    assert set(spins.names) == {"roll", "slide", "free", "roll without spin", "slide without spin"}
    g0, xi0 = rolling.start(rolls, omega=[0.0, 2.0, 3.0])
    run = gn.solve(rolls, "gauss6", mode="roll", g0=g0, xi0=xi0, dt=0.025, n_steps=400)
    assert run.mode[-1] == "spin"
    assert run.switches.t[0] == pytest.approx(2.0 * R / (5 * 0.01 * G / (7 * R)), rel=1e-8)
    run = gn.solve(spins, "gauss6", mode="roll", g0=g0, xi0=xi0, dt=0.05, n_steps=200)
    assert run.mode[-1] == "roll without spin"
    np.testing.assert_allclose(run.g[-1][0, 3], 2.0 * R * 10.0, rtol=1e-8)


def test_what_is_refused():
    with pytest.raises(ValueError, match="rolling_resistance= is that of a body with friction="):
        rolling(rolling.ball(R), INERTIA, M, rolling_resistance=0.01)
    with pytest.raises(ValueError, match=r"rolling_resistance must be an arm ≥ 0 in metres, got -0\.1"):
        ball(rolling_resistance=-0.1)
    body = ball()
    g0, _ = rolling.start(body)
    with pytest.raises(ValueError, match=r"mode must be that of the node, one of slide, .* got None"):
        rolling.contact_force(body, g0, [M * G])
    with pytest.raises(ValueError, match=r"of shape \[3\], got \[1\]"):
        rolling.contact_force(body, g0, [M * G], mode="roll")
